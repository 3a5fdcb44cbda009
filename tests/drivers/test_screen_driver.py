"""The driver: process, screen and tracker together, seen by several, and still while nothing happens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.screen import open_screen
from ostler.drivers.screen_driver import ScreenDriver
from ostler.drivers.screen_stream import ScreenSubscription
from ostler.drivers.tracker import Event
from ostler.schema import events
from ostler.schema.errors import UsageError
from tests.drivers.screen_agents import PATIENCE, QUICK, at_work, echo_agent


async def seen_until(viewer: ScreenSubscription, text: str, columns: int = 80, rows: int = 100) -> list[str]:
    """What a terminal shows that is given what the viewer gets, once that text is on it."""
    screen = open_screen(columns, rows)
    try:
        async with asyncio.timeout(PATIENCE):
            while text not in "\n".join(screen.lines()):
                screen.feed(await viewer.next() or b"")
            return [line for line in screen.lines() if line]
    finally:
        screen.close()


async def test_two_viewers_see_the_same_screen_whenever_they_come(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        first = agent.session.view()
        await agent.until_stable()
        await agent.ask("one")
        second = agent.session.view()
        await agent.ask("two")
        shown = await seen_until(first, "you said: two")
        assert shown == await seen_until(second, "you said: two")
        assert shown[0] == "Hello, I repeat things."
        first.unsubscribe()
        await agent.ask("three")
        assert "> three" in await seen_until(second, "you said: three")
    rest = [await second.next(), await second.next()]
    assert rest[-1] is None


async def test_keys_are_typed_as_they_are_and_seen_on_the_screen(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        viewer = agent.session.view()
        agent.session.press(b"typed by hand")
        assert "> typed by hand" in await seen_until(viewer, "> typed by hand")
        assert agent.all(events.RunStarted) == []


async def test_a_resize_reaches_the_agent_the_screen_and_the_viewers(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        viewer = agent.session.view()
        agent.session.resize(100, 40)
        await agent.until_stable()
        await agent.ask("/size")
        assert agent.texts[-1] == "assistant: 100x40"
        assert "100x40" in await seen_until(viewer, "100x40", 100, 40)
        with pytest.raises(UsageError, match="10 to 5000"):
            agent.session.resize(1, 1)


async def test_what_the_agent_asks_its_terminal_is_answered(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        await agent.ask("/ask")
        assert agent.texts[-1].startswith("assistant: position ESC[")
        assert agent.texts[-1].endswith("R")


async def test_ten_megabytes_of_output_leave_the_loop_free_and_the_answer_whole(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        longest, before = 0.0, asyncio.get_running_loop().time()
        asking = asyncio.ensure_future(agent.ask("/flood 10000000"))
        while not asking.done():
            await asyncio.wait({asking}, timeout=0.01)
            now = asyncio.get_running_loop().time()
            longest, before = max(longest, now - before), now
        await asking
        assert agent.texts[-1].endswith("flooded")
        assert longest < 1.0


async def test_nothing_is_looked_at_while_nothing_happens(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        looks = count_looks(agent.session.driver)
        await asyncio.wait([agent.session.ended], timeout=4 * QUICK.stability)
        assert looks == []
        agent.session.press(b"x")
        await agent.until(lambda: looks)


def count_looks(terminal: ScreenDriver) -> list[float]:
    looks: list[float] = []
    original = terminal.tracker.look

    def look(now: float, *arguments: Any, **options: Any) -> list[Event]:
        looks.append(now)
        return original(now, *arguments, **options)

    terminal.tracker.look = look  # type: ignore[method-assign]
    return looks


def shell_agent(cwd: Path, script: str, agent_type: str = "custom") -> AgentSpec:
    return AgentSpec(command=("sh", "-c", script), cwd=cwd, agent_type=agent_type, rows=100, timing=QUICK)


OWN_SCREEN, LEFT = r"\033[?1049h", r"\033[?1049l"


@pytest.mark.parametrize("wiped", ["", r"\033[2J"])
async def test_what_an_agent_prints_when_it_has_left_its_own_screen_takes_back_nothing(
    tmp_path: Path, wiped: str
) -> None:
    said, bye = rf"{OWN_SCREEN}I have said it.\n> ", f"{LEFT}Until next time."
    script = f"printf '{said}'; read line; printf '{wiped}'; sleep 0.1; printf '{bye}'"
    async with at_work(shell_agent(tmp_path, script)) as agent:
        await agent.until_stable()
        agent.session.press(b"\r")
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([agent.session.ended])
        assert agent.session.last_screen == "Until next time."
        assert [message.text for message in agent.session.messages] == ["I have said it."]
        assert "message_revised" not in agent.types


async def test_an_agent_that_leaves_its_alternate_screen_is_read_on_the_primary_one(tmp_path: Path) -> None:
    script = (
        f"printf '{OWN_SCREEN}One.\\n> '; read line; printf '{LEFT}Two.\\n> '; read line; printf 'Three.'"
    )
    async with at_work(shell_agent(tmp_path, script)) as agent:
        await agent.until_stable()
        agent.session.press(b"\r")
        await agent.until(lambda: agent.session.messages[-1].text == "Two.")
        await agent.until_stable()
        agent.session.press(b"\r")
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([agent.session.ended])
        assert agent.session.messages[-1].text.endswith("Three.")


async def test_an_agent_that_wants_to_be_asked_twice_to_stop_is(tmp_path: Path) -> None:
    script = "stty raw -echo; printf ready; dd bs=1 count=2 2>/dev/null | od -An -tx1"
    async with at_work(shell_agent(tmp_path, script, "opencode")) as agent:
        await agent.until(lambda: "ready" in agent.session.screen_text)
        agent.session.interrupt()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([agent.session.ended])
        assert "1b 1b" in agent.session.last_screen
