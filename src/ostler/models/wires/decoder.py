"""What the decoders of all wires share: `AnswerBuilder`, `AnswerDecoder`, and unique tool call ids."""

from __future__ import annotations

from typing import Literal

import msgspec

from ostler.core.model import ModelDone, ModelEvent, ModelFailure, ModelRequest
from ostler.core.transcript import Transcript
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


class CallIds:
    """The ids of one answer's calls: the vendor's own, or a new one where that is missing or taken."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._given: set[str] = set()

    def unique(self, offered: str) -> str:
        chosen = offered if offered and not self._is_taken(offered) else new_id("call")
        self._given.add(chosen)
        return chosen

    def _is_taken(self, offered: str) -> bool:
        return offered in self._given or offered in self._transcript.call_ids()


BlockKind = Literal["text", "reasoning", "call", "whole"]

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a frame may raise that is no JSON, no UTF-8, or nested without end."""


class OpenBlock:
    """A block of the answer; `number` is its place in it. `opaque` is its vendor's own data."""

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
    """The blocks of an answer in their order, and the events that tell of them.

    `events` is what nobody has been told yet; who hands the events on begins a new list.
    """

    def __init__(self, request: ModelRequest) -> None:
        self.message = request.id
        self.events: list[ModelEvent] = []
        self.blocks: list[OpenBlock] = []
        self._ids = CallIds(request.transcript)
        self._cited: set[str] = set()

    def begin(self, kind: Literal["text", "reasoning"]) -> OpenBlock:
        block = OpenBlock(kind, len(self.blocks))
        self.blocks.append(block)
        return block

    def begin_call(self, offered_id: str, name: str) -> OpenBlock:
        block = OpenBlock("call", len(self.blocks))
        self.blocks.append(block)
        block.call, block.name = self._ids.unique(offered_id), name
        self.events.append(ToolInputStarted(self.message, block.number, block.call, name))
        return block

    def put(self, whole: Block) -> None:
        """A block that came in one piece and that no delta tells of, such as a picture."""
        block = OpenBlock("whole", len(self.blocks))
        block.whole = whole
        self.blocks.append(block)

    def add(self, block: OpenBlock, text: str) -> None:
        """A fragment of the block, told as a delta."""
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
        """The call's arguments are complete; `whole` is what they are where none were streamed."""
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
        """A source of what is said; each is told once, however often it is named."""
        name = url or f"{id} {title}"
        if name not in self._cited:
            self._cited.add(name)
            self.events.append(SourceCited(self.message, url, title, id))

    def warn(self, text: str) -> None:
        self.events.append(Warned(text, call=self.message))

    def has_calls(self) -> bool:
        return any(block.kind == "call" for block in self.blocks)

    def content(self) -> tuple[Block, ...]:
        return tuple([block.closed() for block in self.blocks])


class AnswerDecoder:
    """What a `Decoder` does whatever the wire.

    A wire adds `_take` and `_reported`, and where it needs them `_cut` and `_complete`.
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

    def _take(self, frames: list[Frame]) -> None:
        """Reads frames; sets `finished` and `_stop_reason` when the wire says so, raises what it reports."""
        raise NotImplementedError

    def _reported(self) -> Usage | None:
        """What the vendor has said of usage so far; the cost only where it names one itself."""
        raise NotImplementedError

    def _cut(self) -> bool:
        """Whether the stream has ended before the wire's proper end. A wire may know better."""
        return not self.finished

    def _complete(self) -> None:
        """Nothing more comes and nothing is missing: the last chance to change the answer."""

    def warn(self, text: str) -> None:
        """Told with the first events of the answer."""
        self._answer.warn(text)

    def feed(self, data: bytes) -> list[ModelEvent]:
        answer = self._answer
        events = answer.events
        try:
            self._take(self._splitter.feed(data))
        except _UNREADABLE as error:
            self._fail(self._broken(f"holds a frame that is not what the wire promises ({error})"))
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
            content=self._with_provider(self._answer.content()),
            stop_reason=self._stop_reason or "other",
            usage=self.usage(),
            model="" if self._model == self._asked_model else self._model,
            request_id=self.request_id,
        )
        return [*self._answer.events, done]

    def _with_provider(self, content: tuple[Block, ...]) -> tuple[Block, ...]:
        """The content with the provider's name on what is meant for it alone."""
        if not any(getattr(block, "opaque", None) for block in content):
            return content
        return tuple([_signed(block, self._provider) for block in content])

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
        return StreamBroken(
            f"the answer of {self._provider} {what}; try again",
            request_id=self.request_id,
            stream_opened=True,
        )


def _signed(block: Block, provider: str) -> Block:
    opaque: Opaque | None = getattr(block, "opaque", None)
    if opaque is None:
        return block
    return msgspec.structs.replace(block, opaque=msgspec.structs.replace(opaque, provider=provider))
