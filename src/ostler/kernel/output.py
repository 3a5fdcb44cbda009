"""The output of a running tool: shown live, kept in a blob, bounded for the model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Literal

import msgspec

from ostler.kernel.store import Blobs
from ostler.vocabulary.errors import StoreError
from ostler.vocabulary.events import ToolOutput
from ostler.vocabulary.messages import BlobRef, PlainBlock, Text

FLUSH_AFTER = 0.2
FLUSH_SIZE = 256 * 1024
KEEP_AT_MOST = 256 * 1024 * 1024
"""A command that prints for ever must not fill the disk."""

TAIL_SIZE = 4 * 1024

MODEL_LIMIT = 50 * 1024


class ResultLimits(msgspec.Struct, frozen=True):
    """How much of a result's text the model is told, for tools that do not bound it themselves."""

    characters: int = MODEL_LIMIT
    lines: int | None = None


def blob_of_call(call: str) -> str:
    """Where a call's output is kept: the same name before and after a crash."""
    return f"out_{call}"


class OutputSpool:
    """Everything one call printed. It reaches the blob store at the latest `FLUSH_AFTER` seconds later,
    so that a crash loses next to nothing of it; a short, quick call writes nothing at all."""

    def __init__(
        self,
        blobs: Blobs,
        session: str,
        call: str,
        publish: Callable[[list[ToolOutput]], None],
        fail: Callable[[StoreError], None],
    ) -> None:
        self._blobs = blobs
        self._session = session
        self._call = call
        self._publish = publish
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: list[str] = []
        self._waiting_size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._closed = False
        self._tail = ""
        self.size = 0
        self.stored = 0

    def write(self, text: str, stream: Literal["out", "err"]) -> None:
        """May be called from any thread: tools that are plain functions run in one of their own."""
        if threading.get_ident() == self._thread:
            self._write(text, stream)
        else:
            self._loop.call_soon_threadsafe(self._write, text, stream)

    def _write(self, text: str, stream: Literal["out", "err"]) -> None:
        if not text or self._closed:
            return
        text = printable(text)
        self._publish([ToolOutput(self._call, self.size, text, stream)])
        self.size += len(text)
        self._tail = (self._tail + text)[-TAIL_SIZE:]
        if self.size > KEEP_AT_MOST:
            return
        self._waiting.append(text)
        self._waiting_size += len(text)
        if self._waiting_size >= FLUSH_SIZE:
            self._flush_soon()
        elif self._timer is None:
            self._timer = self._loop.call_later(FLUSH_AFTER, self._flush_soon)

    @property
    def tail(self) -> str:
        """The end of the output, to tell of a call that was cut."""
        return self._tail

    async def close(self, told: int) -> BlobRef | None:
        """The blob with the whole output, when the model was told fewer characters than there were."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        if self._flushing:
            await self._flushing
        if self.stored or self.size > told:
            await self._flush()
        return await self._blobs.blob(self._session, blob_of_call(self._call)) if self.stored else None

    def _flush_soon(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._flush())
        elif self._waiting:
            self._timer = self._loop.call_later(FLUSH_AFTER, self._flush_soon)

    async def _flush(self) -> None:
        data = "".join(self._waiting).encode()
        self._waiting, self._waiting_size = [], 0
        if not data:
            return
        try:
            await self._blobs.append_blob(self._session, blob_of_call(self._call), data)
        except StoreError as error:
            self._fail(error)
            return
        self.stored += len(data)


def printable(text: str) -> str:
    """The text with halves of characters replaced: such as come from file names cannot be stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


async def bounded(
    content: tuple[PlainBlock, ...], limits: ResultLimits, blobs: Blobs, session: str, call: str
) -> tuple[tuple[PlainBlock, ...], BlobRef | None]:
    """Content that is not too long for the model: the middle is cut, the whole is kept in a blob."""
    texts = [block.text for block in content if isinstance(block, Text)]
    is_short = sum(map(len, texts)) <= limits.characters
    if is_short and (limits.lines is None or sum(text.count("\n") + 1 for text in texts) <= limits.lines):
        return content, None
    whole = "\n".join(texts)
    name = f"result_{call}"
    await blobs.append_blob(session, name, whole.encode())
    head, tail = _ends(whole, limits)
    left_out = len(whole) - len(head) - len(tail)
    note = f"\n\n[… {left_out} characters left out; read blob:{name} for all of it …]\n\n"
    others = tuple(block for block in content if not isinstance(block, Text))
    return (Text(head + note + tail), *others), await blobs.blob(session, name)


def _ends(whole: str, limits: ResultLimits) -> tuple[str, str]:
    """The beginning and the end that the model is told."""
    head = tail = whole
    lines = whole.split("\n")
    if limits.lines is not None and len(lines) > limits.lines:
        first = (limits.lines + 1) // 2
        head, tail = "\n".join(lines[:first]), "\n".join(lines[len(lines) - limits.lines + first :])
    half = max(1, limits.characters // 2)
    return head[:half], tail[-half:]
