"""A fake vendor: a real HTTP server on loopback that answers from a script, on every wire at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self

import msgspec

from ostler.models.providers import Wire
from ostler.testkit.vendors import anthropic, chat, gemini, responses
from ostler.testkit.vendors.script import Answer, Refusal, Script, Turn

_WIRES: tuple[ModuleType, ...] = (anthropic, chat, gemini, responses)
"""Each has `PATH`, a pattern of the whole path, in which a group named `model` is the model; `MALFORMED`, a
frame that is no JSON; and the functions `frames`, `complaint`, `error_frame`, `error_body` and `key_of`."""

MODELS_PATH = "/v1/models"
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


class Received(msgspec.Struct, frozen=True):
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    json: dict[str, Any]


class FakeVendor:
    """Serves a script while it is entered: `async with` on the running loop, `with` on a thread of its own.

    - Requests that the vendor would refuse get its 400, in its own shape, and use up no answer.
    - Every request is kept in `requests`, also a refused one.
    - Leaving it ends all its connections.
    - With `models` it lists them at `/v1/models`, as local servers do.
    """

    def __init__(
        self,
        script: Script,
        *,
        api_key: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
        models: Sequence[str] | None = None,
    ) -> None:
        self.requests: list[Received] = []
        self.complaints: list[str] = []
        """Why requests were refused that the vendor would refuse."""
        self.connections = 0
        self.abandoned = asyncio.Event()
        """Set when a client left in the middle of a silence."""
        self._script = script
        self._answers: Iterator[Answer] | None = None if callable(script) else iter(script)
        self._api_key = api_key
        self._models = models
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: _OwnThread | None = None

    @property
    def anthropic_url(self) -> str:
        return f"http://{self._host}:{self._port}"

    @property
    def chat_url(self) -> str:
        return f"http://{self._host}:{self._port}/v1"

    @property
    def gemini_url(self) -> str:
        return f"http://{self._host}:{self._port}"

    def base_url(self, wire: Wire) -> str:
        """What the vendor's own SDK calls its base URL."""
        return {"anthropic": self.anthropic_url, "gemini": self.gemini_url}.get(wire, self.chat_url)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def __enter__(self) -> Self:
        self._thread = _OwnThread(self)
        self._thread.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        self._thread.end()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (received := await _read_request(reader)) is not None:
                if not await self._reply(received, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return  # the client left, or the server is being closed
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _reply(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answers one request; says whether the connection may be used for another."""
        self.requests.append(received)
        number = len(self.requests)
        if received.path == MODELS_PATH and self._models is not None:
            self._list_models(received, writer)
            return True
        wire = next((wire for wire in _WIRES if wire.PATH.fullmatch(received.path)), None)
        if wire is None:
            _write_head(writer, 404, {"content-type": "text/plain", "content-length": "18"})
            writer.write(b"404 page not found")
            return True
        request = wire.PATH.fullmatch(received.path).groupdict() | received.json
        answer = self._answer(wire, received, request)
        if isinstance(answer, Refusal):
            body = answer.body.encode() if answer.body is not None else wire.error_body(answer, number)
            headers = {"content-type": "application/json", "content-length": str(len(body))}
            _write_head(writer, answer.status, headers | _id_header(number) | answer.headers)
            writer.write(body)
            await writer.drain()
            return True
        headers = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
        _write_head(writer, 200, headers | _id_header(number))
        return await self._stream(wire, answer, request, number, reader, writer)

    def _list_models(self, received: Received, writer: asyncio.StreamWriter) -> None:
        is_known = not self._api_key or chat.key_of(received.headers) == self._api_key
        listed = [{"id": name, "object": "model"} for name in self._models or ()]
        body = msgspec.json.encode({"object": "list", "data": listed or None} if is_known else {})
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        _write_head(writer, 200 if is_known else 401, headers)
        writer.write(body)

    def _answer(self, wire: ModuleType, received: Received, request: dict[str, Any]) -> Answer:
        if self._api_key and wire.key_of(received.headers) != self._api_key:
            return Refusal(401, "invalid x-api-key")
        problem = wire.complaint(request, received.headers)
        if problem:
            self.complaints.append(problem)
            return Refusal(400, problem)
        if callable(self._script):
            return self._script(request)
        assert self._answers is not None
        return next(self._answers, Refusal(400, "the script has no answer left"))

    async def _stream(
        self,
        wire: ModuleType,
        turn: Turn,
        request: dict[str, Any],
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        trouble = turn.trouble
        for sent, frame in enumerate(wire.frames(turn, request, number)):
            if trouble is not None and sent == trouble.after:
                if trouble.kind in ("cut", "end", "silence"):
                    return await self._stop_early(trouble.kind, reader, writer)
                if trouble.kind == "malformed":
                    frame = wire.MALFORMED
                else:
                    frame = wire.error_frame(trouble.code, trouble.message)
            if turn.delay:
                await asyncio.sleep(turn.delay)
            writer.write(b"%x\r\n%s\r\n" % (len(frame), frame))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _stop_early(
        self, kind: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if kind == "end":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        await writer.drain()
        if kind == "silence":
            await reader.read(1)
            self.abandoned.set()
        return False


class _OwnThread:
    """Runs a vendor's loop beside a caller that has none."""

    def __init__(self, vendor: FakeVendor) -> None:
        self._vendor = vendor
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def begin(self) -> None:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the fake vendor did not start")

    def end(self) -> None:
        assert self._loop is not None and self._over is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        async with self._vendor:
            self._ready.set()
            await self._over.wait()


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    try:
        request = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        request = {}
    return Received(first.split(" ")[1].partition("?")[0], headers, body, request)


def _write_head(writer: asyncio.StreamWriter, status: int, headers: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))


def _id_header(number: int) -> dict[str, str]:
    return {"request-id": f"req_{number:04d}", "x-request-id": f"req_{number:04d}"}
