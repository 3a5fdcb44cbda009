"""The state that the routes share: store, supervised sessions, streams, agents and folders."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import msgspec

from ostler.app.console import print_stderr
from ostler.app.default_model import ModelChoice, ModelProbe, choose_model
from ostler.app.project_files import FileMatch, ProjectFiles
from ostler.app.settings import Settings, load_settings
from ostler.core.harness import Harness, JournalListener, harness_without_model
from ostler.core.journal import Journal, World
from ostler.core.store import Store
from ostler.extensions.idle_host import active_host
from ostler.history.audit import audit_to, configured_sinks
from ostler.schema.errors import NotFound, OstlerError
from ostler.schema.facts import Fact
from ostler.schema.ids import new_id
from ostler.schema.messages import as_content
from ostler.schema.requests import Prompt
from ostler.server.agent_registry import AgentRegistry
from ostler.server.auth import Authenticator
from ostler.server.idempotency import IdempotencyStore
from ostler.server.problems import Forbidden
from ostler.server.streams import (
    TerminalStreams,
    as_caught_up_of_all,
    as_frame_of_all,
    as_frames,
    as_live_frames_of_all,
)
from ostler.server.tokens import TokenStore
from ostler.server.uploads import Uploads
from ostler.sessions.all_sessions import AllSessionsStream
from ostler.sessions.live_socket import remove_stale_sockets
from ostler.sessions.session import create_session
from ostler.sessions.streams import Deadlines, SessionStreams
from ostler.sessions.supervisor import AbandonedRequests, Supervisor, kill_orphan_tools

FRESH = 30.0
"""Seconds that a harness for viewing is cached."""

MOST = 16
"""Folders whose file lists are cached."""

PATIENCE = 1.0
"""Seconds that a search waits for the listing of files."""


class Listed(msgspec.Struct, frozen=True):
    found: list[FileMatch]
    is_complete: bool


class FolderHarnesses:
    """The folders that the API may look into: those of the sessions, and the server's own."""

    def __init__(
        self, store: Store, supervisor: Supervisor, equip: Callable[[Path], Awaitable[Harness]], own: Path
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._equip = equip
        self._own = own
        self._looked_at: dict[Path, asyncio.Future[Harness]] = {}
        self._files: OrderedDict[Path, tuple[ProjectFiles, threading.Event]] = OrderedDict()
        self._leaving: set[asyncio.Future[None]] = set()

    async def folder(self, cwd: str) -> Path:
        """The folder of that name; the server's own, if none is named. Raises `Forbidden` and `NotFound`."""
        if not cwd:
            return self._own
        if cwd != str(self._own) and not await self._store.sessions(cwd=cwd, limit=1):
            raise Forbidden("the folder belongs neither to a session nor to the server")
        if not await asyncio.to_thread(Path(cwd).is_dir):
            raise NotFound(f"the folder {cwd} does not exist any more")
        return Path(cwd)

    # --- what an agent would work with ----------------------------------------------------------------

    async def of_session(self, session: str) -> Harness:
        """That of a session which is open here; else what it would have if it were opened now."""
        if (opened := self._supervisor.get(session)) is not None:
            return opened.harness
        return await self.harness(await self.folder((await self._store.summary(session)).cwd))

    async def harness(self, cwd: Path) -> Harness:
        """For looking only: no session ever has it."""
        if cwd not in self._looked_at:
            self._looked_at[cwd] = asyncio.ensure_future(self._equip(cwd))
            asyncio.get_running_loop().call_later(FRESH, self._forget, cwd)
        looked_at = self._looked_at[cwd]
        try:
            return await asyncio.shield(looked_at)
        except OstlerError:
            if self._looked_at.get(cwd) is looked_at:
                del self._looked_at[cwd]
            raise

    def _forget(self, cwd: Path) -> None:
        if (made := self._looked_at.pop(cwd, None)) is not None:
            leaving = asyncio.ensure_future(self._dismiss(made))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def _dismiss(self, making: asyncio.Future[Harness]) -> None:
        await asyncio.wait({making})
        if making.cancelled() or making.exception():
            return
        harness = making.result()
        if (host := active_host(harness)) is not None:
            for extension in host.extensions.values():
                await extension.close()
        if not self._supervisor.uses_model(harness.model):
            await harness.model.aclose()

    # --- files ----------------------------------------------------------------------------------------

    async def search(self, cwd: Path, query: str, limit: int) -> Listed:
        """The files that may be meant. Those of a large project are found over some time."""
        files, more = self._files_of(cwd)
        files.refresh()
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            more.clear()
            is_complete = files.is_complete
            found = await asyncio.to_thread(files.search, query, limit)
            left = deadline - asyncio.get_running_loop().time()
            if is_complete or len(found) >= limit or left <= 0:
                return Listed(found, is_complete)
            await asyncio.to_thread(more.wait, left)

    def _files_of(self, cwd: Path) -> tuple[ProjectFiles, threading.Event]:
        if cwd not in self._files:
            more = threading.Event()
            self._files[cwd] = ProjectFiles(cwd, more.set, is_closed=True), more
            if len(self._files) > MOST:
                _, (oldest, _) = self._files.popitem(last=False)
                threading.Thread(target=oldest.close, daemon=True).start()
        self._files.move_to_end(cwd)
        return self._files[cwd]

    async def close(self) -> None:
        for cwd in tuple(self._looked_at):
            self._forget(cwd)
        if self._leaving:
            await asyncio.wait(set(self._leaving))
        for files, _ in self._files.values():
            await asyncio.to_thread(files.close)


KEPT_OPEN = 600.0
"""Seconds that a session stays open after its last run."""

SIGN_OF_LIFE = 15.0
"""Seconds between keep-alive lines of an idle stream."""

Equip = Callable[[Path], Awaitable[Harness]]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class ServerState:
    """The state of one application. Open it with `async with server`."""

    def __init__(
        self,
        store: Store,
        equip: Equip,
        cwd: Path,
        tokens: TokenStore,
        *,
        settings: Callable[[Path], Settings] = lambda cwd: load_settings(cwd, {}).settings,
    ) -> None:
        """`settings` are those that hold in a folder."""
        self.store = store
        self.settings = settings
        self.doorkeeper = Authenticator(tokens)
        self.uploads = Uploads(tokens.path.parent / "uploads")
        self.cwd = cwd
        self.watch = SessionStreams(store, as_frames)
        self.patience = Deadlines()
        self.everything = AllSessionsStream(
            store, as_frame_of_all, as_live_frames_of_all, now_ms, as_caught_up_of_all, self.patience
        )
        self.watch.on_live = self.everything.publish_live
        self._equip = equip
        self.supervisor = Supervisor(
            store,
            self._equipped,
            keep_open=KEPT_OPEN,
            is_wanted=self._is_followed,
            on_bare_journal=self._audit,
        )
        self.left_behind = AbandonedRequests(self.supervisor)
        self.driven = AgentRegistry(store, self._open_agent)
        self.terminal_streams = TerminalStreams()
        self.folders = FolderHarnesses(store, self.supervisor, equip, cwd)
        self.answers = IdempotencyStore(tokens.path.with_name("answers.db"))
        self.is_draining = False
        self._beating: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None

    async def _equipped(self, cwd: Path) -> Harness:
        harness = await self._equip(cwd)
        harness.listeners = [*harness.listeners, JournalListener(self.watch.attach)]
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
        return any(stream.session == session and stream.subscribers for stream in self.watch.streams())

    def _audit(self, journal: Journal) -> None:
        """What is taken up without a harness is told to the sinks as well."""
        if audit := self.settings(Path(journal.state.cwd)).audit:
            audit_to(journal, configured_sinks(audit), print_stderr)

    def _open_agent(self, journal: Journal) -> None:
        self._audit(journal)
        self.watch.attach(journal)

    async def next_facts(self, session: str, after: int, wait: float) -> list[Fact]:
        """Waited for so many seconds, or until the server ends."""
        async with aclosing(self.store.follow(session, after)) as followed:  # type: ignore[type-var]
            try:
                async with self.patience.of(wait):
                    return await anext(followed)
            except TimeoutError:
                return []

    async def answering(self) -> ModelChoice:
        """Which model would answer in a new session."""
        return await asyncio.to_thread(choose_model, ModelProbe(self.settings(self.cwd)))

    async def __aenter__(self) -> ServerState:
        self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def start(self) -> None:
        """Only the first time: where it is mounted, with the first request."""
        if self._beating is not None:
            return
        remove_stale_sockets(self.store.socket_folder)
        self.uploads.sweep()
        self._tidying = asyncio.ensure_future(kill_orphan_tools(self.store, World()))
        self._beating = asyncio.ensure_future(self._beat())
        self._watching = asyncio.ensure_future(self.doorkeeper.watch())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(SIGN_OF_LIFE)
            for stream in self.watch.streams():
                for subscriber in stream.subscribers:
                    subscriber.keep_alive()
            for reader in self.everything.subscribers:
                reader.keep_alive()
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
        await asyncio.gather(self.supervisor.close("the server is shutting down"), self.driven.close())
        await self.folders.close()
        self.answers.close()
        await self.store.checkpoint()
