"""The recorded model: answers from the facts of a log, streamed anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from ostler.kernel.model import ModelDone, ModelEvent, ModelFailure, ModelRequest, Transcript
from ostler.vocabulary import events
from ostler.vocabulary.errors import Failure
from ostler.vocabulary.events import (
    ReasoningDelta,
    SourceCited,
    TextDelta,
    ToolInputDelta,
    ToolInputEnded,
    ToolInputStarted,
    Warned,
)
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import Block, Reasoning, Text, ToolCall
from ostler.vocabulary.usage import UNKNOWN_USAGE, Usage


class RecordedAnswer(msgspec.Struct, frozen=True):
    """A model call of a log, and what came of it; `end` is None when the log stops before its end."""

    called: events.ModelCalled
    fact: int
    """The number of the call's fact."""
    end: events.AssistantMessage | events.ModelFailed | None = None
    usage: Usage = UNKNOWN_USAGE
    beside: tuple[Warned | SourceCited, ...] = ()


def recorded_answers(facts: Iterable[Fact]) -> list[RecordedAnswer]:
    """The model calls of all steps, in their order. Calls for other purposes are no part of a run's steps."""
    answers: dict[str, RecordedAnswer] = {}
    latest = ""
    for fact in facts:
        match fact.event:
            case events.ModelCalled(id=call, purpose="step") as called:
                answers[call] = RecordedAnswer(called, fact.seq)
                latest = call
            case events.UsageReported(call=call, usage=usage) if call in answers:
                answers[call] = msgspec.structs.replace(answers[call], usage=usage)
            case events.AssistantMessage(call=call) | events.ModelFailed(call=call) as end if call in answers:
                answers[call] = msgspec.structs.replace(answers[call], end=end)
            case Warned(about="model") | SourceCited() as said if latest and answers[latest].end is None:
                beside = (*answers[latest].beside, said)
                answers[latest] = msgspec.structs.replace(answers[latest], beside=beside)
    return list(answers.values())


class RecordedModel:
    """Gives the recorded answers in order, whatever it is asked: it never reaches for a network.

    `requests` holds what it was asked. A request beyond the recording fails, and says so.
    """

    def __init__(self, facts: Iterable[Fact], *, name: str = "") -> None:
        self._answers = recorded_answers(facts)
        self.name = name or (self._answers[0].called.model if self._answers else "recorded/model")
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        # A copy: the transcript itself goes on growing while the run does.
        self.requests.append(msgspec.structs.replace(request, transcript=Transcript(request.transcript)))
        number = len(self.requests)
        if number > len(self._answers):
            text = f"{self.name} has no answer number {number}: the recording is over"
            yield [ModelFailure(Failure("invalid_request", text))]
            return
        answer = self._answers[number - 1]
        yield deltas_of(answer, request.id)
        yield [end_of(answer)]

    async def aclose(self) -> None:
        pass


def deltas_of(answer: RecordedAnswer, message: str) -> list[ModelEvent]:
    """What was streamed, one delta a block. `message` is the id of the call that is answered now."""
    match answer.end:
        case events.AssistantMessage(content=content) | events.ModelFailed(partial=content):
            deltas = [
                delta for block, one in enumerate(content) for delta in _recorded_deltas(one, message, block)
            ]
        case _:
            deltas = []
    cited = [
        msgspec.structs.replace(said, call=message) if isinstance(said, SourceCited) else said
        for said in answer.beside
    ]
    return [*deltas, *cited]


def end_of(answer: RecordedAnswer) -> ModelDone | ModelFailure:
    """How the stream ended. One whose end the log does not have was interrupted."""
    match answer.end:
        case events.AssistantMessage() as message:
            model = message.model or answer.called.model.partition("/")[2]
            return ModelDone(message.content, message.stop_reason, answer.usage, model, message.request_id)
        case events.ModelFailed(failure=failure):
            return ModelFailure(failure, answer.usage)
        case _:
            return ModelFailure(Failure("interrupted", "the recording ends during the call"))


def _recorded_deltas(block: Block, message: str, number: int) -> list[ModelEvent]:
    match block:
        case Text(text=text) if text:
            return [TextDelta(message, number, 0, text)]
        case Reasoning(text=text) if text:
            return [ReasoningDelta(message, number, 0, text)]
        case ToolCall(id=call, name=name, arguments=arguments):
            return [
                ToolInputStarted(message, number, call, name),
                ToolInputDelta(message, number, call, 0, arguments),
                ToolInputEnded(message, number, call),
            ]
    return []
