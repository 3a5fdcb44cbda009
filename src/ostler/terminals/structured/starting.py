"""Starting an agent that speaks a protocol, in a session of its own."""

from __future__ import annotations

from ostler import __version__
from ostler.kernel.journal import Journal, World
from ostler.kernel.state import fold
from ostler.kernel.store import Store
from ostler.runs.lease import new_owner
from ostler.runs.watching.channel import Channel
from ostler.terminals.starting import Attend
from ostler.terminals.structured.driver import StructuredAgent
from ostler.terminals.structured.session import StructuredSession
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
    attend: Attend = lambda journal: None,
) -> StructuredSession:
    """A new session, whose agent takes prompts. Where its agent cannot be started there is none."""
    world = world or World()
    first = Fact.of(
        events.SessionStarted(
            str(agent.cwd), __version__, driver=agent.transport, child_of=child_of, call=call
        ),
        seq=1,
        session=session or world.new_id("ses"),
        run="",
        time_ms=world.now_ms(),
    )
    lease = await store.create(first, new_owner(world))
    journal = Journal(store, lease, fold([first]), world)
    try:
        attend(journal)
        started = await _begun(journal, agent)
    except BaseException:
        for closed in journal.on_close:
            closed()
        await store.delete(journal.session, journal.lease.owner)
        raise
    channel = Channel(journal)
    journal.on_close.append(channel.close)
    try:
        await channel.open()
    except BaseException:
        await started.close()
        raise
    return started


async def _begun(journal: Journal, agent: StructuredAgent) -> StructuredSession:
    session = StructuredSession(journal, agent)
    try:
        await session.begin()
    except BaseException:
        await session.close()
        raise
    return session
