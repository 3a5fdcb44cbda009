"""A session: the process that holds its lease handles its requests and drives its runs. `open_or_follow` also
opens one that another process drives, and takes the lease once it is free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from ostler import __version__
from ostler.core.budget import Budget
from ostler.core.cancellation import CancelToken, background_task, is_being_cancelled, run_shielded
from ostler.core.children import SpawnedChildren
from ostler.core.harness import Children, Harness, TreePosition
from ostler.core.hooks import Handled, InputDraft, Refuse, hook_scope
from ostler.core.journal import EventHandler, Journal, World, open_journal
from ostler.core.lazy import Lazy, lazy_module, load
from ostler.core.process_tree import local_user
from ostler.core.processes import current_process
from ostler.core.questions import Questions, record_answer
from ostler.core.recovery import PROCESS_ENDED, close_run
from ostler.core.state import SessionState, fold
from ostler.core.store import Lease, Store
from ostler.schema import events, requests
from ostler.schema.errors import ConsentRefused, SessionHeld, StoreError, UsageError
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.facts import Fact, storage_problem
from ostler.schema.messages import Message, PlainBlock, text_of
from ostler.schema.requests import AnyRequest
from ostler.schema.usage import Usage
from ostler.sessions.inbox import InboxReader
from ostler.sessions.lease import hold_lease, kill_orphans, kill_session_processes, new_owner, renew_lease

if TYPE_CHECKING:
    from ostler.core.loop import Loop
    from ostler.tools import child_process
else:
    child_process = lazy_module("ostler.tools.child_process")

NOTHING_TO_CONTINUE = "there is nothing to continue: the session has no messages yet"

RunOutcome = RunEnded | RunWaiting | None
"""The end of a run, what a run waits for, or None when there was nothing to do."""


class Session:
    """The one writer of a session. Made with `create_session` or `open_session`."""

    def __init__(self, journal: Journal, harness: Harness, position: TreePosition | None = None) -> None:
        self.journal = journal
        self.harness = harness
        self.questions = Questions()
        self.memory: dict[str, Any] = {}
        self.position = position
        self.children: Children | None = None
        self.loop: Loop | None = None
        self._inbox = InboxReader(self)
        self._cancelled_before_start = ""
        self._has_socket = False
        self._draining: asyncio.Future[None] | None = None
        self._spawned: SpawnedChildren | None = None
        """The children that extensions have between runs."""
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
    def is_running(self) -> bool:
        return self.loop is not None

    @property
    def budget(self) -> Budget | None:
        return self.loop.budget if self.loop else None

    @property
    def spawned(self) -> SpawnedChildren:
        if self.loop is not None and self.state.run is not None:
            return self.loop.spawned
        if self._spawned is None:
            self._spawned = SpawnedChildren(self, self._child_runs(), hold=lambda: hold_lease(self.journal))
        return self._spawned

    def _child_runs(self) -> Children:
        """`ChildRuns`, which needs sessions itself, and which most runs never need."""
        store, world, together = self.journal.store, self.journal.world, self.harness.children_together
        lazy: Any = Lazy(lambda: load("ostler.sessions.children:ChildRuns")(store, world, together))
        return lazy  # type: ignore[no-any-return]

    def subscribe(self, observer: EventHandler) -> Callable[[], None]:
        return self.journal.subscribe(observer)

    async def read_inbox(self) -> None:
        await self._inbox.read()

    async def handle(self, request: AnyRequest) -> None:
        await self._inbox.handle(request)

    def withdraw(self, steer: str) -> bool:
        """Withdraws a steer from the open run; False if the model has it. The caller records the outcome."""
        return self.loop is not None and self._inbox.withdraw(steer)

    async def prompt(
        self, content: tuple[PlainBlock, ...], *, request: str = "", at_once: bool = False
    ) -> RunEnded | RunWaiting:
        """Starts a run with this message, and drives it. Closes an interrupted run first. Prompts in the
        inbox came before it and run first, unless they are held, or `at_once` is set. Raises `UsageError`
        while a run waits: `answer` or `resume` continues that one."""
        if problem := storage_problem(events.UserMessage(content, request=request)):
            raise UsageError(f"the prompt cannot be stored: {problem}")
        if request and (outcome := await self._run_of(request)):
            return outcome
        await self._acquire()
        while not at_once and (waiting := await self._next_prompt()):
            await self._start(waiting) or await self._drive()
            await self._acquire()
        return await self._start(requests.Prompt(id=request, content=content)) or await self._drive()

    async def _run_of(self, request: str) -> RunOutcome:
        """The outcome of the run that a request has started: the same id twice gives the same answer."""
        if (seq := await self.journal.store.settlement(self.id, request)) is None:
            return None
        started, *facts = await self.journal.store.read(self.id, seq - 1)
        for fact in (started, *facts):
            if fact.run == started.run and isinstance(fact.event, RunEnded):
                return fact.event
        return await self.advance()

    async def continue_(self, *, request: str = "") -> RunEnded | RunWaiting:
        """Starts a run on the transcript as it is, without a new message."""
        await self._acquire()
        if not len(self.state.transcript):
            raise UsageError(NOTHING_TO_CONTINUE)
        return await self._start(requests.Continue(id=request)) or await self._drive()

    async def advance(self) -> RunOutcome:
        """Continues the open run, else starts the next prompt of the inbox. Calling it twice is harmless."""
        await self._require_lease()
        if (run := self.state.run) is not None:
            return await self._drive(is_cut=run.waiting is None)
        await self.read_inbox()
        waiting = await self._next_prompt()
        return (await self._start(waiting) or await self._drive()) if waiting else None

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
        """Passes a secret to its tool. The inbox is a file, and the log records only that there was one."""
        if problem := self.journal.store.consent_problem():
            raise ConsentRefused(problem)
        await self._require_lease()
        run = self.state.run
        call = run.step.calls.get(asked.call) if run and run.step else None
        if run is None or call is None or asked.id not in self.state.questions:
            raise UsageError(f"the question {asked.id} is not open")
        answered = events.QuestionAnswered(asked.id, "answered", answer, identity=local_user())
        record_answer(self.journal, asked, answered)
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
        """Ends an open run that no process drives, as a request asks. Needs no model."""
        await self._require_lease()
        async with self._open_loop() as loop:
            await self.handle(request)
            await loop.advance()

    async def close_interrupted_run(self) -> None:
        """Ends a run whose process did not finish it: open calls get their outcome first."""
        await self._require_lease()
        if self.state.run is None:
            return
        if self.state.run.waiting is not None:
            texts = [asked.question.text for asked in self.state.questions.values()]
            reason = f"waits for {'; '.join(texts) or 'a call that finishes later'}: answer that"
            if self.state.run.is_paused:
                reason = "is paused: resume it"
            raise UsageError(f"session {self.id} {reason} first, or cancel the run")
        async with self._open_loop() as loop:
            await self.read_inbox()
            await close_run(loop, "interrupted", PROCESS_ENDED)

    def cancel(self, reason: str = "cancelled") -> None:
        """Ends the open run: its stream and its tools stop, and all get their outcome. Or ends `drain`."""
        if self._draining is not None:
            self._draining.cancel()
        elif self.loop is not None:
            self.loop.cancel.cancel(reason)
        else:
            self._cancelled_before_start = reason

    async def replace_history(self, messages: tuple[Message, ...], usage: Usage | None = None) -> None:
        """Replaces what the model gets with these messages; the old ones stay in the log."""
        if self.state.run is not None:
            raise UsageError("the messages cannot be replaced while a run is open")
        replaced = events.HistoryReplaced(messages, usage)
        if problem := storage_problem(replaced):
            raise UsageError(f"the messages cannot be stored: {problem}")
        self.journal.record(replaced)
        await self.journal.commit()

    async def drain(self) -> None:
        """Between runs, before a process exits: lets listeners finish their work. `cancel` ends it."""
        if not self.harness.listeners or self.journal.failed:
            return
        self._draining = asyncio.ensure_future(self._notify("drain"))
        try:
            async with renew_lease(self.journal):
                await self._draining
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
        finally:
            self._draining = None

    async def close(self) -> None:
        """Ends what extensions and tools left running, and releases the lease."""
        if self._spawned is not None:
            await self._spawned.cancel()
        await self._notify("on_close")
        if self.memory:
            await child_process.stop_background(self.memory)
        if self.journal.has_processes and not self.journal.is_detached:
            self.journal.world.kill_processes_of(self.id)  # those that left their group
        if not self.journal.failed:
            await self.journal.store.release(self.journal.lease)
        self.journal.close()

    async def _acquire(self) -> None:
        """Before a run starts: the lease is ours, no run is open, and requests for a run are refused."""
        if self.loop is not None:
            raise UsageError(f"session {self.id} is driven already; submit a request to its inbox instead")
        await self.close_interrupted_run()
        await self.read_inbox()

    async def _require_lease(self) -> None:
        """Before anything is recorded: the lease is ours, and we can read all that the model gets."""
        await hold_lease(self.journal)
        require_own_agent(self.id, self.state.driver)
        if self.state.undecipherable:
            raise UsageError(
                f"session {self.id} has a {self.state.undecipherable!r} entry of a newer version; "
                "it can be read and copied, but only that version can continue it"
            )

    async def _next_prompt(self) -> requests.Prompt | requests.Continue | None:
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

    async def _start(self, request: requests.Prompt | requests.Continue) -> RunEnded | None:
        """Records the first facts of a run. Returns its end only if an input hook ended it."""
        if isinstance(request, requests.Continue):
            self._record_start(request.id, continues=True)
            return None
        scope = hook_scope(self.journal, CancelToken())
        draft = await self.harness.hooks.input(InputDraft(request.content, request.by), scope)
        self._record_start(request.id)
        if not isinstance(draft, InputDraft):
            return await self._end_without_model(draft)
        if draft.content != request.content:
            about = {"original": text_of(request.content)}
            self.journal.record(events.Audited("input.rewrite", "a hook changed the prompt", about))
        self.journal.record(events.UserMessage(draft.content, request=request.id), settles=request.id)
        return None

    def _record_start(self, request: str, *, continues: bool = False) -> None:
        harness, position = self.harness, self.position
        started = events.RunStarted(
            version=__version__,
            cwd=str(harness.cwd),
            model=harness.model.name,
            request=request,
            permissions=harness.permission_profile,
            limits=harness.limits,
            extensions=harness.extensions,
            continues=continues,
            root=position.root if position else "",
            parent_run=position.parent if position else "",
            depth=position.depth if position else 0,
            trace=harness.trace,
            tags=dict(harness.tags),
            agent=harness.agent,
        )
        self.journal.record(started, run=self.journal.world.new_id("run"), settles=request)

    async def _end_without_model(self, decision: Handled | Refuse) -> RunEnded:
        """Ends the run of a prompt that an input hook has handled or refused."""
        async with self._open_loop() as loop:
            if isinstance(decision, Refuse):
                ended = await close_run(loop, "refused", decision.reason or "a hook refused the prompt")
            else:
                if decision.text:
                    self.journal.publish([events.Printed(decision.text)])
                ended = await close_run(loop, "completed", "a hook handled the prompt")
        assert ended is not None
        await self._notify("on_idle")
        return ended

    async def _drive(self, *, is_cut: bool = False) -> RunEnded | RunWaiting:
        """Drives the run until it ends or waits. Whatever happens here, the run gets its end, unless the log
        cannot be written: recovery records it then."""
        async with self._open_loop() as loop:
            try:
                await self._inbox.read(is_cut=is_cut)
                async with background_task(self._inbox.follow()):
                    outcome = await loop.advance()
                if isinstance(outcome, RunEnded):  # requests that came too late are refused
                    self._inbox.reset()
                    await self.read_inbox()
                await self._notify("on_idle")
                return outcome
            except StoreError as error:
                self.journal.fail(error)
                await child_process.stop_background(self.memory)
                raise
            except asyncio.CancelledError:
                await run_shielded(close_run(loop, "cancelled", "the code that waited for it was cancelled"))
                raise
            except BaseException as error:
                await close_run(loop, "failed", f"{type(error).__name__}: {error}")
                raise

    async def _notify(self, event: Literal["on_idle", "drain", "on_close"]) -> None:
        for listener in self.harness.listeners:
            await getattr(listener, event)(self)

    @asynccontextmanager
    async def _open_loop(self) -> AsyncIterator[Loop]:
        """Makes a loop for the open run, connects the inbox to it, and renews the lease meanwhile."""
        cancel = CancelToken()
        if self._cancelled_before_start:
            cancel.cancel(self._cancelled_before_start)
            self._cancelled_before_start = ""
        self.journal.on_failure = lambda error: cancel.cancel("the log cannot be written")
        self.children = self._child_runs()
        loop: Loop = load("ostler.core.loop:Loop")(self, cancel)
        self.loop = loop
        self._inbox.reset(loop)
        await self._open_socket()
        try:
            async with renew_lease(self.journal):
                yield loop
        finally:
            await loop.spawned.cancel()
            self.loop = None
            self._inbox.reset()

    async def _open_socket(self) -> None:
        """From its first run on, other processes can follow the session live."""
        if self._has_socket or self.journal.store.socket_folder is None:
            return
        self._has_socket = True
        socket = load("ostler.sessions.live_socket:LiveSocket")(self.journal)
        self.journal.on_close.append(socket.close)
        await socket.open()


async def create_session(
    store: Store,
    harness: Harness,
    *,
    world: World | None = None,
    session: str = "",
    child_of: str = "",
    call: str = "",
    position: TreePosition | None = None,
) -> Session:
    world = world or World()
    first = Fact.of(
        events.SessionStarted(str(harness.cwd), __version__, child_of=child_of, call=call),
        seq=1,
        session=session or world.new_id("ses"),
        run="",
        time_ms=world.now_ms(),
    )
    lease = await store.create(first, new_owner(world))
    return Session(Journal(store, lease, fold([first]), world), harness, position)


async def open_session(
    store: Store,
    session: str,
    harness: Harness,
    *,
    world: World | None = None,
    position: TreePosition | None = None,
) -> Session:
    """Takes a session's lease and folds its log. Ends what a dead owner left: processes of tools, and
    children that extensions had spawned between runs."""
    world = world or World()
    lease = await store.acquire(session, new_owner(world))
    journal = await open_journal(store, lease, world)
    await kill_orphans(journal)
    opened = Session(journal, harness, position)
    if journal.state.spawned:
        await opened.spawned.recover()
    return opened


async def delete_session(store: Store, session: str, world: World | None = None) -> None:
    """Deletes a session that no process holds, and its children; ends what they left running."""
    summaries = await store.sessions()
    if await store.holder(session) is None:
        await kill_session_processes(store, session, world or World())
    await store.delete(session, current_process())
    for child in [one.id for one in summaries if one.child_of == session]:
        await delete_session(store, child, world)


async def open_or_follow(store: Store, session: str, harness: Harness) -> Session:
    """Opens a session; while another process holds it, without the lease, which is taken once it is free.
    Raises `UsageError` for a session of another vendor's agent."""
    require_own_agent(session, (await store.summary(session)).driver)
    try:
        return await open_session(store, session, harness)
    except SessionHeld:
        return await follow_session(store, session, harness)


async def follow_session(
    store: Store, session: str, harness: Harness, *, world: World | None = None
) -> Session:
    """Opens a session without its lease."""
    world = world or World()
    journal = await open_journal(store, Lease(session, 0, new_owner(world), 0), world)
    journal.is_detached = True
    return Session(journal, harness)


def require_own_agent(session: str, driver: str) -> None:
    """Raises `UsageError` for a session of another vendor's agent: no model answers there."""
    if driver not in ("agent", ""):
        raise UsageError(
            f"session {session} belongs to another vendor's agent, and no model answers in it: "
            "start its agent again, or talk to it with `ostler attach`"
        )
