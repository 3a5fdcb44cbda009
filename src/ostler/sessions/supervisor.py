"""The supervisor: drives many sessions in one process, and sends requests to those of other processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from ostler.core.harness import Harness, JournalListener
from ostler.core.journal import EventHandler, Journal, World
from ostler.core.model import AbsentModel, Model
from ostler.core.state import SessionState, fold
from ostler.core.store import Store
from ostler.schema import requests
from ostler.schema.errors import NoModel, NotFound, OstlerError, SessionBusy, SessionHeld, UsageError
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.messages import PlainBlock, as_content
from ostler.schema.requests import NEEDS_DRIVER, NEEDS_LOG, NEEDS_RUN, AnyRequest
from ostler.sessions.inbox import SECRET_NEEDS_ITS_CALL
from ostler.sessions.lease import close_dead_agents, kill_session_processes, new_owner
from ostler.sessions.run_tree import RunRow, is_stuck, latest_run, list_runs, load_state, root_of
from ostler.sessions.session import RunOutcome, Session, create_session, open_session, require_own_agent
from ostler.sessions.session_task import RunHandle, SessionTask
from ostler.sessions.submit import submit_now, submit_to_agent

Equip = Callable[[Path], Harness | Awaitable[Harness]]
"""Builds the harness for a directory; each session gets its own."""

Prompt = str | Iterable[str | PlainBlock]


class Supervisor:
    """Starts runs and sends them requests, wherever they run.

    - The log decides the outcome of a run: a late completion never overwrites a cancel.
    - A session is driven until nothing more can move, then its lease is released so that any process can
      continue. With `keep_open`, that is so many seconds later, and not while `is_wanted` is true: until then
      extensions stay loaded. It is at once if another process continues the session.
    - Requests to a session that another process holds go through its inbox.
    """

    def __init__(
        self,
        store: Store,
        equip: Equip,
        *,
        keep_open: float = 0,
        is_wanted: Callable[[str], bool] = lambda session: False,
        on_bare_journal: Callable[[Journal], None] | None = None,
    ) -> None:
        """`on_bare_journal` gets the sessions that are opened for a request that needs no harness."""
        self.store = store
        self.keep_open = keep_open
        self.is_wanted = is_wanted
        self.is_closing = False
        self._on_bare_journal = on_bare_journal
        self._equip = equip
        self._world = World()
        self._tasks: dict[str, SessionTask] = {}
        self._unfinished: set[asyncio.Task[RunOutcome]] = set()
        """Includes the tasks whose session is being closed."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held while a session is opened, so that nothing is loaded twice."""
        self._observers: list[Callable[[str], EventHandler]] = []
        self._secrets: dict[str, Any] = {}
        """Secret answers, by the requests that wait for them here."""

    def subscribe(self, make: Callable[[str], EventHandler]) -> None:
        """`make` gets the id of each session driven here, children included, and returns its handler."""
        self._observers.append(make)

    async def start(
        self, prompt: Prompt, *, session: str = "", cwd: Path | None = None, request: str = ""
    ) -> RunHandle:
        """Starts a run in a new session, or in `session` if nothing drives it; use `queue` for a busy one.
        The same `request` id twice is one run."""
        self._refuse_when_closing()
        content = as_content(prompt)
        if not session:
            harness = await self._equipped(cwd or Path.cwd())
            new = await create_session(self.store, harness, world=self._world)
            task = self._begin(new, new.prompt(content, request=request))
        else:
            async with self._opening(session):
                if session in self._tasks:
                    raise UsageError(f"session {session} is driven already: queue the prompt, or steer it")
                opened = await self._open(session)
                task = self._begin(opened, opened.prompt(content, request=request))
        await task.wait_until_started()
        return RunHandle(task, self.cancel)

    async def advance(self, session: str) -> RunHandle:
        """Drives a session on from its last fact: an interrupted run, or requests in its inbox."""
        self._refuse_when_closing()
        session = await self._root_id(session)
        async with self._opening(session):
            if (task := self._tasks.get(session)) is not None:
                return RunHandle(task, self.cancel)
            opened = await self._open(session)
            task = self._begin(opened, opened.advance())
        await task.wait_until_started()
        return RunHandle(task, self.cancel)

    def _opening(self, session: str) -> asyncio.Lock:
        return self._locks.setdefault(session, asyncio.Lock())

    async def _root_id(self, session: str) -> str:
        """A child is driven through its root, or it would have other tools, limits and guards."""
        return (await root_of(self.store, await load_state(self.store, session))).id

    def _begin(self, session: Session, first: Coroutine[Any, Any, RunOutcome]) -> SessionTask:
        task = self._tasks[session.id] = SessionTask(self, session, first)
        self._unfinished.add(task.task)
        task.task.add_done_callback(self._unfinished.discard)
        return task

    def remove(self, task: SessionTask) -> None:
        self._tasks.pop(task.session.id, None)

    async def _open(self, session: str) -> Session:
        (first,) = await self.store.read(session, 0, 1)
        require_own_agent(session, getattr(first.event, "driver", ""))
        harness = await self._equipped(Path(getattr(first.event, "cwd", ".")))
        opened = await open_session(self.store, session, harness, world=self._world)
        settings = opened.state.settings
        if settings.model and harness.make_model is not None:
            try:
                harness.set_model(settings.model, settings.reasoning)
            except OstlerError as error:  # another model can be chosen only inside the session
                harness.model = AbsentModel(error.message)
        return opened

    async def _equipped(self, cwd: Path) -> Harness:
        equipped = self._equip(cwd)
        harness = equipped if isinstance(equipped, Harness) else await equipped

        def on_journal(journal: Journal) -> None:
            journal.secret_answers = self._secrets
            for make in self._observers:
                journal.subscribe(make(journal.session))

        harness.listeners = [*harness.listeners, JournalListener(on_journal)]
        return harness

    async def recheck(self, session: Session, outcome: RunOutcome) -> None:
        """After a session was closed: handles late requests, and moves a parent that waited for it."""
        if await self._can_move(session.id, session.state):
            await self._move(session.id)
        else:
            for request in await self.store.pending(session.id):
                if _needs_only_log(request, session.state):
                    await self._handle_alone(session.id, request)
                elif not isinstance(request, (*NEEDS_DRIVER, *NEEDS_RUN)):
                    await self._move(session.id)
        if isinstance(outcome, RunEnded) and session.state.child_of and session.position is None:
            await self._move(session.state.child_of)

    async def _move(self, session: str) -> None:
        root = await self._root_id(session)
        if self.is_closing or root in self._tasks or await self.store.holder(root) is not None:
            return
        with suppress(SessionHeld):  # its holder reads its inbox
            await self.advance(session)

    async def submit(self, session: str, request: AnyRequest) -> bool:
        """Puts a request into a session's inbox. If nothing drives the session, it is handled here, with as
        little as the request needs. False if a request with this id exists. Raises `NoModel` for a prompt
        that no model can answer."""
        pending_ids = [pending.id for pending in await self.store.pending(session)]
        is_known = request.id in pending_ids or await self.store.settlement(session, request.id) is not None
        if self.is_closing or is_known:
            return await self.store.submit(session, request)
        state = await load_state(self.store, session)
        if state.driver != "agent":
            return await submit_to_agent(self.store, state, request, self._world, self._on_bare_journal)
        root = (await root_of(self.store, state)).id
        async with self._opening(root):
            is_free = root not in self._tasks and await self.store.holder(root) is None
            if is_free and _needs_only_log(request, state):
                await self._handle_alone(session, request)
                return True
            opened = task = None
            if is_free:
                with suppress(SessionHeld):  # its holder reads its inbox
                    opened = await self._open(root)
            await self._require_model(root, opened, request)
            is_new = await self.store.submit(session, request)
            if opened is not None:
                task = self._begin(opened, opened.advance())
        if task is not None and isinstance(request, requests.Prompt | requests.Continue):
            await task.wait_until_started()
        elif task is None and is_new and isinstance(request, NEEDS_DRIVER):
            await self._move(session)
        return is_new

    async def _require_model(self, root: str, opened: Session | None, request: AnyRequest) -> None:
        session = opened or self.get(root)
        if session is None or not isinstance(request, requests.Prompt | requests.Continue):
            return
        if isinstance(session.harness.model, AbsentModel):
            if opened is not None:
                await opened.close()
            raise NoModel(session.harness.model.why)

    async def _handle_alone(self, session: str, request: AnyRequest) -> None:
        with suppress(UsageError):  # the refusal is a fact
            await submit_now(self.store, session, request, self._world, on_journal=self._on_bare_journal)

    async def answer_secret(self, session: str, request: requests.Answer, secret: Any, wait: float) -> None:
        """Passes a secret to the call that needs it; the inbox, which is a file, never contains it.
        Raises `SessionHeld` if another process drives the session: the secret must be entered there."""
        root = await self._root_id(session)
        if root not in self._tasks and await self.store.holder(root) is not None:
            raise SessionHeld(f"{SECRET_NEEDS_ITS_CALL}; another process drives session {root}")
        self._secrets[request.id] = secret
        try:
            await self.submit(session, request)
            await self.until_settled(session, request.id, wait)
        finally:
            del self._secrets[request.id]

    async def until_settled(self, session: str, request: str, wait: float) -> int | None:
        """The number of the fact that settled a request; waits up to `wait` seconds for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait or None):
                after = await self.store.last_seq(session)
                while (seq := await self.store.settlement(session, request)) is None and wait:
                    async with aclosing(self.store.follow(session, after)) as batches:  # type: ignore[type-var]
                        after = (await anext(batches))[-1].seq
                return seq
        return None

    async def queue(self, session: str, prompt: Prompt) -> str:
        """Adds a prompt that runs after the current run. Returns the request's id, as those below do."""
        return await self._ask(session, requests.Prompt(id=self._id(), content=as_content(prompt)))

    async def steer(self, session: str, text: Prompt) -> str:
        """Sends a message to the model between two steps. One that comes too late is refused."""
        return await self._ask(session, requests.Steer(id=self._id(), content=as_content(text)))

    async def answer(self, session: str, question: str, answer: Any = None, *, declined: bool = False) -> str:
        request = requests.Answer(id=self._id(), question=question, answer=answer, declined=declined)
        return await self._ask(session, request)

    async def cancel(self, session: str, *, call: str = "") -> str:
        return await self._ask(session, requests.Cancel(id=self._id(), call=call))

    async def pause(self, session: str) -> str:
        """Pauses the run before its next step."""
        return await self._ask(session, requests.Pause(id=self._id()))

    async def resume(self, session: str) -> str:
        return await self._ask(session, requests.Resume(id=self._id()))

    async def release(self, session: str, *, drop: bool = False) -> str:
        """Starts the held prompts, or drops them."""
        return await self._ask(session, requests.ReleasePrompts(id=self._id(), drop=drop))

    async def _ask(self, session: str, request: AnyRequest) -> str:
        await self.submit(session, request)
        return request.id

    def _id(self) -> str:
        return self._world.new_id("req")

    def uses_model(self, model: Model) -> bool:
        return any(task.session.harness.model is model for task in self._tasks.values())

    def get(self, session: str) -> Session | None:
        """The session, if it is open here: working, or kept open after its last run."""
        task = self._tasks.get(session)
        return task.session if task is not None else None

    def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]:
        """The facts after that number, then each new one, whichever process writes it."""
        return self.store.follow(session, after)

    async def list(self, *, ended: bool = False, limit: int | None = None) -> list[RunRow]:
        """The open runs of the store, newest first, each with its children below it, in any process. With
        `ended`, ended runs as well: at least the newest `limit` of them."""
        return await list_runs(self.store, ended=ended, limit=limit)

    async def peek(self, session: str) -> RunRow | None:
        """The session's open run, or its last one; None if it never had one."""
        return await latest_run(self.store, session)

    async def wait(self, session: str, *, timeout: float | None = None) -> RunEnded | RunWaiting | None:
        """Waits until the session's run ends or waits, in any process; None if it never had one. Raises
        `TimeoutError`."""
        async with asyncio.timeout(timeout):
            if (task := self._tasks.get(session)) is not None and not self.keep_open:
                return await asyncio.shield(task.task)
            facts = await self.store.read_opening(session)
            state = fold(facts)
            if not await self._can_move(session, state):
                ends = [fact.event for fact in facts if isinstance(fact.event, RunEnded)]
                return state.run.waiting if state.run else ends[-1] if ends else None
            async with aclosing(self.store.follow(session, state.last_seq)) as batches:  # type: ignore[type-var]
                async for batch in batches:
                    for fact in batch:
                        if isinstance(fact.event, RunEnded | RunWaiting):
                            return fact.event
        return None

    async def _can_move(self, session: str, state: SessionState) -> bool:
        """Whether a run can continue, or a pending request moves the session."""
        if state.run is not None and not await is_stuck(self.store, state):
            return True
        for request in await self.store.pending(session):
            is_prompt = isinstance(request, requests.Prompt | requests.Continue)
            if isinstance(request, NEEDS_DRIVER) and not (is_prompt and (state.held or state.run)):
                return True
        return False

    async def drain(self, timeout: float | None = None) -> bool:
        """Starts no more runs and waits for the current ones. False if some did not end in time."""
        self._begin_closing()
        if self._unfinished:
            await asyncio.wait(set(self._unfinished), timeout=timeout)
        return not self._unfinished

    async def unload(self, session: str) -> None:
        """Closes a session that is only kept open here. Raises `SessionBusy` if it works."""
        task = self._tasks.get(session)
        if task is not None and not await task.release():
            raise SessionBusy(f"session {session} has an open run: cancel it first")

    async def close(self, reason: str = "the process ends") -> None:
        """Cancels the open runs, and closes all sessions."""
        self._begin_closing()
        for task in self._tasks.values():
            task.session.cancel(reason)
        if self._unfinished:
            await asyncio.wait(set(self._unfinished))

    def _begin_closing(self) -> None:
        self.is_closing = True
        for task in self._tasks.values():
            task.end_stay()

    def _refuse_when_closing(self) -> None:
        if self.is_closing:
            raise UsageError("no run can be started any more: the process is about to exit")


