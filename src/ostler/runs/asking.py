"""Asking something of a session that another process may hold."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from ostler.kernel.harness import Harness
from ostler.kernel.journal import Journal, World, open_journal
from ostler.kernel.store import Store
from ostler.runs.lease import new_owner
from ostler.runs.orphans import end_orphans
from ostler.vocabulary.errors import SessionHeld, UsageError
from ostler.vocabulary.events import RequestRefused
from ostler.vocabulary.requests import AnyRequest, Cancel

MakeHarness = Callable[[], Awaitable[Harness]]

PATIENCE = 2.0
"""Seconds that the holder of a session has to take a request up while we wait."""


async def ask(
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
        await end_orphans(journal)
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
    from ostler.runs.absent_model import harness_without_model
    from ostler.runs.inbox import InboxReader
    from ostler.runs.session import Session

    if harness is None:
        harness = harness_without_model(journal.state.cwd)
        harness.attend = attend
    session = Session(journal, harness)
    try:
        if isinstance(request, Cancel) and not request.call and journal.state.run is not None:
            await session.end_run(request)
        else:
            await InboxReader(journal, harness, session=session).take_up(request)
    finally:
        if harness.attendant is not None:
            await harness.attendant.leave(session)


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
