"""The supervisor: drives many sessions in one process, and reaches those that other processes drive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any

from ostler.kernel.harness import Harness
from ostler.kernel.journal import Journal, Observer, World
from ostler.kernel.state import SessionState, fold
from ostler.kernel.store import Store
from ostler.runs.run_list import RunRow, latest_run, list_runs
from ostler.runs.run_tree import is_stuck, root_of, state_of
from ostler.runs.session import Quiet, Session, create_session, open_session
from ostler.vocabulary import requests
from ostler.vocabulary.errors import SessionHeld, UsageError
from ostler.vocabulary.events import Event, RunEnded, RunWaiting
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import PlainBlock, as_content
from ostler.vocabulary.requests import AnyRequest

Equip = Callable[[Path], Harness | Awaitable[Harness]]
"""Makes what an agent works with in that directory. Each session gets one of its own."""

Prompt = str | Iterable[str | PlainBlock]

MOVING = (
    requests.Prompt,
    requests.Continue,
    requests.Answer,
    requests.Cancel,
    requests.Resume,
    requests.FinishCall,
    requests.ReleasePrompts,
)
"""Requests that let a session move: when nobody drives it, it is driven for them."""


class RunHandle:
    """A run that was started here. `async with` it, and it is cancelled when the block is left early.

    One that is detached goes on by itself, until it rests or the supervisor is closed.
    """

    def __init__(
        self, supervisor: Supervisor, session: str, task: asyncio.Task[Quiet], rested: asyncio.Future[Quiet]
    ) -> None:
        self.session = session
        self._supervisor = supervisor
        self._task = task
        self._rested = rested
        self._is_detached = False

    async def result(self) -> Quiet:
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


class Supervisor:
    """Starts runs, and asks things of them, wherever they run.

    - What becomes of a run is what its log says: a late completion never overwrites a cancel.
    - A session is driven until nothing more can move; then its lease is given back: any process can go on.
      With `keep_open` that is so many seconds later: extensions stay loaded, what arrives is taken up.
    - Requests to a session that another process holds go through its inbox.
    """

    def __init__(
        self, store: Store, equip: Equip, *, world: World | None = None, keep_open: float = 0
    ) -> None:
        self.store = store
        self._keep_open = keep_open
        self._equip = equip
        self._world = world or World()
        self._driven: dict[str, Session] = {}
        self._tasks: dict[str, asyncio.Task[Quiet]] = {}
        self._unfinished: set[asyncio.Task[Quiet]] = set()
        """Tasks that are not over: also those whose session is being given back."""
        self._rested: dict[str, asyncio.Future[Quiet]] = {}
        """Done when what was begun has come to rest; a task goes on with what waits its turn."""
        self._staying: dict[str, asyncio.Timeout] = {}
        """Sessions at rest that are kept open, and until when."""
        self._observers: list[Callable[[str], Observer]] = []
        self._is_closing = False

    def observe(self, make: Callable[[str], Observer]) -> None:
        """`make` is given the id of each session driven here, also of children, to make its observer."""
        self._observers.append(make)

    # --- starting -----------------------------------------------------------------------------------

    async def start(
        self, prompt: Prompt, *, session: str = "", cwd: Path | None = None, request: str = ""
    ) -> RunHandle:
        """Begins a run: in a new session, or in that one if nobody drives it. `queue` is for busy ones.

        The same `request` id twice is one run.
        """
        self._refuse_when_closing()
        content = as_content(prompt)
        if session in self._tasks:
            raise UsageError(f"session {session} is being driven already; queue the prompt, or steer its run")
        opened = await self._open(session) if session else await self._create(cwd or Path.cwd())
        return await self._begin(opened, opened.prompt(content, request=request))

    async def advance(self, session: str) -> RunHandle:
        """Drives a session on from its last fact: a run that was cut, or what waits in its inbox."""
        self._refuse_when_closing()
        session = await self._driven_through(session)
        if session in self._tasks:
            return RunHandle(self, session, self._tasks[session], self._rested[session])
        opened = await self._open(session)
        return await self._begin(opened, opened.advance())

    async def _driven_through(self, session: str) -> str:
        """A child is driven by the run that it works for, or it would have other tools, limits and guards."""
        return (await root_of(self.store, await state_of(self.store, session))).id

    async def _begin(self, session: Session, first: Any) -> RunHandle:
        """Returns when the run is a fact: what was asked of it before would be refused, a cancel too."""
        begun = asyncio.get_running_loop().create_future()

        def see(batch: Sequence[Fact | Event]) -> None:
            if session.state.run is not None and not begun.done():
                begun.set_result(None)

        stop = session.observe(see)
        self._driven[session.id] = session
        rested = self._rested[session.id] = asyncio.get_running_loop().create_future()
        task = self._tasks[session.id] = asyncio.ensure_future(self._drive(session, first, rested))
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        try:
            if session.state.run is None:
                await asyncio.wait({task, begun}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            session.cancel("whoever started it was cancelled")
            raise
        finally:
            stop()
        return RunHandle(self, session.id, task, rested)

    async def _create(self, cwd: Path) -> Session:
        return await create_session(self.store, await self._equipped(cwd), world=self._world)

    async def _open(self, session: str) -> Session:
        (first,) = await self.store.read(session, 0, 1)
        harness = await self._equipped(Path(getattr(first.event, "cwd", ".")))
        opened = await open_session(self.store, session, harness, world=self._world)
        if opened.state.settings.model and harness.make_model is not None:
            harness.set_model(opened.state.settings.model)
        return opened

    async def _equipped(self, cwd: Path) -> Harness:
        made = self._equip(cwd)
        harness = made if isinstance(made, Harness) else await made
        own = harness.attend

        def attend(journal: Journal) -> None:
            if own is not None:
                own(journal)
            for make in self._observers:
                journal.observe(make(journal.session))

        harness.attend = attend
        return harness

    async def _drive(self, session: Session, first: Any, rested: asyncio.Future[Quiet]) -> Quiet:
        """To the first rest of what was begun, and then on with whatever waits its turn."""
        try:
            quiet: Quiet = await first
            rested.set_result(quiet)
            last = quiet
            while isinstance(last, RunEnded) and not self._is_closing:
                last = await session.advance()
                quiet = last or quiet
            if self._keep_open:
                quiet = await self._stay(session) or quiet
        finally:
            self._driven.pop(session.id, None)
            self._tasks.pop(session.id, None)
            self._rested.pop(session.id, None)
            await session.close()
            if all(other.harness.model is not session.harness.model for other in self._driven.values()):
                await session.harness.model.aclose()
        if not self._is_closing:
            await self._look_again(session, quiet)
        return quiet

    async def _stay(self, session: Session) -> Quiet:
        """Takes up what arrives, as long as something does. Another process may have it meanwhile."""
        quiet, seen = None, -1
        while not self._is_closing:
            try:
                async with asyncio.timeout(self._keep_open) as limit:
                    self._staying[session.id] = limit
                    seen = await self.store.arrivals(session.id, seen)
            except TimeoutError:
                break
            finally:
                del self._staying[session.id]
            try:
                while (last := await session.advance()) is not None:
                    quiet = last
                    if isinstance(last, RunWaiting):
                        break
            except SessionHeld:
                break
        return quiet

    def _end_staying(self) -> None:
        for limit in self._staying.values():
            limit.reschedule(asyncio.get_running_loop().time())

    async def _look_again(self, session: Session, quiet: Quiet) -> None:
        """What arrived while the session was given back; and a parent that waited for this child."""
        if await self._can_move(session.id, session.state):
            await self._move(session.id)
        if isinstance(quiet, RunEnded) and session.state.child_of and session.harness.place is None:
            await self._move(session.state.child_of)

    async def _move(self, session: str) -> None:
        if self._is_closing or await self._driven_through(session) in self._tasks:
            return
        try:
            await self.advance(session)
        except SessionHeld:
            return  # whoever holds it sees its inbox

    # --- asking -------------------------------------------------------------------------------------

    async def submit(self, session: str, request: AnyRequest) -> bool:
        """Puts a request into a session's inbox, and drives the session if it moves it and nobody else does.

        False when a request with this id is known already.
        """
        is_new = await self.store.submit(session, request)
        if isinstance(request, MOVING) and is_new:
            await self._move(session)
        return is_new

    async def queue(self, session: str, prompt: Prompt) -> str:
        """A prompt that waits its turn. The id of the request, as with the others below."""
        return await self._ask(session, requests.Prompt(id=self._id(), content=as_content(prompt)))

    async def steer(self, session: str, text: Prompt) -> str:
        """Said to the model between two steps. One that comes too late is refused, with its id."""
        return await self._ask(session, requests.Steer(id=self._id(), content=as_content(text)))

    async def answer(self, session: str, question: str, answer: Any = None, *, declined: bool = False) -> str:
        request = requests.Answer(id=self._id(), question=question, answer=answer, declined=declined)
        return await self._ask(session, request)

    async def cancel(self, session: str, *, call: str = "") -> str:
        return await self._ask(session, requests.Cancel(id=self._id(), call=call))

    async def pause(self, session: str) -> str:
        """The run rests before its next step."""
        return await self._ask(session, requests.Pause(id=self._id()))

    async def resume(self, session: str) -> str:
        """A paused run goes on."""
        return await self._ask(session, requests.Resume(id=self._id()))

    async def release(self, session: str, *, drop: bool = False) -> str:
        """Lets the held prompts start, or forgets them."""
        return await self._ask(session, requests.ReleasePrompts(id=self._id(), drop=drop))

    async def _ask(self, session: str, request: AnyRequest) -> str:
        await self.submit(session, request)
        return request.id

    def _id(self) -> str:
        return self._world.new_id("req")

    # --- watching -----------------------------------------------------------------------------------

    def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]:
        """The facts after that number, and then each new one, whoever writes it."""
        return self.store.follow(session, after)

    async def list(self, *, ended: bool = False, limit: int | None = None) -> list[RunRow]:
        """The open runs of the store, newest first, each with its children below it, whoever drives them.

        With `ended` the others as well, the newest `limit` of them at least.
        """
        return await list_runs(self.store, ended=ended, limit=limit)

    async def peek(self, session: str) -> RunRow | None:
        """How the session's run stands, or how its last one ended; None if it never had one."""
        return await latest_run(self.store, session)

    async def wait(self, session: str, *, timeout: float | None = None) -> RunEnded | RunWaiting | None:
        """Until the session's run rests, wherever it is driven; None if it never had one.

        Raises `TimeoutError`.
        """
        async with asyncio.timeout(timeout):
            if session in self._tasks and not self._keep_open:
                return await asyncio.shield(self._tasks[session])
            facts = await self.store.read_opening(session)
            state = fold(facts)
            if not await self._can_move(session, state):
                ends = [fact.event for fact in facts if isinstance(fact.event, RunEnded)]
                return state.run.waiting if state.run else ends[-1] if ends else None
            async with aclosing(self.store.follow(session, state.last_seq)) as followed:  # type: ignore[type-var]
                async for batch in followed:
                    for fact in batch:
                        if isinstance(fact.event, RunEnded | RunWaiting):
                            return fact.event
        return None

    async def _can_move(self, session: str, state: SessionState) -> bool:
        """A run is under way, or something that moves the session waits to be taken up."""
        if state.run is not None and not await is_stuck(self.store, state):
            return True
        for request in await self.store.pending(session):
            is_prompt = isinstance(request, requests.Prompt | requests.Continue)
            if isinstance(request, MOVING) and not (is_prompt and (state.held or state.run)):
                return True
        return False

    # --- leaving ------------------------------------------------------------------------------------

    async def drain(self, timeout: float | None = None) -> bool:
        """From now on no run starts here; waits for those under way. False when some did not end in time."""
        self._is_closing = True
        self._end_staying()
        if self._unfinished:
            await asyncio.wait(set(self._unfinished), timeout=timeout)
        return not self._unfinished

    async def close(self, reason: str = "the process ends") -> None:
        """Ends the runs that are still under way, and gives all sessions back."""
        self._is_closing = True
        self._end_staying()
        for session in self._driven.values():
            session.cancel(reason)
        if self._unfinished:
            await asyncio.wait(set(self._unfinished))

    def _refuse_when_closing(self) -> None:
        if self._is_closing:
            raise UsageError("no run can be started any more: the process is about to end")
