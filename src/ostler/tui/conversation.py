"""The session that the terminal shows: it runs here, or is followed while another process runs it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from ostler.app.console import print_to_stdout
from ostler.app.remote_sessions import Relayed, RemoteSessions
from ostler.core.harness import Harness
from ostler.core.lazy import lazy_module
from ostler.core.questions import OpenQuestion
from ostler.core.store import Store
from ostler.extensions.idle_host import active_host
from ostler.schema import events
from ostler.schema.errors import CallRefused, OstlerError, SessionHeld, StoreError, UsageError
from ostler.schema.events import Event, RunEnded, Warned
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import PlainBlock
from ostler.schema.requests import Answer, AnyRequest, Cancel, Continue, Prompt, ReleasePrompts, Steer
from ostler.sessions.lease import hold_lease
from ostler.sessions.live_socket import Batch, DeltaFilter, Relay
from ostler.sessions.run_tree import open_questions
from ostler.sessions.session import NOTHING_TO_CONTINUE, RunOutcome, Session
from ostler.tui.call_items import ChildQuestions

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost
    from ostler.store import memory
else:
    memory = lazy_module("ostler.store.memory")


def resume_command_line(session: Session, cwd: str | None = None) -> str:
    """The command; with the folder, where one was named."""
    store = session.journal.store
    if isinstance(store, RemoteSessions):
        return shlex.join(["ostler", "attach", store.host, "--session", session.id])
    return shlex.join(["ostler", *(["--cwd", cwd] if cwd else []), "--session", session.id])


def print_resume_hint(conversation: Conversation, cwd: str | None = None) -> None:
    """Where something was said that is kept. What cannot go on has said so itself."""
    if conversation.problem is not None or isinstance(conversation.store, memory.MemoryStore):
        return
    if conversation.session.state.transcript:
        print_to_stdout(f"to go on with this session: {resume_command_line(conversation.session, cwd)}")


COMING_TO_REST = 2.0
"""Seconds."""


Content = tuple[PlainBlock, ...]

AnyEvent = Event | UnknownEvent

See = Callable[[Sequence[Fact | Event]], None]


class Conversation:
    """Drives a session as long as it is open: whatever arrives in its inbox is taken up.

    - Prompts that are typed here wait in the same inbox as those from elsewhere, so both have their turn.
    - When another process has the session, that one takes them up, and what it does is seen here.
    """

    def __init__(self, session: Session, host: ExtensionHost | None, see: See) -> None:
        self.session = session
        self._host = host
        self.problem: OstlerError | None = None
        """Why it cannot be driven any more."""
        self._watching: list[See] = []
        self._stop_seeing = self.observe(see)
        self._driving: asyncio.Task[None] | None = None
        self.beside: set[asyncio.Future[None]] = set()
        """What is asked beside its runs; it ends when the session is left."""
        self._arrived = -1
        """How much of the inbox was seen."""
        self._rests = asyncio.Event()
        self._continues = ""
        """The request for a run on the transcript as it is, which goes before all that waits."""

    @property
    def host(self) -> ExtensionHost | None:
        """The first extension may have come only now."""
        return self._host or active_host(self.session.harness)

    @property
    def store(self) -> Store:
        return self.session.journal.store

    @property
    def harness(self) -> Harness:
        return self.session.harness

    @property
    def is_elsewhere(self) -> bool:
        """Another process has the session."""
        return self.session.journal.is_detached

    @property
    def is_working(self) -> bool:
        """A run is under way, here or elsewhere."""
        run = self.session.state.run
        return self.session.is_running or (self.is_elsewhere and run is not None and run.waiting is None)

    def observe(self, see: See) -> Callable[[], None]:
        """Shows what happens in the session, whoever drives it. Returns how to end it."""
        stop = self.session.subscribe(see)
        self._watching.append(see)

        def end() -> None:
            stop()
            self._watching.remove(see)

        return end

    def _see(self, batch: Sequence[Fact | Event]) -> None:
        """What was written elsewhere: extensions see it where it happens."""
        for see in tuple(self._watching):
            see(batch)

    def begin(self) -> None:
        self._driving = asyncio.ensure_future(self._drive())

    async def _drive(self) -> None:
        try:
            while True:
                try:
                    await self._work()
                    if not await self._until_arrival():
                        await self._follow()
                except SessionHeld:  # of those who saw the same request, one drives
                    await self._follow()
        except (OstlerError, StoreError) as error:
            self.problem = error
            how = f"leave, and `{resume_command_line(self.session)}` opens it again"
            text = f"the session cannot go on here: {error.message}; {how}"
            self.session.journal.publish([Warned(text, about="store")])

    async def _next(self) -> RunOutcome:
        await self._hold()
        request, self._continues = self._continues, ""
        is_new = request and await self.store.settled(self.session.id, request) is None
        if is_new and self.session.state.run is None:
            return await self.session.continue_(request=request)
        return await self.session.advance()

    async def _hold(self) -> None:
        """What others did since we had the session is shown, before anything new is done."""
        journal = self.session.journal
        seen, lease = journal.committed_seq, journal.lease
        await hold_lease(journal)
        if journal.lease.generation != lease.generation:
            if facts := await self.store.read(self.session.id, seen):
                self._see(facts)
            self._keep_model()

    def _keep_model(self) -> None:
        """Others may have given the session another one."""
        harness, kept = self.session.harness, self.session.state.settings
        if not kept.model or harness.make_model is None or kept.model == harness.model.name:
            return
        try:
            harness.set_model(kept.model, kept.reasoning)
        except OstlerError as error:
            self._see([Warned(f"{kept.model} cannot answer here: {error.message}")])

    async def _work(self) -> None:
        """All that can be done now. A session that others had is left to them if there is nothing."""
        quiet: RunOutcome = None
        while not self.is_elsewhere or isinstance(quiet, RunEnded) or await self._has_work():
            self._rests.clear()
            try:
                quiet = await self._next()
            finally:
                self._rests.set()
            if not isinstance(quiet, RunEnded):
                return

    async def _has_work(self) -> bool:
        return self.session.state.run is not None or bool(await self.store.pending(self.session.id))

    async def _follow(self) -> None:

        await SessionFollower(self.session, self._see).run()

    async def _until_arrival(self) -> bool:
        """A request arrives; False when somebody else goes on with the session."""
        arriving = asyncio.ensure_future(self.store.arrivals(self.session.id, self._arrived))
        moving = asyncio.ensure_future(self._until_moved_elsewhere())
        try:
            await asyncio.wait({arriving, moving}, return_when=asyncio.FIRST_COMPLETED)
            if arriving.done():
                self._arrived = arriving.result()
                return True
            moving.result()
            return False
        finally:
            arriving.cancel()
            moving.cancel()
            await asyncio.wait({arriving, moving})

    async def _until_moved_elsewhere(self) -> None:
        journal = self.session.journal
        async with aclosing(self.store.follow(self.session.id, journal.committed_seq)) as followed:  # type: ignore[type-var]
            async for facts in followed:
                if facts[-1].seq > journal.state.last_seq:
                    return

    # --- what a person asks ---------------------------------------------------------------------------

    async def prompt(self, content: Content) -> str:
        """A prompt: it starts a run, or waits for its turn."""
        await self.release()
        return await self._ask(Prompt(id=self._new_id(), by="tui", content=content))

    async def release(self) -> None:
        """Prompts that are held have their turn now."""
        state = self.session.state
        if state.held and state.run is None:  # also while the run that was stopped is still being left
            await self._ask(ReleasePrompts(id=self._new_id(), by="tui"))

    async def steer(self, content: Content) -> str:
        """Something for the model to be told between two steps; a prompt, if nothing is under way."""
        if not self.is_working:
            return await self.prompt(content)
        return await self._ask(Steer(id=self._new_id(), by="tui", content=content))

    async def stop(self) -> None:
        """Ends the run under way."""
        if self.session.is_running:
            self.session.cancel("cancelled")
        elif self.session.state.run is not None:
            await self._ask(Cancel(id=self._new_id(), by="tui"))

    async def continue_run(self) -> None:
        """A run on the transcript as it is: nothing that was done is repeated."""
        if not len(self.session.state.transcript):
            raise UsageError(NOTHING_TO_CONTINUE)
        self._continues = self._new_id()
        await self._ask(Continue(id=self._continues, by="tui"))

    async def is_busy(self) -> bool:
        """A run is under way, or about to begin. One that has just ended is waited for: extensions may still
        be at work on its end."""
        if self.session.is_running and self.session.state.run is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rests.wait(), COMING_TO_REST)
        return self.is_working or (not self.session.state.held and bool(await self.waiting()))

    async def waiting(self) -> list[Prompt]:
        """The prompts that have not had their turn."""
        return [one for one in await self.store.pending(self.session.id) if isinstance(one, Prompt)]

    async def ask(self, make: Callable[[str], AnyRequest]) -> AnyEvent:
        """Asks for something by a request with that id, and waits for what comes of it: a fact, which may be
        `request_refused`. That one is shown by itself.

        When it returns, the state of the session here includes that fact. Where another process drives the
        session, the store may know the outcome before it has reached this process."""
        session, came = self.session, asyncio.Event()
        stop = self.observe(lambda batch: came.set())
        try:
            request = await self._ask(make(self._new_id()))
            seq: int | None = None
            while True:
                came.clear()
                seq = seq or await self.store.settled(session.id, request)
                if seq is not None and session.state.last_seq >= seq:
                    break
                if self.problem is not None:
                    raise self.problem
                await came.wait()
        finally:
            stop()
        if session.journal.is_moved:  # the fact is applied, but the state is still that of the old leaf
            await session.journal.reload()
        return (await self.store.read(session.id, seq - 1, 1))[0].event

    async def _ask(self, request: AnyRequest) -> str:
        if self.problem is not None:  # nobody would take it up
            raise self.problem
        if self.host is not None:
            self.host.own_requests.add(request.id)
        await self.store.submit(self.session.id, request)
        return request.id

    def _new_id(self) -> str:
        return self.session.journal.world.new_id("req")

    async def close(self) -> None:
        """Stops driving, ends what runs, and gives the session back."""
        for task in self.beside:
            task.cancel()
        if self.beside:
            await asyncio.wait(self.beside)
        if self.session.is_running:
            self.session.cancel("the terminal was closed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rests.wait(), COMING_TO_REST)
        if self._driving is not None:
            self._driving.cancel()
            await asyncio.wait({self._driving})
        await self.session.close()
        self._stop_seeing()


LOOK_AGAIN = 1.0
"""Seconds of silence after which it is looked whether somebody still has the session."""

_ABOUT_QUESTIONS = (events.QuestionAsked, events.QuestionAnswered)

ASKS_FOR_SECRET = "it is asked for a secret, which can only be typed where the run is driven"


class SessionFollower:
    """Keeps the session's state up to date with what its owner writes, until nobody has it."""

    def __init__(self, session: Session, see: See) -> None:
        self._session = session
        self._see = see
        self._children = ChildQuestions()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._is_told = False

    async def run(self) -> None:
        journal = self._session.journal
        relay = self._relay()
        await journal.detach()
        fresh = DeltaFilter()
        try:
            await self._ask_what_is_open()
            async with aclosing(relay.batches()) as batches:
                async for batch in batches:
                    await self._take(fresh.among(batch))
                    if not batch and relay.owner is None:
                        return
                    if relay.problem:
                        self._say_incomplete(relay.problem)
        finally:
            for task in self._asking.values():
                task.cancel()
            if self._asking:
                await asyncio.wait(self._asking.values())

    def _relay(self) -> Relayed:
        journal = self._session.journal
        store, seen = journal.store, journal.committed_seq
        if isinstance(store, RemoteSessions):
            return store.relay(journal.session, seen)
        return Relay(store, journal.session, seen, look_again=LOOK_AGAIN)

    async def _take(self, batch: Batch) -> None:
        if not batch:
            return
        journal = self._session.journal
        for one in batch:
            if isinstance(one, Fact) and one.seq > journal.state.last_seq:
                journal.state.apply(one)
                journal.is_moved = journal.is_moved or isinstance(one.event, events.LeafMoved)
        if journal.is_moved:
            await journal.reload()
        self._keep_model(batch)
        self._see(batch)
        told = self._children.among(batch)
        if any(isinstance(one.event if isinstance(one, Fact) else one, _ABOUT_QUESTIONS) for one in told):
            await self._ask_what_is_open()

    def _keep_model(self, batch: Batch) -> None:
        """Shows here which model answers there. On the same machine only a model that the session was given:
        this process may drive the session next, and then answers with its own."""
        is_far = isinstance(self._session.journal.store, RemoteSessions)
        for one in batch:
            match one.event if isinstance(one, Fact) else one:
                case events.RunStarted(model=model) if model and is_far:
                    self._set_model(model)
                case events.SettingsChanged(model=model, reasoning=reasoning) if model or reasoning:
                    self._set_model(model or self._session.harness.model.name, reasoning)

    def _set_model(self, name: str, reasoning: str = "") -> None:
        harness = self._session.harness
        if harness.make_model is None:
            return
        try:
            harness.set_model(name, reasoning)
        except OstlerError as error:
            self._see([Warned(f"{name} cannot answer here: {error.message}")])

    def _say_incomplete(self, problem: str) -> None:
        if not self._is_told:
            self._is_told = True
            self._see([Warned(f"{problem}: what it says is seen when it is whole", about="store")])

    # --- what it asks ---------------------------------------------------------------------------------

    async def _ask_what_is_open(self) -> None:
        """Each question is asked here as well; the first answer counts."""
        session = self._session
        open_now = {one.asked.id: one for one in await open_questions(session.journal.store, session.state)}
        for gone in self._asking.keys() - open_now.keys():
            self._asking.pop(gone).cancel()
        for name in open_now.keys() - self._asking.keys():
            self._asking[name] = asyncio.ensure_future(self._ask(open_now[name]))

    async def _ask(self, one: OpenQuestion) -> None:
        harness, asked = self._session.harness, one.asked
        if harness.asker is None:
            return
        if asked.question.secret and not isinstance(self._session.journal.store, RemoteSessions):
            self._see([Warned(ASKS_FOR_SECRET, about="store")])
            return
        answer, declined = None, False
        try:
            answer = await harness.asker(asked)
        except CallRefused:
            declined = True
        journal = self._session.journal
        name = journal.world.new_id("req")
        request = Answer(id=name, by="tui", question=asked.id, answer=answer, declined=declined)
        try:
            await journal.store.submit(one.session, request)
        except OstlerError as error:
            self._see([Warned(f"the answer was not taken: {error.message}", about="store")])
