"""Starting an agent that speaks a protocol in a session of its own, or again in one that it had before."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ostler.kernel.journal import Journal, World
from ostler.kernel.store import Store
from ostler.runs.cut_agents import close_cut_run
from ostler.terminals.opening import Attend, new_journal, nobody, opened_again, show
from ostler.terminals.structured.driver import ConversationGone, StructuredAgent
from ostler.terminals.structured.session import CONVERSATION, CONVERSING, StructuredSession
from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact


async def start_structured_session(
    store: Store,
    agent: StructuredAgent,
    *,
    child_of: str = "",
    call: str = "",
    session: str = "",
    world: World | None = None,
    attend: Attend = nobody,
) -> StructuredSession:
    """A new session, whose agent takes prompts. Where its agent cannot be started there is none."""
    journal = await new_journal(
        store, agent.cwd, agent.transport, child_of=child_of, call=call, session=session, world=world
    )
    try:
        attend(journal)
        started = await _begun(journal, agent)
    except BaseException:
        journal.close()
        await store.delete(journal.session, journal.lease.owner)
        raise
    await show(started)
    return started


async def restart_structured_session(
    store: Store,
    session: str,
    agent: StructuredAgent,
    *,
    world: World | None = None,
    attend: Attend = nobody,
) -> StructuredSession:
    """Another life of the agent in the same session, whose log goes on.

    What an owner that died has left running is ended first, and its run is closed. An agent that can goes on
    with its own conversation; of one that cannot, the log says so.
    """
    journal = await opened_again(store, session, agent.transport, world)
    try:
        attend(journal)
        await close_cut_run(journal)
        before = await store.read(session)
        agent = msgspec.structs.replace(agent, conversation=_conversation_in(before))
        try:
            started = await _begun(journal, agent, before)
        except ConversationGone:
            started = await _begun(journal, msgspec.structs.replace(agent, conversation=""), before)
    except BaseException:
        journal.close()
        await store.release(journal.lease)
        raise
    await show(started)
    return started


def _conversation_in(facts: Sequence[Fact]) -> str:
    """What the agent called it last."""
    for fact in reversed(facts):
        match fact.event:
            case events.Audited(decision=decision, details=dict(about)) if decision == CONVERSING:
                return str(about.get(CONVERSATION) or "")
    return ""


async def _begun(journal: Journal, agent: StructuredAgent, before: Sequence[Fact] = ()) -> StructuredSession:
    session = StructuredSession(journal, agent, before)
    try:
        await session.begin()
    except BaseException:
        await session.close()
        raise
    return session
