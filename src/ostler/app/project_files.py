"""The files and folders of a project, for completion.

A thread lists them with git, or by walking the tree. The list can be searched while it grows.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import msgspec

from ostler.app import completion
from ostler.app.completion import can_be_mentioned, name_below
from ostler.core.processes import OwnedGroup
from ostler.core.secrets import tool_environment
from ostler.schema.errors import UsageError
from ostler.tools.files import is_folder, walk

MOST_FILES = 50_000

FRESH_SECONDS = 3.0
"""An older listing is refreshed by the next search, which still uses the old one."""

_READ_AT_ONCE = 64 * 1024
_BATCH = 500
_STOP_MILLISECONDS = 100
_GIT = (
    "git",
    "--no-optional-locks",
    # A repository's own settings can name programs that git would run.
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("ls-files", "-z"),
)


class FileMatch(msgspec.Struct, frozen=True):
    path: str
    """As in a mention: relative to the project, or as typed. A folder ends with a slash."""
    positions: tuple[int, ...] = ()
    """The positions of the matching letters."""


class Listing:
    """Paths below the project in the order of discovery; folders end with a slash. It only grows, so one
    thread may search it while another fills it."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.hidden: list[str] = []
        """Those with a part that begins with a dot."""
        self.is_cut = False
        """There are more than `MOST_FILES`."""
        self._all: set[str] = set()

    def add(self, path: str) -> bool:
        """Adds a path and its parent folders. False if there is no room."""
        if path in self._all or not can_be_mentioned(path):
            return True
        if len(self._all) >= MOST_FILES:
            self.is_cut = True
            return False
        parent = path.rstrip("/").rpartition("/")[0]
        if parent and not self.add(f"{parent}/"):
            return False
        self._all.add(path)
        is_hidden = path.startswith(".") or "/." in path
        (self.hidden if is_hidden else self.paths).append(path)
        return True

    def has_folder(self, folder: str) -> bool:
        """The project's own folder, `""`, is listed once it contains something."""
        return folder in self._all if folder else bool(self._all)


