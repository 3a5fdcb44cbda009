"""An open session: this process holds its lease, takes up its requests, and drives its runs."""
# MERGED: Opening a session that another process may be driving: it is watched, and taken up when that one
# MERGED: rests.

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ostler import __version__
from ostler.core.budget import Budget
from ostler.core.cancellation import CancelToken, is_being_cancelled
from ostler.core.children import SpawnedChildren
from ostler.core.harness import Children, Harness, TreePosition
from ostler.core.hooks import Handled, InputDraft, Refuse, hook_scope
from ostler.core.journal import EventHandler, Journal, World, open_journal
from ostler.core.lazy import Lazy, load
from ostler.core.processes import ProcessId, current_process
from ostler.core.questions import Questions, as_stored
from ostler.core.recovery import PROCESS_ENDED, close_run
from ostler.core.state import SessionState, fold
from ostler.core.store import Lease, Store
from ostler.schema import events, requests
from ostler.schema.errors import SessionHeld, StoreError, UsageError
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.facts import Fact, storage_problem
from ostler.schema.messages import Message, PlainBlock, text_of
from ostler.schema.usage import Usage
from ostler.sessions.inbox import InboxReader
from ostler.sessions.lease import hold_lease, kill_orphans, kill_session_processes, new_owner, renew_lease
from ostler.tools.child_process import stop_background

if TYPE_CHECKING:
    from ostler.core.loop import Loop


NOTHING_TO_CONTINUE = "there is nothing to continue: the session has no messages yet"


RunOutcome = RunEnded | RunWaiting | None
"""Where a session came to rest: its run ended, its run waits, or there was nothing to do."""


