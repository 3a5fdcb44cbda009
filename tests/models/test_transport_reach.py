"""How both transports reach a server, or report why they cannot."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path

import pytest

from ostler.models.transport import Transport
from ostler.schema.errors import ConnectionFailed, InvalidRequest
from tests.models.transport_servers import (
    HEADERS,
    MEBIBYTE,
    OK,
    SHORT,
    Authority,
    Visit,
    answer,
    pieces_of,
    scripted,
)

pytestmark = pytest.mark.timeout(60)


async def test_a_closed_port_is_a_refused_connection(transport: Transport) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(ConnectionFailed, match=f"{host}:{port}: connection refused; is the server"):
            await transport.post(f"http://{host}:{port}", HEADERS, b"{}")


async def test_an_unknown_host_name_is_reported(transport: Transport) -> None:
    with pytest.raises(ConnectionFailed, match=r"cannot find no-such-host\.invalid: unknown name"):
        await transport.post("http://no-such-host.invalid", HEADERS, b"{}")


async def test_an_unresolvable_name_is_refused(transport: Transport) -> None:
    with pytest.raises((ConnectionFailed, InvalidRequest), match="aaa"):
        await transport.post(f"http://{'a' * 70}.invalid", HEADERS, b"{}")


async def test_a_tls_handshake_that_takes_too_long_fails(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ostler.models import httpx_transport

    monkeypatch.setattr("ostler.models.transport.CONNECT_SECONDS", 0.1)
    monkeypatch.setattr(httpx_transport, "_EXTENSIONS", {"timeout": {"connect": 0.1}})
    async with scripted(Visit.is_left_after_anything) as server:
        with pytest.raises(ConnectionFailed, match="no connection within 0 s; check the network"):
            await transport.post(server.url.replace("http:", "https:"), HEADERS, b"{}")


@pytest.mark.parametrize("host", ["::1", "localhost", "127.0.0.1"])
async def test_every_kind_of_address_works(
    transport: Transport, authority: Authority, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    async def serve(visit: Visit) -> None:
        seen.append(await visit.request())
        await visit.send(SHORT)

    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    listens_on = "127.0.0.1" if host == "localhost" else host
    shown = f"[{host}]" if ":" in host else host
    for tls in (None, authority.server):
        try:
            async with scripted(serve, host=listens_on, tls=tls) as server:
                port = server.url.rpartition(":")[2]
                url = f"{server.url.partition(':')[0]}://{shown}:{port}"
                assert await answer(transport, url) == b"ok"
        except OSError:
            pytest.skip(f"this machine has no {host}")
        assert f"host: {shown}:{port}\r\n".encode() in seen[-1].lower()


@pytest.mark.parametrize("mebibytes", [8, pytest.param(50, marks=pytest.mark.long)])
async def test_a_large_body_passes_through_tls_both_ways(
    transport: Transport, authority: Authority, mebibytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(visit: Visit) -> None:
        size = len((await visit.request()).partition(b"\r\n\r\n")[2])
        await visit.send(OK + b"content-length: %d\r\n\r\n" % size)
        for _ in range(size // MEBIBYTE):
            await visit.send(b"x" * MEBIBYTE)
        await visit.is_left()

    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with scripted(serve, tls=authority.server) as server:
        reply = await transport.post(server.url, HEADERS, b"y" * mebibytes * MEBIBYTE)
        size = 0
        async with asyncio.timeout(50):
            async for piece in pieces_of(reply):
                size += len(piece)
                await asyncio.sleep(0)
        await reply.aclose()
        assert size == mebibytes * MEBIBYTE


async def test_an_unknown_authority_is_not_trusted(
    transport: Transport, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    async with scripted(Visit.is_left_after_anything, tls=authority.server) as server:
        with pytest.raises(ConnectionFailed, match=r"cannot trust .* authority's file in SSL_CERT_FILE"):
            await transport.post(server.url, HEADERS, b"{}")


async def test_a_certificate_of_another_host_is_not_trusted(
    transport: Transport, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with scripted(Visit.is_left_after_anything, host="127.0.0.2", tls=authority.server) as server:
        with pytest.raises(ConnectionFailed, match=r"cannot trust .* not valid for '127\.0\.0\.2'"):
            await transport.post(server.url, HEADERS, b"{}")


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_file_of_authorities_that_cannot_be_used_is_named(
    transport: Transport, content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    named = re.escape(f"SSL_CERT_FILE={file} cannot be used: ")
    with pytest.raises(ConnectionFailed, match=rf"{named}.*; correct or unset"):
        await transport.post("https://127.0.0.1:9", HEADERS, b"{}")
