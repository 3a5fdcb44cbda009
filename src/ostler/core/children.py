"""Children: requests and results of child runs; `SpawnedChildren` are those that extensions start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from ostler.core.budget import Budget
from ostler.core.cancellation import CancelToken
from ostler.core.journal import Journal
from ostler.core.run_state import BudgetUse
from ostler.schema.errors import NotFound, OstlerError, StoreError
from ostler.schema.events import ChildEnded, ChildEvent, ChildStarted, Event, Limits, RunStatus, Totals
from ostler.schema.facts import Fact
from ostler.schema.ids import blake2b
from ostler.schema.messages import Message, PlainBlock, text_of

if TYPE_CHECKING:
    from ostler.core.harness import Children, OpenSession


DEFAULT_DEPTH = 3
"""How deep children may nest, unless the settings say otherwise."""

MAX_TOGETHER = 8
"""Children of one run that work in parallel; more wait. Each of them may have as many."""

TASK_EXCERPT = 200


class HistoryPolicy(msgspec.Struct, frozen=True):
    """What a child knows of its parent's conversation: the prompts and answers of its last `runs` runs. The
    current run is the last one: with 1 the child gets the parent's prompt."""

    runs: int = 0
    keep: Callable[[Message], bool] | None = None
    """Selects messages of those runs, instead of prompts and answers. A call is kept only with its result."""


class TracePolicy(msgspec.Struct, frozen=True):
    """What is published of a child live, under its parent's call. Its own log has everything."""

    live: bool = True


class ExecutionPolicy(msgspec.Struct, frozen=True):
    """How a child works, where that differs from its parent."""

    model: str = ""
    tools: tuple[str, ...] | None = None
    """A subset of its parent's; a child never has more."""
    system: str = ""
    """Replaces its parent's system prompt."""
    append_system: str = ""
    limits: Limits = Limits()
    """For the child and its own children. Its parents' limits apply as well."""
    context: dict[str, dict[str, Any]] = {}
    judge: str = ""
    """The tool whose last result is the child's result, instead of its answer."""


class ChildRequest(msgspec.Struct, frozen=True):
    """What a child does, and how."""

    prompt: tuple[PlainBlock, ...]
    agent: str = ""
    """Its name in the log. The policies say how it works: no file is read for it."""
    resumes: str = ""
    """The session of an earlier child, whose whole conversation this one gets."""
    history: HistoryPolicy = HistoryPolicy()
    trace: TracePolicy = TracePolicy()
    execution: ExecutionPolicy = ExecutionPolicy()


class ChildResult(msgspec.Struct, frozen=True):
    """The result of a child. `text` is its answer, or the part that there was when the child was stopped."""

    session: str
    run: str
    status: RunStatus
    text: str = ""
    reason: str = ""
    judged: dict[str, Any] | None = None
    own: Totals = Totals()
    children: Totals = Totals()

    @property
    def is_whole(self) -> bool:
        return self.status == "completed"


class ChildStatus(msgspec.Struct, frozen=True):
    """Whether a child waits for a request, and what it and its children have used."""

    waits: bool
    used: BudgetUse


class ChildWaits(Exception):
    """The child waits for the user; its parent's call stays open until the child has ended."""

    def __init__(self, child: str) -> None:
        super().__init__(f"waits for the child {child}")
        self.child = child


def child_session(session: str, call: str, number: int) -> str:
    """The same id for the same child: a crash cannot start it twice."""
    return "ses_" + blake2b(f"{session}/{call}/{number}".encode(), digest_size=12).hexdigest()


Watch = Callable[[Sequence[Event | Fact]], None]

Hold = Callable[[], Awaitable[None]] | None
"""Makes sure that we hold the session's lease."""

WAITED = "it waited for the user, and nothing could continue it later"
NEVER_BEGAN = "it was ended before it started"


