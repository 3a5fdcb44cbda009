"""The measure of the context: the cost of choosing the messages of the next model call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from time import process_time_ns
from typing import Any

from bench.environment import Environment
from bench.table import Row, interleaved, ratio_row
from ostler.context.builder import ContextBuilder, ModelRoom
from ostler.context.policy import merged
from ostler.context.tokenizers import RoutedTokenizer
from ostler.core.context import ContextInput
from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.core.transcript import Transcript
from ostler.models.scripted import ScriptedModel
from ostler.schema.messages import Message, Text, ToolCall, ToolResult, user
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore

LONG, SHORT = 2_000, 200
MEASURED = 100
POLICY: dict[str, dict[str, Any]] = {
    "window": {"tokens": 32_000, "reserve": 4_000},
    "summaries": {"automatic": False},
}


def context(environment: Environment) -> list[Row]:
    """The next step of a session of 2,000 steps and of one of 200; the window is full in both."""
    medians = interleaved(
        environment.rounds, long=lambda: [_milliseconds(LONG)], short=lambda: [_milliseconds(SHORT)]
    )
    name = f"context of the next step after {LONG:,} steps / after {SHORT}"
    return [ratio_row(name, medians["long"][0], medians["short"][0], "ms", "≤", 2.0)]


def _milliseconds(steps: int) -> float:
    """CPU time of a step. The mean, because some steps free room for many others."""
    return asyncio.run(_measured(steps))


async def _measured(steps: int) -> float:
    session = await create_session(MemoryStore(), Harness(ScriptedModel()))
    growing = _Session(session.journal)
    for _ in range(steps):
        growing.step()
    await growing.build()
    cpu_ns = 0
    for _ in range(MEASURED):
        growing.step()
        begin = process_time_ns()
        await growing.build()
        cpu_ns += process_time_ns() - begin
    await session.close()
    return cpu_ns / MEASURED / 1e6


class _Session:
    """Each step adds a call and its result."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._transcript = Transcript([user("Go on until it is done.")])
        self._sources = [1]
        self._steps = _steps()
        self._context = ContextBuilder(merged(POLICY), RoutedTokenizer(), lambda model: ModelRoom(200_000))
        self._input = ContextInput(
            "You help.", self._transcript, self._sources, {1}, (), ScriptedModel(name="openai/gpt-5.5")
        )

    def step(self) -> None:
        for message in next(self._steps):
            self._transcript.append(message)
            self._sources.append(self._sources[-1] + 1)

    async def build(self) -> None:
        await self._context.needs_compaction(self._journal, self._input)
        built = await self._context.build(self._journal, self._input)
        assert not built.problem and len(built.transcript) < 200


def _steps() -> Iterator[tuple[Message, Message]]:
    for number in count():
        call = ToolCall(f"call_{number}", "read", f'{{"path": "file_{number}.py"}}')
        lines = "\n".join(f"    value_{line} = compute(value_{number}, {line})" for line in range(40))
        result = ToolResult(call.id, call.name, (Text(lines),))
        yield Message("assistant", (Text("I read on."), call)), Message("tool", (result,))
