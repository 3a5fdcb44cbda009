"""`AnswerBuilder` and `AnswerDecoder`, which the decoders of all wires share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core.lazy import lazy_module
from ostler.core.model import ModelDone, ModelEvent, ModelFailure, ModelRequest
from ostler.models.catalogue import FREE, Prices
from ostler.models.sse import Frame, SseSplitter
from ostler.schema.errors import ModelError, StreamBroken, failure_of
from ostler.schema.events import (
    ReasoningDelta,
    SourceCited,
    TextDelta,
    ToolInputDelta,
    ToolInputEnded,
    ToolInputStarted,
    Warned,
)
from ostler.schema.ids import new_id
from ostler.schema.messages import Block, Opaque, Reasoning, StopReason, Text, ToolCall
from ostler.schema.usage import UNKNOWN_USAGE, Usage

if TYPE_CHECKING:
    from ostler.models import vendor_errors
else:
    vendor_errors = lazy_module("ostler.models.vendor_errors")

BlockKind = Literal["text", "reasoning", "call", "whole"]

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised by a frame that is not JSON, not UTF-8, or nested too deeply."""


class OpenBlock:
    """A block of the answer; `number` is its index. `opaque` is the vendor's own data."""

    __slots__ = ("call", "ended", "kind", "name", "number", "offset", "opaque", "parts", "whole")

    def __init__(self, kind: BlockKind, number: int) -> None:
        self.kind = kind
        self.number = number
        self.offset = 0
        self.parts: list[str] = []
        self.call = ""
        self.name = ""
        self.ended = False
        self.opaque: Opaque | None = None
        self.whole: Block | None = None

    def closed(self) -> Block:
        if self.whole is not None:
            return self.whole
        text = "".join(self.parts)
        if self.kind == "text":
            return Text(text, self.opaque)
        if self.kind == "reasoning":
            return Reasoning(text, self.opaque)
        return ToolCall(self.call, self.name, text, self.opaque)


class AnswerBuilder:
    """The blocks of an answer in their order, and the events about them.

    `events` are those that are not sent yet; the code that sends them begins a new list.
    """

    def __init__(self, request: ModelRequest) -> None:
        self.message = request.id
        self.events: list[ModelEvent] = []
        self.blocks: list[OpenBlock] = []
        self._transcript = request.transcript
        self._call_ids: set[str] = set()
        self._cited: set[str] = set()

    def begin(self, kind: BlockKind) -> OpenBlock:
        block = OpenBlock(kind, len(self.blocks))
        self.blocks.append(block)
        return block

    def begin_call(self, offered_id: str, name: str) -> OpenBlock:
        """Begins a call with the vendor's id, or with a new one if that is missing or not unique."""
        block = self.begin("call")
        is_used = offered_id in self._call_ids or offered_id in self._transcript.call_ids()
        block.call, block.name = new_id("call") if not offered_id or is_used else offered_id, name
        self._call_ids.add(block.call)
        self.events.append(ToolInputStarted(self.message, block.number, block.call, name))
        return block

    def put(self, whole: Block) -> None:
        """Adds a block that came in one piece and has no deltas, such as a picture."""
        self.begin("whole").whole = whole

    def add(self, block: OpenBlock, text: str) -> None:
        """Adds a fragment to the block, and an event for it."""
        offset = block.offset
        block.offset = offset + len(text)
        block.parts.append(text)
        kind = block.kind
        if kind == "text":
            self.events.append(TextDelta(self.message, block.number, offset, text))
        elif kind == "call":
            self.events.append(ToolInputDelta(self.message, block.number, block.call, offset, text))
        else:
            self.events.append(ReasoningDelta(self.message, block.number, offset, text))

    def end_call(self, block: OpenBlock, whole: str = "{}") -> None:
        """Ends a call; `whole` are its arguments if none were streamed."""
        if block.ended:
            return
        block.ended = True
        if not block.parts:
            self.add(block, whole)
        self.events.append(ToolInputEnded(self.message, block.number, block.call))

    def end_calls(self) -> None:
        for block in self.blocks:
            if block.kind == "call":
                self.end_call(block)

    def cite(self, url: str = "", title: str = "", id: str = "") -> None:
        """Adds a source of the answer, once."""
        name = url or f"{id} {title}"
        if name not in self._cited:
            self._cited.add(name)
            self.events.append(SourceCited(self.message, url, title, id))

    def warn(self, text: str) -> None:
        self.events.append(Warned(text, call=self.message))

    def has_calls(self) -> bool:
        return any(block.kind == "call" for block in self.blocks)


