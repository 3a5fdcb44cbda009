"""Requests to a session that another process may hold, or to another vendor's agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from ostler.core.harness import Harness, JournalListener, harness_without_model
from ostler.core.journal import Journal, World, open_journal
from ostler.core.questions import OpenQuestion
from ostler.core.state import SessionState
from ostler.core.store import Store, accepted
from ostler.schema.errors import SessionBusy, SessionHeld, UsageError
from ostler.schema.events import RequestRefused
from ostler.schema.requests import NEEDS_LOG, NEEDS_RUN, Answer, AnyRequest, Cancel
from ostler.sessions.inbox import SECRET_NEEDS_ITS_CALL
from ostler.sessions.lease import close_dead_agent, kill_orphans, new_owner
from ostler.sessions.session import RunOutcome, Session

MakeHarness = Callable[[], Awaitable[Harness]]
OnJournal = Callable[[Journal], None] | None

PATIENCE = 2.0
"""Seconds that the holder of a session has to handle a request while we wait."""


async def submit_now(
    store: Store,
    session: str,
    request: AnyRequest,
    world: World,
    make_harness: MakeHarness | None = None,
    on_journal: OnJournal = None,
) -> bool:
    """Submits a request and, if no process holds the session, handles it at once. It drives no run, so only a
    summary needs a model: `make_harness` is called if the session is free. Without it, `on_journal` gets the
    journal. False if the holder has not handled the request yet. Raises `UsageError` if it was refused."""
    request = accepted(request)
    is_free = await store.holder(session) is None
    harness = await make_harness() if make_harness and is_free else None  # may raise: before it submits
    last = await store.last_seq(session)
    await store.submit(session, request)
    while True:
        try:
            lease = await store.acquire(session, new_owner(world))
            break
        except SessionHeld:
            if await _is_settled_soon(store, session, request.id, last):
                return True
            if await store.holder(session) is not None:
                return False
    try:
        journal = await open_journal(store, lease, world)
        await kill_orphans(journal)
        if await store.settlement(session, request.id) is None:  # the former holder has not handled it
            if make_harness and harness is None:
                harness = await make_harness()
            await _handle(journal, request, harness, on_journal)
    finally:
        await store.release(lease)
    return await _is_settled(store, session, request.id)


async def _handle(
    journal: Journal, request: AnyRequest, harness: Harness | None, on_journal: OnJournal
) -> None:
    if harness is None:
        harness = harness_without_model(journal.state.cwd)
        harness.listeners = [JournalListener(on_journal)] if on_journal else []
    session = Session(journal, harness)
    try:
        if isinstance(request, Cancel) and not request.call and journal.state.run is not None:
            await session.cancel_idle_run(request)
        else:
            await session.handle(request)
    finally:
        for listener in harness.listeners:
            await listener.on_close(session)


async def _is_settled_soon(store: Store, session: str, request: str, after: int) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE), aclosing(store.follow(session, after)) as batches:  # type: ignore[type-var]
            async for _ in batches:
                if await _is_settled(store, session, request):
                    return True
    return False


async def _is_settled(store: Store, session: str, request: str) -> bool:
    seq = await store.settlement(session, request)
    if seq is None:
        return False
    (fact,) = await store.read(session, seq - 1, 1)
    if isinstance(fact.event, RequestRefused):
        raise UsageError(fact.event.reason)
    return True


async def answer_question(
    session: Session, one: OpenQuestion, answer: Any = None, *, declined: bool = False, by: str = ""
) -> RunOutcome:
    """Answers a question of the session's run, or of a child below it, and continues both."""
    if one.session == session.id:
        return await session.answer(one.asked.id, answer, declined=declined)
    if one.asked.question.secret and not declined:
        raise UsageError(SECRET_NEEDS_ITS_CALL)
    world = session.journal.world
    request = Answer(id=world.new_id("req"), by=by, question=one.asked.id, answer=answer, declined=declined)
    await submit_now(
        session.journal.store, one.session, request, world, on_journal=session.harness.on_journal
    )
    return await session.advance()


async def submit_to_agent(
    store: Store, state: SessionState, request: AnyRequest, world: World, on_journal: OnJournal = None
) -> bool:
    """Submits a request for the process that drives the agent. If there is none, closes its run, and handles
    only requests that need no agent; others raise `SessionBusy`."""
    needs_no_agent = isinstance(request, (*NEEDS_LOG, *NEEDS_RUN))
    if await store.holder(state.id) is not None:
        is_new = await store.submit(state.id, request)
        if not needs_no_agent or await store.holder(state.id) is not None:  # else it has just been released
            return is_new
    if state.run is not None and await close_dead_agent(store, state.id, world) is None:
        return await store.submit(state.id, request)  # another process has just taken it
    if not needs_no_agent:
        raise SessionBusy(has_ended(state.id))
    with suppress(UsageError):  # it was refused, and that is a fact
        await submit_now(store, state.id, request, world, on_journal=on_journal)
    return True


def has_ended(session: str) -> str:
    return f"the agent of session {session} has ended: start it again"
