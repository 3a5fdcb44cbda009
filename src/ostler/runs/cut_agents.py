"""Other vendors' agents whose owner is gone: what is left of them is ended, and the log says so."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ostler.kernel.child import ChildResult
from ostler.kernel.journal import Journal, World, open_journal
from ostler.kernel.processes import sessions_with_processes
from ostler.kernel.store import Store
from ostler.runs.lease import new_owner
from ostler.runs.orphans import OWNED_AGENT, end_processes
from ostler.vocabulary import events
from ostler.vocabulary.errors import NotFound, SessionHeld
from ostler.vocabulary.messages import Text

CUT = "the process that ran it ended"
_UNKNOWN_EFFECT = "The process ended while this call ran; its effect may have happened, in part or in whole."


async def own_agent(parent: Journal, child: str) -> None:
    """Whoever takes the parent's session over after a crash ends the agent, also between two calls."""
    for _, process in await parent.store.owned_processes(child):
        await parent.store.own_process(parent.lease, OWNED_AGENT + child, process)


async def end_cut_agent(store: Store, child: str, world: World) -> ChildResult | None:
    """Ends the processes and the run that a dead owner left. None while its owner lives, or if it never
    began."""
    with suppress(SessionHeld, NotFound):
        journal = await open_journal(store, await store.acquire(child, new_owner(world)), world)
        try:
            await end_processes(store, child, world)
            await close_cut_run(journal)
        finally:
            await store.release(journal.lease)
        return ChildResult(child, "", "interrupted", reason=CUT)
    return None


async def end_cut_agents(store: Store, world: World) -> list[str]:
    """Those of all sessions that nobody drives, and whose run is open or whose processes live: between two
    runs, too, an agent may have started some that left its group. The sessions that had one."""
    ended = []
    left = await asyncio.to_thread(sessions_with_processes)
    for summary in await store.sessions():
        is_open = summary.status in ("running", "waiting") or summary.id in left
        is_other = summary.driver != "agent"
        if is_other and is_open and await end_cut_agent(store, summary.id, world) is not None:
            ended.append(summary.id)
    return ended


async def close_cut_run(journal: Journal) -> None:
    """Nothing more will come of it: nobody is to answer its questions, and its calls were interrupted."""
    run, last_ms = journal.state.run, journal.state.last_time_ms
    if run is None:
        return
    for question in tuple(journal.state.questions):
        journal.record(events.QuestionAnswered(question, "withdrawn"))
    if run.waiting is not None:
        journal.record(events.RunResumed())
    facts = await journal.store.read(journal.session, run.first_seq - 1)
    calls = [fact.event for fact in facts if isinstance(fact.event, events.ToolCalled)]
    results = [fact.event for fact in facts if isinstance(fact.event, events.ToolResultFact)]
    closed = {result.call for result in results}
    for call in calls:
        if call.call not in closed:
            said = (Text(_UNKNOWN_EFFECT),)
            journal.record(events.ToolResultFact(call.call, call.name, said, "tool_interrupted"))
    own = events.Totals(
        tool_calls=len(calls),
        refused_calls=sum(result.failed == "call_refused" for result in results),
        usage=run.usage,
        duration_ms=max(0, last_ms - run.time_ms),
    )
    journal.record(events.RunEnded("interrupted", CUT, own=own, cumulative=journal.state.usage))
    await journal.commit()
