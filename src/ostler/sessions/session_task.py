"""One session that a supervisor drives, and the handle of a run it started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from ostler.schema.errors import NotFound, SessionHeld, StoreError
from ostler.schema.events import Event, RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.sessions.lease import suspend_lease
from ostler.sessions.run_tree import next_arrival
from ostler.sessions.session import RunOutcome, Session

if TYPE_CHECKING:
    from ostler.sessions.supervisor import Supervisor

RELEASE_TIMEOUT = 2.0
"""Seconds that a session has to be closed after its run."""


class SessionTask:
    """Drives a session until nothing more can move it, keeps it open for a while, and closes it."""

    def __init__(
        self, supervisor: Supervisor, session: Session, first: Coroutine[Any, Any, RunOutcome]
    ) -> None:
        """`first` is the call that starts the run: `session.prompt` or `session.advance`."""
        self.session = session
        self.idle: asyncio.Future[RunOutcome] = asyncio.get_running_loop().create_future()
        """The outcome of `first`; after that the task runs queued prompts."""
        self._supervisor = supervisor
        self._stay: asyncio.Timeout | None = None
        """The time limit of an idle session that is kept open."""
        self._is_released = False
        self.task = asyncio.ensure_future(self._drive(first))

    async def wait_until_started(self) -> None:
        """Until the run is a fact, because a request before that would be refused, even a cancel; or until
        it has a question."""
        session = self.session
        started = asyncio.get_running_loop().create_future()

        def check(batch: Sequence[Fact | Event]) -> None:
            if (session.state.run is not None or session.state.questions) and not started.done():
                started.set_result(None)

        check(())
        stop = session.subscribe(check)
        try:
            await asyncio.wait({self.task, self.idle, started}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            session.cancel("the code that started it was cancelled")
            raise
        finally:
            stop()

    def end_stay(self) -> bool:
        """Closes the session now if it is only kept open; False if it is not."""
        if self._stay is None:
            return False
        self._stay.reschedule(asyncio.get_running_loop().time())
        return True

    async def release(self) -> bool:
        """Closes the session if it is idle or about to be; False if it still works."""
        self._is_released = True
        try:
            run = self.session.state.run
            if self.end_stay() or run is None or run.waiting:
                await asyncio.wait({self.task}, timeout=RELEASE_TIMEOUT)
        finally:
            self._is_released = False
        return self.task.done()

    async def _drive(self, first: Coroutine[Any, Any, RunOutcome]) -> RunOutcome:
        supervisor, session = self._supervisor, self.session
        try:
            outcome = await first
            self.idle.set_result(outcome)
            last = outcome
            while isinstance(last, RunEnded) and not supervisor.is_closing:
                last = await session.advance()
                outcome = last or outcome
            if supervisor.keep_open:
                outcome = await self._stay_open() or outcome
        finally:
            supervisor.remove(self)
            await session.close()
            if not supervisor.uses_model(session.harness.model):
                await session.harness.model.aclose()
        if not supervisor.is_closing:
            await supervisor.recheck(session, outcome)
        return outcome

    async def _stay_open(self) -> RunOutcome:
        """Handles requests until none arrives for `keep_open` seconds and the session is not wanted, or
        another process continues it."""
        supervisor, session = self._supervisor, self.session
        outcome: RunOutcome = None
        seen: dict[str, int] = {}
        foreign_write = asyncio.ensure_future(self._wait_for_foreign_write())
        try:
            while not supervisor.is_closing and not self._is_released:
                await suspend_lease(session.journal)
                arrival = asyncio.ensure_future(next_arrival(supervisor.store, session.state, seen))
                try:
                    async with asyncio.timeout(supervisor.keep_open) as self._stay:
                        await asyncio.wait({arrival, foreign_write}, return_when=asyncio.FIRST_COMPLETED)
                except TimeoutError:
                    if supervisor.is_closing or self._is_released or not supervisor.is_wanted(session.id):
                        break
                    continue
                finally:
                    self._stay = None
                    arrival.cancel()
                if foreign_write.done():
                    break
                await arrival
                try:
                    while (last := await session.advance()) is not None:
                        outcome = last
                        if isinstance(last, RunWaiting):
                            break
                except SessionHeld:
                    break
        finally:
            foreign_write.cancel()
        return outcome

    async def _wait_for_foreign_write(self) -> None:
        """Returns when another process has continued the session: subscribers here must see its facts."""
        session, store = self.session, self._supervisor.store
        async with aclosing(store.follow(session.id, session.state.last_seq)) as batches:  # type: ignore[type-var]
            with suppress(NotFound, StoreError):  # `advance` raises them
                async for batch in batches:
                    if batch[-1].seq > session.state.last_seq:
                        return


class RunHandle:
    """A run that was started here. `async with` it to cancel the run when the block is left early."""

    def __init__(self, task: SessionTask, cancel: Callable[[str], Awaitable[str]]) -> None:
        self.session = task.session.id
        self._task = task.task
        self._idle = task.idle
        self._cancel = cancel
        self._is_detached = False

    async def result(self) -> RunOutcome:
        """How the run ended, or what it waits for. Cancelling this call does not cancel the run."""
        await asyncio.wait({self._idle, self._task}, return_when=asyncio.FIRST_COMPLETED)
        return self._idle.result() if self._idle.done() else self._task.result()

    def detach(self) -> None:
        """Lets the run continue after the block, until it is idle or the supervisor is closed."""
        self._is_detached = True

    async def __aenter__(self) -> RunHandle:
        return self

    async def __aexit__(self, *error: object) -> None:
        if not self._is_detached and not self._idle.done() and not self._task.done():
            await self._cancel(self.session)
            await asyncio.wait({self._idle, self._task}, return_when=asyncio.FIRST_COMPLETED)
