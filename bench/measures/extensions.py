"""Measures of extensions: the cost of a run without and with many, and the time to reload one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter_ns, process_time_ns
from typing import Any

from bench.environment import Environment
from bench.table import Row, interleaved, limit_row, ratio_row, skipped_row
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension import Extension
from ostler.extensions.host import ExtensionHost
from ostler.extensions.idle_host import DELAY
from ostler.extensions.loader.extension_loader import extend_harness
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema.events import ReasoningDelta, TextDelta, Warned
from ostler.schema.messages import as_content
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore

STEPS = 100
OBSERVERS = 20
ANSWER = "Every word of this answer is a delta of its own, and there are many of them. " * 40
PACE = 0.004
"""Seconds between two deltas. Slow deltas come in small batches, which cost the most."""

VERSION = """
from bench.measures.extensions import versions
from ostler.schema.events import Warned


def setup(ostler):
    ostler.on(Warned)(lambda event: versions.append({number}))
"""
versions: list[int] = []
"""The version of that extension at each event."""


def extensions(environment: Environment) -> list[Row]:
    """A run of 100 steps with and without a host, an answer of 400 deltas that 20 extensions observe, and the
    time from saving an extension to its first event."""
    rounds = max(environment.rounds, 9)
    stepping = interleaved(
        max(environment.rounds, 61),  # because the speed of a machine varies by more than the goal's 2 %
        host=lambda: [_milliseconds(ExtensionHost(), _steps())],
        none=lambda: [_milliseconds(None, _steps())],
    )
    streaming = interleaved(
        rounds,
        many=lambda: [_milliseconds(ExtensionHost(_observers()), [Turn(ANSWER, piece=8, pause=PACE)])],
        none=lambda: [_milliseconds(None, [Turn(ANSWER, piece=8, pause=PACE)])],
    )
    return [
        ratio_row(
            "CPU of 100 steps, with extension support / without", *_pair(stepping, "host"), "ms", "≤", 1.02
        ),
        ratio_row(
            "CPU of 400 deltas, 20 extensions observe them / none", *_pair(streaming, "many"), "ms", "≤", 2.0
        ),
        _reload(environment),
    ]


def _pair(medians: dict[str, list[float]], name: str) -> tuple[float, float]:
    return medians[name][0], medians["none"][0]


def _steps() -> list[Any]:
    return [*[Call("echo", {"text": str(number)}) for number in range(STEPS)], "done"]


@tool
def echo(text: str) -> str:
    "Returns the text."
    return text


class _Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, deltas: Sequence[TextDelta]) -> None:
        self.count += len(deltas)


def _observers() -> list[Extension]:
    extensions = []
    for number in range(OBSERVERS):
        api = ExtensionAPI(f"observer{number}")
        api.on(TextDelta, ReasoningDelta, batch=True)(_Counter().add)
        extensions.append(Extension(api.name, "host", registered=api.registered))
    return extensions


def _milliseconds(host: ExtensionHost | None, script: Sequence[Any]) -> float:
    """CPU time of one run, in all threads."""
    return asyncio.run(_measured(host, script))


async def _measured(host: ExtensionHost | None, script: Sequence[Any]) -> float:
    harness = Harness(ScriptedModel(["I am ready.", *script]))
    harness.set_tools([echo])
    if host is not None:
        host.install_into(harness)
    session = await create_session(MemoryStore(), harness)
    await session.prompt(as_content("get ready"))
    begin = process_time_ns()
    await session.prompt(as_content("go"))
    cpu_ns = process_time_ns() - begin
    await session.close()
    return cpu_ns / 1e6


def _reload(environment: Environment) -> Row:
    name = "from saving an extension to the first event in its new code"
    if find_spec("watchfiles") is None:
        return skipped_row(name, "the `watch` extra is not installed")
    file = environment.work / "observer.py"
    return limit_row(name, median(asyncio.run(_reload_times(file, max(environment.rounds, 9)))), "ms", 200)


def _save(file: Path, number: int) -> None:
    file.write_text(VERSION.format(number=number))


async def _reload_times(file: Path, rounds: int) -> list[float]:
    """In milliseconds, while events are recorded continuously."""
    _save(file, 0)
    harness = Harness(ScriptedModel(["I am ready."]))
    await extend_harness(harness, [file])
    session = await create_session(MemoryStore(), harness)
    await session.prompt(as_content("get ready"))
    await asyncio.sleep(2 * DELAY)  # until the file is watched
    times = []
    for number in range(1, rounds + 1):
        begin = perf_counter_ns()
        _save(file, number)
        async with asyncio.timeout(60):
            while number not in versions:
                session.journal.record(Warned("an event"))
                await session.journal.commit()
                await asyncio.sleep(0.002)
        times.append((perf_counter_ns() - begin) / 1e6)
    await session.close()
    return times