class Session:
    """The one writer of a session. Made with `create_session` or `open_session`."""

    def __init__(self, journal: Journal, harness: Harness, position: TreePosition | None = None) -> None:
        self.journal = journal
        self.harness = harness
        self.questions = Questions()
        self.memory: dict[str, Any] = {}
        self.position = position
        self.children: Children | None = None
        self._cancel: CancelToken | None = None
        self._loop: Loop | None = None
        self._inbox: InboxReader | None = None
        self._cancelled_before_start = ""
        self._is_watchable = False
        self._resting: asyncio.Future[None] | None = None
        self._spawned: SpawnedChildren | None = None
        """The children that extensions have between two runs."""
        harness.on_journal(journal)
        for listener in harness.listeners:
            listener.on_open(self)

    @property
    def id(self) -> str:
        return self.journal.session

    @property
    def state(self) -> SessionState:
        return self.journal.state

    @property
    def budget(self) -> Budget | None:
        """Of the run under way."""
        return self._loop.budget if self._loop else None

    @property
    def spawned(self) -> SpawnedChildren:
        if self._loop is not None and self.state.run is not None:
            return self._loop.spawned
        if self._spawned is None:
            self._spawned = SpawnedChildren(self, self._child_runs(), hold=lambda: hold_lease(self.journal))
        return self._spawned

    def withdraw(self, steer: str) -> bool:
        """Keeps a steer from the run under way; False if that has it. The caller records what comes of it."""
        return self._inbox is not None and self._inbox.withdraw(steer)

    def subscribe(self, observer: EventHandler) -> Callable[[], None]:
        return self.journal.subscribe(observer)

    async def prompt(
        self, content: tuple[PlainBlock, ...], *, request: str = "", at_once: bool = False
    ) -> RunEnded | RunWaiting:
        """Starts a run with this message, and drives it. A run that was cut before is closed first.

        Prompts that wait in the inbox came before it and run first, unless they are held, or it is to run
        `at_once`. Not while a run waits: that one still occupies the session. It goes on with `answer`.
        """
        if problem := storage_problem(events.UserMessage(content, request=request)):
            raise UsageError(f"the prompt cannot be stored: {problem}")
        if request and (known := await self._run_of(request)):
            return known
        await self._prepare()
        while not at_once and (waiting := await self._next_in_line()):
            await self._run(waiting)
            await self._prepare()
        return await self._run(requests.Prompt(id=request, content=content))

    async def _run_of(self, request: str) -> RunOutcome:
        """The run that a request has started, at rest: the same id twice gives the first answer."""
        seq = await self.journal.store.settled(self.id, request)
        if seq is None:
            return None
        facts = await self.journal.store.read(self.id, seq - 1)
        run = facts[0].run
        ends = [fact.event for fact in facts if fact.run == run and isinstance(fact.event, RunEnded)]
        return ends[0] if ends else await self.advance()

    async def continue_(self, *, request: str = "") -> RunEnded | RunWaiting:
        """Starts a run on the transcript as it is, without a new message."""
        await self._prepare()
        if not len(self.state.transcript):
            raise UsageError(NOTHING_TO_CONTINUE)
        return await self._run(requests.Continue(id=request))

    async def advance(self) -> RunOutcome:
        """Drives the session from its last fact to the next quiet point. Harmless to call twice.

        An open run goes on; else the next prompt in the inbox starts; else there is nothing to do.
        """
        await self._hold()
        if (run := self.state.run) is not None:
            return await self._drive(is_cut=run.waiting is None)
        await InboxReader(self.journal, self.harness, session=self).read()
        waiting = await self._next_in_line()
        return await self._run(waiting) if waiting else None

    async def _next_in_line(self) -> requests.Prompt | requests.Continue | None:
        """The oldest request in the inbox that can start a run, unless those are held."""
        if self.state.held:
            return None
        for request in await self.journal.store.pending(self.id):
            if isinstance(request, requests.Continue) and not len(self.state.transcript):
                refused = events.RequestRefused(request.id, NOTHING_TO_CONTINUE)
                self.journal.record(refused, settles=request.id)
                await self.journal.commit()
            elif isinstance(request, requests.Prompt | requests.Continue):
                return request
        return None

    async def _run(self, request: requests.Prompt | requests.Continue) -> RunEnded | RunWaiting:
        """The run that a request asks for, from its first fact to rest."""
        if isinstance(request, requests.Continue):
            self._start_run(request.id, continues=True)
            return await self._drive()
        draft: InputDraft | Handled | Refuse = InputDraft(request.content, request.by)
        if "input" in self.harness.hooks:
            over = hook_scope(self.journal, CancelToken())
            draft = await self.harness.hooks.input(InputDraft(request.content, request.by), over)
        self._start_run(request.id)
        if not isinstance(draft, InputDraft):
            return await self._end_without_model(draft)
        if draft.content != request.content:
            about = {"original": text_of(request.content)}
            self.journal.record(events.Audited("input.rewrite", "a hook changed the prompt", about))
        self.journal.record(events.UserMessage(draft.content, request=request.id), settles=request.id)
        return await self._drive()

    async def _end_without_model(self, decision: Handled | Refuse) -> RunEnded | RunWaiting:
        """A prompt that an input hook has dealt with, or refused: its run ends where it begins."""
        async with self._driving() as (loop, _):
            if isinstance(decision, Handled):
                if decision.text:
                    self.journal.publish([events.Printed(decision.text)])
                ended = await close_run(loop, "completed", "a hook dealt with the prompt")
            else:
                ended = await close_run(loop, "refused", decision.reason or "a hook refused the prompt")
        assert ended is not None
        await self._come_to_rest()
        return ended

    async def _come_to_rest(self) -> None:
        for listener in self.harness.listeners:
            await listener.on_idle(self)

    async def drain(self) -> None:
        """Between runs, for whoever would leave otherwise: lets those who go along finish what they do, and
        what they ask people. `cancel` ends it."""
        if not self.harness.listeners or self.journal.failed:
            return

        async def drain() -> None:
            for listener in self.harness.listeners:
                await listener.drain(self)

        self._resting = asyncio.ensure_future(drain())
        try:
            async with renew_lease(self.journal):
                await self._resting
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
        finally:
            self._resting = None

    @property
    def is_running(self) -> bool:
        return self._cancel is not None

    def cancel(self, reason: str = "cancelled") -> None:
        """Ends the open run: its stream and its tools stop, and everything gets its outcome. Or it ends
        `rest`."""
        if self._resting is not None:
            self._resting.cancel()
        elif self._cancel is not None:
            self._cancel.cancel(reason)
        else:
            self._cancelled_before_start = reason

    async def replace_history(self, messages: tuple[Message, ...], usage: Usage | None = None) -> None:
        """From now on the model is told these messages; the log keeps what was before."""
        if self.state.run is not None:
            raise UsageError("the messages cannot be replaced while a run is open")
        replaced = events.HistoryReplaced(messages, usage)
        if problem := storage_problem(replaced):
            raise UsageError(f"the messages cannot be stored: {problem}")
        self.journal.record(replaced)
        await self.journal.commit()

    async def _prepare(self) -> None:
        """Before a run starts: the lease is ours, no run is open, and what was asked of none is refused."""
        if self._cancel is not None:
            raise UsageError(
                f"session {self.id} is being driven already; submit a request to its inbox instead"
            )
        await self.close_interrupted_run()
        await InboxReader(self.journal, self.harness, session=self).read()

    async def _hold(self) -> None:
        """Before anything is recorded: the lease is ours, and we understand all that the model is told."""
        await hold_lease(self.journal)
        require_own_agent(self.id, self.state.driver)
        if self.state.undecipherable:
            raise UsageError(
                f"session {self.id} has a {self.state.undecipherable!r} entry of a newer version; "
                "it can be read and copied, but only that version can go on with it"
            )

    def _start_run(self, request: str, *, continues: bool = False) -> None:
        harness, place = self.harness, self.position
        self.journal.record(
            events.RunStarted(
                version=__version__,
                cwd=str(harness.cwd),
                model=harness.model.name,
                request=request,
                permissions=harness.permission_profile,
                limits=harness.limits,
                extensions=harness.extensions,
                continues=continues,
                root=place.root if place else "",
                parent_run=place.parent if place else "",
                depth=place.depth if place else 0,
                trace=harness.trace,
                tags=dict(harness.tags),
                agent=harness.agent,
            ),
            run=self.journal.world.new_id("run"),
            settles=request,
        )

    async def answer(self, question: str, answer: Any = None, *, declined: bool = False) -> RunOutcome:
        """Answers a question that the run waits for, and drives the run on."""
        asked = self.state.questions.get(question)
        if asked and asked.question.secret and not declined:
            return await self._answer_secret(asked, answer)
        request_id = self.journal.world.new_id("req")
        request = requests.Answer(id=request_id, question=question, answer=answer, declined=declined)
        await self.journal.store.submit(self.id, request)
        return await self.advance()

    async def _answer_secret(self, asked: events.QuestionAsked, answer: Any) -> RunEnded | RunWaiting:
        """Not through the inbox, which is a file: the tool gets it, and the log only that there was one."""
        await self._hold()
        run = self.state.run
        call = run.step.calls.get(asked.call) if run and run.step else None
        if run is None or call is None or asked.id not in self.state.questions:
            raise UsageError(f"the question {asked.id} is not open")
        answered = events.QuestionAnswered(asked.id, "answered", answer)
        self.journal.record(as_stored(asked, answered))
        call.answered = answered
        if run.waiting and not run.is_paused:
            self.journal.record(events.RunResumed())
        return await self._drive()

    async def resume(self) -> RunOutcome:
        """Drives a paused run on."""
        request = requests.Resume(id=self.journal.world.new_id("req"))
        await self.journal.store.submit(self.id, request)
        return await self.advance()

    async def cancel_idle_run(self, request: requests.Cancel) -> None:
        """Ends an open run that nobody drives, as a request in its inbox asks. No model is needed for it."""
        await self._hold()
        async with self._driving() as (loop, inbox):
            await inbox.handle(request)
            await loop.advance()

    async def close_interrupted_run(self) -> None:
        """Gives a run that its process did not finish its end: open calls get their outcome first."""
        await self._hold()
        if self.state.run is None:
            return
        if (waiting := self.state.run.waiting) is not None:
            raise UsageError(
                f"session {self.id} {waiting_for(self.state, waiting)}: "
                + ("resume it" if waiting.reason == "paused" else "answer that")
                + " first, or cancel the run"
            )
        async with self._driving() as (loop, inbox):
            await inbox.read()
            await close_run(loop, "interrupted", PROCESS_ENDED)

    async def _drive(self, *, is_cut: bool = False) -> RunEnded | RunWaiting:
        """Drives the run to rest. Whatever happens here, it gets its end: only the log's failure leaves
        that to recovery."""
        async with self._driving() as (loop, inbox):
            try:
                await inbox.read(is_cut=is_cut)
                async with _reading(inbox):
                    quiet = await loop.advance()
                if isinstance(quiet, RunEnded):  # what was said too late returns to its face
                    await InboxReader(self.journal, self.harness, session=self).read()
                await self._come_to_rest()
                return quiet
            except StoreError as error:
                self.journal.fail(error)
                await stop_background(self.memory)
                raise
            except asyncio.CancelledError:
                await _to_its_end(close_run(loop, "cancelled", "whoever waited for it was cancelled"))
                raise
            except BaseException as error:
                await close_run(loop, "failed", f"{type(error).__name__}: {error}")
                raise

    @asynccontextmanager
    async def _driving(self) -> AsyncIterator[tuple[Loop, InboxReader]]:
        """A loop on the open run and the inbox that it is steered by, with the lease renewed meanwhile."""
        from ostler.core.loop import Loop

        cancel = self._cancel = CancelToken()
        if self._cancelled_before_start:
            cancel.cancel(self._cancelled_before_start)
            self._cancelled_before_start = ""
        self.journal.on_failure = lambda error: cancel.cancel("the log cannot be written")
        self.children = self._child_runs()
        loop = self._loop = Loop(self, cancel)
        inbox = self._inbox = InboxReader(self.journal, self.harness, loop, cancel, session=self)
        loop.steering = inbox
        await self._become_watchable()
        try:
            async with renew_lease(self.journal):
                yield loop, inbox
        finally:
            await loop.spawned.cancel()
            self._cancel = self._loop = self._inbox = None

    def _child_runs(self) -> Children:
        """`ChildRuns`, which needs sessions itself, and which most runs never need."""
        store, world, together = self.journal.store, self.journal.world, self.harness.children_together
        lazy: Any = Lazy(lambda: load("ostler.sessions.children:ChildRuns")(store, world, together))
        return lazy  # type: ignore[no-any-return]

    async def _become_watchable(self) -> None:
        """From its first run on, other processes can see what happens here as it happens."""
        if self._is_watchable or self.journal.store.socket_folder is None:
            return
        from ostler.sessions.live_socket import LiveSocket

        self._is_watchable = True
        channel = LiveSocket(self.journal)
        self.journal.on_close.append(channel.close)
        await channel.open()

    async def close(self) -> None:
        """Ends what extensions and tools left running, and gives the lease back."""
        if self._spawned is not None:
            await self._spawned.cancel()
        for listener in self.harness.listeners:
            await listener.on_close(self)
        await stop_background(self.memory)
        if self.journal.has_processes and not self.journal.is_detached:
            self.journal.world.kill_processes_of(self.id)  # those that left their group
        if not self.journal.failed:
            await self.journal.store.release(self.journal.lease)
        self.journal.close()


