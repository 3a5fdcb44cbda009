"""A supervisor and the questions of children."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.model import ModelRequest
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.outcomes import NeedUser, Question
from ostler.sessions.agents import AgentSpec, DelegateTool
from ostler.sessions.supervisor import Supervisor
from ostler.store.memory import MemoryStore

CRITIC = AgentSpec(
    name="critic", description="Judges.", system="You judge.", tools=("choose",), scope="user", source="here"
)


@tool
async def choose() -> NeedUser:
    return NeedUser(Question("Which?"))


@tool
async def remove_all() -> str:
    return "gone"


@pytest.mark.parametrize("keep_open", [0.0, 60.0])
async def test_an_answered_child_continues_with_its_own_agent(keep_open: float) -> None:
    requests_seen: list[tuple[str, list[str]]] = []

    def answer(request: ModelRequest) -> Any:
        requests_seen.append((request.system.split("\n")[0], [offer.name for offer in request.tools]))
        is_child, has_result = request.transcript[0].text == "judge", request.transcript[-1].role == "tool"
        if has_result:
            return "done"
        return Call("choose") if is_child else Call("delegate", {"task": "judge", "agent": "critic"})

    def equip(cwd: Path) -> Harness:
        harness = Harness(ScriptedModel([answer] * 9), system="You lead.", cwd=cwd, wait_for_answers=True)
        harness.set_tools([choose, remove_all, DelegateTool({"critic": CRITIC})])
        return harness

    supervisor = Supervisor(MemoryStore(), equip, keep_open=keep_open)
    handle = await supervisor.start("go")
    assert isinstance(await handle.result(), RunWaiting)
    for _ in range(100):
        await asyncio.sleep(0)  # the open session has read its inbox, and waits
    (child,) = [row for row in await supervisor.list() if row.child_of]
    await supervisor.answer(child.session, child.questions[0].id, "this")
    ended = await supervisor.wait(handle.session, timeout=60)
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    assert requests_seen[1:3] == [("You judge.", ["choose"])] * 2
    await supervisor.close()