def _needs_only_log(request: AnyRequest, state: SessionState) -> bool:
    return isinstance(request, NEEDS_LOG) or (isinstance(request, NEEDS_RUN) and state.run is None)


POLL_INTERVAL = 1.0
"""Seconds. There is no event for the release of a lease."""


class AbandonedRequests:
    """Handles requests that were submitted here and that another process left in the inbox. An interrupted
    run is not resumed, because its process may have been stopped on purpose."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._watches: dict[str, asyncio.Task[None]] = {}

    async def look_after(self, session: str) -> None:
        """Call this after each request; it does something only if another process holds the session."""
        is_elsewhere = not self._supervisor.get(session) and await self._supervisor.store.holder(session)
        if is_elsewhere and session not in self._watches:
            watch = self._watches[session] = asyncio.ensure_future(self._watch(session))
            watch.add_done_callback(lambda task: self._watches.pop(session, None))

    async def _watch(self, session: str) -> None:
        store = self._supervisor.store
        with suppress(NotFound):  # it was deleted
            while await store.pending(session):
                if await store.holder(session) is not None:
                    await asyncio.sleep(POLL_INTERVAL)
                    continue
                state = await load_state(store, session)
                if state.run is None and state.driver == "agent":
                    with suppress(SessionHeld):
                        await self._supervisor.advance(session)
                return

    def close(self) -> None:
        for watch in self._watches.values():
            watch.cancel()


async def kill_orphan_tools(store: Store, world: World) -> None:
    """Kills tools of interrupted runs, which would otherwise work on until the session is opened.

    Also ends the runs of other vendors' agents whose process is gone: they cannot be resumed."""
    await close_dead_agents(store, world)
    for summary in await store.sessions():
        if summary.status != "running" or await store.holder(summary.id) is not None:
            continue
        with suppress(SessionHeld, NotFound):  # a process that opens it does the same
            lease = await store.acquire(summary.id, new_owner(world))
            await kill_session_processes(store, summary.id, world)
            await store.release(lease)