def waiting_for(state: SessionState, waiting: RunWaiting) -> str:
    """`is paused`, or `waits for` its questions or its calls."""
    if waiting.reason == "paused":
        return "is paused"
    texts = [asked.question.text for asked in state.questions.values()]
    return f"waits for {'; '.join(texts) or 'a call that finishes later'}"


@asynccontextmanager
async def _reading(inbox: InboxReader) -> AsyncIterator[None]:
    """Requests are taken up as they arrive."""
    reading = asyncio.ensure_future(inbox.follow())
    try:
        yield
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def _to_its_end(work: Coroutine[Any, Any, Any]) -> None:
    """Waits for `work` even when we are cancelled once more meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})


async def create_session(
    store: Store,
    harness: Harness,
    *,
    world: World | None = None,
    owner: ProcessId | None = None,
    session: str = "",
    child_of: str = "",
    call: str = "",
    position: TreePosition | None = None,
) -> Session:
    """A new session in the harness's directory."""
    world = world or World()
    first = Fact.of(
        events.SessionStarted(str(harness.cwd), __version__, child_of=child_of, call=call),
        seq=1,
        session=session or world.new_id("ses"),
        run="",
        time_ms=world.now_ms(),
    )
    lease = await store.create(first, owner or new_owner(world))
    return Session(Journal(store, lease, fold([first]), world), harness, position)


