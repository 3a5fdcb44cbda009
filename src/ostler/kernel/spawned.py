"""Children that no call has: extensions spawn them, in a run or between two."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw

from ostler.kernel.budget import Budget
from ostler.kernel.call_context import TASK_EXCERPT, record_child_end
from ostler.kernel.cancel import CancelToken
from ostler.kernel.child import ChildRequest, ChildResult, ChildWaits
from ostler.kernel.harness import Children, Harness
from ostler.kernel.journal import Journal
from ostler.vocabulary.errors import NotFound, OstlerError, StoreError
from ostler.vocabulary.events import ChildEnded, ChildEvent, ChildStarted, Event
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import text_of

Watch = Callable[[Sequence[Event | Fact]], None]
"""Sees what happens in a child, as it happens."""

WAITED = "it waited for somebody, and nobody could have come back to it later"
NEVER_BEGAN = "it was ended before it began"


async def _nothing() -> None:
    return None


class Spawned:
    """Those of a run, or, without a budget, those that a session has between its runs.

    - A run neither ends nor waits before they have ended. What cuts the run cuts them.
    - One that waits for somebody is ended: nobody could come back to it later.
    - None is ever started again: those that a dead process left get their end.
    """

    call = ""

    def __init__(
        self,
        journal: Journal,
        harness: Harness,
        children: Children | None,
        budget: Budget | None = None,
        hold: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        run = journal.state.run if budget is not None else None
        self.journal = journal
        self.harness = harness
        self.budget = budget
        self.session = journal.session
        self.run = run.id if run else ""
        self.root_run = (run.started.root or run.id) if run else ""
        self.depth = run.started.depth if run else -1  # a child that belongs to no run is a root itself
        self._children = children
        self._hold = hold
        """Makes sure of the session's lease."""
        self._tasks: dict[asyncio.Task[Any], Callable[[], None]] = {}
        """Each with how it is cut."""
        self._watching: dict[str, Watch] = {}

    def own(self, task: asyncio.Task[Any], cut: Callable[[], None]) -> None:
        """Work with a child and with what comes of it. It has ended when we have: `cut` makes it end soon."""
        self._tasks[task] = cut
        task.add_done_callback(self._tasks.pop)

    async def start(self, child: str, request: ChildRequest, extension: str, watch: Watch) -> ChildResult:
        """Runs a child to its end, whatever that is. Raises what code of others has raised meanwhile."""
        assert self._children is not None
        await self._hold()
        task = text_of(request.prompt)[:TASK_EXCERPT]
        self.journal.record(ChildStarted("", child, request.agent, task, extension), run=self.run)
        self._watching[child] = watch
        try:
            await self.journal.commit()
            result = await self._children.run(child, request, self)
            await self._record_end(result)
            return result
        except ChildWaits:
            return msgspec.structs.replace(await self._settle(child), reason=WAITED)
        except StoreError:
            raise
        except OstlerError as error:
            never = ChildResult(child, "", "failed", reason=error.message)
            return msgspec.structs.replace(await self._settle(child, never), reason=error.message)
        except BaseException:
            await self._settle(child)
            raise
        finally:
            del self._watching[child]

    def publish_trace(self, child: str, events: Sequence[Event | Fact]) -> None:
        spelled = [Raw(event.line()) if isinstance(event, Fact) else event for event in events]
        self.journal.publish([ChildEvent("", child, event) for event in spelled])
        if watch := self._watching.get(child):
            watch(events)

    async def _settle(self, child: str, never: ChildResult | None = None) -> ChildResult:
        """Makes a fact of the end. A child that has none gets one: `never`, if it never began."""
        assert self._children is not None
        ended = await self._children.end(child, "nobody waits for it", self.harness)
        result = ended or never or ChildResult(child, "", "cancelled", reason=NEVER_BEGAN)
        await self._record_end(result)
        return result

    async def _record_end(self, result: ChildResult) -> None:
        if self.journal.failed:
            return
        await self._hold()
        if self.budget is not None:
            record_child_end(self.journal, self.budget, result)
        elif result.session in self.journal.state.spawned:
            ended = ChildEnded("", result.session, result.status, result.own, result.children, result.reason)
            self.journal.record(ended, run="")
        await self.journal.commit()

    # --- ends ---------------------------------------------------------------------------------------

    async def rest(self, cancel: CancelToken) -> bool:
        """Waits until all have ended, or the run is cancelled. Says whether there were any."""
        if not self._tasks:
            return False
        cancelled = asyncio.ensure_future(cancel.wait())
        try:
            while self._tasks and not cancel.cancelled:
                await asyncio.wait({*self._tasks, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            cancelled.cancel()
        return True

    async def end(self) -> None:
        """Cuts those that are under way, and waits for their ends."""
        while self._tasks:
            for cut in tuple(self._tasks.values()):
                cut()
            await asyncio.wait(tuple(self._tasks))

    async def recover(self) -> None:
        """Gives those that a dead process left their end."""
        if self._tasks or self._children is None:
            return
        for child in await self._left():
            ended = await self._children.cut(child, self.harness)
            await self._record_end(ended or ChildResult(child, "", "interrupted", reason=NEVER_BEGAN))

    async def _left(self) -> list[str]:
        state, store = self.journal.state, self.journal.store
        if self.budget is not None:
            run = state.run
            return [child for child in run.open_children() if not run.children[child].call] if run else []
        left = []
        for child in sorted(state.spawned):  # those of a process that had the session before may still work
            with suppress(NotFound):
                if await store.holder(child) is not None:
                    continue
            left.append(child)
        return left