class ProjectFiles:
    """The listing of one folder. `on_more` is called from another thread when it has grown. With `is_closed`,
    no query finds anything outside of the folder."""

    def __init__(
        self, root: Path, on_more: Callable[[], None] = lambda: None, *, is_closed: bool = False
    ) -> None:
        self._root = root
        self._on_more = on_more
        self._is_closed = is_closed
        self._listing = Listing()
        self._made: float | None = None
        self._maker: threading.Thread | None = None
        self._is_making = False
        self._starting = threading.Lock()
        self._stopped = threading.Event()

    @property
    def is_complete(self) -> bool:
        return not self._is_making

    @property
    def is_cut(self) -> bool:
        """Whether there are more than `MOST_FILES`."""
        return self._listing.is_cut

    def search(self, query: str, limit: int = 20) -> list[FileMatch]:
        """The best paths for the text after an `@`: for a folder its content, with hidden files only if the
        name after the folder begins with a dot.

        Refreshes an old listing. It may block, so it does not belong on the event loop.
        """
        self.refresh()
        listing = self._listing
        query = query.removeprefix("./")
        folder, slash, name = query.rpartition("/")
        folder += slash
        if not listing.has_folder(folder) and (on_disk := self._on_disk(folder, name)) is not None:
            return self._ranked(name, folder, on_disk, limit)
        has_hidden = name.startswith(".") or folder.startswith(".") or "/." in folder
        everything = listing.paths + listing.hidden if has_hidden else listing.paths
        if not listing.has_folder(folder):
            return self._ranked(query, "", everything, limit)
        below = [path[len(folder) :] for path in everything if path.startswith(folder) and path != folder]
        if not name:
            return self._ranked("", folder, _sorted(one for one in below if "/" not in one[:-1]), limit)
        return self._ranked(name, folder, below, limit) or self._ranked(query, "", everything, limit)

    def refresh(self) -> None:
        """Starts a new listing if this one is old and none is being made."""
        with self._starting:
            is_fresh = self._made is not None and time.monotonic() - self._made < FRESH_SECONDS
            if is_fresh or self._is_making or self._stopped.is_set():
                return
            self._is_making = True
            self._maker = threading.Thread(target=self._make, name="project files", daemon=True)
            self._maker.start()

    def close(self) -> None:
        """Stops, and waits for the thread and its git process."""
        self._stopped.set()
        if self._maker is not None:
            self._maker.join()

    def _make(self) -> None:
        listing = Listing()
        if self._made is None:
            self._listing = listing  # the first one is searched while it grows
        try:
            with closing(self._paths()) as paths:
                for number, path in enumerate(paths):
                    if not listing.add(path) or self._stopped.is_set():
                        break
                    if number % _BATCH == 0:
                        self._on_more()
        finally:
            self._listing = listing
            self._made = time.monotonic()
            self._is_making = False
            self._on_more()

    def _paths(self) -> Generator[str, None, None]:
        try:
            gone = set(self._listed_by_git("--deleted"))
            yield from (path for path in self._listed_by_git("--cached") if path not in gone)
            yield from self._listed_by_git("--others", "--exclude-standard")
        except (UsageError, _NoRepository):
            yield from self._walked()

    def _listed_by_git(self, *what: str) -> Iterator[str]:
        from subprocess import DEVNULL

        environment = {**tool_environment(), "GIT_NO_LAZY_FETCH": "1"}
        incomplete = b""
        with OwnedGroup((*_GIT, *what), cwd=self._root, stderr=DEVNULL, environment=environment) as process:
            assert process.stdout is not None
            for piece in self._read(process.stdout.fileno()):
                *names, incomplete = (incomplete + piece).split(b"\0")
                yield from map(os.fsdecode, names)
            if not self._stopped.is_set() and process.wait() != 0:
                raise _NoRepository

    def _read(self, pipe: int) -> Iterator[bytes]:
        ready = select.poll()
        ready.register(pipe)
        while not self._stopped.is_set():
            if ready.poll(_STOP_MILLISECONDS):
                if not (piece := os.read(pipe, _READ_AT_ONCE)):
                    return
                yield piece

    def _walked(self) -> Iterator[str]:
        for path in walk(self._root, self._stopped.is_set, hidden=True):
            name = path.relative_to(self._root).as_posix()
            yield f"{name}/" if is_folder(path) else name

    def _on_disk(self, folder: str, name: str) -> list[str] | None:
        """The content of a folder that is not in the listing: ignored, or outside of the project."""
        try:
            place = self._root / Path(folder).expanduser()
            if self._is_closed and not place.resolve().is_relative_to(self._root.resolve()):
                return []
            with os.scandir(place) as entries:
                names = [f"{one.name}/" if one.is_dir() else one.name for one in islice(entries, MOST_FILES)]
        except (OSError, RuntimeError, ValueError):  # no such folder, no home of that user, or no valid path
            return None
        has_hidden = name.startswith(".")
        return _sorted(one for one in names if can_be_mentioned(one) and (has_hidden or one[0] != "."))

    def _ranked(self, query: str, folder: str, names: list[str], limit: int) -> list[FileMatch]:
        if not query:
            return [self._match(folder, name, ()) for name in names[:limit]]
        best = completion.best(query, names, limit)
        return [self._match(folder, one.text, one.match.positions) for one in best]

    def _match(self, folder: str, name: str, positions: Iterable[int]) -> FileMatch:
        path = folder + name if folder else name_below(self._root, name)
        shift = len(path) - len(name)
        return FileMatch(path, tuple(place + shift for place in positions))


class _NoRepository(Exception):
    pass


def _sorted(names: Iterable[str]) -> list[str]:
    """Folders first."""
    return sorted(names, key=lambda name: (not name.endswith("/"), name.lower(), name))