async def open_session(
    store: Store,
    session: str,
    harness: Harness,
    *,
    world: World | None = None,
    owner: ProcessId | None = None,
    position: TreePosition | None = None,
) -> Session:
    """Takes a session's lease and folds its log. What a dead owner left is ended first: processes of tools,
    and children that extensions had spawned between two runs."""
    world = world or World()
    lease = await store.acquire(session, owner or new_owner(world))
    journal = await open_journal(store, lease, world)
    await kill_orphans(journal)
    opened = Session(journal, harness, position)
    if journal.state.spawned:
        await opened.spawned.recover()
    return opened


async def delete_session(store: Store, session: str, world: World | None = None) -> None:
    """Deletes a session that nobody holds, its children's too, and ends what they left running."""
    known = await store.sessions()
    if await store.holder(session) is None:
        await kill_session_processes(store, session, world or World())
    await store.delete(session, current_process())
    for child in [one.id for one in known if one.child_of == session]:
        await delete_session(store, child, world)


async def open_or_follow(
    store: Store, session: str, harness: Harness, *, world: World | None = None
) -> Session:
    """The session; while somebody else has it, without its lease, which `hold` takes once it is free.

    Raises `UsageError` for one of another vendor's agent.
    """
    world = world or World()
    require_own_agent(session, (await store.summary(session)).driver)
    try:
        return await open_session(store, session, harness, world=world)
    except SessionHeld:
        return await follow_session(store, session, harness, world=world)


async def follow_session(
    store: Store, session: str, harness: Harness, *, world: World | None = None
) -> Session:
    """The session without its lease, whoever drives it."""
    world = world or World()
    journal = await open_journal(store, Lease(session, 0, new_owner(world), 0), world)
    journal.is_detached = True
    return Session(journal, harness)


def require_own_agent(session: str, driver: str) -> None:
    """Before a model is to answer in it, or a face for that is opened. Raises `UsageError`."""
    if driver not in ("agent", ""):
        raise UsageError(
            f"session {session} belongs to another vendor's agent, and no model answers in it: "
            "start its agent again, or talk to it with `ostler attach`"
        )
