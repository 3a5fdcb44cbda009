"""Asking something of a session that another process may hold."""
# MERGED: Answering what a run asked, or one of its children, from where the run is driven.
# MERGED: Sessions whose agent is another vendor's: no model of ours ever answers in them.

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from ostler.core.harness import Harness
from ostler.core.journal import Journal, World, open_journal
from ostler.core.questions import OpenQuestion
from ostler.core.state import SessionState
from ostler.core.store import Store
from ostler.schema.errors import SessionBusy, SessionHeld, UsageError
from ostler.schema.events import RequestRefused
from ostler.schema.requests import Answer, AnyRequest, Cancel
from ostler.sessions.inbox import SECRET_NEEDS_ITS_CALL
from ostler.sessions.lease import kill_orphans, new_owner
from ostler.sessions.session import RunOutcome, Session

MakeHarness = Callable[[], Awaitable[Harness]]


PATIENCE = 2.0
"""Seconds that the holder of a session has to take a request up while we wait."""


async def submit_now(
    store: Store,
    session: str,
    request: AnyRequest,
    world: World,
    make_harness: MakeHarness | None = None,
    attend: Callable[[Journal], None] | None = None,
) -> bool:
    """Puts a request into the inbox and, when nobody holds the session, takes it up at once.

    It drives nothing, so a model is only needed to write a summary: a harness brings it, made when the
    session is nobody's. Without one, `attend` may observe what is written here.
    False when the holder has not got to it yet: it will. Raises `UsageError` when it was refused.
    """
    is_free = await store.holder(session) is None
    harness = await make_harness() if make_harness and is_free else None  # a request that fails is not made
    last = await store.last_seq(session)
    await store.submit(session, request)
    while True:
        try:
            lease = await store.acquire(session, new_owner(world))
            break
        except SessionHeld:
            if await _is_taken_up(store, session, request.id, last):
                return True
            if await store.holder(session) is not None:
                return False
    try:
        journal = await open_journal(store, lease, world)
        await kill_orphans(journal)
        if await store.settled(session, request.id) is None:  # a holder that has just left was not faster
            if make_harness and harness is None:
                harness = await make_harness()
            await _take_up(journal, request, harness, attend)
    finally:
        await store.release(lease)
    return await _is_settled(store, session, request.id)


async def _take_up(
    journal: Journal,
    request: AnyRequest,
    harness: Harness | None,
    attend: Callable[[Journal], None] | None,
) -> None:
    from ostler.core.harness import harness_without_model
    from ostler.sessions.inbox import InboxReader
    from ostler.sessions.session import Session

    if harness is None:
        harness = harness_without_model(journal.state.cwd)
        harness.attend = attend
    session = Session(journal, harness)
    try:
        if isinstance(request, Cancel) and not request.call and journal.state.run is not None:
            await session.cancel_idle_run(request)
        else:
            await InboxReader(journal, harness, session=session).handle(request)
    finally:
        if harness.attendant is not None:
            await harness.attendant.on_close(session)


async def _is_taken_up(store: Store, session: str, request: str, after: int) -> bool:
    try:
        async with asyncio.timeout(PATIENCE), aclosing(store.follow(session, after)) as followed:  # type: ignore[type-var]
            async for _ in followed:
                if await _is_settled(store, session, request):
                    return True
    except TimeoutError:
        pass
    return False


async def _is_settled(store: Store, session: str, request: str) -> bool:
    seq = await store.settled(session, request)
    if seq is None:
        return False
    (fact,) = await store.read(session, seq - 1, 1)
    if isinstance(fact.event, RequestRefused):
        raise UsageError(fact.event.reason)
    return True


async def answer_question(
    session: Session, one: OpenQuestion, answer: Any = None, *, declined: bool = False, by: str = ""
) -> RunOutcome:
    """Answers a question of the session's run, or of a child below it, and drives both on."""
    if one.session == session.id:
        return await session.answer(one.asked.id, answer, declined=declined)
    if one.asked.question.secret and not declined:
        raise UsageError(SECRET_NEEDS_ITS_CALL)
    world = session.journal.world
    request = Answer(id=world.new_id("req"), by=by, question=one.asked.id, answer=answer, declined=declined)
    await submit_now(session.journal.store, one.session, request, world, attend=session.harness.attend)
    return await session.advance()


async def submit_to_agent(
    store: Store,
    state: SessionState,
    request: AnyRequest,
    world: World,
    attend: Callable[[Journal], None] | None = None,
) -> bool:
    """Into its inbox, for whoever drives the agent. Where nobody does, its run is closed, and only what the
    log is enough for is taken up: the rest raises `SessionBusy`."""
    from ostler.schema.requests import ALONE, OF_A_RUN
    from ostler.sessions.lease import close_dead_agent

    needs_no_agent = isinstance(request, (*ALONE, *OF_A_RUN))
    if await store.holder(state.id) is not None:
        is_new = await store.submit(state.id, request)
        if not needs_no_agent or await store.holder(state.id) is not None:  # else it has just been given back
            return is_new
    if state.run is not None and await close_dead_agent(store, state.id, world) is None:
        return await store.submit(state.id, request)  # somebody has just taken it up
    if not needs_no_agent:
        raise SessionBusy(has_ended(state.id))
    with suppress(UsageError):  # it was refused, and that is a fact
        await submit_now(store, state.id, request, world, attend=attend)
    return True


def has_ended(session: str) -> str:
    return f"the agent of session {session} has ended: start it again"
