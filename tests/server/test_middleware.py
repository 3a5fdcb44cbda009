"""From where one may ask, how much and how often."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from ostler.schema.errors import UsageError
from ostler.server import http_server, operations
from ostler.server.middleware import Buckets, OriginMiddleware, address_of, allowed_origin, host_name
from tests.server.raw_http import connected, status_of
from tests.server.served import Served, serving


async def answered(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def asked(
    guard: OriginMiddleware, *headers: tuple[str, str], method: str = "GET", **scope: Any
) -> Message:
    """How the answer begins."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    listed = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    asking = {"type": "http", "method": method, "path": "/", "headers": listed, "client": ("127.0.0.1", 1)}
    await guard({**asking, **scope}, receive, send)
    return sent[0]


def headers_of(message: Message) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in message["headers"]}


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8420",
        "LocalHost",
        "localhost.",
        "localhost.:8420",
        "127.0.0.1:1",
        "[::1]:8420",
        "ostler.example.com",
        "OSTLER.example.com.:443",
    ],
)
async def test_it_can_be_asked_for_by_names_that_lead_here(host: str) -> None:
    guard = OriginMiddleware(answered, hosts=["Ostler.Example.com."])
    assert (await asked(guard, ("host", host)))["status"] == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "evil.example:8420",
        "localhost@evil.example",
        "localhost:8420@evil.example",
        "localhost:port",
        "localhost evil",
        "localhost,evil.example",
        "localhost/",
        "127.0.0.1.evil.example",
        "127.0.0.2",
        "127.1",
        "2130706433",
        "0.0.0.0",
        "[::]",
        "[::1",
        "[::1].evil.example",
        "::1",
        "localhost\x00",
        "lo\u017fcalhost".encode().decode("latin-1"),
    ],
)
async def test_an_unknown_host_name_is_refused(host: str) -> None:
    assert (await asked(OriginMiddleware(answered), ("host", host)))["status"] == 403


async def test_without_a_host_or_with_two_nothing_is_answered() -> None:
    assert (await asked(OriginMiddleware(answered)))["status"] == 403
    two = (("host", "localhost"), ("host", "evil.example"))
    assert (await asked(OriginMiddleware(answered), *two))["status"] == 403
    assert (await asked(OriginMiddleware(answered), *reversed(two)))["status"] == 403


async def test_the_address_that_was_reached_is_always_a_right_host() -> None:
    for own, host in [
        ("192.0.2.7", "192.0.2.7:8420"),
        ("2001:db8::7", "[2001:db8::7]"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
    ]:
        assert (await asked(OriginMiddleware(answered), ("host", host), server=(own, 8420)))["status"] == 200
    other = await asked(OriginMiddleware(answered), ("host", "192.0.2.8"), server=("192.0.2.7", 8420))
    assert other["status"] == 403
    name = await asked(OriginMiddleware(answered), ("host", "evil.example"), server=("evil.example", 80))
    assert name["status"] == 403


async def test_what_a_proxy_would_say_of_the_host_does_not_count() -> None:
    lied = (("host", "evil.example"), ("x-forwarded-host", "localhost"), ("forwarded", "host=localhost"))
    assert (await asked(OriginMiddleware(answered), *lied))["status"] == 403


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "http://localhost",
        "http://localhost:3000",
        "http://localhost:8420.evil.example",
        "http://evil.example/localhost:8420",
        "file://",
        "http://[::1",
        "localhost:8420",
    ],
)
async def test_pages_of_other_origins_may_not_ask(origin: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        headers = (("host", "localhost:8420"), ("origin", origin))
        assert (await asked(OriginMiddleware(answered), *headers, method=method))["status"] == 403


async def test_our_own_page_may_ask_also_through_a_proxy_that_does_tls() -> None:
    guard = OriginMiddleware(answered, hosts=["ostler.example.com"])
    for host, origin in [
        ("localhost:8420", "http://localhost:8420"),
        ("LOCALHOST:8420", "http://localhost:8420"),
        ("[::1]:8420", "http://[::1]:8420"),
        ("ostler.example.com", "https://ostler.example.com"),
    ]:
        assert (await asked(guard, ("host", host), ("origin", origin)))["status"] == 200


async def test_two_origins_are_none() -> None:
    guard = OriginMiddleware(answered, origins=["https://app.example"])
    twice = (("host", "localhost"), ("origin", "https://app.example"), ("origin", "https://evil.example"))
    assert (await asked(guard, *twice))["status"] == 403


async def test_an_allowed_origin_may_read_the_answer_but_not_with_cookies() -> None:
    guard = OriginMiddleware(answered, origins=["https://App.example/"])
    headers = (("host", "localhost:8420"), ("origin", "https://app.example"))
    said = headers_of(await asked(guard, *headers))
    assert said["access-control-allow-origin"] == "https://app.example"
    assert said["vary"] == "Origin"
    assert "access-control-allow-credentials" not in said
    before = await asked(guard, *headers, ("access-control-request-method", "DELETE"), method="OPTIONS")
    assert before["status"] == 204
    assert "DELETE" in headers_of(before)["access-control-allow-methods"]
    assert "Authorization" in headers_of(before)["access-control-allow-headers"]
    other = await asked(guard, ("host", "localhost:8420"), ("origin", "https://app.example.evil"))
    assert other["status"] == 403
    assert "access-control-allow-origin" not in headers_of(other)


@pytest.mark.parametrize("wrong", ["a/b", "", "a b", "https://a", "user@a"])
def test_what_is_no_host_cannot_be_allowed(wrong: str) -> None:
    with pytest.raises(UsageError):
        host_name(wrong)


@pytest.mark.parametrize("wrong", ["*", "null", "example.com", "https://a/b", "https://u@a", "ftp://a"])
def test_what_is_no_origin_cannot_be_allowed(wrong: str) -> None:
    with pytest.raises(UsageError):
        allowed_origin(wrong)


async def test_who_asks_too_often_has_to_wait_and_nobody_else() -> None:
    clock = [0.0]
    buckets = Buckets(2, 3, lambda: clock[0])
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]
    assert buckets.take("b")
    clock[0] = 0.5
    assert [buckets.take("a") for _ in range(2)] == [True, False]


