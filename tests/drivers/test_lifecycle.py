"""Another life of an agent that speaks a protocol, in the same session; and what a killed owner leaves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.core.journal import World
from ostler.core.store import Store
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.lifecycle import restart_agent_session
from ostler.schema import events, requests
from ostler.schema.errors import OstlerError, SessionHeld, UsageError
from ostler.schema.facts import Fact
from ostler.sessions.run_tree import latest_run
from ostler.sessions.supervisor import Supervisor, kill_orphan_tools
from ostler.store.invariants import broken_invariants, violations
from ostler.store.memory import MemoryStore
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_maintenance import check
from tests.drivers.protocol_agents import AtWork, acp_agent, at_work, claude
from tests.drivers.screen_agents import wait_until_gone

Make = Callable[..., AgentSpec]


@pytest.fixture(params=[acp_agent, claude], ids=["acp", "stream-json"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def texts(agent: AtWork) -> list[tuple[int, str]]:
    return [(one.id, one.text) for one in agent.session.messages]


async def told(store: Store, session: str, kind: str) -> list[Fact]:
    return [fact for fact in await store.read(session) if fact.type == kind]


async def test_a_restarted_agent_continues_and_repeats_nothing(make: Make, tmp_path: Path) -> None:
    store = MemoryStore()
    async with at_work(make(tmp_path), store) as first:
        await first.say("one two")
        session, said = first.session.id, texts(first)
        with pytest.raises(SessionHeld):
            await restart_agent_session(store, session, make(tmp_path))
    async with at_work(make(tmp_path), store, again=session) as second:
        assert texts(second) == said
        await second.say("recall")
        assert second.answers == ["one two\nrecall\n"]
        assert [one.id for one in second.session.messages] == [0, 1, 2, 3]
        assert not second.all(events.Warned)
    assert len(await told(store, session, "assistant_message")) == 2
    assert len(await told(store, session, "run_started")) == 2
    named = [fact for fact in await told(store, session, "audited") if b"agent.conversation" in fact.body]
    assert len(named) == 1


def forget(folder: Path) -> None:
    for memory in folder.iterdir():
        memory.unlink()


@pytest.mark.parametrize("make", [pytest.param(acp_agent, marks=pytest.mark.long), claude])
async def test_an_agent_that_lost_its_conversation_starts_over_with_a_warning(
    make: Make, tmp_path: Path
) -> None:
    store = MemoryStore()
    async with at_work(make(tmp_path), store) as first:
        await first.say("one two")
    session = first.session.id
    forget(tmp_path)
    async with at_work(make(tmp_path), store, again=session) as second:
        (notice,) = await told(store, session, "warned")
        assert "does not remember" in notice.event.text  # type: ignore[union-attr]
        await second.say("recall")
        assert second.answers == ["recall\n"]
    async with at_work(make(tmp_path), store, again=session) as third:
        await third.say("recall")
        assert third.answers == ["recall\nrecall\n"]
    assert len(await told(store, session, "warned")) == 1


@pytest.mark.long
async def test_an_agent_that_cannot_load_conversations_starts_over(tmp_path: Path) -> None:
    store = MemoryStore()
    async with at_work(acp_agent(tmp_path, "--forgets"), store) as first:
        await first.say("one two")
    async with at_work(acp_agent(tmp_path, "--forgets"), store, again=first.session.id) as second:
        assert len(await told(store, second.session.id, "warned")) == 1
        await second.say("hello")


async def test_an_agent_without_messages_restarts_without_a_warning(tmp_path: Path) -> None:
    store = MemoryStore()
    async with at_work(claude(tmp_path), store) as first:
        pass
    async with at_work(claude(tmp_path), store, again=first.session.id) as second:
        await second.say("hello")
        assert not await told(store, second.session.id, "warned")


async def test_an_agent_that_does_not_start_again_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    store = MemoryStore()
    async with at_work(claude(tmp_path), store) as first:
        await first.say("one")
    session = first.session.id
    before = await store.read(session)
    with pytest.raises(OstlerError, match="no key was found"):
        await restart_agent_session(store, session, claude(tmp_path, "--die"))
    with pytest.raises(UsageError, match="is driven by stream-json, and not by acp"):
        await restart_agent_session(store, session, acp_agent(tmp_path))
    assert await store.holder(session) is None
    assert await store.read(session) == before


# --- after `kill -9` --------------------------------------------------------------------------------

OWNER = """
import asyncio, sys
from contextlib import AsyncExitStack
from pathlib import Path
from ostler.store.sqlite import SqliteStore
from tests.drivers.protocol_agents import at_work, claude

async def main(folder):
    store = SqliteStore(folder / "ostler.db")
    async with AsyncExitStack() as stack:
        for _ in range(3):
            agent = await stack.enter_async_context(at_work(claude(folder), store))
            asyncio.ensure_future(agent.session.send("run ls -l"))
            await agent.question()
            print(agent.session.id, agent.session.driver.process.id.pid, flush=True)
        await asyncio.sleep(1000)

asyncio.run(main(Path(sys.argv[1])))
"""


def killed_owner(folder: Path) -> list[str]:
    """The sessions of a process that was killed while an agent in each of them asked something."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as owner:
        assert owner.stdout is not None
        lines = [owner.stdout.readline().split() for _ in range(3)]
        owner.kill()
    for _, pid in lines:
        assert wait_until_gone(int(pid))
    return [session for session, _ in lines]


async def is_closed(store: Store, session: str) -> None:
    facts = await store.read(session)
    assert violations(facts) == []
    by_type = {fact.type: fact.event for fact in facts}
    assert by_type["question_answered"].outcome == "withdrawn"  # type: ignore[union-attr]
    result, ended = by_type["tool_result"], by_type["run_ended"]
    assert isinstance(result, events.ToolResultFact) and isinstance(ended, events.RunEnded)
    assert result.failed == "tool_interrupted"
    assert (ended.status, ended.own.tool_calls) == ("interrupted", 1)


async def test_the_next_owner_closes_what_a_killed_owner_left_open(tmp_path: Path) -> None:
    asked, started, served = await asyncio.to_thread(killed_owner, tmp_path)
    store = SqliteStore(tmp_path / "ostler.db")
    for session in (asked, started, served):
        row = await latest_run(store, session)
        assert row is not None and row.status == "cut"
        assert not list(broken_invariants(await store.read(session), at_rest=False))
    assert check(tmp_path / "ostler.db") == []

    supervisor = Supervisor(store, lambda cwd: pytest.fail("no model answers here"))
    await supervisor.submit(asked, requests.Cancel(id="req_1"))
    await is_closed(store, asked)
    await supervisor.close()

    async with at_work(claude(tmp_path), store, again=started) as again:
        await is_closed(store, started)
        await again.say("recall")
        assert again.answers == ["run ls -l\nrecall\n"]

    await kill_orphan_tools(store, World())
    await is_closed(store, served)
    assert check(tmp_path / "ostler.db") == []
    await store.close()
