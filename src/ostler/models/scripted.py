"""Models without a network: scripted answers, answers of a recorded session, and the demo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ostler.core.model import ModelDone, ModelEvent, ModelFailure, ModelRequest
from ostler.core.transcript import Transcript
from ostler.schema import events
from ostler.schema.errors import Failure, ModelError, failure_of
from ostler.schema.facts import Fact
from ostler.schema.messages import Block, Message, Opaque, Reasoning, StopReason, Text, ToolCall
from ostler.schema.usage import UNKNOWN_USAGE, Usage


class Call(msgspec.Struct, frozen=True):
    """A tool call to make. `raw` is the text of the arguments, which may be invalid JSON."""

    name: str
    arguments: dict[str, Any] = {}
    id: str = ""
    raw: str | None = None

    def text(self) -> str:
        return msgspec.json.encode(self.arguments).decode() if self.raw is None else self.raw


class Turn(msgspec.Struct, frozen=True):
    """One scripted answer; a `failure` comes after everything else was streamed."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    stop_reason: StopReason | None = None
    usage: Usage = Usage(input_tokens=10, output_tokens=5, cost=0.0)
    failure: Failure | None = None
    piece: int = 8
    """The characters of a delta."""
    pause: float = 0.0
    """The seconds before each delta, for people who watch."""
    hangs: bool = False
    """Whether the stream never ends."""


Answer = Turn | str | Call | ModelError | Sequence[Call]
Script = Iterable[Answer | Callable[[ModelRequest], Answer]]


class ScriptedModel:
    """Returns the answers of its script in order. An answer may be a function of the request.

    `requests` are those it has received. A request after the end of the script fails.
    """

    def __init__(self, script: Script = (), *, name: str = "scripted/model") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._script: Iterator[Answer | Callable[[ModelRequest], Answer]] = iter(script)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        self.requests.append(_copied(request))
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
    """The events that stream these blocks, in pieces of `size` characters; 0 for whole blocks."""
    for number, block in enumerate(content):
        match block:
            case Text(text=text) | Reasoning(text=text) if text:
                delta = events.TextDelta if isinstance(block, Text) else events.ReasoningDelta
                for offset, piece in _pieces(text, size):
                    yield delta(message, number, offset, piece)
            case ToolCall(id=call, name=name, arguments=arguments):
                yield events.ToolInputStarted(message, number, call, name)
                for offset, piece in _pieces(arguments, size):
                    yield events.ToolInputDelta(message, number, call, offset, piece)
                yield events.ToolInputEnded(message, number, call)


def _copied(request: ModelRequest) -> ModelRequest:
    """The request with a copy of its transcript, which grows with the run."""
    return msgspec.structs.replace(request, transcript=Transcript(request.transcript))


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
    """A model call of a log, and its result; `end` is None if the log stops before its end."""

    called: events.ModelCalled
    fact: int
    """The number of the call's fact."""
    end: events.AssistantMessage | events.ModelFailed | None = None
    usage: Usage = UNKNOWN_USAGE
    beside: tuple[events.Warned | events.SourceCited, ...] = ()


def recorded_answers(facts: Iterable[Fact]) -> list[RecordedAnswer]:
    """The model calls of all steps, in their order; calls for other purposes are left out."""
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
            case (events.Warned(about="model") | events.SourceCited()) as event if latest:
                answer = answers[latest]
                if answer.end is None:
                    answers[latest] = msgspec.structs.replace(answer, beside=(*answer.beside, event))
    return list(answers.values())


class RecordedModel:
    """Returns the recorded answers in order, for any requests.

    `requests` are those it has received. A request after the end of the recording fails.
    """

    def __init__(self, facts: Iterable[Fact], *, name: str = "") -> None:
        self._answers = recorded_answers(facts)
        self.name = name or (self._answers[0].called.model if self._answers else "recorded/model")
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        self.requests.append(_copied(request))
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
    """The streamed events, one delta a block. `message` is the id of the present call."""
    streamed: list[ModelEvent] = []
    match answer.end:
        case events.AssistantMessage(content=content) | events.ModelFailed(partial=content):
            streamed += deltas(content, message)
    for event in answer.beside:
        is_source = isinstance(event, events.SourceCited)
        streamed.append(msgspec.structs.replace(event, call=message) if is_source else event)
    return streamed


def end_of(answer: RecordedAnswer) -> ModelDone | ModelFailure:
    """The last event of the stream; one without an end in the log was interrupted."""
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
    "add a vendor's key: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or run `ostler key set anthropic`",
    "start a local server such as Ollama: it is detected, or named with --model ollama/NAME",
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
"""The result of a call whose process died while it ran."""

_FREE = Usage(input_tokens=0, output_tokens=0, cost=0.0)


class DemoModel:
    """Plays the next step of the demo job. If it `is_slow`, one command takes a minute, to be killed."""

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
    """The text and the call that follow these results."""
    if not results:
        write = Call("write", {"path": "hello.py", "content": _PROGRAM})
        return "I write the program first.", write
    if _INTERRUPTED in _text(results[-1]):
        text = "the slow run was interrupted. I do not just start it again: I look at what it left."
        return text, Call("bash", {"command": f"cat {RUNS}"})
    if any(getattr(result, "failed", False) for result in results[-1].content):
        return "that call did not go through, so I stop here. Nothing else was changed.", None
    if len(results) == 1:
        return "now I run it. That needs your permission.", Call("bash", {"command": QUICK_RUN})
    if len(results) == 2 and is_slow:
        return "it works. Now slowly, which takes a minute.", Call("bash", {"command": SLOW_RUN})
    text = f"done. `hello.py` exists, and it printed: {_text(results[1]).strip()}"
    if any(_INTERRUPTED in _text(result) for result in results):
        text += "\nIts slow run was interrupted. If you still want it, I start it again."
    return text, None


def _text(message: Message) -> str:
    blocks = [block for result in message.content for block in getattr(result, "content", ())]
    return "\n".join(block.text for block in blocks if isinstance(block, Text))
