"""Runs an extension's modules as a private package, and calls its `setup`.

Each version of an extension is a package with a unique name. In it, `import rules`, `from rules import x` and
`from . import rules` look in the extension's folder first, so two extensions never share a module and a
reload starts fresh. Its modules get an `import` that knows the package; `sys.path` is unchanged.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
import sys
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ostler.core.lazy import lazy_module
from ostler.core.processes import ProcessLimits
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.executor import ExtensionError, call_within, place_of, with_location
from ostler.extensions.extension import Extension
from ostler.extensions.loader.code_files import CodeFiles
from ostler.extensions.loader.discovery import DiscoveredExtension, is_extension
from ostler.schema.errors import OstlerError
from ostler.store.paths import project_folder

if TYPE_CHECKING:
    from ostler.extensions.protocol import client as client_module
    from ostler.extensions.protocol import process as process_module
    from ostler.extensions.protocol import process_extension as process_extension_module
else:
    process_module = lazy_module("ostler.extensions.protocol.process")
    process_extension_module = lazy_module("ostler.extensions.protocol.process_extension")
    client_module = lazy_module("ostler.extensions.protocol.client")

_numbers = count(1)


class PrivatePackage:
    """The modules of one version of an extension. `entry` is the file that has its `setup`."""

    def __init__(self, name: str, entry: Path, code: CodeFiles) -> None:
        self._name = name
        self._root = f"ostler_extension_{_identifier(name)}_{next(_numbers)}"
        self._entry = entry
        self._is_root = entry.name == "__init__.py"
        self._entry_name = self._root if self._is_root else f"{self._root}.{_identifier(entry.stem)}"
        self._code = code
        self.builtins: dict[str, Any] = {**vars(builtins), "__import__": self._import}

    def load(self) -> ModuleType:
        """Runs the entry module. Raises whatever that raises."""
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
        _finder.packages[self._root] = self
        return importlib.import_module(self._entry_name)

    def forget(self) -> None:
        """Removes the modules from `sys.modules`. Running code keeps its imports."""
        _finder.packages.pop(self._root, None)
        for name in list(sys.modules):
            if name.partition(".")[0] == self._root:
                sys.modules.pop(name, None)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        own = "" if level else self._own_name(name)
        if not own:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = builtins.__import__(own, globals, locals, fromlist or (), 0)
        if fromlist:
            return module
        return sys.modules[own.removesuffix(name.partition(".")[1] + name.partition(".")[2])]

    def _own_name(self, name: str) -> str:
        """The full name of a module, if it belongs to this package."""
        first, _, inner = name.partition(".")
        if first == "ostler":
            return ""
        if self._is_root and first == self._name:
            return f"{self._root}.{inner}" if inner else self._root
        code, path = self._code, self._code.folder / first
        is_own = code.has(path.with_name(f"{first}.py")) or code.has(path / "__init__.py")
        # As in Python itself, a folder without `__init__.py` comes after packages elsewhere.
        if is_own or (code.has_folder(path) and find_spec(first) is None):
            return f"{self._root}.{name}"
        return ""

    def spec(self, name: str) -> ModuleSpec | None:
        if name == self._entry_name:
            return self._file(name, self._entry, is_package=self._is_root)
        path = self._code.folder.joinpath(*name.split(".")[1:])
        if self._code.has(path / "__init__.py"):
            return self._file(name, path / "__init__.py", is_package=True)
        if name != self._root:
            file = path.with_name(f"{path.name}.py")
            if self._code.has(file):
                return self._file(name, file, is_package=False)
            if not self._code.has_folder(path):
                return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(path)]
        return spec

    def _file(self, name: str, path: Path, *, is_package: bool) -> ModuleSpec | None:
        places = [str(path.parent)] if is_package else None
        loader = _Loader(path, self._code, self.builtins)
        return spec_from_file_location(name, path, loader=loader, submodule_search_locations=places)


class _Finder(MetaPathFinder):
    """Finds the modules of private packages, and no others."""

    def __init__(self) -> None:
        self.packages: dict[str, PrivatePackage] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = self.packages.get(name.partition(".")[0])
        return package.spec(name) if package else None


class _Loader(Loader):
    """Runs a file as it was read; a `.pyc` file beside it could belong to another version."""

    def __init__(self, path: Path, code: CodeFiles, own_builtins: dict[str, Any]) -> None:
        self._path = path
        self._code = code
        self._builtins = own_builtins

    def exec_module(self, module: ModuleType) -> None:
        compiled = compile(self._code.read(self._path), str(self._path), "exec", dont_inherit=True)
        module.__dict__["__builtins__"] = self._builtins
        exec(compiled, module.__dict__)


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


_finder = _Finder()
LOADING_SECONDS = 10.0
"""The time limit of its modules, and again of its `setup`."""
SETUP = "setup"
Setup = Callable[[ExtensionAPI], Any]


class LoadedVersion:
    """One version of an extension: its location, its files and its registrations."""

    def __init__(self, candidate: DiscoveredExtension, code: CodeFiles) -> None:
        self.candidate = candidate
        self.code = code
        self.process_limits = ProcessLimits()
        self.extension = Extension(
            candidate.name, candidate.origin, candidate.path, version=candidate.version
        )
        self._modules: PrivatePackage | None = None

    @property
    def places(self) -> list[Path]:
        """The files and folders whose change may mean another version."""
        if self.candidate.kind in ("folder", "foreign"):
            return [self.candidate.path]
        return self.code.paths

    async def load(self) -> None:
        """Never raises: an extension that cannot be loaded has the status `failed` and a problem."""
        try:
            if self.candidate.problem:
                raise ExtensionError(self.candidate.problem)
            if self.candidate.kind == "foreign":
                await self._start()
                return
            setup = await call_within(LOADING_SECONDS, self.extension.worker, self._read_setup)
            await set_up(self.extension, setup)
        except (ExtensionError, OstlerError) as failure:
            self.extension.worker.abandon()
            self.extension.status = "failed"
            self.extension.problem = str(failure)

    async def _start(self) -> None:
        self.code.read_program()
        folder, project = self.candidate.path.resolve(), self.candidate.project
        if project:
            manifest = process_module.read_manifest(folder)
            if path := process_module.named_outside(manifest, folder, project_folder(project)):
                raise ExtensionError(f"it names {path}, which is not in its folder")
        load_process = process_extension_module.load_process_extension
        limits = client_module.Limits(processes=self.process_limits)
        self.extension = await load_process(folder, self.candidate.origin, limits=limits, check=self._check)

    def _check(self) -> None:
        """Called before each start of its process, which runs the present files."""
        if not self.code.is_as_reviewed():
            raise ExtensionError("its files have changed since they were trusted")

    async def forget(self) -> None:
        """Stops calling its code, and forgets its modules."""
        await self.extension.close()
        if self._modules:
            self._modules.forget()

    def _read_setup(self) -> Setup:
        """Runs its modules, in its own thread."""
        try:
            if self.candidate.function:
                return check_setup(_installed_function(self.candidate))
            self._modules = PrivatePackage(self.candidate.name, self._entry(), self.code)
            weakref.finalize(self, self._modules.forget).atexit = False
            module = self._modules.load()
            if not hasattr(module, SETUP):
                raise ExtensionError(f"it has no `def setup(ostler)` ({Path(str(module.__file__)).name})")
            return check_setup(getattr(module, SETUP))
        except ExtensionError:
            raise
        except BaseException as error:
            raise ExtensionError(_described(error, self.code.folder)) from error

    def _entry(self) -> Path:
        path = self.candidate.path
        if self.candidate.kind == "file":
            return path
        return path / "__init__.py" if is_extension(path / "__init__.py") else path / "main.py"


async def set_up(extension: Extension, setup: Setup) -> None:
    """Calls its `setup`. Raises `ExtensionError`."""
    ostler = ExtensionAPI(extension.name)
    await call_within(LOADING_SECONDS, extension.worker, setup, ostler)
    extension.registered = ostler.registered


def check_setup(setup: Any) -> Setup:
    """A function that can be called with one argument. Raises `ExtensionError`."""
    if not callable(setup):
        raise ExtensionError(f"its `setup` is not a function but {type(setup).__name__}")
    try:
        inspect.signature(setup).bind(None)
    except TypeError:
        location = place_of(setup)
        raise ExtensionError(f"its `setup` must take one argument: `def setup(ostler)`{location}") from None
    except ValueError:
        pass  # a built-in function may have no signature
    function: Setup = setup
    return function


def _installed_function(candidate: DiscoveredExtension) -> Any:
    """The `setup` of an installed package; one of `ostler ext install` has a folder of its own."""
    if candidate.origin == "installed" and str(candidate.path) not in sys.path:
        sys.path.append(str(candidate.path))  # at the end: it must not replace other packages
    module, _, names = candidate.function.partition(":")
    function: Any = importlib.import_module(module)
    for name in (names or SETUP).split("."):
        function = getattr(function, name)
    return function


def _described(error: BaseException, folder: Path) -> str:
    """The error of a module, with its file and line."""
    if isinstance(error, SyntaxError):
        where = f" ({Path(error.filename).name}:{error.lineno})" if error.filename else ""
        return f"{type(error).__name__}: {error.msg}{where}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if Path(one.filename).is_relative_to(folder) and "<" not in one.filename]
    return with_location(error, own)
