"""A program that leaves sessions whose runs wait: `python leaving_questions.py STORE CWD KIND,KIND KIND …`.

Each argument is a session, whose id it prints; the kinds are the questions that its run asks. With `--stay
KIND` it keeps running with a question that is never answered here, and prints the outcome.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema.events import QuestionAsked
from ostler.schema.messages import as_content
from ostler.schema.outcomes import NeedUser, Question
from ostler.sessions.session import create_session
from ostler.store.sqlite import SqliteStore

FORM = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}
QUESTIONS = {
    "choice": Question("Which colour?", "choice", choices=("Red", "Blue")),
    "form": Question("Where?", "form", form=FORM),
    "text": Question("Why?"),
    "secret": Question("The password?", secret=True),
}


@tool(parallel=True)
async def ask(kind: str) -> NeedUser:
    return NeedUser(QUESTIONS[kind])


async def leave(store: Path, cwd: Path, sessions: list[str]) -> None:
    database = SqliteStore(store)
    for kinds in sessions:
        calls = tuple(Call("ask", {"kind": kind}) for kind in kinds.split(","))
        harness = Harness(ScriptedModel([Turn("", calls)]), cwd=cwd, wait_for_answers=True)
        harness.set_tools([ask])
        session = await create_session(database, harness)
        await session.prompt(as_content("go"))
        await session.close()
        print(session.id)
    await database.close()


async def stay(store: Path, cwd: Path, kind: str) -> None:
    database = SqliteStore(store)

    async def never(asked: QuestionAsked) -> None:
        print(session.id, flush=True)
        await asyncio.get_running_loop().create_future()

    harness = Harness(ScriptedModel([Call("ask", {"kind": kind}), "done"]), cwd=cwd, asker=never)
    harness.set_tools([ask])
    session = await create_session(database, harness)
    await session.prompt(as_content("go"))
    print(session.state.transcript[-2].content)
    await session.close()
    await database.close()


if __name__ == "__main__":
    place, folder, *wanted = sys.argv[1:]
    asyncio.run(
        stay(Path(place), Path(folder), wanted[1])
        if wanted[0] == "--stay"
        else leave(Path(place), Path(folder), wanted)
    )
