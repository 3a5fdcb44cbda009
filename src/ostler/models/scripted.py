"""The scripted model: deterministic answers, streamed like a real model's, for tests and for the demo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ostler.kernel.model import ModelDone, ModelEvent, ModelFailure, ModelRequest, Transcript
from ostler.vocabulary.errors import Failure, ModelError, failure_of
from ostler.vocabulary.events import (
    ReasoningDelta,
    TextDelta,
    ToolInputDelta,
    ToolInputEnded,
    ToolInputStarted,
)
from ostler.vocabulary.messages import Block, Opaque, Reasoning, StopReason, Text, ToolCall
from ostler.vocabulary.usage import Usage


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
        for event in _deltas(turn, request.id, call_ids):
            if turn.pause:
                await asyncio.sleep(turn.pause)
            yield [event]
        if turn.hangs:
            await asyncio.get_running_loop().create_future()
        if turn.failure:
            yield [ModelFailure(turn.failure)]
            return
        content = _content(turn, call_ids)
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


def _deltas(turn: Turn, message: str, call_ids: list[str]) -> Iterator[ModelEvent]:
    block = 0
    for kind, text in ((ReasoningDelta, turn.reasoning), (TextDelta, turn.text)):
        for offset, piece in _pieces(text, turn.piece):
            yield kind(message, block, offset, piece)
        block += bool(text)
    for call, call_id in zip(turn.calls, call_ids, strict=True):
        yield ToolInputStarted(message, block, call_id, call.name)
        for offset, piece in _pieces(call.text(), turn.piece):
            yield ToolInputDelta(message, block, call_id, offset, piece)
        yield ToolInputEnded(message, block, call_id)
        block += 1


def _pieces(text: str, size: int) -> Iterator[tuple[int, str]]:
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
