"""A run that a supervisor has started."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING

from ostler.sessions.session import RunOutcome

if TYPE_CHECKING:
    from ostler.sessions.supervisor import Supervisor


class RunHandle:
    """A run that was started here. `async with` it, and it is cancelled when the block is left early.

    One that is detached goes on by itself, until it rests or the supervisor is closed.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        session: str,
        task: asyncio.Task[RunOutcome],
        rested: asyncio.Future[RunOutcome],
    ) -> None:
        self.session = session
        self._supervisor = supervisor
        self._task = task
        self._rested = rested
        self._is_detached = False

    async def result(self) -> RunOutcome:
        """How it came to rest. Whoever is cancelled here does not cancel the run."""
        await asyncio.wait({self._rested, self._task}, return_when=asyncio.FIRST_COMPLETED)
        return self._rested.result() if self._rested.done() else self._task.result()

    def detach(self) -> None:
        """From now on nobody's leaving cancels it."""
        self._is_detached = True

    async def __aenter__(self) -> RunHandle:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_detached and not self._rested.done() and not self._task.done():
            await self._supervisor.cancel(self.session)
            await asyncio.wait({self._rested, self._task}, return_when=asyncio.FIRST_COMPLETED)
