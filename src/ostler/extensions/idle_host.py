"""`IdleHost`: stands in while there are no extensions, and loads the host when the first one appears.

Every start imports this module, and nothing else of this package until there is an extension.
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
from ostler.store.paths import PROJECT_EXTENSIONS, configuration_file, project_folder, state_folder

if TYPE_CHECKING:
    from ostler.extensions import host as host_module
    from ostler.extensions.loader import reload as reload_module
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
    return configuration_file().parent / PROJECT_EXTENSIONS.name


def project_extensions(cwd: Path) -> list[Path]:
    """The folders of a project, the outermost first."""
    cwd = cwd.resolve()
    return [folder / PROJECT_EXTENSIONS for folder in reversed(folders_up_to(project_folder(cwd), cwd))]


def places(cwd: Path) -> tuple[Path, ...]:
    """The folders and files in which extensions appear."""
    inside = project_extensions(cwd)
    return own_extensions(), *inside, state_folder() / INSTALLED, inside[0].with_name(INSTALLED)


def has_extensions(cwd: Path) -> bool:
    """False if there are no extensions, apart from configured or named ones."""
    return any(map(_is_in_use, places(cwd))) or any(OURS in content for _, content in entry_points())


def _is_in_use(place: Path) -> bool:
    try:
        return any(not name.startswith(".") for name in os.listdir(place))  # noqa: PTH208
    except FileNotFoundError:
        return False
    except OSError:  # a file, or a folder that cannot be read, which is reported later
        return True


def entry_points(folders: list[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """The metadata folder and the entry points of every installed package. It avoids `importlib.metadata`,
    whose import takes many times as long. It skips the working directory, even if that is on Python's path:
    it is a project, whose files are not trusted."""
    here = os.getcwd()  # noqa: PTH109
    for folder in dict.fromkeys(sys.path if folders is None else folders):
        if folder and folder not in _NO_PACKAGES and os.path.abspath(folder) != here:  # noqa: PTH100
            yield from _entry_points_in(folder)


def _entry_points_in(folder: str) -> Iterator[tuple[str, bytes]]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # not everything on the path is a folder
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
    """Watches for the first extension while a session is open; then a host takes its place."""

    is_extension_host = True

    def __init__(self, harness: Harness, make_host: Callable[[], host_module.ExtensionHost]) -> None:
        self.harness = harness
        """The harness that the host takes over."""
        self._make_host = make_host
        self._sessions: dict[str, OpenSession] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: reload_module.FileWatcher | None = None

    def on_open(self, session: OpenSession) -> None:
        self._sessions[session.id] = session

    async def before_step(self, session: OpenSession) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self._watch)

    on_idle = before_step

    async def on_close(self, session: OpenSession) -> None:
        self._sessions.pop(session.id, None)
        if not self._sessions:
            self._stop()

    def _watch(self) -> None:
        self._watcher = reload_module.FileWatcher(lambda: places(self.harness.cwd), self._take_over)
        self._watcher.start()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.stop()
        self._timer = self._watcher = None

    def _take_over(self) -> None:
        host = self._make_host()
        self._stop()
        host.install_into(self.harness)
        for session in self._sessions.values():
            set_host(session.harness, host)
            host.on_open(session)
        assert host.reloading is not None
        host.reloading.check_soon()


def active_host(harness: Harness) -> host_module.ExtensionHost | None:
    """The host of a harness, or None while there are no extensions."""
    host = next((one for one in harness.listeners if one.is_extension_host), None)
    if host is None or isinstance(host, IdleHost):
        return None
    return host if isinstance(host, host_module.ExtensionHost) else None


def set_host(harness: Harness, host: IdleHost | host_module.ExtensionHost) -> None:
    """Makes it the host of a harness, in place of another one. Harnesses of children share the list."""
    for index, listener in enumerate(harness.listeners):
        if listener.is_extension_host:
            harness.listeners[index] = host
            return
    harness.listeners.append(host)
