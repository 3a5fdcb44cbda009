"""Runs a tree of child runs under a cost limit, and prints its model calls and the most at the same time.

Arguments: a SQLite file, the number of children, how many run at a time, and the limit in model calls.
All calls cost the same, and without the limit each child makes five.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from bench.programs.supervised import echo
from ostler.core.harness import Harness
from ostler.core.model import ModelEvent, ModelRequest
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema.events import Limits, RunEnded
from ostler.schema.usage import Usage
from ostler.sessions.agents import DelegateTool
from ostler.sessions.supervisor import Supervisor
from ostler.store.sqlite import SqliteStore

PRICE = 0.01
CALLS_OF_A_CHILD = 5


class SlowModel(ScriptedModel):
    """Waits until all parallel requests have arrived, and counts them."""

    active = 0
    most = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            await asyncio.sleep(0.05)
            async for batch in super().stream(request):
                yield batch
        finally:
            self.active -= 1


def main() -> None:
    _, path, *numbers = sys.argv
    print(json.dumps(asyncio.run(_calls(Path(path), *map(int, numbers)))))


async def _calls(path: Path, children: int, together: int, limit: int) -> tuple[int, int]:
    """All model calls, and the most at the same time."""
    model = SlowModel([_answer(children)] * (children * CALLS_OF_A_CHILD + 1))

    def make_harness(cwd: Path) -> Harness:
        limits = Limits(cost=limit * PRICE)
        harness = Harness(model, cwd=cwd, limits=limits, children_together=together)
        harness.set_tools([echo, DelegateTool({})])
        return harness

    store = SqliteStore(path)
    supervisor = Supervisor(store, make_harness)
    ended = await (await supervisor.start("begin")).result()
    await supervisor.close()
    await store.close()
    assert isinstance(ended, RunEnded) and ended.status == "limit", ended
    assert ended.children.runs == children, ended
    return len(model.requests), model.most


def _answer(children: int) -> Callable[[ModelRequest], Turn]:
    def answer(request: ModelRequest) -> Turn:
        messages = len(request.transcript)
        calls: list[Call] = []
        if request.transcript[0].text == "begin":
            calls = [Call("delegate", {"task": f"task {number}"}) for number in range(children)]
        elif messages < 2 * CALLS_OF_A_CHILD - 1:
            calls = [Call("echo", {"text": f"hi {messages}"})]
        usage = Usage(input_tokens=10, output_tokens=5, cost=PRICE)
        return Turn("" if calls else "done", tuple(calls), usage=usage)

    return answer
