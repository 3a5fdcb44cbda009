"""The folders that sessions work in: which they are, their files, and what an agent would have there."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from ostler.extensions.lookout import present_host
from ostler.faces.completing.project_files import Found, ProjectFiles
from ostler.faces.web.problems import Forbidden
from ostler.kernel.harness import Harness
from ostler.kernel.store import Store
from ostler.runs.supervisor import Supervisor
from ostler.vocabulary.errors import NotFound, OstlerError

FRESH = 30.0
"""Seconds that what was loaded to be looked at is kept."""
MOST = 16
"""Folders whose files are known at a time."""
PATIENCE = 1.0
"""Seconds that a search waits for more files to be found."""


class Listed(msgspec.Struct, frozen=True):
    found: list[Found]
    is_complete: bool


class Folders:
    """Nothing outside of these folders is looked at: those of the sessions, and the server's own."""

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
            raise Forbidden("no session works in that folder, and neither does the server")
        if not await asyncio.to_thread(Path(cwd).is_dir):
            raise NotFound(f"the folder {cwd} is not there any more")
        return Path(cwd)

    # --- what an agent would work with ----------------------------------------------------------------

    async def of_session(self, session: str) -> Harness:
        """That of a session which is open here; else what it would have if it were opened now."""
        if (opened := self._supervisor.driven(session)) is not None:
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
        if (host := present_host(harness)) is not None:
            for extension in host.extensions.values():
                await extension.close()
        if not self._supervisor.uses(harness.model):
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
