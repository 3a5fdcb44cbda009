"""What the routes work on: the store, the sessions that are driven here, and everything that is watched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

from ostler.faces.web.guarding import Doorkeeper
from ostler.faces.web.sse import as_frame_of_all, as_frames, as_live_frames_of_all
from ostler.faces.web.tokens import TokenBook
from ostler.kernel.harness import Harness
from ostler.kernel.store import Store
from ostler.runs.absent_model import AbsentModel
from ostler.runs.session import create_session
from ostler.runs.supervisor import Supervisor
from ostler.runs.watching.channel import sweep
from ostler.runs.watching.everything import Everything
from ostler.runs.watching.watch import Watch
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.ids import new_id
from ostler.vocabulary.messages import PlainBlock
from ostler.vocabulary.requests import Prompt

KEPT_OPEN = 600.0
"""Seconds that a session stays open behind its last run."""
SIGN_OF_LIFE = 15.0
"""Seconds of silence after which a stream says that it is alive."""

Equip = Callable[[Path], Awaitable[Harness]]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Server:
    """One for each application. `start` and `close` belong to its life cycle."""

    def __init__(self, store: Store, equip: Equip, cwd: Path, tokens: TokenBook) -> None:
        self.store = store
        self.doorkeeper = Doorkeeper(tokens)
        self.cwd = cwd
        self.watch = Watch(store, as_frames)
        self.everything = Everything(store, as_frame_of_all, as_live_frames_of_all, now_ms)
        self.watch.on_live = self.everything.see_live
        self._equip = equip
        self.supervisor = Supervisor(store, self._equipped, keep_open=KEPT_OPEN)
        self.is_draining = False
        self._beating: asyncio.Task[None] | None = None

    async def _equipped(self, cwd: Path) -> Harness:
        harness = await self._equip(cwd)
        own = harness.attend

        def attend(journal: object) -> None:
            if own is not None:
                own(journal)  # type: ignore[arg-type]
            self.watch.attend(journal)  # type: ignore[arg-type]

        harness.attend = attend
        return harness

    async def create(self, cwd: Path, prompt: tuple[PlainBlock, ...]) -> str:
        """A new session, at work if there is something to do."""
        session = await create_session(self.store, Harness(AbsentModel(), cwd=cwd))
        await session.close()
        if prompt:
            await self.supervisor.submit(session.id, Prompt(id=self.new_id(), by="api", content=prompt))
        return session.id

    def new_id(self) -> str:
        return new_id("req")

    async def settled(self, session: str, request: str, wait: float) -> int | None:
        """The number of the fact that settled a request, waited for so many seconds."""
        deadline = asyncio.get_running_loop().time() + wait
        while True:
            last_seq = await self.store.last_seq(session)
            left = deadline - asyncio.get_running_loop().time()
            if (seq := await self.store.settled(session, request)) is not None or left <= 0:
                return seq
            await self.next_facts(session, last_seq, left)

    async def next_facts(self, session: str, after: int, wait: float) -> list[Fact]:
        async with aclosing(self.store.follow(session, after)) as followed:  # type: ignore[type-var]
            try:
                async with asyncio.timeout(wait):
                    return await anext(followed)
            except TimeoutError:
                return []

    async def start(self) -> None:
        sweep(self.store.meeting_place)
        self._beating = asyncio.ensure_future(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(SIGN_OF_LIFE)
            for hub in self.watch.hubs():
                for follower in hub.followers:
                    follower.keep_alive()
            for one in self.everything.followers:
                one.keep_alive()

    def close_streams(self) -> None:
        """In the path of the signal: no server ends open streams by itself."""
        self.is_draining = True
        self.watch.close()
        self.everything.close()

    async def close(self) -> None:
        self.close_streams()
        if self._beating is not None:
            self._beating.cancel()
        await self.supervisor.close("the server ends")
        await self.store.tidy()
