"""Loading an extension: its code is run, and its `setup` says what it brings."""

from __future__ import annotations

import inspect
import sys
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ostler.extensions.api import Ostler
from ostler.extensions.calling import CodeFailed, call_within
from ostler.extensions.extension import Extension
from ostler.extensions.loader.code_files import CodeFiles
from ostler.extensions.loader.finding import Found
from ostler.extensions.loader.private_imports import PrivatePackage
from ostler.runs.permission_memory import project_folder
from ostler.vocabulary.errors import OstlerError, in_words

LOADING_SECONDS = 10.0
"""For its modules, and again for its `setup`."""
SETUP = "setup"

Setup = Callable[[Ostler], Any]


class Version:
    """One version of an extension: where it is from, the files it was made of, and what it registered."""

    def __init__(self, found: Found, code: CodeFiles) -> None:
        self.found = found
        self.code = code
        self.extension = Extension(found.name, found.origin, found.path, version=found.version)
        self._modules: PrivatePackage | None = None

    @property
    def places(self) -> list[Path]:
        """Where a change may mean another version."""
        if self.found.kind in ("folder", "foreign"):
            return [self.found.path]
        return self.code.paths

    async def load(self) -> None:
        """Never raises: an extension that cannot be loaded has the standing `failed`, and says why."""
        try:
            if self.found.problem:
                raise CodeFailed(self.found.problem)
            if self.found.kind == "foreign":
                await self._start()
                return
            worker = self.extension.worker
            setup = await call_within(LOADING_SECONDS, worker, self._read_setup)
            await set_up(self.extension, setup)
        except (CodeFailed, OstlerError) as failure:
            self.fail(str(failure))

    def fail(self, problem: str) -> None:
        self.extension.worker.give_up()
        self.extension.standing = "failed"
        self.extension.problem = problem

    async def _start(self) -> None:
        from ostler.extensions.foreign.loading import load_foreign
        from ostler.extensions.foreign.manifest import named_outside, read_manifest

        self.code.read_program()
        folder, origin, project = self.found.path.resolve(), self.found.origin, self.found.project
        if project and (path := named_outside(read_manifest(folder), folder, project_folder(project))):
            raise CodeFailed(f"it names {path}, which is not in its folder: that could change unnoticed")
        self.extension = await load_foreign(folder, origin, check=self._check)

    def _check(self) -> None:
        """Before each start of its process: that runs what lies there now."""
        if not self.code.is_as_looked_at:
            raise CodeFailed("its files are not those that were trusted any more")

    async def forget(self) -> None:
        """Nobody will call its code any more."""
        await self.extension.close()
        if self._modules:
            self._modules.forget()

    def _read_setup(self) -> Setup:
        """Runs its modules, in its own thread."""
        try:
            if self.found.function:
                return checked(_installed_function(self.found))
            self._modules = PrivatePackage(self.found.name, self._entry(), self.code)
            weakref.finalize(self, self._modules.forget).atexit = False
            module = self._modules.load()
            if not hasattr(module, SETUP):
                raise CodeFailed(f"it has no `def setup(ostler)` ({Path(str(module.__file__)).name})")
            return checked(getattr(module, SETUP))
        except CodeFailed:
            raise
        except BaseException as error:
            raise CodeFailed(_described(error, self.code.folder)) from error

    def _entry(self) -> Path:
        from ostler.extensions.installing.scanning import is_extension

        path = self.found.path
        if self.found.kind == "file":
            return path
        return path / "__init__.py" if is_extension(path / "__init__.py") else path / "main.py"


async def set_up(extension: Extension, setup: Setup) -> None:
    """Lets it register what it brings. Raises `CodeFailed`."""
    ostler = Ostler(extension.name)
    await call_within(LOADING_SECONDS, extension.worker, setup, ostler)
    extension.registered = ostler.registered


def checked(setup: Any) -> Setup:
    """A function that can be called with one argument. Raises `CodeFailed`."""
    if not callable(setup):
        raise CodeFailed(f"its `setup` is no function but {type(setup).__name__}")
    try:
        inspect.signature(setup).bind(None)
    except TypeError:
        code = getattr(setup, "__code__", None)
        where = f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""
        raise CodeFailed(f"its `setup` must take one argument: `def setup(ostler)`{where}") from None
    except ValueError:
        pass  # what is built in may not tell
    function: Setup = setup
    return function


def _installed_function(found: Found) -> Any:
    """Of a package that is imported as any other; one of `ostler ext install` has a folder of its own."""
    from importlib import import_module

    if found.origin == "installed" and str(found.path) not in sys.path:
        sys.path.append(str(found.path))  # at the end: it must not stand in for what was there before
    module, _, names = found.function.partition(":")
    function: Any = import_module(module)
    for name in (names or SETUP).split("."):
        function = getattr(function, name)
    return function


def _described(error: BaseException, folder: Path) -> str:
    """What was raised while its modules ran, and in which line of them."""
    if isinstance(error, SyntaxError):
        where = f" ({Path(error.filename).name}:{error.lineno})" if error.filename else ""
        return f"{type(error).__name__}: {error.msg}{where}"
    text = in_words(error)
    if isinstance(error, SystemExit):
        text = f"it tried to exit the process ({error.code})"
    frames = [
        one
        for one in traceback.extract_tb(error.__traceback__)
        if Path(one.filename).is_relative_to(folder) and "<" not in one.filename
    ]
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else text
