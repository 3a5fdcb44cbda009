"""The state that the routes share: store, supervised sessions, streams, agents and folders."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
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
from ostler.permissions.rules import Profile
from ostler.schema.errors import NotFound, OstlerError
from ostler.schema.facts import Fact
from ostler.schema.ids import new_id
from ostler.schema.messages import as_content
from ostler.schema.requests import Prompt
from ostler.server.agent_registry import AgentRegistry
from ostler.server.auth import Authenticator
from ostler.server.idempotency import IdempotencyStore
from ostler.server.problems import Forbidden
from ostler.server.profiles import AT_LEAST, SessionProfiles
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


class FileSearch(msgspec.Struct, frozen=True):
    matches: list[FileMatch]
    is_complete: bool


class FolderHarnesses:
    """The folders that the API may read: those of the sessions, and the server's own."""

    def __init__(
        self, store: Store, supervisor: Supervisor, equip: Callable[[Path], Awaitable[Harness]], own: Path
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._equip = equip
        self._own = own
        self._harnesses: dict[Path, asyncio.Future[Harness]] = {}
        self._files: OrderedDict[Path, tuple[ProjectFiles, threading.Event]] = OrderedDict()
        self._closing: set[asyncio.Future[None]] = set()

    async def folder(self, cwd: str) -> Path:
        """The folder of that name; by default the server's own. Raises `Forbidden` and `NotFound`."""
        if not cwd:
            return self._own
        if cwd != str(self._own) and not await self._store.sessions(cwd=cwd, limit=1):
            raise Forbidden("the folder belongs neither to a session nor to the server")
        if not await asyncio.to_thread(Path(cwd).is_dir):
            raise NotFound(f"the folder {cwd} does not exist any more")
        return Path(cwd)

    # --- harnesses ------------------------------------------------------------------------------------

    async def of_session(self, session: str) -> Harness:
        """The harness of a session that is open here; else the one that it would get now."""
        if (opened := self._supervisor.get(session)) is not None:
            return opened.harness
        return await self.harness(await self.folder((await self._store.summary(session)).cwd))

    async def harness(self, cwd: Path) -> Harness:
        """A harness to look at; no session uses it."""
        if cwd not in self._harnesses:
            self._harnesses[cwd] = asyncio.ensure_future(self._equip(cwd))
            asyncio.get_running_loop().call_later(FRESH, self._forget, cwd)
        harness = self._harnesses[cwd]
        try:
            return await asyncio.shield(harness)
        except OstlerError:
            if self._harnesses.get(cwd) is harness:
                del self._harnesses[cwd]
            raise

    def _forget(self, cwd: Path) -> None:
        if (made := self._harnesses.pop(cwd, None)) is not None:
            closing = asyncio.ensure_future(self._close_harness(made))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _close_harness(self, making: asyncio.Future[Harness]) -> None:
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

    async def search(self, cwd: Path, query: str, limit: int) -> FileSearch:
        """The matching files. A large project is listed over some time, so the result may be incomplete."""
        files, more = self._files_of(cwd)
        files.refresh()
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            more.clear()
            is_complete = files.is_complete
            matches = await asyncio.to_thread(files.search, query, limit)
            left = deadline - asyncio.get_running_loop().time()
            if is_complete or len(matches) >= limit or left <= 0:
                return FileSearch(matches, is_complete)
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
        for cwd in tuple(self._harnesses):
            self._forget(cwd)
        if self._closing:
            await asyncio.wait(set(self._closing))
        for files, _ in self._files.values():
            await asyncio.to_thread(files.close)


KEPT_OPEN = 600.0
"""Seconds that a session stays open after its last run."""

KEEP_ALIVE = 15.0
"""Seconds between keep-alive lines of an idle stream."""

Equip = Callable[[Path], Awaitable[Harness]]


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
        max_permissions: Profile = AT_LEAST,
    ) -> None:
        """`settings` returns the settings of a folder. `max_permissions` is the highest permission profile
        that a token below the scope `admin` can choose."""
        self.store = store
        self.settings = settings
        self.auth = Authenticator(tokens)
        self.uploads = Uploads(tokens.path.parent / "uploads")
        self.cwd = cwd
        self.streams = SessionStreams(store, as_frames)
        self.deadlines = Deadlines()
        self.all_events = AllSessionsStream(
            store, as_frame_of_all, as_live_frames_of_all, World().now_ms, as_caught_up_of_all, self.deadlines
        )
        self.streams.on_live = self.all_events.publish_live
        self._equip = equip
        self.supervisor = Supervisor(
            store, self._open, keep_open=KEPT_OPEN, is_wanted=self._is_followed, on_bare_journal=self._audit
        )
        self.abandoned_requests = AbandonedRequests(self.supervisor)
        self.profiles = SessionProfiles(self.supervisor, settings, max_permissions)
        self.agents = AgentRegistry(store, self._open_agent)
        self.terminal_streams = TerminalStreams()
        self.folders = FolderHarnesses(store, self.supervisor, equip, cwd)
        self.answers = IdempotencyStore(tokens.path.with_name("answers.db"))
        self.is_draining = False
        self._tasks: list[asyncio.Future[None]] = []

    async def _open(self, cwd: Path) -> Harness:
        harness = await self._equip(cwd)
        profile = JournalListener(partial(self.profiles.apply, harness))
        harness.listeners = [*harness.listeners, JournalListener(self.streams.attach), profile]
        return harness

    async def switch(self, cwd: Path, session: str, prompt: str) -> str:
        """Continues for an extension in that session, or in a new one in that folder; returns its id."""
        if not session:
            new = await create_session(self.store, harness_without_model(str(cwd)))
            await new.close()
            session = new.id
        if prompt:
            request = Prompt(id=new_id("req"), by="extension", content=as_content(prompt))
            await self.supervisor.submit(session, request)
        return (await self.store.summary(session)).id

    def _is_followed(self, session: str) -> bool:
        """A session with subscribers stays open, because they see what its extensions show."""
        return any(stream.session == session and stream.subscribers for stream in self.streams.streams())

    def _audit(self, journal: Journal) -> None:
        """Sends requests that are handled without a harness to the audit sinks, too."""
        if audit := self.settings(Path(journal.state.cwd)).audit:
            audit_to(journal, configured_sinks(audit), print_stderr)

    def _open_agent(self, journal: Journal) -> None:
        self._audit(journal)
        self.streams.attach(journal)

    async def next_facts(self, session: str, after: int, wait: float) -> list[Fact]:
        """The next facts, if they come within `wait` seconds and before the server ends."""
        async with aclosing(self.store.follow(session, after)) as followed:  # type: ignore[type-var]
            try:
                async with self.deadlines.of(wait):
                    return await anext(followed)
            except TimeoutError:
                return []

    async def default_model(self) -> ModelChoice:
        """The model that answers in a new session."""
        return await asyncio.to_thread(choose_model, ModelProbe(self.settings(self.cwd)))

    async def __aenter__(self) -> ServerState:
        self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def start(self) -> None:
        """Starts the background tasks. Only the first call has an effect."""
        if self._tasks:
            return
        remove_stale_sockets(self.store.socket_folder)
        self.uploads.sweep()
        tasks = (kill_orphan_tools(self.store, World()), self._keep_alive(), self.auth.end_revoked())
        self._tasks = [asyncio.ensure_future(task) for task in tasks]

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE)
            for stream in self.streams.streams():
                for subscriber in stream.subscribers:
                    subscriber.keep_alive()
            for reader in self.all_events.subscribers:
                reader.keep_alive()
            self.terminal_streams.keep_alive()

    def close_streams(self) -> None:
        """Ends all streams. Called at the signal, because no HTTP server ends open streams by itself."""
        self.is_draining = True
        self.deadlines.end()
        self.streams.close()
        self.all_events.close()
        self.terminal_streams.close()

    async def close(self) -> None:
        self.close_streams()
        for task in self._tasks:
            task.cancel()
        await asyncio.to_thread(self.auth.book.save_uses)
        self.abandoned_requests.close()
        await asyncio.gather(self.supervisor.close("the server is shutting down"), self.agents.close())
        await self.folders.close()
        self.answers.close()
        await self.store.checkpoint()
