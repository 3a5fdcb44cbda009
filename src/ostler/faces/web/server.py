"""What the routes work on: the store, the sessions that are driven here, and everything that is watched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

from ostler.faces.cli.saying import say
from ostler.faces.web.doorkeeping import Doorkeeper
from ostler.faces.web.driven_agents import DrivenAgents
from ostler.faces.web.folders import Folders
from ostler.faces.web.idempotency import KeptAnswers
from ostler.faces.web.sse import as_caught_up_of_all, as_frame_of_all, as_frames, as_live_frames_of_all
from ostler.faces.web.terminal_stream import TerminalStreams
from ostler.faces.web.tokens import TokenBook
from ostler.faces.web.uploads import Uploads
from ostler.kernel.harness import Harness
from ostler.kernel.journal import Journal, World
from ostler.kernel.store import Store
from ostler.runs.absent_model import harness_without_model
from ostler.runs.first_run import Answering, Surroundings, can_answer
from ostler.runs.left_behind import LeftBehind, end_tools_of_the_dead
from ostler.runs.session import create_session
from ostler.runs.settings import Settings, load_settings
from ostler.runs.supervisor import Supervisor
from ostler.runs.watching.channel import sweep
from ostler.runs.watching.everything import Everything
from ostler.runs.watching.patience import Patience
from ostler.runs.watching.watch import Watch
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.ids import new_id
from ostler.vocabulary.messages import as_content
from ostler.vocabulary.requests import Prompt

KEPT_OPEN = 600.0
"""Seconds that a session stays open behind its last run."""
SIGN_OF_LIFE = 15.0
"""Seconds of silence after which a stream says that it is alive."""

Equip = Callable[[Path], Awaitable[Harness]]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Server:
    """One for each application. It is open while its life lasts: `async with server`."""

    def __init__(
        self,
        store: Store,
        equip: Equip,
        cwd: Path,
        tokens: TokenBook,
        *,
        settings: Callable[[Path], Settings] = lambda cwd: load_settings(cwd, {}).settings,
    ) -> None:
        """`settings` are those that hold in a folder."""
        self.store = store
        self.settings = settings
        self.doorkeeper = Doorkeeper(tokens)
        self.uploads = Uploads(tokens.path.parent / "uploads")
        self.cwd = cwd
        self.watch = Watch(store, as_frames)
        self.patience = Patience()
        self.everything = Everything(
            store, as_frame_of_all, as_live_frames_of_all, now_ms, as_caught_up_of_all, self.patience
        )
        self.watch.on_live = self.everything.see_live
        self._equip = equip
        self.supervisor = Supervisor(
            store,
            self._equipped,
            keep_open=KEPT_OPEN,
            is_wanted=self._is_followed,
            attend_alone=self._audit,
        )
        self.left_behind = LeftBehind(self.supervisor)
        self.driven = DrivenAgents(store, self._attend_agent)
        self.terminal_streams = TerminalStreams()
        self.folders = Folders(store, self.supervisor, equip, cwd)
        self.answers = KeptAnswers(tokens.path.with_name("answers.db"))
        self.is_draining = False
        self._beating: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None

    async def _equipped(self, cwd: Path) -> Harness:
        harness = await self._equip(cwd)
        own = harness.attend

        def attend(journal: object) -> None:
            if own is not None:
                own(journal)  # type: ignore[arg-type]
            self.watch.attend(journal)  # type: ignore[arg-type]

        harness.attend = attend
        return harness

    async def switch(self, cwd: Path, session: str, prompt: str) -> str:
        """Where an extension goes on: in that session, or in a new one in that folder."""
        if not session:
            made = await create_session(self.store, harness_without_model(str(cwd)))
            await made.close()
            session = made.id
        if prompt:
            request = Prompt(id=new_id("req"), by="extension", content=as_content(prompt))
            await self.supervisor.submit(session, request)
        return (await self.store.summary(session)).id

    def _is_followed(self, session: str) -> bool:
        """Then it stays open: what extensions show in it is seen."""
        return any(hub.session == session and hub.followers for hub in self.watch.hubs())

    def _audit(self, journal: Journal) -> None:
        """What is taken up without a harness is told to the sinks as well."""
        if audit := self.settings(Path(journal.state.cwd)).audit:
            from ostler.runs.audit_sinks import audit_to, configured_sinks

            audit_to(journal, configured_sinks(audit), say)

    def _attend_agent(self, journal: Journal) -> None:
        self._audit(journal)
        self.watch.attend(journal)

    async def next_facts(self, session: str, after: int, wait: float) -> list[Fact]:
        """Waited for so many seconds, or until the server ends."""
        async with aclosing(self.store.follow(session, after)) as followed:  # type: ignore[type-var]
            try:
                async with self.patience.of(wait):
                    return await anext(followed)
            except TimeoutError:
                return []

    async def answering(self) -> Answering:
        """Which model would answer in a new session."""
        return await asyncio.to_thread(can_answer, Surroundings(self.settings(self.cwd)))

    async def __aenter__(self) -> Server:
        self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def start(self) -> None:
        """Only the first time: where it is mounted, with the first request."""
        if self._beating is not None:
            return
        sweep(self.store.meeting_place)
        self.uploads.sweep()
        self._tidying = asyncio.ensure_future(end_tools_of_the_dead(self.store, World()))
        self._beating = asyncio.ensure_future(self._beat())
        self._watching = asyncio.ensure_future(self.doorkeeper.watch())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(SIGN_OF_LIFE)
            for hub in self.watch.hubs():
                for follower in hub.followers:
                    follower.keep_alive()
            for one in self.everything.followers:
                one.keep_alive()
            self.terminal_streams.keep_alive()

    def close_streams(self) -> None:
        """In the path of the signal: no server ends open streams by itself."""
        self.is_draining = True
        self.patience.end()
        self.watch.close()
        self.everything.close()
        self.terminal_streams.close()

    async def close(self) -> None:
        self.close_streams()
        for task in (self._beating, self._watching, self._tidying):
            if task is not None:
                task.cancel()
        self.left_behind.close()
        await asyncio.gather(self.supervisor.close("the server ends"), self.driven.close())
        await self.folders.close()
        self.answers.close()
        await self.store.tidy()
