"""What the lives of other vendors' agents have in common, however they are driven."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ostler.kernel.journal import Journal
from ostler.runs.asking import ask
from ostler.runs.lease import kept_lease
from ostler.runs.request_kinds import ALONE, OF_A_RUN
from ostler.terminals.driven import Observer
from ostler.terminals.inbox import AgentInbox
from ostler.vocabulary.errors import NotFound, StoreError, UsageError


class Observers:
    """Those who are told of one agent."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []

    def add(self, observer: Observer) -> Callable[[], None]:
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def changed(self) -> None:
        for observer in list(self._observers):
            observer.changed()

    def warned(self, problem: str) -> None:
        for observer in list(self._observers):
            observer.warned(problem)


async def live(
    journal: Journal,
    inbox: AgentInbox,
    stirred: asyncio.Event,
    ended: asyncio.Future[int],
    go_on: Callable[[], Awaitable[None]],
    end: Callable[[], Awaitable[None]],
) -> None:
    """Whatever stirs it, `go_on` makes facts of, one after the other, until the process has ended."""
    try:
        async with kept_lease(journal):
            async with inbox.watched():
                while not ended.done():
                    await stirred.wait()
                    stirred.clear()
                    await go_on()
            await end()
    except StoreError as error:
        journal.fail(error)


async def give_back(journal: Journal) -> None:
    """The session is anybody's again. Prompts wait for the agent's next life; other requests that came while
    it ended do not: they would stop, or answer, something else."""
    if not journal.failed:
        with suppress(StoreError):  # else the lease runs out by itself
            await journal.store.release(journal.lease)
    journal.close()
    if journal.failed:
        return
    with suppress(StoreError, NotFound):  # somebody has taken the session up, or deleted it
        for request in await journal.store.pending(journal.session):
            if isinstance(request, (*ALONE, *OF_A_RUN)):
                with suppress(UsageError):  # it was refused, and that is a fact
                    await ask(journal.store, journal.session, request, journal.world)


def outcome_for_a_sender() -> asyncio.Future[None]:
    """Nobody may wait for it: then a failure is the run's alone."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
    return outcome
