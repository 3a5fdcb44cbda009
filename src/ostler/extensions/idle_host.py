"""`IdleHost`: stands in while there are no extensions, and loads the host when the first one appears.

This is part of every start. Nothing else of this package is imported until there is an extension.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.context.files import folders_up_to
from ostler.core.harness import Harness, OpenSession, SessionListener
from ostler.core.lazy import lazy_module
from ostler.core.tool import Tool
from ostler.permissions.memory import project_folder
from ostler.permissions.trust import EXTENSIONS
from ostler.store.paths import configuration_file, state_folder

if TYPE_CHECKING:
    from ostler.extensions import host as host_module
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.loader import reload as reload_module
    from ostler.extensions.loader.reload import FileWatcher
else:
    host_module = lazy_module("ostler.extensions.host")
    reload_module = lazy_module("ostler.extensions.loader.reload")

INSTALLED = "extensions.json"
"""The manifest of `ostler ext install`, for the user or a project."""
OURS = b"ostler.extensions"
"""The entry point group of extensions."""
DELAY = 0.5
"""A run that ends sooner does not watch files, to save start-up time."""
_LARGEST = 1 << 20
_LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120
_NO_PACKAGES = (_LIBRARY, f"{_LIBRARY}/lib-dynload")


def own_extensions() -> Path:
    return configuration_file().parent / EXTENSIONS.name


def project_extensions(cwd: Path) -> list[Path]:
    """The folders of a project, the outermost first."""
    cwd = cwd.resolve()
    return [folder / EXTENSIONS for folder in reversed(folders_up_to(project_folder(cwd), cwd))]


def places(cwd: Path) -> tuple[Path, ...]:
    """The folders and files in which extensions appear."""
    inside = project_extensions(cwd)
    return own_extensions(), *inside, state_folder() / INSTALLED, inside[0].with_name(INSTALLED)


def has_extensions(cwd: Path) -> bool:
    """False if there are no extensions, apart from configured or named ones."""
    return any(map(_holds_something, places(cwd))) or any(OURS in content for _, content in entry_points())


def _holds_something(place: Path) -> bool:
    try:
        return any(not name.startswith(".") for name in os.listdir(place))  # noqa: PTH208
    except FileNotFoundError:
        return False
    except OSError:  # a file, or one that cannot be read, which is told of later
        return True


def entry_points(folders: list[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """The metadata folder and the entry points of every installed package.

    `importlib.metadata` is not used, as its import alone takes many times as long. The working directory is
    skipped, even if it is on Python's path: it is a project, whose files are not trusted.
    """
    here = os.getcwd()  # noqa: PTH109
    for folder in dict.fromkeys(sys.path if folders is None else folders):
        if folder and folder not in _NO_PACKAGES and os.path.abspath(folder) != here:  # noqa: PTH100
            yield from _entry_points_in(folder)


def _entry_points_in(folder: str) -> Iterator[tuple[str, bytes]]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # there is much on the path that is no folder
        return
    try:
        for name in os.listdir(descriptor):  # noqa: PTH208
            if name.endswith((".dist-info", ".egg-info")):
                yield f"{folder}/{name}", _content(f"{name}/entry_points.txt", descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _content(path: str, folder: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _LARGEST)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


class IdleHost(SessionListener):
    """Listens to sessions like a host; when an extension appears, a host takes over."""

    is_extension_host = True

    def __init__(self, harness: Harness, make_host: Callable[[], ExtensionHost]) -> None:
        self._harness = harness
        self._make_host = make_host
        self._sessions: dict[str, OpenSession] = {}
        self._host: host_module.ExtensionHost | None = None
        """Children's harnesses refer to the idle host, so it forwards to this."""
        self._timer: asyncio.TimerHandle | None = None
        self._watch: FileWatcher | None = None

    def equip(self, harness: Harness) -> None:
        """Sets the harness that a host would take over."""
        self._harness = harness

    def _watch_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self._begin)

    def _begin(self) -> None:
        self._watch = reload_module.FileWatcher(lambda: places(self._harness.cwd), self._take_over)
        self._watch.start()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.stop()
        self._timer = self._watch = None

    def _take_over(self) -> None:
        host = self._make_host()
        self._stop()
        host.install_into(self._harness)
        for session in self._sessions.values():
            host.on_open(session)
        self._host = host
        assert host.reloading is not None
        host.reloading.look_soon()

    def on_open(self, session: OpenSession) -> None:
        if self._host:
            self._host.on_open(session)
        self._sessions[session.id] = session

    async def before_step(self, session: OpenSession) -> None:
        if self._host:
            await self._host.before_step(session)
        else:
            self._watch_soon()

    async def on_idle(self, session: OpenSession) -> None:
        if self._host:
            await self._host.on_idle(session)
        else:
            self._watch_soon()

    async def drain(self, session: OpenSession) -> None:
        if self._host:
            await self._host.drain(session)

    async def on_close(self, session: OpenSession) -> None:
        self._sessions.pop(session.id, None)
        if self._host:
            await self._host.on_close(session)
        elif not self._sessions:
            self._stop()

    def on_tool_error(self, session: str, tool: Tool, error: BaseException) -> None:
        if self._host:
            self._host.on_tool_error(session, tool, error)

    async def run_command(self, session: OpenSession, name: str, arguments: str) -> str | None:
        return await self._host.run_command(session, name, arguments) if self._host else None


def active_host(harness: Harness) -> host_module.ExtensionHost | None:
    """The host of a harness, or None while there are no extensions."""
    host = _listener_of(harness)
    if host is None or isinstance(host, IdleHost):
        return None
    return host if isinstance(host, host_module.ExtensionHost) else None


def set_host(harness: Harness, host: IdleHost | host_module.ExtensionHost) -> None:
    """Makes it the listener of extensions, in place of another one."""
    others = [one for one in harness.listeners if one is not _listener_of(harness)]
    harness.listeners = [*others, host]


def _listener_of(harness: Harness) -> SessionListener | None:
    return next((one for one in harness.listeners if one.is_extension_host), None)
