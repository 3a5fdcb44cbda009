"""A model file on disk, `gguf/PATH`: llama.cpp serves it from a child process, and the Chat wire asks it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe

import msgspec

from ostler.core.model import ModelEvent, ModelFailure, ModelRequest
from ostler.core.processes import OwnedGroup
from ostler.models.catalogue import ModelProfile
from ostler.models.gguf_server import Order, Served
from ostler.models.http_client import DirectTransport
from ostler.models.wires.chat import ChatModel
from ostler.models.wires.chat_dialects import DIALECTS
from ostler.schema.errors import InvalidRequest, ModelError, NoModel, UsageError, failure_of, how_to_install
from ostler.schema.events import Warned
from ostler.schema.usage import NOTHING_USED
from ostler.store.paths import expand_home

LOAD_SECONDS = 600.0
PULSE_SECONDS = 5.0
"""How often a stream shows that it is alive while the model is loaded."""

_CAUSE = "error loading model: "


class GgufModel:
    """See `Model`. The first request loads the file, and `aclose` frees it.

    Loading goes on when the request that began it is abandoned: the next one wants the model as well.
    """

    def __init__(self, file: str, *, settings: ModelProfile, context: int | None = None) -> None:
        self.name = f"gguf/{file}"
        self._file = file
        self._path = _checked(expand_home(file))
        self._settings = settings
        self._context = context
        self._loading: asyncio.Task[_Serving] | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        if self._loading is not None and _is_spent(self._loading):
            await self.aclose()
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        loading = self._loading
        while not loading.done():
            await asyncio.wait({loading}, timeout=PULSE_SECONDS)
            yield []
        try:
            serving = loading.result()
        except ModelError as error:
            yield [ModelFailure(failure_of(error), NOTHING_USED)]
            return
        is_new = not len(request.transcript) or request.transcript[-1].role == "user"
        if request.tools and is_new and not serving.knows_tools:
            yield [Warned(self._toolless(), call=request.id)]
        async with aclosing(serving.chat.stream(request)) as answer:
            async for batch in answer:
                yield batch

    async def aclose(self) -> None:
        loading, self._loading = self._loading, None
        if loading is None:
            return
        if not loading.done():
            loading.cancel()
            await asyncio.wait({loading})
        if not loading.cancelled() and loading.exception() is None:
            await loading.result().stop()

    async def _load(self) -> _Serving:
        key = token_urlsafe(32)
        order = Order(str(self._path.absolute()), key, self._template(), self._context or 0)
        server = _start()
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                served = await asyncio.to_thread(_served, server.process, order)
        except TimeoutError:
            server.kill()
            raise InvalidRequest(f"{self._path} was not loaded within {LOAD_SECONDS:g} s") from None
        except BaseException:
            server.kill()
            raise
        transport = DirectTransport()
        chat = ChatModel(
            self._file,
            base_url=f"{served.address}/v1",
            api_key=key,
            transport=transport,
            settings=self._settings,
            provider="gguf",
            dialect=DIALECTS["llamacpp"],
        )
        return _Serving(server, transport, chat, served.knows_tools)

    @property
    def _template_file(self) -> Path:
        return self._path.with_suffix(".jinja")

    def _template(self) -> str:
        if not self._template_file.is_file():
            return ""
        try:
            return self._template_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"cannot read the template {self._template_file}: {error}") from None

    def _toolless(self) -> str:
        return (
            f"the chat template in {self._path.name} knows no tools, so the model is told of none: "
            f"put one that does into {self._template_file}"
        )


class _Serving:
    """A server that answers."""

    def __init__(
        self, server: OwnedGroup, transport: DirectTransport, chat: ChatModel, knows_tools: bool
    ) -> None:
        self.chat = chat
        self.knows_tools = knows_tools
        self._server = server
        self._transport = transport

    def is_alive(self) -> bool:
        return self._server.process.poll() is None

    async def stop(self) -> None:
        await self._transport.aclose()
        self._server.kill()


def _is_spent(loading: asyncio.Task[_Serving]) -> bool:
    """Whether what was loaded, if anything was, is no longer there."""
    if not loading.done():
        return False
    return loading.cancelled() or loading.exception() is not None or not loading.result().is_alive()


def _start() -> OwnedGroup:
    # Without -P, a directory named like a module of ours would be imported from where we work.
    command = [sys.executable, "-P", "-m", "ostler.models.gguf_server"]
    return OwnedGroup(command, cwd=Path.cwd(), stdin=subprocess.PIPE, stderr=subprocess.STDOUT)


def _served(process: subprocess.Popen[bytes], order: Order) -> Served:
    """Waits for the server as long as it takes to get ready, or to fail."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it is gone, and has said why
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
    output: list[str] = []
    for line in process.stdout:
        if line.startswith(b'{"address"'):
            return msgspec.json.decode(line, type=Served)
        output.append(line.decode(errors="replace").strip())
    cause = _cause(output) or f"its server ended with code {process.wait()}; is there enough memory?"
    raise InvalidRequest(f"cannot serve {order.path}: {cause}")


def _cause(output: Iterable[str]) -> str:
    """Of a failure: the loader's own word comes first, and what only follows from it later."""
    lines = [line for line in output if line]
    named = [line.partition(_CAUSE)[2] for line in lines if _CAUSE in line]
    return next(iter([*named, *lines[-1:]]), "")


def _checked(path: Path) -> Path:
    """The file, where it looks like one that can be served."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; a model file is named gguf/PATH") from None
    if magic != b"GGUF":
        raise UsageError(f"{path} is not a GGUF file; a model file is named gguf/PATH")
    if find_spec("xllamacpp") is None:
        raise NoModel(f"a model file needs the extra `local`: {how_to_install('local')}")
    return path
