"""Errors of proxies, which name the proxy's host and never its password."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator

import pytest

from ostler.models import httpx_transport
from ostler.models.httpx_transport import HttpxTransport
from ostler.models.vendor_errors import error_of_status
from ostler.schema.errors import ConnectionFailed, InvalidRequest, ModelError
from tests.models.transport_servers import HEADERS, Authority, Visit, scripted

LOGIN = "someone:pass-canary"
HTTPS = "https://vendor.invalid/v1"
HTTP = "http://vendor.invalid/v1"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def closed() -> Iterator[str]:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{nobody.getsockname()[1]}"


async def refusal(url: str) -> ModelError:
    transport = HttpxTransport()
    with pytest.raises(ModelError) as caught:
        await transport.post(url, HEADERS, b"{}")
    await transport.aclose()
    assert "canary" not in caught.value.message and "\n" not in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("url", "variable"), [(HTTPS, "HTTPS_PROXY"), (HTTP, "http_proxy"), (HTTPS, "ALL_PROXY")]
)
async def test_a_proxy_that_is_not_there_is_named(
    url: str, variable: str, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"http://{LOGIN}@{closed}")
    error = await refusal(url)
    assert isinstance(error, ConnectionFailed)
    assert error.message == (
        f"cannot reach vendor.invalid: the proxy {closed} cannot be used (connection refused); "
        f"correct or unset {variable}"
    )


async def test_an_exempted_server_is_not_mistaken_for_the_proxy(
    closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    error = await refusal(f"http://{closed}/v1")
    assert error.message == f"cannot reach {closed}: connection refused; is the server running?"


async def test_an_error_names_a_proxy_with_an_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://{LOGIN}@proxy.invalid:3128")
    error = await refusal(HTTPS)
    assert error.message.startswith(
        "cannot reach vendor.invalid: the proxy proxy.invalid:3128 cannot be used ("
    )


async def test_a_proxy_that_does_not_shake_hands_in_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpx_transport, "_EXTENSIONS", {"timeout": {"connect": 0.1}})
    async with scripted(Visit.is_left_after_anything) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("http:", "https:"))
        error = await refusal(HTTPS)
    assert "cannot be used (no connection within 15 s); correct or unset HTTPS_PROXY" in error.message


async def test_a_proxy_that_closes_before_the_tunnel_received_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hang_up(visit: Visit) -> None:
        await visit.reader.readuntil(b"\r\n\r\n")

    async with scripted(hang_up) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        error = await refusal(HTTPS)
    assert isinstance(error, ConnectionFailed) and not error.stream_opened
    assert f"the proxy {proxy.url[7:]} cannot be used" in error.message


async def test_a_proxy_login_error_differs_from_a_vendor_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(visit: Visit) -> None:
        await visit.reader.readuntil(b"\r\n\r\n")
        await visit.send(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")

    async with scripted(refuse) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", f"//{LOGIN}@"))
        error = await refusal(HTTPS)
    plain = error_of_status("acme", 407, {}, b"who are you?", ())
    for failure, host, variable in ((error, "vendor.invalid", "HTTPS_PROXY"), (plain, "acme", "HTTP_PROXY")):
        assert isinstance(failure, InvalidRequest) and failure.status == 407
        assert failure.message == (
            f"the proxy for {host} needs a valid login: write {variable} as http://USER:PASSWORD@HOST:PORT"
        )


async def test_other_proxy_refusals_are_reported_verbatim(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(visit: Visit) -> None:
        await visit.reader.readuntil(b"\r\n\r\n")
        await visit.send(b"HTTP/1.1 403 Not That One\r\ncontent-length: 0\r\n\r\n")

    async with scripted(refuse) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        error = await refusal(HTTPS)
    assert "the proxy refused (403 Not That One); check HTTPS_PROXY" in error.message


async def test_beyond_the_tunnel_it_is_the_server(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tunnel(visit: Visit) -> None:
        head = await visit.reader.readuntil(b"\r\n\r\n")
        await visit.send(b"HTTP/1.1 200 Connected\r\n\r\n")
        beyond = socket.create_connection(("127.0.0.1", int(head.split()[1].rpartition(b":")[2])), 10)
        beyond.setblocking(False)
        loop = asyncio.get_running_loop()
        with beyond:
            await loop.sock_sendall(beyond, await visit.reader.read(65536))
            await visit.send(await loop.sock_recv(beyond, 65536))
            await visit.is_left_after_anything()

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    async with (
        scripted(Visit.is_left_after_anything, tls=authority.server) as server,
        scripted(tunnel) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        error = await refusal(server.url)
    assert error.message.startswith(f"cannot trust {server.url[8:]}: ")


async def test_a_socks_proxy_without_its_package_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", f"socks5h://{LOGIN}@127.0.0.1:9")
    error = await refusal(HTTPS)
    assert isinstance(error, InvalidRequest)
    assert error.message == (
        "ALL_PROXY names a SOCKS proxy, which needs one more package: `pip install socksio`, or unset it"
    )


async def test_an_address_that_is_no_proxy_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"ftp://{LOGIN}@127.0.0.1:9")
    error = await refusal(HTTPS)
    assert error.message == ("https_proxy does not name a usable proxy: write http://HOST:PORT, or unset it")
