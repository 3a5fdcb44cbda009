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
    """A tool as it is offered to the model."""

    name: str
    description: str
    schema: dict[str, Any]


ToolOffers = tuple[ToolOffer, ...]


class ModelRequest(msgspec.Struct, frozen=True):
    """Everything that decides one answer. The same request yields the same bytes on the wire."""

    id: str
    """The id of its `model_called`; deltas name it as their message."""
    model: str
    transcript: Transcript
    system: str = ""
    tools: ToolOffers = ()
    """Sorted by name, so that the prefix for prompt caches does not change."""
    tool_choice: str = "auto"
    """`auto`, `none`, `required`, or the name of a tool."""
    reasoning: ReasoningLevel | None = None
    max_output_tokens: int | None = None
    session: str = ""
    """For vendors that cache prefixes by conversation."""
    answer_schema: dict[str, Any] | None = None
    """A JSON Schema for the answer's text, where the vendor supports it."""
    tail: tuple[Message, ...] = ()
    """Messages after the transcript, in this request only; not part of the prefix for prompt caches."""

    def digest(self) -> str:
        """The digest of everything but the id. Only messages since the last digest are hashed."""
        hasher = blake2b(self.transcript.digest(), digest_size=16)
        head = (self.model, self.system, self.tools, self.tool_choice, self.reasoning, self.max_output_tokens)
        hasher.update(_encoder.encode(head))
        if self.answer_schema is not None:
            hasher.update(_encoder.encode(self.answer_schema))
        if self.tail:
            hasher.update(_encoder.encode(self.tail))
        return hasher.hexdigest()


class ModelDone(msgspec.Struct, frozen=True):
    """The whole answer: the last event of a stream that succeeded."""

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

    - `stream` yields batches: the events of one network read stay together.
    - The last event is exactly one `ModelDone` or `ModelFailure`; failures are values, never exceptions.
    - It makes one attempt only: the loop decides whether and when to retry.
    - A stream that ends without the end that its protocol requires is a `ModelFailure`.
    - Closing the iterator abandons the request and frees its connection.
    """

    @property
    def name(self) -> str:
        """`provider/id`."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]: ...

    async def aclose(self) -> None:
        """Frees connections. The code that made the model closes it."""


class AbsentModel:
    """Stands for a model where none is needed or none is available; `why` is the reason."""

    name = "absent"

    def __init__(self, why: str = "the session was opened without a model") -> None:
        self.why = why

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        yield [ModelFailure(Failure("no_model", self.why))]

    async def aclose(self) -> None:
        pass
