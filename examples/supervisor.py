"""Many sessions under one supervisor: one is paused, and one asks a question that another process answers."""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from ostler import NeedUser, Question, Supervisor, ToolContext, tool
from ostler.core.harness import Harness
from ostler.core.model import ModelRequest
from ostler.store.sqlite import SqliteStore
from ostler.testkit import Call, ScriptedModel


@tool
async def watch(context: ToolContext) -> str:
    """Looks at the gate."""
    return f"{context.step} carts have passed"


@tool
async def buy(what: str) -> NeedUser:
    """Buys something where the user says."""
    return NeedUser(Question(f"Where shall I buy {what}?", kind="choice", choices=("market", "mill")))


def stable_hand(request: ModelRequest) -> Call | str:
    """Takes the place of a model, so that this example needs none."""
    last = request.transcript[-1]
    if last.role == "user":
        calls = {"Watch the gate.": Call("watch"), "Buy hay.": Call("buy", {"what": "hay"})}
        return calls.get(last.text, f"As you say: {last.text}")
    (result,) = last.content
    return Call("watch") if result.name == "watch" else f"I go to the {result.content[0].text}."


def equip(cwd: Path) -> Harness:
    harness = Harness(ScriptedModel([stable_hand] * 1000), cwd=cwd, wait_for_answers=True)
    harness.set_tools([watch, buy])
    return harness


async def morning(store: SqliteStore) -> None:
    supervisor = Supervisor(store, equip)
    handles = [await supervisor.start(task) for task in ("Sweep the yard.", "Watch the gate.", "Buy hay.")]
    await supervisor.pause(handles[1].session)
    for handle in handles:
        await handle.result()
        row = await supervisor.peek(handle.session)
        print(row.title, row.waits or row.status, *[asked.text for asked in row.questions], flush=True)
    await supervisor.close()


async def evening(store: SqliteStore) -> None:
    supervisor = Supervisor(store, equip)
    for row in sorted(await supervisor.list(), key=lambda row: row.title):
        if row.waits == "paused":
            await supervisor.steer(row.session, "Come in.")
            await supervisor.resume(row.session)
        else:
            await supervisor.answer(row.session, row.questions[0].id, "mill")
        ended = await supervisor.wait(row.session, timeout=60)
        said = [fact.event for fact in await store.read(row.session) if fact.type == "assistant_message"]
        print(f"{row.title} {ended.status}: {said[-1].content[0].text}")
    await supervisor.close()


async def main(path: Path, part: Callable[[SqliteStore], Awaitable[None]]) -> None:
    store = SqliteStore(path)
    await part(store)
    await store.close()


if len(sys.argv) > 1:
    asyncio.run(main(Path(sys.argv[1]), evening))
else:
    path = Path(tempfile.mkdtemp()) / "stable.db"
    asyncio.run(main(path, morning))
    subprocess.run([sys.executable, __file__, str(path)], check=True)
