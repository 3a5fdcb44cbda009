"""A fake vendor: a real HTTP server on loopback that answers from a script, on all APIs at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Self

import msgspec

from ostler.models.providers import Wire
from ostler.testkit.vendors import anthropic, chat, gemini, responses
from ostler.testkit.vendors.script import Answer, Refusal, Script, Turn

_WIRES: tuple[ModuleType, ...] = (anthropic, chat, gemini, responses)
"""Each has `PATH`, a pattern of the whole path, in which a group named `model` is the model; `MALFORMED`, a
frame that is no JSON; the functions `frames`, `error_frame`, `error_body` and `key_of`; and `complaints`, the
vendor's reasons to refuse a request."""

MODELS_PATH = "/v1/models"
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


class Received(msgspec.Struct, frozen=True):
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    json: dict[str, Any]


class FakeVendor:
    """Serves a script inside its block: `async with` on the running loop, `with` on a thread of its own.

    - A request that the vendor would refuse gets its 400, in its own format, and uses up no answer.
    - `requests` has every request, also the refused ones.
    - The end of the block closes all connections.
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
        """Why requests were refused."""
        self.connections = 0
        self.abandoned = asyncio.Event()
        """Set when a client disconnects during a silence."""
        self._script = script if callable(script) else iter(script)
        self._api_key = api_key
        self._models = models
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def anthropic_url(self) -> str:
        return f"http://{self._host}:{self._port}"

    @property
    def chat_url(self) -> str:
        return f"http://{self._host}:{self._port}/v1"

    @property
    def gemini_url(self) -> str:
        return self.anthropic_url

    def base_url(self, wire: Wire) -> str:
        """The base URL as the vendor's own SDK defines it."""
        return self.anthropic_url if wire in ("anthropic", "gemini") else self.chat_url

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self.__aenter__(), self._loop).result(10)

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self.__aexit__(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

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
            return  # the client disconnected, or the server is being closed
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _reply(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answers one request; returns whether the connection can be used for another."""
        self.requests.append(received)
        number = len(self.requests)
        if received.path == MODELS_PATH and self._models is not None:
            self._list_models(received, writer)
            return True
        wire = next((wire for wire in _WIRES if wire.PATH.fullmatch(received.path)), None)
        if wire is None:
            _write(writer, 404, b"404 page not found", {"content-type": "text/plain"})
            return True
        request = wire.PATH.fullmatch(received.path).groupdict() | received.json
        answer = self._answer(wire, received, request)
        if isinstance(answer, Refusal):
            body = answer.body.encode() if answer.body is not None else wire.error_body(answer, number)
            _write(writer, answer.status, body, _id_header(number) | answer.headers)
            await writer.drain()
            return True
        headers = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
        _write_head(writer, 200, headers | _id_header(number))
        trouble = await self._stream(wire, answer, wire.frames(answer, request, number), writer)
        await writer.drain()
        if trouble == "silence":
            await reader.read(1)
            self.abandoned.set()
        return not trouble

    def _list_models(self, received: Received, writer: asyncio.StreamWriter) -> None:
        if self._api_key and chat.key_of(received.headers) != self._api_key:
            _write(writer, 401, b"{}")
            return
        models = [{"id": name, "object": "model"} for name in self._models or ()]
        _write(writer, 200, msgspec.json.encode({"object": "list", "data": models or None}))

    def _answer(self, wire: ModuleType, received: Received, request: dict[str, Any]) -> Answer:
        if self._api_key and wire.key_of(received.headers) != self._api_key:
            return Refusal(401, "invalid x-api-key")
        if problem := next(wire.complaints(request, received.headers), ""):
            self.complaints.append(problem)
            return Refusal(400, problem)
        if callable(self._script):
            return self._script(request)
        return next(self._script, Refusal(400, "the script has no answer left"))

    async def _stream(
        self, wire: ModuleType, turn: Turn, frames: Iterator[bytes], writer: asyncio.StreamWriter
    ) -> str:
        """Sends the frames; returns the kind of the trouble that stops them early."""
        trouble = turn.trouble
        for sent, frame in enumerate(frames):
            if trouble is not None and sent == trouble.after:
                if trouble.kind in ("cut", "silence"):
                    return trouble.kind
                if trouble.kind == "end":
                    break
                is_error = trouble.kind == "error"
                frame = wire.error_frame(trouble.code, trouble.message) if is_error else wire.MALFORMED
            if turn.delay:
                await asyncio.sleep(turn.delay)
            writer.write(b"%x\r\n%s\r\n" % (len(frame), frame))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        return ""


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


def _write(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str] | None = None
) -> None:
    length = {"content-type": "application/json", "content-length": str(len(body))}
    _write_head(writer, status, length | (headers or {}))
    writer.write(body)


def _write_head(writer: asyncio.StreamWriter, status: int, headers: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))


def _id_header(number: int) -> dict[str, str]:
    return {"request-id": f"req_{number:04d}", "x-request-id": f"req_{number:04d}"}
