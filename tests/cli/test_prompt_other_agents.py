"""Commands that need a model refuse a session of another vendor's agent in one line."""

from __future__ import annotations

import asyncio

import pytest

from ostler.core.journal import World
from ostler.drivers.inbox import release_journal
from ostler.drivers.lifecycle import new_journal
from ostler.schema import events
from ostler.schema.messages import Text
from ostler.store.sqlite import SqliteStore
from tests.drivers.screen_agents import at_work, echo_agent
from tests.support.command import Ostler
from tests.support.fixtures import Configure


@pytest.fixture
def session(ostler: Ostler) -> str:
    """One whose agent has ended."""

    async def made() -> str:
        ostler.home.mkdir(exist_ok=True)
        store = SqliteStore(ostler.store)
        async with at_work(echo_agent(ostler.work), store) as agent:
            await agent.until_stable()
        await store.close()
        return agent.session.id

    return asyncio.run(made())


def test_no_command_runs_a_model_in_another_vendors_session(
    ostler: Ostler, configure: Configure, session: str
) -> None:
    for arguments in (
        ("-p", "--session", session, "hello"),
        ("-p", "--session", session, "--model", "demo", "hello"),
        ("-p", "--session", session, "--model", "demo", "--json", "hello"),
        ("resume", session, "--model", "demo"),
        ("steer", session, "hello"),
    ):
        ran = ostler(*arguments)
        assert (ran.code, ran.out) == (2, "")
        (line,) = ran.err.splitlines()
        assert "belongs to another vendor's agent" in line
        assert "start its agent again" in line


def test_the_terminal_does_not_open_another_vendors_session(
    ostler: Ostler, configure: Configure, session: str
) -> None:
    ran = ostler.on_terminal("--session", session, "--model", "demo")
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert "belongs to another vendor's agent" in line


def test_continue_skips_sessions_of_other_vendors(ostler: Ostler, configure: Configure, session: str) -> None:
    ran = ostler("-p", "--continue", "--model", "demo", "hello")
    assert ran.code == 0
    assert "starting a new one" in ran.err


async def test_a_message_is_shown_as_last_revised(ostler: Ostler) -> None:
    ostler.home.mkdir()
    store = SqliteStore(ostler.store)
    started = events.SessionStarted(str(ostler.work), "0.1.0", driver="terminal")
    journal = await new_journal(store, started, "ses_drawn", World())
    seq = journal.record(events.AssistantMessage("", (Text("the first half"),), "end")).seq
    for text in ("the first half,", "the first half, the second"):
        journal.record(events.MessageRevised(seq, (Text(text),)))
    await journal.commit()
    await release_journal(journal)
    await store.close()
    for arguments in (("show",), ("export", "--format", "markdown")):
        ran = await asyncio.to_thread(ostler, "sessions", *arguments, "ses_drawn")
        assert (ran.code, ran.out.count("first half")) == (0, 1)
        assert "the first half, the second\n" in ran.out
