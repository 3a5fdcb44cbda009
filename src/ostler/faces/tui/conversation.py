"""The session that the terminal shows: driven here, and asked for everything through its inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ostler.extensions.host import ExtensionHost
from ostler.kernel.harness import Harness
from ostler.kernel.store import Store
from ostler.runs.session import Session
from ostler.vocabulary.errors import OstlerError, StoreError
from ostler.vocabulary.events import Event, RunWaiting
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import PlainBlock
from ostler.vocabulary.requests import AnyRequest, Cancel, Prompt, ReleasePrompts, Steer

Content = tuple[PlainBlock, ...]
See = Callable[[Sequence[Fact | Event]], None]


class Conversation:
    """Drives a session as long as it is open: whatever arrives in its inbox is taken up.

    Prompts that are typed here wait in the same inbox as those from elsewhere, so both have their turn.
    """

    def __init__(self, session: Session, host: ExtensionHost | None, see: See) -> None:
        self.session = session
        self.host = host
        self.problem: OstlerError | None = None
        """Why it cannot be driven any more."""
        self._stop_seeing = session.observe(see)
        self._driving: asyncio.Task[None] | None = None

    @property
    def store(self) -> Store:
        return self.session.journal.store

    @property
    def harness(self) -> Harness:
        return self.session.harness

    @property
    def is_working(self) -> bool:
        return self.session.is_running

    def begin(self) -> None:
        self._driving = asyncio.ensure_future(self._drive())

    async def _drive(self) -> None:
        seen = -1
        try:
            while True:
                quiet = await self.session.advance()
                if quiet is None or isinstance(quiet, RunWaiting):
                    seen = await self.store.arrivals(self.session.id, seen)
        except (OstlerError, StoreError) as error:
            self.problem = error

    # --- what a person asks ---------------------------------------------------------------------------

    async def say(self, content: Content) -> str:
        """A prompt: it starts a run, or waits for its turn."""
        if self.session.state.held and not self.is_working:
            await self._ask(ReleasePrompts(id=self._new_id(), by="tui"))
        return await self._ask(Prompt(id=self._new_id(), by="tui", content=content))

    async def steer(self, content: Content) -> str:
        """Something for the model to be told between two steps; a prompt, if nothing is under way."""
        if not self.is_working:
            return await self.say(content)
        return await self._ask(Steer(id=self._new_id(), by="tui", content=content))

    async def stop(self) -> None:
        """Ends the run under way."""
        if self.is_working:
            self.session.cancel("cancelled")
        elif self.session.state.run is not None:
            await self._ask(Cancel(id=self._new_id(), by="tui"))

    async def waiting(self) -> list[Prompt]:
        """The prompts that have not had their turn."""
        return [one for one in await self.store.pending(self.session.id) if isinstance(one, Prompt)]

    async def _ask(self, request: AnyRequest) -> str:
        if self.host is not None:
            self.host.own_requests.add(request.id)
        await self.store.submit(self.session.id, request)
        return request.id

    def _new_id(self) -> str:
        return self.session.journal.world.new_id("req")

    async def leave(self) -> None:
        """Stops driving, ends what runs, and gives the session back."""
        if self.is_working:
            self.session.cancel("the terminal was closed")
        if self._driving is not None:
            self._driving.cancel()
            await asyncio.wait({self._driving})
        await self.session.close()
        self._stop_seeing()
