"""A model file on disk, `gguf/PATH`: llama.cpp serves it in a child process, over the Chat wire."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe
from typing import NamedTuple

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
"""The interval of empty batches while the model is loaded."""

_CAUSE = "error loading model: "


class GgufModel:
    """See `Model`. The first request loads the file, and `aclose` frees it.

    Loading continues if the first request is cancelled, because the next one needs the model too.
    """

    def __init__(self, file: str, *, settings: ModelProfile, context: int | None = None) -> None:
        self.name = f"gguf/{file}"
        self._file = file
        self._path = _checked(expand_home(file))
        self._template_file = self._path.with_suffix(".jinja")
        self._settings = settings
        self._context = context
        self._loading: asyncio.Task[_Serving] | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        if self._loading is not None and self._loading.done() and not _is_serving(self._loading):
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
            warning = (
                f"the chat template in {self._path.name} does not support tools, so the model gets none: "
                f"put a template that does into {self._template_file}"
            )
            yield [Warned(warning, call=request.id)]
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
        # Without -P, a folder in the working directory could shadow a module of ours.
        command = [sys.executable, "-P", "-m", "ostler.models.gguf_server"]
        server = OwnedGroup(command, cwd=Path.cwd(), stdin=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                served = await asyncio.to_thread(_served, server.process, order)
        except BaseException as error:
            server.kill()
            if isinstance(error, TimeoutError):
                raise InvalidRequest(f"{self._path} was not loaded within {LOAD_SECONDS:g} s") from None
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

    def _template(self) -> str:
        if not self._template_file.is_file():
            return ""
        try:
            return self._template_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"cannot read the template {self._template_file}: {error}") from None


class _Serving(NamedTuple):
    """A server that is ready for requests."""

    server: OwnedGroup
    transport: DirectTransport
    chat: ChatModel
    knows_tools: bool

    def is_alive(self) -> bool:
        return self.server.process.poll() is None

    async def stop(self) -> None:
        await self.transport.aclose()
        self.server.kill()


def _is_serving(loading: asyncio.Task[_Serving]) -> bool:
    return not loading.cancelled() and loading.exception() is None and loading.result().is_alive()


def _served(process: subprocess.Popen[bytes], order: Order) -> Served:
    """Waits until the server is ready or has failed."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it has exited, and its output says why
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
    output: list[str] = []
    for line in process.stdout:
        if line.startswith(b'{"address"'):
            return msgspec.json.decode(line, type=Served)
        output.append(line.decode(errors="replace").strip())
    lines = list(filter(None, output))
    loader_errors = [line.partition(_CAUSE)[2] for line in lines if _CAUSE in line]
    unknown = f"its server exited with code {process.wait()}; is there enough memory?"
    raise InvalidRequest(f"cannot serve {order.path}: {[*loader_errors, *lines[-1:], unknown][0]}")


def _checked(path: Path) -> Path:
    """The path. Raises if it is not a model file, or if it cannot be served."""
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