async def test_too_many_requests_get_429_with_retry_after() -> None:
    guard = OriginMiddleware(answered)
    guard._rate = Buckets(0.001, 1)
    assert (await asked(guard, ("host", "localhost")))["status"] == 200
    refused = await asked(guard, ("host", "localhost"))
    assert refused["status"] == 429
    assert headers_of(refused)["retry-after"]


def test_the_addresses_of_one_network_of_ipv6_are_counted_together() -> None:
    def counted(address: str) -> str:
        return address_of({"client": (address, 1)})

    assert counted("2001:db8::1") == counted("2001:db8::2:3")
    assert counted("2001:db8::1") != counted("2001:db8:1::1")
    assert counted("::ffff:192.0.2.1") == counted("192.0.2.1") != counted("::ffff:192.0.2.2")


async def test_a_body_that_is_announced_too_large_is_not_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        authorization = f"Authorization: Bearer {served.token}"
        for size in (str(operations.MOST_BODY + 1), "9" * 18):
            status = await posted(served, authorization, f"Content-Length: {size}", body=b"{")
            assert status == 413


async def test_a_body_that_grows_too_large_is_cut_off_while_it_comes(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        status = await posted(
            served,
            f"Authorization: Bearer {served.token}",
            "Transfer-Encoding: chunked",
            body=chunk * (operations.MOST_BODY // 0x100000) + b"1\r\n \r\n",
        )
        assert status == 413


async def test_a_login_may_say_very_little(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        answer = await served.http.post("login", json={"token": "x" * 5000}, headers={"Authorization": ""})
        assert answer.status_code == 413


async def test_who_may_not_ask_is_refused_before_the_body_is_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        assert await posted(served, "Content-Length: 1000000", body=b"") == 401


async def test_a_body_that_trickles_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "PATIENCE", 0.05)
    async with serving(tmp_path) as served:
        status = await posted(
            served, f"Authorization: Bearer {served.token}", "Content-Length: 100", body=b'{"cwd": '
        )
        assert status == 408


async def test_a_connection_that_asks_for_nothing_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PATIENCE", 0.05)
    async with serving(tmp_path) as served, asyncio.timeout(60):
        for begun in (b"", b"GET /api/v1/health HTTP/1.1\r\nHost: loc"):
            async with connected(served.base_url) as (reader, writer):
                writer.write(begun)
                assert await reader.read() == b""


async def test_a_slow_answer_is_not_taken_for_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PATIENCE", 0.05)
    async with serving(tmp_path) as served:
        session = await served.new_session()
        page = await served.get(f"sessions/{session}/events", after=1, wait=0.3)
        assert page["facts"] == []


async def test_headers_without_an_end_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_HEADERS", 10_000)
    async with serving(tmp_path) as served, asyncio.timeout(60):
        async with connected(served.base_url) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5_000)
            with pytest.raises(ConnectionResetError):
                while await reader.read(1000):
                    writer.write(b"a: b\r\n" * 100)
                raise ConnectionResetError  # closed without a reset
        for _ in range(20):  # many requests on one connection are no such thing
            await served.get("me")


async def test_headers_without_an_end_are_cut_off_behind_a_stream_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MOST_HEADERS", 10_000)
    async with (
        serving(tmp_path) as served,
        asyncio.timeout(60),
        connected(served.base_url) as (reader, writer),
    ):
        asked = ["GET /api/v1/events HTTP/1.1", "Host: localhost", "Accept: text/event-stream"]
        asked += [f"Authorization: Bearer {served.token}", "", ""]
        writer.write("\r\n".join(asked).encode())
        await reader.readuntil(b"caught_up")
        writer.write(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5_000)
        with pytest.raises(ConnectionResetError):
            while await reader.read(1000):
                pass
            raise ConnectionResetError  # closed without a reset


async def test_hosts_are_checked_on_the_real_wire(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        assert await status_of(served.base_url, "Host: localhost") == 200
        assert await status_of(served.base_url, "Host: evil.example") == 403
        assert await status_of(served.base_url, "Host: localhost", "Host: evil.example") in (400, 403)
        assert await status_of(served.base_url) in (400, 403)


async def test_a_page_elsewhere_asks_first_and_then_with_a_token(tmp_path: Path) -> None:
    async with serving(tmp_path, origins=["https://app.example"]) as served:
        headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        before = await served.http.options("sessions", headers={**headers, "Authorization": ""})
        assert before.status_code == 204
        answer = await served.http.get("sessions", headers={"Origin": "https://app.example"})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        refused = await served.http.get("sessions", headers={"Origin": "https://other.example"})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


async def posted(served: Served, *lines: str, body: bytes) -> int:
    async with asyncio.timeout(60), connected(served.base_url) as (reader, writer):
        head = ["POST /api/v1/sessions HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lines]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        answer = await reader.readline()
        status = int(answer.split()[1])
        if status in (408, 413):
            head_lines = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert b"connection: close" in head_lines
            assert json.loads(await reader.read())["status"] == status
    return status
