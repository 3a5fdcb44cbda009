"""The tool `agent` in runs that a server drives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ostler.core.harness import Harness
from ostler.drivers.agent_tool import AgentTool
from ostler.models.scripted import Call
from tests.drivers.screen_agents import PATIENCE, QUICK
from tests.drivers.test_agent_tool import ECHO
from tests.server.served import serving


async def test_a_follower_of_the_parent_sees_the_agent_live_and_its_terminal_can_be_watched(
    tmp_path: Path,
) -> None:
    def equip(harness: Harness) -> None:
        harness.set_tools(
            [AgentTool({"echo": ECHO}, timing=QUICK, on_start=lambda agent: served.server.agents.add(agent))]
        )

    call = Call("agent", {"agent": "echo", "prompt": "/spin"})
    async with serving(tmp_path, call, "done", change=equip) as served, asyncio.timeout(PATIENCE):
        parent = await served.new_session("go")
        async with served.stream(f"sessions/{parent}/events") as seen:
            child = await until_spinning(seen)
        shown = await served.get(f"sessions/{child}")
        assert (shown["driver"], shown["child_of"]) == ("terminal", parent)
        screen = await served.get(f"sessions/{child}/terminal")
        assert "turn" in screen["text"]
        await served.ask(parent, "cancel")
        await served.rest(parent)
        assert served.server.agents.get(child) is None
        assert (await served.get(f"sessions/{child}"))["holder"] is None


async def until_spinning(seen: Any) -> str:
    """The child that says it."""
    async for event in seen:
        inner = event.get("event") or {}
        is_message = event["type"] == "child_event" and inner.get("name") == "terminal:message"
        if is_message and "turn" in (inner.get("value") or {}).get("text", ""):
            return str(event["child"])
    raise AssertionError("it ended before that")
