"""The session that the terminal shows: driven here or elsewhere, and asked through its inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from ostler.extensions.lookout import present_host
from ostler.faces.tui.way_back import way_back
from ostler.kernel.harness import Harness
from ostler.kernel.store import Store
from ostler.runs.lease import hold
from ostler.runs.session import NOTHING_TO_CONTINUE, Quiet, Session
from ostler.vocabulary.errors import OstlerError, SessionHeld, StoreError, UsageError
from ostler.vocabulary.events import Event, RunEnded, Warned
from ostler.vocabulary.facts import Fact, UnknownEvent
from ostler.vocabulary.messages import PlainBlock
from ostler.vocabulary.requests import AnyRequest, Cancel, Continue, Prompt, ReleasePrompts, Steer

if TYPE_CHECKING:  # loaded when there are extensions
    from ostler.extensions.host import ExtensionHost

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
        return self._host or present_host(self.session.harness)

    @property
    def store(self) -> Store:
        return self.session.journal.store

    @property
    def harness(self) -> Harness:
        return self.session.harness

    @property
    def is_elsewhere(self) -> bool:
        """Another process has the session."""
        return self.session.journal.is_elsewhere

    @property
    def is_working(self) -> bool:
        """A run is under way, here or elsewhere."""
        run = self.session.state.run
        return self.session.is_running or (self.is_elsewhere and run is not None and run.waiting is None)

    def observe(self, see: See) -> Callable[[], None]:
        """Shows what happens in the session, whoever drives it. Returns how to end it."""
        stop = self.session.observe(see)
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
            how = f"leave, and `{way_back(self.session)}` opens it again"
            text = f"the session cannot go on here: {error.message}; {how}"
            self.session.journal.publish([Warned(text, about="store")])

    async def _next(self) -> Quiet:
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
        await hold(journal)
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
        quiet: Quiet = None
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
        from ostler.faces.tui.following import Following

        await Following(self.session, self._see).run()

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

    async def say(self, content: Content) -> str:
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
            return await self.say(content)
        return await self._ask(Steer(id=self._new_id(), by="tui", content=content))

    async def stop(self) -> None:
        """Ends the run under way."""
        if self.session.is_running:
            self.session.cancel("cancelled")
        elif self.session.state.run is not None:
            await self._ask(Cancel(id=self._new_id(), by="tui"))

    async def go_on(self) -> None:
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

    async def leave(self) -> None:
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
