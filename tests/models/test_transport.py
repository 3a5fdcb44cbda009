"""The contract of both transports."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.models.transport import Transport
from ostler.schema.errors import InvalidRequest, StreamBroken
from tests.models.transport_servers import (
    HEADERS,
    MEBIBYTE,
    OK,
    PIECES,
    REAL_SERVERS,
    SHORT,
    Visit,
    answer,
    body_of,
    pieces_of,
    real_server,
    scripted,
)

CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module", params=REAL_SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with real_server(request.param, tmp_path_factory.mktemp(request.param)) as url:
        yield url


async def test_a_body_with_a_length_arrives_whole(transport: Transport, server: str) -> None:
    sent = bytes(range(256)) * 700
    reply = await transport.post(f"{server}/echo", HEADERS, sent)
    assert (reply.status, reply.headers["content-length"]) == (200, str(len(sent)))
    assert await body_of(reply) == sent


async def test_a_chunked_body_arrives_whole(transport: Transport, server: str) -> None:
    reply = await transport.post(f"{server}/pieces", HEADERS, b"{}")
    assert reply.headers["transfer-encoding"] == "chunked"
    assert await body_of(reply) == b"".join(PIECES)


async def test_an_answer_without_a_body_has_none(transport: Transport, server: str) -> None:
    reply = await transport.post(f"{server}/nothing", HEADERS, b"{}")
    assert (reply.status, await body_of(reply)) == (204, b"")


async def test_a_connection_is_used_again(transport: Transport, server: str) -> None:
    used = set()
    for path in ("echo", "pieces", "nothing", "redirect", "echo"):
        reply = await transport.post(f"{server}/{path}", HEADERS, b"{}")
        used.add(reply.headers["x-connection"])
        await body_of(reply)
    assert len(used) == 1


async def test_a_redirect_is_handed_back(transport: Transport, server: str) -> None:
    reply = await transport.post(f"{server}/redirect", HEADERS, b"{}")
    assert (reply.status, reply.headers["location"]) == (307, "/echo")
    await body_of(reply)


async def test_closing_a_reply_early_does_not_affect_the_next(transport: Transport, server: str) -> None:
    reply = await transport.post(f"{server}/size/{8 * MEBIBYTE}", HEADERS, b"{}")
    await reply.read()
    await reply.aclose()
    assert await answer(transport, f"{server}/echo", b"next") == b"next"


async def test_many_at_once_each_get_their_own(transport: Transport, server: str) -> None:
    bodies = [b"%d" % number * 1000 for number in range(30)]
    answers = await asyncio.gather(*(answer(transport, f"{server}/echo", body) for body in bodies))
    assert answers == bodies


async def test_a_server_may_refuse_a_body_before_it_has_it_all(transport: Transport, tmp_path: Path) -> None:
    with real_server("nginx", tmp_path) as url:
        reply = await transport.post(f"{url}/small", HEADERS, b"x" * 8 * MEBIBYTE)
        assert reply.status == 413
        assert b"413" in await body_of(reply)
        assert await answer(transport, f"{url}/echo", b"next") == b"next"


@pytest.mark.long
async def test_a_body_of_50_mb_arrives_both_ways(transport: Transport, server: str) -> None:
    assert len(await answer(transport, f"{server}/size/{50 * MEBIBYTE}")) == 50 * MEBIBYTE
    sent = b"0123456789abcdef" * (50 * MEBIBYTE // 16)
    assert await answer(transport, f"{server}/echo", sent) == sent


BODIES = {
    "until the end, 1.1": [OK, b"\r\n", b"one ", b"two"],
    "until the end, 1.0": [b"HTTP/1.0 200 OK\r\n\r\none ", b"two"],
    "length, in pieces": [OK + b"content-length: 7\r\n\r\no", b"ne ", b"two"],
    "length, then close": [OK + b"connection: close\r\ncontent-length: 7\r\n\r\none two"],
    "chunked, cut anywhere": [CHUNKED + b"4\r", b"\none \r\n3;ext=1\r\ntw", b"o\r\n0\r", b"\n\r\n"],
    "chunked, with a trailer": [CHUNKED + b"7\r\none two\r\n0\r\nx-late: 1\r\n", b"\r\n"],
    "headers byte by byte": [bytes([byte]) for byte in OK + b"Content-Length: 7\r\n\r\none two"],
    "interim answers first": [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
        OK + b"content-length: 7\r\n\r\none two",
    ],
    "an offer to change the protocol": [
        OK + b"connection: Upgrade\r\nupgrade: h2c\r\ncontent-length: 7\r\n\r\none two"
    ],
    "gzip, unasked": [
        OK + b"connection: close\r\ncontent-encoding: gzip\r\n\r\n",
        gzip.compress(b"one two")[:9],
        gzip.compress(b"one two")[9:],
    ],
    "deflate, unasked": [
        OK + b"content-encoding: deflate\r\ncontent-length: 15\r\n\r\n" + zlib.compress(b"one two")
    ],
}


@pytest.mark.parametrize("parts", BODIES.values(), ids=BODIES)
async def test_a_body_ends_where_its_headers_say(transport: Transport, parts: list[bytes]) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(*parts)

    async with scripted(serve) as server:
        reply = await transport.post(server.url, HEADERS, b"{}")
        assert reply.status == 200 and "link" not in reply.headers
        assert await body_of(reply) == b"one two"


@pytest.mark.parametrize(
    "head", [OK + b"content-length: 100\r\n\r\n", CHUNKED + b"64\r\n", CHUNKED + b"5\r\nhello\r\n"]
)
@pytest.mark.parametrize("reset", [False, True])
async def test_a_cut_body_returns_what_arrived_and_then_raises(
    transport: Transport, head: bytes, reset: bool
) -> None:
    arrived = asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(head + b"hello")
        if reset:
            await arrived.wait()
            visit.writer.transport.abort()

    async with scripted(serve) as server:
        reply = await transport.post(server.url, HEADERS, b"{}")
        seen = b""
        with pytest.raises(StreamBroken, match="broke off its answer") as caught:
            async for piece in pieces_of(reply):
                seen += piece
                arrived.set()
        await reply.aclose()
        assert seen.startswith(b"hello") and caught.value.stream_opened
        assert server.url[7:] in caught.value.message


async def test_names_of_headers_are_small_and_repeated_ones_are_joined(transport: Transport) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(OK + b"X-One: 1\r\nVia: a\r\nVIA: b\r\ncontent-length: 0\r\n\r\n")

    async with scripted(serve) as server:
        reply = await transport.post(server.url, HEADERS, b"{}")
        assert (reply.headers["x-one"], reply.headers["via"]) == ("1", "a, b")
        assert await body_of(reply) == b""


async def test_the_request_contains_its_options(transport: Transport) -> None:
    seen: list[bytes] = []

    async def serve(visit: Visit) -> None:
        seen.append(await visit.request())
        await visit.send(SHORT)

    async with scripted(serve) as server:
        place = server.url.removeprefix("http://")
        await answer(transport, f"http://me:pass%40word@{place}/v1/a b?x=1&y=ü", b'{"a": 1}')
    head, _, body = seen[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines)
    assert first == "POST /v1/a%20b?x=1&y=%C3%BC HTTP/1.1"
    assert (fields["host"], fields["content-length"], body) == (place, "8", b'{"a": 1}')
    assert fields["authorization"] == "basic bwu6cgfzc0b3b3jk"
    assert fields["accept-encoding"] == "identity" and "transfer-encoding" not in fields


@pytest.mark.parametrize(
    "headers", [{"x-a": "1\r\nx-b: 2"}, {"x-a": "ü"}, {"x a": "1"}, {"x-a\r\nx-b": "1"}, {"x-a": "\x00"}]
)
async def test_a_header_that_cannot_be_sent_is_refused(transport: Transport, headers: dict[str, str]) -> None:
    async with scripted(Visit.is_left_after_anything) as server:
        with pytest.raises(InvalidRequest, match=f"{server.url[7:]} cannot be sent: check"):
            await transport.post(server.url, headers, b"{}")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "127.0.0.1:80/v1", "http://h:x/"])
async def test_an_address_that_is_none_is_refused(transport: Transport, url: str) -> None:
    with pytest.raises(InvalidRequest, match="check the base URL"):
        await transport.post(url, HEADERS, b"{}")


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 20",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        OK + b"content-length: x\r\n\r\n",
        OK + b"x: " + b"y" * 2**18,
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nabc",
    ],
    ids=["nothing", "cut", "ssh", "length", "huge", "switch"],
)
async def test_a_server_that_closes_without_an_answer_breaks_the_stream(
    transport: Transport, said: bytes
) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(said)
        if len(said) > 2**16:
            await visit.is_left()

    async with scripted(serve) as server, asyncio.timeout(60):
        with pytest.raises(StreamBroken, match="without an answer") as caught:
            await answer(transport, server.url)
        assert len(server.visits) == 1
    assert caught.value.stream_opened and "sk-1" not in caught.value.message


@pytest.mark.parametrize("farewell", [b"", b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n"])
async def test_a_connection_closed_while_idle_is_not_used(transport: Transport, farewell: bytes) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(SHORT)
        if visit.number == 1:
            await visit.send(farewell)
        else:
            await visit.is_left()

    async with scripted(serve) as server:
        assert await answer(transport, server.url) == b"ok"
        await server.visits[0].writer.wait_closed()
        assert await answer(transport, server.url) == b"ok"
        assert len(server.visits) == 2


async def test_a_connection_closed_while_the_loop_was_busy_is_not_used(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ostler.models.http_client.RACE_SECONDS", -1)  # else a second try would hide it
    served, idle, closed = threading.Event(), threading.Event(), threading.Event()

    def serve(listener: socket.socket) -> None:
        first, _ = listener.accept()
        first.recv(65536)
        first.sendall(SHORT)
        idle.wait(60)
        first.close()
        closed.set()
        second, _ = listener.accept()
        second.recv(65536)
        served.set()
        second.sendall(SHORT)
        second.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert await answer(transport, url) == b"ok"
        idle.set()
        assert closed.wait(60)  # holds up the loop, which therefore has not seen the end
        assert not served.is_set()
        assert await answer(transport, url) == b"ok"
        thread.join(60)


async def test_a_connection_marked_close_is_not_reused(transport: Transport) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(OK + b"connection: close\r\ncontent-length: 2\r\n\r\nok")
        await visit.is_left()

    async with scripted(serve) as server:
        assert [await answer(transport, server.url) for _ in range(2)] == [b"ok", b"ok"]
        assert len(server.visits) == 2


async def test_a_slow_reader_makes_the_server_wait(transport: Transport) -> None:
    stalled, finished = asyncio.Event(), asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        visit.writer.write(OK + b"content-length: %d\r\n\r\n" % (64 * MEBIBYTE))
        for _ in range(64):
            visit.writer.write(b"x" * MEBIBYTE)
            try:
                await asyncio.wait_for(visit.writer.drain(), None if stalled.is_set() else 0.3)
            except TimeoutError:
                stalled.set()
                await visit.writer.drain()
        finished.set()

    async with scripted(serve) as server:
        reply = await transport.post(server.url, HEADERS, b"{}")
        async with asyncio.timeout(50):
            size = len(await reply.read())
            await stalled.wait()
            assert not finished.is_set()
            async for piece in pieces_of(reply):
                size += len(piece)
        await reply.aclose()
        assert size == 64 * MEBIBYTE


@pytest.mark.parametrize(
    "state", ["shaking hands", "sending the request", "waiting for the head", "reading the body"]
)
@pytest.mark.parametrize("how", ["cancel", "time-out"])
async def test_a_cancelled_stream_closes_its_connection(transport: Transport, state: str, how: str) -> None:
    reached, stopped, left = asyncio.Event(), asyncio.Event(), asyncio.Event()
    scheme = "https:" if state == "shaking hands" else "http:"
    body = b"x" * (64 * MEBIBYTE) if state == "sending the request" else b"{}"

    async def serve(visit: Visit) -> None:
        if state in ("shaking hands", "sending the request"):
            await visit.reader.read(1)
        else:
            await visit.request()
        if state == "reading the body":
            await visit.send(CHUNKED + b"3\r\nabc\r\n")
        reached.set()
        await stopped.wait()
        await visit.is_left_after_anything()
        left.set()

    async def read(url: str, started: asyncio.Event) -> None:
        async with asyncio.timeout(None) as limit:
            limits.append(limit)
            reply = await transport.post(url, HEADERS, body)
            try:
                async for _ in pieces_of(reply):
                    started.set()
            finally:
                await reply.aclose()

    limits: list[asyncio.Timeout] = []
    async with scripted(serve) as server, asyncio.timeout(60):
        started = asyncio.Event()
        task = asyncio.create_task(read(server.url.replace("http:", scheme), started))
        await reached.wait()
        if state == "reading the body":
            await started.wait()
        if how == "cancel":
            task.cancel()
        else:
            limits[0].reschedule(0)
        with pytest.raises(asyncio.CancelledError if how == "cancel" else TimeoutError):
            await task
        stopped.set()
        await left.wait()


async def test_closing_a_reply_twice_is_harmless_and_ends_its_body(transport: Transport) -> None:
    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(CHUNKED + b"3\r\nabc\r\n")
        await visit.is_left()

    async with scripted(serve) as server, asyncio.timeout(60):
        reply = await transport.post(server.url, HEADERS, b"{}")
        assert await reply.read() == b"abc"
        await reply.aclose()
        await reply.aclose()
        with pytest.raises(StreamBroken):
            await reply.read()


async def test_closing_the_transport_ends_its_connections_and_it_can_be_used_again(
    transport: Transport,
) -> None:
    left = asyncio.Event()

    async def serve(visit: Visit) -> None:
        await visit.request()
        await visit.send(SHORT)
        await visit.is_left()
        left.set()

    async with scripted(serve) as server, asyncio.timeout(60):
        assert await answer(transport, server.url) == b"ok"
        await transport.aclose()
        await left.wait()
        assert await answer(transport, server.url) == b"ok"
        assert len(server.visits) == 2


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.long)])
async def test_streams_run_side_by_side(transport: Transport, count: int) -> None:
    waiting = 0
    all_wait = asyncio.Event()

    async def serve(visit: Visit) -> None:
        nonlocal waiting
        name = (await visit.request()).partition(b"\r\n\r\n")[2]
        await visit.send(CHUNKED + b"6\r\nbegin \r\n")
        waiting += 1
        if waiting == count:
            all_wait.set()
        await all_wait.wait()
        await visit.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(name), name))

    async with scripted(serve) as server:
        names = [b"%d" % number for number in range(count)]
        answers = await asyncio.gather(*(answer(transport, server.url, name) for name in names))
        assert answers == [b"begin " + name for name in names]
