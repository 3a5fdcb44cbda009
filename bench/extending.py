"""Measures of extensions: what none, and many, cost a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import process_time_ns
from typing import Any

from bench.room import Room
from bench.rows import Row, interleaved, ratio_row
from ostler.extensions.api import Ostler
from ostler.extensions.extension import Extension
from ostler.extensions.host import ExtensionHost
from ostler.kernel.harness import Harness
from ostler.kernel.tool import tool
from ostler.log.memory import MemoryStore
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.runs.session import create_session
from ostler.vocabulary.events import ReasoningDelta, TextDelta
from ostler.vocabulary.messages import as_content

STEPS = 100
OBSERVERS = 20
ANSWER = "Every word of this answer is a delta of its own, and there are many of them. " * 40
PACE = 0.004
"""Seconds between two deltas: what comes slowly is seen in small batches, and costs the most."""


def extensions(room: Room) -> list[Row]:
    """A run of 100 steps with and without a host, and an answer of 400 deltas that 20 extensions see."""
    rounds = max(room.rounds, 9)
    stepping = interleaved(
        rounds,
        host=lambda: [_milliseconds(ExtensionHost(), _steps())],
        none=lambda: [_milliseconds(None, _steps())],
    )
    streaming = interleaved(
        rounds,
        many=lambda: [_milliseconds(ExtensionHost(_observers()), [Turn(ANSWER, piece=8, pause=PACE)])],
        none=lambda: [_milliseconds(None, [Turn(ANSWER, piece=8, pause=PACE)])],
    )
    return [
        ratio_row("CPU of 100 steps, extensions possible / not", *_pair(stepping, "host"), "ms", "≤", 1.02),
        ratio_row(
            "CPU of 400 deltas, 20 extensions observe / none", *_pair(streaming, "many"), "ms", "≤", 2.0
        ),
    ]


def _pair(medians: dict[str, list[float]], name: str) -> tuple[float, float]:
    return medians[name][0], medians["none"][0]


def _steps() -> list[Any]:
    return [*[Call("echo", {"text": str(number)}) for number in range(STEPS)], "done"]


@tool
def echo(text: str) -> str:
    "Says it again."
    return text


class _Counter:
    def __init__(self) -> None:
        self.seen = 0

    def see(self, deltas: Sequence[TextDelta]) -> None:
        self.seen += len(deltas)


def _observers() -> list[Extension]:
    made = []
    for number in range(OBSERVERS):
        api = Ostler(f"observer{number}")
        api.on(TextDelta, ReasoningDelta, batch=True)(_Counter().see)
        made.append(Extension(api.name, "host", registered=api.registered))
    return made


def _milliseconds(host: ExtensionHost | None, script: Sequence[Any]) -> float:
    """Of the processor, in all threads, for one run."""
    return asyncio.run(_measured(host, script))


async def _measured(host: ExtensionHost | None, script: Sequence[Any]) -> float:
    harness = Harness(ScriptedModel(["I am ready.", *script]))
    harness.use([echo])
    if host is not None:
        host.equip(harness)
    session = await create_session(MemoryStore(), harness)
    await session.prompt(as_content("get ready"))
    begin = process_time_ns()
    await session.prompt(as_content("go"))
    used = process_time_ns() - begin
    await session.close()
    return used / 1e6
