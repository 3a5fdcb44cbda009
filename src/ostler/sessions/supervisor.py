"""The supervisor: drives many sessions in one process, and reaches those that other processes drive."""
# MERGED: What processes leave behind that held sessions: requests that they did not take up, and tools at
# MERGED: work.

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
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
from ostler.schema.errors import (
    NoModel,
    NotFound,
    OstlerError,
    SessionBusy,
    SessionHeld,
    StoreError,
    UsageError,
)
from ostler.schema.events import Event, RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.messages import PlainBlock, as_content
from ostler.schema.requests import ALONE, MOVING, OF_A_RUN, AnyRequest
from ostler.sessions.inbox import SECRET_NEEDS_ITS_CALL
from ostler.sessions.lease import close_dead_agents, kill_session_processes, new_owner, suspend_lease
from ostler.sessions.run_tree import (
    RunRow,
    is_stuck,
    latest_run,
    list_runs,
    load_state,
    next_arrival,
    root_of,
)
from ostler.sessions.session import RunOutcome, Session, create_session, open_session, require_own_agent
from ostler.sessions.session_task import RunHandle
from ostler.sessions.submit import submit_now, submit_to_agent

Equip = Callable[[Path], Harness | Awaitable[Harness]]
"""Makes what an agent works with in that directory. Each session gets one of its own."""


COMING_TO_REST = 2.0
"""Seconds that a session has to be given back behind its run."""


Prompt = str | Iterable[str | PlainBlock]