class AnswerDecoder:
    """The base of all decoders; see `Decoder`.

    A wire adds `_configure`, `_take` and `_reported`, and if it needs them `_cut` and `_complete`.
    """

    def __init__(self, request: ModelRequest, provider: str, model: str, prices: Prices | None) -> None:
        self.finished = False
        self.request_id = ""
        self._answer = AnswerBuilder(request)
        self._provider = provider
        self._asked_model = model
        self._model = ""
        self._prices = prices
        self._splitter = SseSplitter()
        self._stop_reason: StopReason | None = None
        self._configure()

    def _configure(self) -> None:
        """Sets up the wire's own state."""
        raise NotImplementedError

    def _take(self, frames: list[Frame]) -> None:
        """Reads frames; sets `finished` and `_stop_reason` at the end, and raises reported errors."""
        raise NotImplementedError

    def _reported(self) -> Usage | None:
        """The usage that the vendor has reported so far; with a cost only if the vendor reports one."""
        raise NotImplementedError

    def _cut(self) -> bool:
        """Whether the stream ended before the wire's proper end."""
        return not self.finished

    def _complete(self) -> None:
        """Called when the answer is complete: the last chance to change it."""

    def vendor_error(self, value: Any) -> ModelError:
        """The error that the vendor reports in the stream."""
        return vendor_errors.error_in_stream(self._provider, value, request_id=self.request_id)

    def warn(self, text: str) -> None:
        """Adds a warning to the first events of the answer."""
        self._answer.warn(text)

    def feed(self, data: bytes) -> list[ModelEvent]:
        answer = self._answer
        events = answer.events
        try:
            self._take(self._splitter.feed(data))
        except _UNREADABLE as error:
            self._fail(self._broken(f"contains an invalid frame ({error})"))
        except ModelError as error:
            self._fail(error)
        answer.events = []
        return events

    def end(self) -> list[ModelEvent]:
        events = self._answer.events = []
        try:
            self._take(self._splitter.flush())
        except _UNREADABLE:
            self._fail(self._broken("was cut in the middle of a frame"))
        except ModelError as error:
            self._fail(error)
        if not (events and isinstance(events[-1], ModelFailure)) and self._cut():
            self._fail(self._broken("was cut before its end"))
        if events and isinstance(events[-1], ModelFailure):
            return events
        self._complete()
        done = ModelDone(
            content=tuple([_with_provider(block.closed(), self._provider) for block in self._answer.blocks]),
            stop_reason=self._stop_reason or "other",
            usage=self.usage(),
            model="" if self._model == self._asked_model else self._model,
            request_id=self.request_id,
        )
        return [*self._answer.events, done]

    def usage(self) -> Usage:
        usage = self._reported()
        if usage is None:
            is_free = self._prices is FREE
            return msgspec.structs.replace(UNKNOWN_USAGE, cost=0.0) if is_free else UNKNOWN_USAGE
        if usage.cost is not None or self._prices is None:
            return usage
        return msgspec.structs.replace(usage, cost=self._prices.cost(usage))

    def _fail(self, error: ModelError) -> None:
        self.finished = True
        self._answer.events.append(ModelFailure(failure_of(error), self.usage()))

    def _broken(self, what: str) -> ModelError:
        message = f"the answer of {self._provider} {what}; try again"
        return StreamBroken(message, request_id=self.request_id, stream_opened=True)


def _with_provider(block: Block, provider: str) -> Block:
    """The block, with the provider's name on its opaque data."""
    opaque: Opaque | None = getattr(block, "opaque", None)
    if opaque is None:
        return block
    return msgspec.structs.replace(block, opaque=msgspec.structs.replace(opaque, provider=provider))
