"""Runs scripted runs in this process through a supervisor, and prints their steps per CPU second.

Arguments: `alone` (one after the other) or `together` (all at once), a SQLite file, and the number of runs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from time import process_time

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.events import RunEnded
from ostler.sessions.supervisor import Supervisor
from ostler.store.sqlite import SqliteStore

STEPS = 10


@tool(parallel=True)
async def echo(text: str) -> str:
    """Returns the text."""
    return text


def main() -> None:
    _, mode, path, count = sys.argv
    print(json.dumps(asyncio.run(_steps_per_second(mode, Path(path), int(count)))))


async def _steps_per_second(mode: str, path: Path, count: int) -> float:
    store = SqliteStore(path)
    supervisor = Supervisor(store, _make_harness)
    await _run(supervisor)
    begin = process_time()
    if mode == "alone":
        for _ in range(count):
            await _run(supervisor)
    else:
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(_run(supervisor))
    seconds = process_time() - begin
    await supervisor.close()
    await store.close()
    return count * STEPS / seconds


def _make_harness(cwd: Path) -> Harness:
    calls = [Call("echo", {"text": f"hi {number}"}) for number in range(STEPS - 1)]
    harness = Harness(ScriptedModel([*calls, "done"]), cwd=cwd)
    harness.set_tools([echo])
    return harness


async def _run(supervisor: Supervisor) -> None:
    ended = await (await supervisor.start("begin")).result()
    assert isinstance(ended, RunEnded) and ended.own.steps == STEPS, ended
