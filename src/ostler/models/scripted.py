"""Models without a network: scripted answers, the answers of a recorded session, and the demo script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ostler.core.model import ModelDone, ModelEvent, ModelFailure, ModelRequest
from ostler.core.transcript import Transcript
from ostler.schema import events
from ostler.schema.errors import Failure, ModelError, failure_of
from ostler.schema.events import (
    ReasoningDelta,
    SourceCited,
    TextDelta,
    ToolInputDelta,
    ToolInputEnded,
    ToolInputStarted,
    Warned,
)
from ostler.schema.facts import Fact
from ostler.schema.messages import Block, Message, Opaque, Reasoning, StopReason, Text, ToolCall
from ostler.schema.usage import UNKNOWN_USAGE, Usage


class Call(msgspec.Struct, frozen=True):
    """A tool call to make. `raw` is the arguments' JSON text, for arguments that are no JSON at all."""

    name: str
    arguments: dict[str, Any] = {}
    id: str = ""
    raw: str | None = None

    def text(self) -> str:
        return msgspec.json.encode(self.arguments).decode() if self.raw is None else self.raw


class Turn(msgspec.Struct, frozen=True):
    """One scripted answer. With `failure` it ends so, after whatever else it has was streamed."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    stop_reason: StopReason | None = None
    usage: Usage = Usage(input_tokens=10, output_tokens=5, cost=0.0)
    failure: Failure | None = None
    piece: int = 8
    """Characters a delta."""
    pause: float = 0.0
    """Seconds before each delta, for people who watch."""
    hangs: bool = False
    """After what it has, it falls silent for ever."""


Answer = Turn | str | Call | ModelError | Sequence[Call]
Script = Iterable[Answer | Callable[[ModelRequest], Answer]]


class ScriptedModel:
    """Gives the answers of its script in order. An answer may be a function of the request.

    `requests` holds what it was asked. A request beyond the script fails, and says so.
    """

    def __init__(self, script: Script = (), *, name: str = "scripted/model") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._script: Iterator[Answer | Callable[[ModelRequest], Answer]] = iter(script)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        # A copy: the transcript itself goes on growing while the run does.
        self.requests.append(msgspec.structs.replace(request, transcript=Transcript(request.transcript)))
        turn = self._next_turn(request)
        call_ids = [call.id or f"call_{request.id[-6:]}_{number}" for number, call in enumerate(turn.calls)]
        content = _content(turn, call_ids)
        for event in deltas(content, request.id, turn.piece):
            if turn.pause:
                await asyncio.sleep(turn.pause)
            yield [event]
        if turn.hangs:
            await asyncio.get_running_loop().create_future()
        if turn.failure:
            yield [ModelFailure(turn.failure)]
            return
        stop: StopReason = turn.stop_reason or ("tool_calls" if turn.calls else "end")
        yield [ModelDone(content, stop, turn.usage, request_id=f"req_{len(self.requests)}")]

    async def aclose(self) -> None:
        pass

    def _next_turn(self, request: ModelRequest) -> Turn:
        answer = next(self._script, None)
        if callable(answer):
            answer = answer(request)
        match answer:
            case None:
                text = f"{self.name} has no answer number {len(self.requests)}: its script is over"
                return Turn(failure=Failure("invalid_request", text))
            case Turn():
                return answer
            case str():
                return Turn(text=answer)
            case Call():
                return Turn(calls=(answer,))
            case ModelError():
                return Turn(failure=failure_of(answer))
            case _:
                return Turn(calls=tuple(answer))


def deltas(content: Iterable[Block], message: str, size: int = 0) -> Iterator[ModelEvent]:
    """The events that stream these blocks, `size` characters a piece; 0 sends each block whole."""
    for number, block in enumerate(content):
        match block:
            case Text(text=text) if text:
                for offset, piece in _pieces(text, size):
                    yield TextDelta(message, number, offset, piece)
            case Reasoning(text=text) if text:
                for offset, piece in _pieces(text, size):
                    yield ReasoningDelta(message, number, offset, piece)
            case ToolCall(id=call, name=name, arguments=arguments):
                yield ToolInputStarted(message, number, call, name)
                for offset, piece in _pieces(arguments, size):
                    yield ToolInputDelta(message, number, call, offset, piece)
                yield ToolInputEnded(message, number, call)


def _pieces(text: str, size: int) -> Iterator[tuple[int, str]]:
    if not size:
        yield 0, text
        return
    for offset in range(0, len(text), size):
        yield offset, text[offset : offset + size]


def _content(turn: Turn, call_ids: list[str]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if turn.reasoning:
        blocks.append(Reasoning(turn.reasoning, Opaque("scripted", {"signature": "s"})))
    if turn.text:
        blocks.append(Text(turn.text))
    blocks.extend(
        ToolCall(call_id, call.name, call.text()) for call, call_id in zip(turn.calls, call_ids, strict=True)
    )
    return tuple(blocks)


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
            streamed = list(deltas(content, message))
        case _:
            streamed = []
    cited = [
        msgspec.structs.replace(event, call=message) if isinstance(event, SourceCited) else event
        for event in answer.beside
    ]
    return [*streamed, *cited]


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


LABEL = "DEMO (scripted, not a model)"
JOB = "Write a small program that greets the world, run it, and tell me what it printed."
RUNS = "runs.log"
QUICK_RUN = "python3 hello.py"
SLOW_RUN = "python3 hello.py --slowly"

_PROGRAM = f'''\
"""Greets the world, and writes down each time that it is run."""

import sys
import time

with open("{RUNS}", "a") as log:
    print("python3", *sys.argv, file=log)

if "--slowly" in sys.argv:
    time.sleep(60)
print("Hello, world!")
'''

WAYS = (
    "give a vendor's key: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or say `ostler key set anthropic`",
    "start a local server such as Ollama: it is found by itself, or named with --model ollama/NAME",
    "name any OpenAI-compatible server: --model openai/NAME --base-url http://HOST:PORT/v1",
)
"""How to connect a model."""

_NO_SCRIPT = "\n".join(
    (
        "I am only a script and cannot answer that. To connect a model:",
        "",
        *(f"{number}. {way[0].upper()}{way[1:]}." for number, way in enumerate(WAYS, 1)),
        "",
        "What I can show is `ostler demo`; what was looked for on this machine is in `ostler doctor`.",
    )
)

_INTERRUPTED = "The process ended while this call ran"
"""As the result says it of a call that was under way when its process died."""

_FREE = Usage(input_tokens=0, output_tokens=0, cost=0.0)


class DemoModel:
    """Plays the demo job step by step, as far as the transcript has got. If it `is_slow`, it also runs a
    command that takes a minute: there is time to kill it."""

    name = "demo/script"

    def __init__(self, pause: float = 0.0, *, is_slow: bool = False) -> None:
        self._pause = pause
        self._is_slow = is_slow

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        turn = _turn(list(request.transcript), self._is_slow, self._pause)
        async for batch in ScriptedModel([turn], name=self.name).stream(request):
            yield batch

    async def aclose(self) -> None:
        pass


def _turn(messages: list[Message], is_slow: bool, pause: float) -> Turn:
    last_prompt = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    if last_prompt < 0 or JOB not in messages[last_prompt].text:
        return Turn(text=f"{LABEL}\n\n{_NO_SCRIPT}", usage=_FREE, pause=pause)
    results = [message for message in messages[last_prompt + 1 :] if message.role == "tool"]
    text, call = _step(results, is_slow)
    calls = (call,) if call else ()
    return Turn(text=f"{LABEL}: {text}", calls=calls, usage=_FREE, piece=4, pause=pause)


def _step(results: list[Message], is_slow: bool) -> tuple[str, Call | None]:
    """What comes after so many results: what is said, and what is called."""
    if not results:
        write = Call("write", {"path": "hello.py", "content": _PROGRAM})
        return "I write the program first.", write
    if _INTERRUPTED in _text(results[-1]):
        text = "the slow run was interrupted. I do not just start it again: I look at what it left."
        return text, Call("bash", {"command": f"cat {RUNS}"})
    if _failed(results[-1]):
        return "that call did not go through, so I stop here. Nothing else was changed.", None
    if len(results) == 1:
        return "now I run it. That needs your permission.", Call("bash", {"command": QUICK_RUN})
    if len(results) == 2 and is_slow:
        return "it works. Now slowly, which takes a minute.", Call("bash", {"command": SLOW_RUN})
    text = f"done. `hello.py` exists, and it printed: {_text(results[1]).strip()}"
    if any(_INTERRUPTED in _text(result) for result in results):
        text += "\nIts slow run was interrupted. If you still want it, I start it again."
    return text, None


def _failed(message: Message) -> bool:
    return any(getattr(result, "failed", False) for result in message.content)


def _text(message: Message) -> str:
    return "\n".join(
        block.text
        for result in message.content
        for block in getattr(result, "content", ())
        if isinstance(block, Text)
    )
