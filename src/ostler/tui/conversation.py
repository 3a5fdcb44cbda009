"""The session that the terminal shows: it runs here, or is followed while another process runs it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from ostler.app.console import print_to_stdout
from ostler.app.remote_sessions import RemoteSessions
from ostler.core.harness import Harness
from ostler.core.lazy import lazy_module
from ostler.core.store import Store
from ostler.extensions.idle_host import active_host
from ostler.schema.errors import OstlerError, SessionHeld, StoreError, UsageError
from ostler.schema.events import Event, RunEnded, Warned
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import PlainBlock
from ostler.schema.requests import AnyRequest, Cancel, Continue, Prompt, ReleasePrompts, Resume, Steer
from ostler.sessions.lease import hold_lease
from ostler.sessions.run_tree import next_arrival
from ostler.sessions.session import NOTHING_TO_CONTINUE, RunOutcome, Session
from ostler.tui.session_follower import OpenQuestions, See, SessionFollower, set_model

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost
    from ostler.store import memory
else:
    memory = lazy_module("ostler.store.memory")


def resume_command_line(session: Session, cwd: str | None = None) -> str:
    """The command that resumes the session, with `--cwd` if it was given."""
    store = session.journal.store
    if isinstance(store, RemoteSessions):
        return shlex.join(["ostler", "attach", store.host, "--session", session.id])
    return shlex.join(["ostler", *(["--cwd", cwd] if cwd else []), "--session", session.id])


def print_resume_hint(conversation: Conversation, cwd: str | None = None) -> None:
    """Prints how to resume a stored session with messages, unless it has reported a problem."""
    if conversation.problem is not None or isinstance(conversation.store, memory.MemoryStore):
        return
    if conversation.session.state.transcript:
        print_to_stdout(f"to resume this session: {resume_command_line(conversation.session, cwd)}")


PAUSED = "the run is paused: enter in the empty line resumes it"

RUN_END_SECONDS = 2.0
"""Seconds to wait for a run that is ending."""

Content = tuple[PlainBlock, ...]


class Tasks:
    """Coroutines that run concurrently. `failed` gets each `OstlerError`, the event loop any other error."""

    def __init__(self, failed: Callable[[OstlerError], None] = lambda error: None) -> None:
        self._failed = failed
        self._tasks: set[asyncio.Future[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, OstlerError):
            raise error
        self._failed(error)

    def cancel(self) -> set[asyncio.Future[None]]:
        for task in self._tasks:
            task.cancel()
        return self._tasks

    async def close(self) -> None:
        if tasks := self.cancel():
            await asyncio.wait(tasks)


class Conversation:
    """Runs a session while it is open: it handles every request in its inbox.

    - Prompts that are typed here wait in the same inbox as those of other processes.
    - While another process holds the session, that process handles them, and this one follows it.
    """

    def __init__(self, session: Session, host: ExtensionHost | None, see: See) -> None:
        self.session = session
        self._host = host
        self.problem: OstlerError | None = None
        """Why the session cannot continue here."""
        self._observers: list[See] = []
        self._stop_observing = self.observe(see)
        self._driver: asyncio.Task[None] | None = None
        self.side_questions = Tasks()
        """They are cancelled when the session is closed."""
        self._questions = OpenQuestions(session, self._see)
        self._stop_closing = self.observe(self._questions.see)
        self._arrived: dict[str, int] = {}
        """How much of the inbox has been read, and of those of children."""
        self._is_idle = asyncio.Event()
        self._continue_request = ""
        """A request to continue on the transcript as it is; it goes before all prompts."""

    @property
    def host(self) -> ExtensionHost | None:
        """The host of extensions; it may appear only after the first extension is loaded."""
        return self._host or active_host(self.session.harness)

    @property
    def store(self) -> Store:
        return self.session.journal.store

    @property
    def harness(self) -> Harness:
        return self.session.harness

    @property
    def is_elsewhere(self) -> bool:
        """Another process holds the session."""
        return self.session.journal.is_detached

    @property
    def is_working(self) -> bool:
        """A run is in progress, here or in another process."""
        run = self.session.state.run
        return self.session.is_running or (self.is_elsewhere and run is not None and run.waiting is None)

    @property
    def is_paused(self) -> bool:
        run = self.session.state.run
        return run is not None and run.is_paused

    def observe(self, see: See) -> Callable[[], None]:
        """Calls `see` with everything that happens in the session; returns a function that stops it."""
        stop = self.session.subscribe(see)
        self._observers.append(see)

        def end() -> None:
            stop()
            self._observers.remove(see)

        return end

    def _see(self, batch: Sequence[Fact | Event]) -> None:
        """Takes what another process wrote; extensions see it in that process."""
        for see in tuple(self._observers):
            see(batch)

    def begin(self) -> None:
        self._driver = asyncio.ensure_future(self._drive())

    async def _drive(self) -> None:
        try:
            while True:
                try:
                    await self._work()
                    if self.session.state.run is not None and not self.is_elsewhere:
                        await self._questions.update()
                    if await self._until_arrival():
                        continue
                except SessionHeld:  # another process handles the request
                    pass
                await SessionFollower(self.session, self._see, self._questions).run()
        except (OstlerError, StoreError) as error:
            self.problem = error
            how = f"quit, and reopen it with `{resume_command_line(self.session)}`"
            text = f"the session cannot continue here: {error.message}; {how}"
            self.session.journal.publish([Warned(text, about="store")])

    async def _next(self) -> RunOutcome:
        await self._hold()
        request, self._continue_request = self._continue_request, ""
        is_new = request and await self.store.settlement(self.session.id, request) is None
        if is_new and self.session.state.run is None:
            return await self.session.continue_(request=request)
        return await self.session.advance()

    async def _hold(self) -> None:
        """Shows what other processes did since we held the session."""
        journal = self.session.journal
        seen, lease = journal.committed_seq, journal.lease
        await hold_lease(journal)
        await self._questions.withdraw_dead()
        if journal.lease.generation != lease.generation:
            if facts := await self.store.read(self.session.id, seen):
                self._see(facts)
            stored = self.session.state.settings  # another process may have changed the model
            if stored.model and stored.model != self.harness.model.name:
                set_model(self.harness, stored.model, stored.reasoning, self._see)

    async def _work(self) -> None:
        """Works off the inbox. If there is nothing to do, a session of another process stays there."""
        outcome: RunOutcome = None
        while not self.is_elsewhere or isinstance(outcome, RunEnded) or await self._has_work():
            self._is_idle.clear()
            try:
                outcome = await self._next()
            finally:
                self._is_idle.set()
            if not isinstance(outcome, RunEnded):
                return

    async def _has_work(self) -> bool:
        return self.session.state.run is not None or bool(await self.store.pending(self.session.id))

    async def _until_arrival(self) -> bool:
        """Waits for a request; False when another process continues the session."""
        arrival = asyncio.ensure_future(next_arrival(self.store, self.session.state, self._arrived))
        move = asyncio.ensure_future(self._until_moved_elsewhere())
        try:
            await asyncio.wait({arrival, move}, return_when=asyncio.FIRST_COMPLETED)
            if arrival.done():
                arrival.result()
                return True
            move.result()
            return False
        finally:
            arrival.cancel()
            move.cancel()
            await asyncio.wait({arrival, move})

    async def _until_moved_elsewhere(self) -> None:
        journal = self.session.journal
        async with aclosing(self.store.follow(self.session.id, journal.committed_seq)) as batches:  # type: ignore[type-var]
            async for facts in batches:
                if facts[-1].seq > journal.state.last_seq:
                    return

    # --- what a person asks -----------------------------------------------------------------------------

    async def prompt(self, content: Content) -> str:
        """Submits a prompt, which starts a run or is queued."""
        await self.release()
        return await self._ask(Prompt(id=self._new_id(), by="tui", content=content))

    async def release(self) -> None:
        """Releases held prompts."""
        state = self.session.state
        if state.held and state.run is None:  # also while a stopped run is ending
            await self._ask(ReleasePrompts(id=self._new_id(), by="tui"))

    async def resume(self) -> None:
        """Resumes a run that was paused, here or in another process."""
        if self.is_paused:
            await self._ask(Resume(id=self._new_id(), by="tui"))

    async def steer(self, content: Content) -> str:
        """Submits a steer; without a run, it is a prompt."""
        if not self.is_working:
            return await self.prompt(content)
        return await self._ask(Steer(id=self._new_id(), by="tui", content=content))

    async def stop(self) -> None:
        """Stops the run."""
        if self.session.is_running:
            self.session.cancel("cancelled")
        elif self.session.state.run is not None:
            await self._ask(Cancel(id=self._new_id(), by="tui"))

    async def continue_run(self) -> None:
        """Starts a run on the transcript as it is, or resumes a paused one; no tool call is repeated."""
        if self.is_paused:
            await self.resume()
            return
        if not len(self.session.state.transcript):
            raise UsageError(NOTHING_TO_CONTINUE)
        self._continue_request = self._new_id()
        await self._ask(Continue(id=self._continue_request, by="tui"))

    async def is_busy(self) -> bool:
        """Whether a run is in progress or about to start. Waits while extensions handle the end of one."""
        if self.session.is_running and self.session.state.run is None:
            await self._until_idle()
        return self.is_working or (not self.session.state.held and bool(await self.queued_prompts()))

    async def _until_idle(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), RUN_END_SECONDS)

    async def queued_prompts(self) -> list[Prompt]:
        return [one for one in await self.store.pending(self.session.id) if isinstance(one, Prompt)]

    async def ask(self, make: Callable[[str], AnyRequest]) -> Event | UnknownEvent:
        """Submits a request and returns its outcome: a fact, which may be `request_refused`, and is shown.

        When it returns, the state of the session here includes that fact. If another process runs the
        session, the store may have the outcome before it reaches this process.
        """
        session, changed = self.session, asyncio.Event()
        stop = self.observe(lambda batch: changed.set())
        try:
            request = await self._ask(make(self._new_id()))
            seq: int | None = None
            while True:
                changed.clear()
                seq = seq or await self.store.settlement(session.id, request)
                if seq is not None and session.state.last_seq >= seq:
                    break
                if self.problem is not None:
                    raise self.problem
                await changed.wait()
        finally:
            stop()
        if session.journal.is_moved:  # the fact is applied, but the state is of the old leaf
            await session.journal.reload()
        return (await self.store.read(session.id, seq - 1, 1))[0].event

    async def _ask(self, request: AnyRequest) -> str:
        if self.problem is not None:  # nobody would handle it
            raise self.problem
        if self.host is not None:
            self.host.own_requests.add(request.id)
        await self.store.submit(self.session.id, request)
        return request.id

    def _new_id(self) -> str:
        return self.session.journal.world.new_id("req")

    async def close(self) -> None:
        """Stops the run and releases the session."""
        await self.side_questions.close()
        if self.session.is_running:
            self.session.cancel("the terminal was closed")
            await self._until_idle()
        if self._driver is not None:
            self._driver.cancel()
            await asyncio.wait({self._driver})
        await self._questions.close()
        await self.session.close()
        self._stop_closing()
        self._stop_observing()
