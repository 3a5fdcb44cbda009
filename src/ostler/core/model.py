"""The Model contract, its requests, and `AbsentModel` for sessions without a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol

import msgspec

from ostler.core.transcript import Transcript
from ostler.schema.errors import Failure
from ostler.schema.events import (
    ReasoningDelta,
    SourceCited,
    TextDelta,
    ToolInputDelta,
    ToolInputEnded,
    ToolInputStarted,
    Warned,
)
from ostler.schema.ids import blake2b
from ostler.schema.messages import Block, Message, StopReason
from ostler.schema.usage import UNKNOWN_USAGE, Usage

ReasoningLevel = Literal["off", "minimal", "low", "medium", "high"]

_encoder = msgspec.json.Encoder()


class ToolOffer(msgspec.Struct, frozen=True):
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """Everything that decides one answer. The same request yields the same bytes on the wire."""

    id: str
    """The id of its `model_called`; deltas name it as their message."""
    model: str
    transcript: Transcript
    system: str = ""
    tools: tuple[ToolOffer, ...] = ()
    """Sorted by name, so that the prefix which prompt caches depend on does not move."""
    tool_choice: str = "auto"
    """`auto`, `none`, `required`, or the name of a tool."""
    reasoning: ReasoningLevel | None = None
    max_output_tokens: int | None = None
    session: str = ""
    """Where it belongs, for vendors that keep the cached prefixes of one conversation together."""
    answer_schema: dict[str, Any] | None = None
    """A JSON Schema that the answer's text shall fit, where the vendor can promise that."""
    tail: tuple[Message, ...] = ()
    """Told after the transcript, this once; no part of the prefix that prompt caches keep."""

    def digest(self) -> str:
        """Of what is asked, apart from its id; costs only what was added since the last time."""
        hasher = blake2b(self.transcript.digest(), digest_size=16)
        rest = (self.model, self.system, self.tools, self.tool_choice, self.reasoning, self.max_output_tokens)
        hasher.update(_encoder.encode(rest))
        if self.answer_schema is not None:
            hasher.update(_encoder.encode(self.answer_schema))
        if self.tail:
            hasher.update(_encoder.encode(self.tail))
        return hasher.hexdigest()


class ModelDone(msgspec.Struct, frozen=True):
    """The answer, whole. The last event of a stream that succeeded."""

    content: tuple[Block, ...]
    stop_reason: StopReason
    usage: Usage = UNKNOWN_USAGE
    model: str = ""
    request_id: str = ""


class ModelFailure(msgspec.Struct, frozen=True):
    """The last event of a stream that failed. `usage` is what the vendor had reported by then."""

    failure: Failure
    usage: Usage = UNKNOWN_USAGE


ModelDelta = TextDelta | ReasoningDelta | ToolInputStarted | ToolInputDelta | ToolInputEnded

ModelEvent = ModelDelta | Warned | SourceCited | ModelDone | ModelFailure


class Model(Protocol):
    """Answers requests.

    - `stream` yields batches: the events of one network read travel together.
    - The last event is exactly one `ModelDone` or `ModelFailure`; failures are values, never exceptions.
    - One attempt only: whether and when to try again is the kernel's decision.
    - A stream that ends without its wire's proper end is a `ModelFailure`.
    - Closing the iterator abandons the request and frees its connection.
    """

    @property
    def name(self) -> str:
        """`provider/id`."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]: ...

    async def aclose(self) -> None:
        """Frees connections. The code that made the model closes it."""


NOBODY_ANSWERS = "the session was opened without a model"


class AbsentModel:
    """Stands for a model where none is needed, or where none can be had: `why` says the reason."""

    name = "absent"

    def __init__(self, why: str = NOBODY_ANSWERS) -> None:
        self.why = why

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        yield [ModelFailure(Failure("no_model", self.why))]

    async def aclose(self) -> None:
        pass
