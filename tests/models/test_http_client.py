"""What the direct transport does beyond the contract of all transports, and when it is used."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.models import http_client
from ostler.models.http_client import READ_SIZE, Connection, DirectTransport
from ostler.models.transport import default_transport
from ostler.schema.errors import ConnectionFailed, InvalidRequest, StreamBroken
from ostler.testkit.vendors import FakeVendor, turn
from tests.models.transport_servers import OK, SHORT, Visit, answer, body_of, scripted

PROXY_VARIABLES = [name for name in os.environ if name.lower().endswith("_proxy")]

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def transport() -> AsyncIterator[DirectTransport]:
    made = DirectTransport()
    yield made
    await made.aclose()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_connection_closed_during_the_request_is_replaced_once(
    transport: DirectTransport, reset: bool
) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        if visit.number != 3:
            await visit.send(SHORT)
            await visit.request()
        if reset:
            visit.writer.transport.abort()

    async with scripted(serve) as server:
        assert [await answer(transport, server.url) for _ in range(2)] == [b"ok", b"ok"]
        assert len(server.visits) == 2
        with pytest.raises(StreamBroken, match="closed the connection without an answer"):
            await answer(transport, server.url)
        assert len(server.visits) == 3


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 2"])
async def test_a_request_that_may_have_been_accepted_is_not_repeated(
    transport: DirectTransport, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(SHORT)
        await visit.request()
        await visit.send(said)

    if not said:
        monkeypatch.setattr(http_client, "RACE_SECONDS", -1)
    async with scripted(serve) as server:
        await answer(transport, server.url)
        with pytest.raises(StreamBroken, match="without an answer"):
            await answer(transport, server.url)
        assert len(server.visits) == 1


async def test_each_request_has_the_headers_and_the_path_it_was_given(transport: DirectTransport) -> None:
    requests: list[bytes] = []

    async def serve(visit: Visit) -> None:
        while True:
            requests.append(await visit.request())
            await visit.send(SHORT)

    headers = {"x-turn": "one", "Content-Length": "99"}
    async with scripted(serve) as server:
        for path, turn_, body in (
            ("/a", "one", b"1"),
            ("/a", "two", b"22"),
            ("/b", "two", b"3"),
            ("/b", "two", b"4"),
        ):
            headers["x-turn"] = turn_
            await body_of(await transport.post(server.url + path, headers, body))
        assert len(server.visits) == 1
    heads = [request.split(b"\r\n") for request in requests]
    assert [head[0] for head in heads] == [
        b"POST %b HTTP/1.1" % path for path in (b"/a", b"/a", b"/b", b"/b")
    ]
    assert [head[-1] for head in heads] == [b"1", b"22", b"3", b"4"]
    assert [line for head in heads for line in head if line.startswith(b"x-turn")] == [
        b"x-turn: one",
        *[b"x-turn: two"] * 3,
    ]
    for head in heads:
        lengths = [line for line in head if line.lower().startswith(b"content-length")]
        assert lengths == [b"content-length: %d" % len(head[-1])]


async def test_what_follows_an_answer_is_not_the_next_one(transport: DirectTransport) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(SHORT + OK + b"content-length: 4\r\n\r\nevil")
        await visit.is_left()

    async with scripted(serve) as server:
        assert [await answer(transport, server.url) for _ in range(2)] == [b"ok", b"ok"]
        assert len(server.visits) == 2


async def test_a_server_that_sends_without_a_request_is_disconnected(transport: DirectTransport) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(SHORT)
        await asked.wait()
        await visit.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        await visit.is_left()
        left.set()

    async with scripted(serve) as server, asyncio.timeout(60):
        await answer(transport, server.url)
        asked.set()
        await left.wait()


async def test_interim_answers_without_end_are_no_answer(transport: DirectTransport) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 2**13)
        await visit.is_left()

    async with scripted(serve) as server, asyncio.timeout(60):
        with pytest.raises(StreamBroken, match="headers are larger than 100 kB"):
            await answer(transport, server.url)


async def test_a_connection_that_was_idle_for_long_is_not_used(
    transport: DirectTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(visit: Visit) -> None:
        while True:
            await visit.request()
            await visit.send(SHORT)

    async with scripted(serve) as server:
        await answer(transport, server.url)
        await answer(transport, server.url)
        assert len(server.visits) == 1
        monkeypatch.setattr("ostler.models.transport.IDLE_SECONDS", -1)
        await answer(transport, server.url)
        assert len(server.visits) == 2


async def test_an_answer_that_came_before_the_request_was_out_is_the_last_of_its_connection(
    transport: DirectTransport,
) -> None:
    async def serve(visit: Visit) -> None:
        await visit.reader.readuntil(b"\r\n\r\n")
        await visit.send(SHORT)
        await visit.reader.read()

    async with scripted(serve) as server:
        for _ in range(2):
            reply = await transport.post(server.url, {}, b"x" * 2**25)
            await reply.aclose()
        assert len(server.visits) == 2


async def test_a_server_that_hangs_up_in_the_handshake_was_not_reached(transport: DirectTransport) -> None:
    async def serve(visit: Visit) -> None:
        await visit.reader.read(1)

    async with scripted(serve) as server:
        with pytest.raises(ConnectionFailed, match=f"{server.url[7:]}"):
            await transport.post(server.url.replace("http:", "https:"), {}, b"")


async def test_an_unrequested_encoding_is_an_error(transport: DirectTransport) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(OK + b"content-encoding: br\r\ncontent-length: 2\r\n\r\nxx")

    async with scripted(serve) as server:
        with pytest.raises(StreamBroken, match="compressed with br"):
            await answer(transport, server.url)


@pytest.mark.parametrize("url", ["http:///v1", "http://h:99999/", "http://bücher.example/"])
async def test_an_address_without_a_usable_host_is_refused(transport: DirectTransport, url: str) -> None:
    with pytest.raises(InvalidRequest, match="check the base URL"):
        await transport.post(url, {}, b"")


async def test_the_caller_cannot_set_the_content_length(transport: DirectTransport) -> None:
    seen: list[bytes] = []

    async def serve(visit: Visit) -> None:
        seen.append(await visit.request())
        await visit.send(SHORT)

    async with scripted(serve) as server:
        reply = await transport.post(server.url, {"Content-Length": "9", "Host": "other"}, b"{}")
        await reply.aclose()
        with pytest.raises(InvalidRequest):
            await transport.post(server.url, {"transfer-encoding": "chunked"}, b"{}")
    assert seen[0].split(b"\r\n")[1:4] == [b"host: other", b"content-length: 2", b""]


async def test_the_next_address_is_tried_when_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(Visit.is_left_after_anything) as server:
        port = int(server.url.rpartition(":")[2])
        with http_client.socket.create_server(("127.0.0.1", 0)) as listener:
            nobody = listener.getsockname()[1]
        addresses = [(http_client.socket.AF_INET, ("127.0.0.1", place)) for place in (nobody, nobody, port)]

        async def addresses_found(host: str, port: int) -> list[http_client.Address]:
            return addresses

        monkeypatch.setattr(http_client, "_addresses", addresses_found)
        with await http_client.open_socket("x", 1) as connected:
            assert connected.getpeername() == ("127.0.0.1", port)
        del addresses[2]
        with pytest.raises(ConnectionRefusedError):
            await http_client.open_socket("x", 1)


@pytest.mark.parametrize("ending", ["wins", "fails", "is cancelled"])
async def test_a_slow_address_does_not_hold_up_the_next(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    given_up, tried = asyncio.Event(), asyncio.Event()
    ends: list[Any] = []

    async def connected(address: http_client.Address) -> Any:
        tried.set() if address[1] == "quick" else None
        if address[1] == "slow" or ending == "is cancelled":
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()
        if ending == "fails":
            raise ConnectionRefusedError
        ends.append(http_client.socket.socket())
        return ends[-1]

    async def addresses(host: str, port: int) -> list[Any]:
        return [(1, "slow"), (1, "other"), (2, "quick")]

    monkeypatch.setattr(http_client, "_connected", connected)
    monkeypatch.setattr(http_client, "_addresses", addresses)
    monkeypatch.setattr(http_client, "HEAD_START_SECONDS", 0.01)
    task = asyncio.create_task(http_client.open_socket("x", 1))
    async with asyncio.timeout(60):
        await tried.wait()
        if ending == "wins":
            assert await task is ends[0]
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await given_up.wait()
    for end in ends:
        end.close()


async def test_address_families_take_turns() -> None:
    addresses_found: list[Any] = [(6, "a"), (6, "b"), (6, "c"), (4, "d"), (4, "e")]
    assert [place for _, place in http_client._in_turns(addresses_found)] == ["a", "d", "b", "e", "c"]


class Wire:
    """Stands for a transport of asyncio."""

    def __init__(self) -> None:
        self.closing = False

    def write(self, data: bytes) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0


def feed(connection: Connection, data: bytes) -> None:
    buffer = connection.get_buffer(-1)
    buffer[: len(data)] = data
    connection.buffer_updated(len(data))


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=300), max_size=8),
    cuts=st.lists(st.integers(0, 4000), max_size=8),
    framing=st.sampled_from(["chunked", "length", "close"]),
    interim=st.booleans(),
)
def test_a_body_is_the_same_wherever_the_network_cuts_it(
    pieces: list[bytes], cuts: list[int], framing: str, interim: bool
) -> None:
    body = b"".join(pieces)
    sent = b"HTTP/1.1 100 Continue\r\n\r\n" if interim else b""
    if framing == "chunked":
        sent += OK + b"transfer-encoding: chunked\r\n\r\n"
        sent += b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    elif framing == "length":
        sent += OK + b"content-length: %d\r\n\r\n%s" % (len(body), body)
    else:
        sent += OK + b"\r\n" + body

    async def exchange() -> tuple[int, bytes, bool]:
        connection = Connection()
        connection.connection_made(Wire())  # type: ignore[arg-type]
        asking = asyncio.create_task(connection.ask(b""))
        await asyncio.sleep(0)
        places = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
        for start, end in pairwise(places):
            feed(connection, sent[start:end])
        if framing == "close":
            connection.connection_lost(None)
        await asking
        read = b""
        while data := await connection.read():
            read += data
        return connection.status, read, connection.release()

    assert asyncio.run(exchange()) == (200, body, framing != "close")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5))
def test_any_response_ends_in_an_answer_or_a_failure(said: list[bytes]) -> None:
    async def exchange() -> None:
        connection = Connection()
        connection.connection_made(Wire())  # type: ignore[arg-type]
        asking = asyncio.create_task(connection.ask(b""))
        await asyncio.sleep(0)
        for data in said:
            feed(connection, data[:READ_SIZE])
        connection.connection_lost(None)
        async with asyncio.timeout(60):
            await asyncio.wait([asking])
        assert asking.exception() is not None or connection.status >= 200

    asyncio.run(exchange())


@pytest.mark.parametrize(
    ("url", "variable", "direct"),
    [
        ("http://127.0.0.1:1/v1", "", True),
        ("HTTPS://api.example/v1", "", True),
        ("https://api.example/v1", "HTTP_PROXY", True),
        ("https://api.example/v1", "HTTPS_PROXY", False),
        ("https://api.example/v1", "https_proxy", False),
        ("http://api.example/v1", "ALL_PROXY", False),
        ("https://bücher.example/v1", "", False),
        ("http://[fe80::1%25eth0]/v1", "", False),
    ],
)
def test_proxies_and_unusual_addresses_use_httpx(
    url: str, variable: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name)
    if variable:
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    assert isinstance(default_transport(url), DirectTransport) is direct


async def test_a_proxy_is_used_except_for_exempted_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    async def serve(visit: Visit) -> None:
        seen.append(await visit.request())
        await visit.send(SHORT)

    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name)
    async with scripted(serve) as proxy, scripted(serve) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        for url in ("http://vendor.invalid/v1", f"{server.url}/v1"):
            transport = default_transport(url)
            await (await transport.post(url, {}, b"{}")).aclose()
            await transport.aclose()
        assert (len(proxy.visits), len(server.visits)) == (1, 1)
    assert seen[0].startswith(b"POST http://vendor.invalid/v1 ") and seen[1].startswith(b"POST /v1 ")


@pytest.mark.parametrize("proxied", [False, True])
def test_a_run_loads_httpx_only_for_a_proxy(proxied: bool, tmp_path: Path) -> None:
    script = (
        "import sys; from ostler.main import run; code = run(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    with FakeVendor([turn("Hello")]) as vendor:
        options = ["-p", "--model", "openai/x", "--base-url", vendor.chat_url, "--api-key", "k", "hi"]
        env = {"OSTLER_HOME": str(tmp_path), "PATH": "", "NO_PROXY": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, "-c", script, *options],
            capture_output=True,
            text=True,
            timeout=60,
            env=env | ({"HTTP_PROXY": "http://127.0.0.1:9"} if proxied else {}),
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            check=True,
        )
    assert "Hello" in done.stdout
    loaded = set(done.stderr.split())
    assert {"httpx2", "httpcore2", "anyio"} & loaded == (
        {"httpx2", "httpcore2", "anyio"} if proxied else set()
    )
    assert {"asyncio", "httptools"} - loaded == ({"httptools"} if proxied else set())