class Supervisor:
    """Starts runs, and asks things of them, wherever they run.

    - What becomes of a run is what its log says: a late completion never overwrites a cancel.
    - A session is driven until nothing more can move; then its lease is given back: any process can go on.
      With `keep_open` that is so many seconds later: extensions stay loaded, what arrives is taken up. It
      is later still while `is_wanted` says so, and at once when another process goes on with it.
    - Requests to a session that another process holds go through its inbox.
    """

    def __init__(
        self,
        store: Store,
        equip: Equip,
        *,
        world: World | None = None,
        keep_open: float = 0,
        is_wanted: Callable[[str], bool] = lambda session: False,
        attend_alone: Callable[[Journal], None] | None = None,
    ) -> None:
        """`attend_alone` is told of the sessions that are opened for a request that needs no harness."""
        self.store = store
        self._keep_open = keep_open
        self._is_wanted = is_wanted
        self._attend_alone = attend_alone
        self._equip = equip
        self._world = world or World()
        self._driven: dict[str, Session] = {}
        self._tasks: dict[str, asyncio.Task[RunOutcome]] = {}
        self._unfinished: set[asyncio.Task[RunOutcome]] = set()
        """Tasks that are not over: also those whose session is being given back."""
        self._rested: dict[str, asyncio.Future[RunOutcome]] = {}
        """Done when what was begun has come to rest; a task goes on with what waits its turn."""
        self._staying: dict[str, asyncio.Timeout] = {}
        """Sessions at rest that are kept open, and until when."""
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One at a time opens a session: two would load everything twice, and one of them in vain."""
        self._let_go: set[str] = set()
        self._observers: list[Callable[[str], EventHandler]] = []
        self._handed_over: dict[str, Any] = {}
        """Secret answers, by the requests that are waiting for them to be taken up here."""
        self._is_closing = False

    def subscribe(self, make: Callable[[str], EventHandler]) -> None:
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
        if not session:
            opened = await self._create(cwd or Path.cwd())
            handle = self._begin(opened, opened.prompt(content, request=request))
            await self._until_begun(opened)
            return handle
        async with self._one_opening(session):
            if session in self._tasks:
                raise UsageError(
                    f"session {session} is being driven already; queue the prompt, or steer its run"
                )
            opened = await self._open(session)
            handle = self._begin(opened, opened.prompt(content, request=request))
        await self._until_begun(opened)
        return handle

    async def advance(self, session: str) -> RunHandle:
        """Drives a session on from its last fact: a run that was cut, or what waits in its inbox."""
        self._refuse_when_closing()
        session = await self._driven_through(session)
        async with self._one_opening(session):
            if session in self._tasks:
                return RunHandle(self, session, self._tasks[session], self._rested[session])
            opened = await self._open(session)
            handle = self._begin(opened, opened.advance())
        await self._until_begun(opened)
        return handle

    def _one_opening(self, session: str) -> asyncio.Lock:
        return self._opening.setdefault(session, asyncio.Lock())

    async def _driven_through(self, session: str) -> str:
        """A child is driven by the run that it works for, or it would have other tools, limits and guards."""
        return (await root_of(self.store, await load_state(self.store, session))).id

    def _begin(self, session: Session, first: Any) -> RunHandle:
        self._driven[session.id] = session
        rested = self._rested[session.id] = asyncio.get_running_loop().create_future()
        task = self._tasks[session.id] = asyncio.ensure_future(self._drive(session, first, rested))
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        return RunHandle(self, session.id, task, rested)

    async def _until_begun(self, session: Session) -> None:
        """Until the run is a fact: what was asked of it before would be refused, a cancel too. Or until
        somebody must answer before it can begin."""
        begun = asyncio.get_running_loop().create_future()

        def see(batch: Sequence[Fact | Event]) -> None:
            if (session.state.run is not None or session.state.questions) and not begun.done():
                begun.set_result(None)

        see(())
        stop = session.subscribe(see)
        try:
            waited = {self._tasks[session.id], self._rested[session.id], begun}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            session.cancel("whoever started it was cancelled")
            raise
        finally:
            stop()

    async def _create(self, cwd: Path) -> Session:
        return await create_session(self.store, await self._equipped(cwd), world=self._world)

    async def _open(self, session: str) -> Session:
        (first,) = await self.store.read(session, 0, 1)
        require_own_agent(session, getattr(first.event, "driver", ""))
        harness = await self._equipped(Path(getattr(first.event, "cwd", ".")))
        opened = await open_session(self.store, session, harness, world=self._world)
        kept = opened.state.settings
        if kept.model and harness.make_model is not None:
            try:
                harness.set_model(kept.model, kept.reasoning)
            except OstlerError as error:  # another one can be asked for in the session, and only there
                harness.model = AbsentModel(error.message)
        return opened

    async def _equipped(self, cwd: Path) -> Harness:
        made = self._equip(cwd)
        harness = made if isinstance(made, Harness) else await made

        def attend(journal: Journal) -> None:
            journal.handed_over = self._handed_over
            for make in self._observers:
                journal.subscribe(make(journal.session))

        harness.listeners = [*harness.listeners, JournalListener(attend)]
        return harness

    async def _drive(self, session: Session, first: Any, rested: asyncio.Future[RunOutcome]) -> RunOutcome:
        """To the first rest of what was begun, and then on with whatever waits its turn."""
        try:
            quiet: RunOutcome = await first
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
            if not self.uses_model(session.harness.model):
                await session.harness.model.aclose()
        if not self._is_closing:
            await self._look_again(session, quiet)
        return quiet

    async def _stay(self, session: Session) -> RunOutcome:
        """Takes up what arrives, as long as something does, or somebody wants it. Another process may have
        it meanwhile."""
        quiet: RunOutcome = None
        seen: dict[str, int] = {}
        elsewhere = asyncio.ensure_future(self._written_elsewhere(session))
        try:
            while not self._is_closing and session.id not in self._let_go:
                await suspend_lease(session.journal)
                arrival = asyncio.ensure_future(next_arrival(self.store, session.state, seen))
                try:
                    async with asyncio.timeout(self._keep_open) as limit:
                        self._staying[session.id] = limit
                        await asyncio.wait({arrival, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
                except TimeoutError:
                    if self._is_closing or session.id in self._let_go or not self._is_wanted(session.id):
                        break
                    continue
                finally:
                    del self._staying[session.id]
                    arrival.cancel()
                if elsewhere.done():
                    break
                await arrival
                try:
                    while (last := await session.advance()) is not None:
                        quiet = last
                        if isinstance(last, RunWaiting):
                            break
                except SessionHeld:
                    break
        finally:
            elsewhere.cancel()
        return quiet

    async def _written_elsewhere(self, session: Session) -> None:
        """Returns when another process has gone on with the session: whoever follows it here must see it."""
        async with aclosing(self.store.follow(session.id, session.state.last_seq)) as followed:  # type: ignore[type-var]
            with suppress(NotFound, StoreError):  # whoever advances it is told
                async for batch in followed:
                    if batch[-1].seq > session.state.last_seq:
                        return

    def _end_staying(self) -> None:
        for limit in self._staying.values():
            limit.reschedule(asyncio.get_running_loop().time())

    async def _look_again(self, session: Session, quiet: RunOutcome) -> None:
        """What arrived while the session was given back; and a parent that waited for this child."""
        if await self._can_move(session.id, session.state):
            await self._move(session.id)
        else:
            for request in await self.store.pending(session.id):
                if isinstance(request, ALONE) or (isinstance(request, OF_A_RUN) and not session.state.run):
                    await self._take_up_alone(session.id, request)
                elif not isinstance(request, (*MOVING, *OF_A_RUN)):
                    await self._move(session.id)
        if isinstance(quiet, RunEnded) and session.state.child_of and session.position is None:
            await self._move(session.state.child_of)

    async def _move(self, session: str) -> None:
        root = await self._driven_through(session)
        if self._is_closing or root in self._tasks or await self.store.holder(root) is not None:
            return
        try:
            await self.advance(session)
        except SessionHeld:
            return  # whoever holds it sees its inbox

    # --- asking -------------------------------------------------------------------------------------

    async def submit(self, session: str, request: AnyRequest) -> bool:
        """Puts a request into a session's inbox. When nobody drives the session, it is taken up here: driven
        if it must be, with as little as the request needs.

        False when a request with this id is known already. A prompt that cannot be answered, for want of a
        model, is not put there: that raises.
        """
        if self._is_closing or await self._knows(session, request.id):
            return await self.store.submit(session, request)
        state = await load_state(self.store, session)
        if state.driver != "agent":
            return await submit_to_agent(self.store, state, request, self._world, self._attend_alone)
        root = (await root_of(self.store, state)).id
        async with self._one_opening(root):
            is_free = root not in self._tasks and await self.store.holder(root) is None
            if is_free and (
                isinstance(request, ALONE) or (isinstance(request, OF_A_RUN) and state.run is None)
            ):
                await self._take_up_alone(session, request)
                return True
            opened = None
            if is_free:
                with suppress(SessionHeld):  # whoever holds it sees its inbox
                    opened = await self._open(root)
            await self._require_model(root, opened, request)
            is_new = await self.store.submit(session, request)
            if opened is not None:
                self._begin(opened, opened.advance())
        if opened is not None and isinstance(request, requests.Prompt | requests.Continue):
            await self._until_begun(opened)
        elif opened is None and is_new and isinstance(request, MOVING):
            await self._move(session)
        return is_new

    async def _require_model(self, root: str, opened: Session | None, request: AnyRequest) -> None:
        session = opened or self._driven.get(root)
        if session is None or not isinstance(request, requests.Prompt | requests.Continue):
            return
        if isinstance(session.harness.model, AbsentModel):
            if opened is not None:
                await opened.close()
            raise NoModel(session.harness.model.why)

    async def _take_up_alone(self, session: str, request: AnyRequest) -> None:
        with suppress(UsageError):  # it was refused, and that is a fact
            await submit_now(self.store, session, request, self._world, attend=self._attend_alone)

    async def _knows(self, session: str, request: str) -> bool:
        if await self.store.settled(session, request) is not None:
            return True
        return any(one.id == request for one in await self.store.pending(session))

    async def answer_secret(self, session: str, request: requests.Answer, secret: Any, wait: float) -> None:
        """Hands a secret to the call that asked for it. The inbox, which is a file, never has it.

        Raises `SessionHeld` when another process drives the session: it must be answered there.
        """
        root = await self._driven_through(session)
        if root not in self._tasks and await self.store.holder(root) is not None:
            raise SessionHeld(f"{SECRET_NEEDS_ITS_CALL}; another process drives session {root}")
        self._handed_over[request.id] = secret
        try:
            await self.submit(session, request)
            await self.until_settled(session, request.id, wait)
        finally:
            del self._handed_over[request.id]

    async def until_settled(self, session: str, request: str, wait: float) -> int | None:
        """The number of the fact that settled a request, waited for so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait or None):
                after = await self.store.last_seq(session)
                while (seq := await self.store.settled(session, request)) is None and wait:
                    async with aclosing(self.store.follow(session, after)) as followed:  # type: ignore[type-var]
                        after = (await anext(followed))[-1].seq
                return seq
        return None

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

    def uses_model(self, model: Model) -> bool:
        """Whether a session that is open here may ask it."""
        return any(session.harness.model is model for session in self._driven.values())

    def get(self, session: str) -> Session | None:
        """The session, if it is open here: at work, or kept open behind its last run."""
        return self._driven.get(session)

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

    async def unload(self, session: str) -> None:
        """Gives a session back that is merely kept open here. Raises `SessionBusy` for one at work."""
        if (task := self._tasks.get(session)) is None:
            return
        self._let_go.add(session)
        try:
            if (staying := self._staying.get(session)) is not None:
                staying.reschedule(asyncio.get_running_loop().time())
            run = self._driven[session].state.run
            if staying is not None or run is None or run.waiting:  # it may just be coming to rest
                await asyncio.wait({task}, timeout=COMING_TO_REST)
        finally:
            self._let_go.discard(session)
        if not task.done():
            raise SessionBusy(f"session {session} is at work: cancel its run first")

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