class SpawnedChildren:
    """Children of a run, or, without a budget, of a session between its runs.

    - A run neither ends nor waits before they have ended. What cancels the run cancels them.
    - One that waits for the user is ended: nothing could continue it later.
    - None is started again: recovery ends those that a dead process left.
    """

    call = ""

    def __init__(
        self, session: OpenSession, children: Children | None, budget: Budget | None = None, hold: Hold = None
    ) -> None:
        run = session.journal.state.run if budget is not None else None
        self.journal = session.journal
        self.harness = session.harness
        self.position = session.position
        self.budget = budget
        self.session = session.id
        self.run = run.id if run else ""
        self.root_run = (run.started.root or run.id) if run else ""
        self.depth = run.started.depth if run else -1  # a child that belongs to no run is a root itself
        self._children = children
        self._hold = hold
        self._tasks: dict[asyncio.Task[Any], Callable[[], None]] = {}
        """Each with the function that cancels it."""
        self._watching: dict[str, Watch] = {}

    def own(self, task: asyncio.Task[Any], cancel_task: Callable[[], None]) -> None:
        """Adds a task that works with a child: `cancel` calls `cancel_task`, and waits for the task."""
        self._tasks[task] = cancel_task
        task.add_done_callback(self._tasks.pop)

    async def start(self, child: str, request: ChildRequest, extension: str, watch: Watch) -> ChildResult:
        """Runs a child to its end. Raises what third-party code has raised meanwhile."""
        assert self._children is not None
        if self._hold:
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
            return msgspec.structs.replace(await self._end(child), reason=WAITED)
        except StoreError:
            raise
        except OstlerError as error:
            unstarted = ChildResult(child, "", "failed", reason=error.message)
            return msgspec.structs.replace(await self._end(child, unstarted), reason=error.message)
        except BaseException:
            await self._end(child)
            raise
        finally:
            del self._watching[child]

    def publish_trace(self, child: str, events: Sequence[Event | Fact]) -> None:
        publish_child_events(self.journal, "", child, events)
        if watch := self._watching.get(child):
            watch(events)

    async def _end(self, child: str, unstarted: ChildResult | None = None) -> ChildResult:
        """Ends a child that has not ended, and records it; `unstarted` is the result if it never started."""
        assert self._children is not None
        ended = await self._children.end(child, "nothing waits for it", self.harness)
        result = ended or unstarted or ChildResult(child, "", "cancelled", reason=NEVER_BEGAN)
        await self._record_end(result)
        return result

    async def _record_end(self, result: ChildResult) -> None:
        if self.journal.failed:
            return
        if self._hold:
            await self._hold()
        if self.budget is not None:
            record_child_end(self.journal, self.budget, result)
        elif result.session in self.journal.state.spawned:
            self.journal.record(_end_of(result, ""), run="")
        await self.journal.commit()

    async def join(self, cancel: CancelToken) -> bool:
        """Waits until all have ended, or the run is cancelled. False if there were none."""
        if not self._tasks:
            return False
        cancelled = asyncio.ensure_future(cancel.wait())
        try:
            while self._tasks and not cancel.cancelled:
                await asyncio.wait({*self._tasks, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            cancelled.cancel()
        return True

    async def cancel(self) -> None:
        while self._tasks:
            for cancel_task in tuple(self._tasks.values()):
                cancel_task()
            await asyncio.wait(tuple(self._tasks))

    async def recover(self) -> None:
        """Records an end for those that a dead process left."""
        if self._tasks or self._children is None:
            return
        for child in await self._open_ids():
            ended = await self._children.cut(child, self.harness)
            await self._record_end(ended or ChildResult(child, "", "interrupted", reason=NEVER_BEGAN))

    async def _open_ids(self) -> list[str]:
        state, store = self.journal.state, self.journal.store
        if self.budget is not None:
            run = state.run
            return [child for child in run.open_children() if not run.children[child].call] if run else []
        orphans = []
        for child in sorted(state.spawned):  # one that another process started may still work
            with suppress(NotFound):
                if await store.holder(child) is not None:
                    continue
            orphans.append(child)
        return orphans


def publish_child_events(journal: Journal, call: str, child: str, batch: Sequence[Event | Fact]) -> None:
    """Publishes a child's events live in its parent's session."""
    encoded = [Raw(event.line()) if isinstance(event, Fact) else event for event in batch]
    journal.publish([ChildEvent(call, child, event) for event in encoded])


def record_child_end(journal: Journal, budget: Budget | None, result: ChildResult) -> None:
    """Records a child's end, once: from then on its use counts as that of its parent's children."""
    run = journal.state.run
    child = run.children.get(result.session) if run else None
    if child is not None and child.ended is None and not journal.failed:
        journal.record(_end_of(result, child.call))
        if budget is not None:
            budget.forget(result.session)


def _end_of(result: ChildResult, call: str) -> ChildEnded:
    return ChildEnded(call, result.session, result.status, result.own, result.children, result.reason)