LOOKED_AT_EVERY = 1.0
"""Seconds: nobody is told when a lease is given back."""


class AbandonedRequests:
    """Takes up what somebody asked for here, and whoever held the session left in its inbox.

    A run that was cut is not gone on with: whoever ended its process may have meant it. It is offered.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._looking: dict[str, asyncio.Task[None]] = {}

    async def look_after(self, session: str) -> None:
        """Behind each request. Only where another process holds the session is there something to do."""
        is_elsewhere = not self._supervisor.get(session) and await self._supervisor.store.holder(session)
        if is_elsewhere and session not in self._looking:
            looking = self._looking[session] = asyncio.ensure_future(self._look(session))
            looking.add_done_callback(lambda task: self._looking.pop(session, None))

    async def _look(self, session: str) -> None:
        store = self._supervisor.store
        with suppress(NotFound):  # it was deleted
            while await store.pending(session):
                if await store.holder(session) is not None:
                    await asyncio.sleep(LOOKED_AT_EVERY)
                    continue
                state = await load_state(store, session)
                if state.run is None and state.driver == "agent":
                    with suppress(SessionHeld):
                        await self._supervisor.advance(session)
                return

    def close(self) -> None:
        for looking in self._looking.values():
            looking.cancel()


async def kill_orphan_tools(store: Store, world: World) -> None:
    """Ends what tools are still doing for runs that were cut. Else that would last until somebody looks.

    The runs of other vendors' agents end with them: nobody could go on with those."""
    await close_dead_agents(store, world)
    for summary in await store.sessions():
        if summary.status != "running" or await store.holder(summary.id) is not None:
            continue
        with suppress(SessionHeld, NotFound):  # whoever goes on with it does the same
            lease = await store.acquire(summary.id, new_owner(world))
            await kill_session_processes(store, summary.id, world)
            await store.release(lease)
