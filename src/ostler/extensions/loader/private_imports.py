"""Importing an extension's modules so that they are its own.

Each version of an extension is a package with a name of its own, in which `import rules`, `from rules
import x` and `from . import rules` find what lies beside the extension before anything else. Two extensions
never meet, and a reload begins anew. Its modules see `import` replaced by a function that knows the package;
`sys.path` stays as it is.
"""

from __future__ import annotations

import builtins
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from ostler.extensions.loader.code_files import CodeFiles

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
        """Runs its module. Raises whatever that raises."""
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
        _finder.packages[self._root] = self
        return importlib.import_module(self._entry_name)

    def forget(self) -> None:
        """Lets the modules go. What still runs has what it has imported."""
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
        """Under which name a module is loaded, if it is one of this package."""
        first, _, rest = name.partition(".")
        if first == "ostler":
            return ""
        if self._is_root and first == self._name:
            return f"{self._root}.{rest}" if rest else self._root
        folder = self._code.folder
        if self._code.has(folder / f"{first}.py") or self._code.has(folder / first / "__init__.py"):
            return f"{self._root}.{name}"
        # As for Python itself: a folder that is no package comes after packages elsewhere.
        if self._code.has_folder(folder / first) and find_spec(first) is None:
            return f"{self._root}.{name}"
        return ""

    def spec(self, name: str) -> ModuleSpec | None:
        if name == self._entry_name:
            return self._file(name, self._entry, is_package=self._is_root)
        path = self._code.folder.joinpath(*name.split(".")[1:])
        if self._code.has(path / "__init__.py"):
            return self._file(name, path / "__init__.py", is_package=True)
        if name != self._root and self._code.has(path.with_name(f"{path.name}.py")):
            return self._file(name, path.with_name(f"{path.name}.py"), is_package=False)
        if name != self._root and not self._code.has_folder(path):
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(path)]
        return spec

    def _file(self, name: str, path: Path, *, is_package: bool) -> ModuleSpec | None:
        places = [str(path.parent)] if is_package else None
        loader = _Loader(path, self._code, self.builtins)
        return spec_from_file_location(name, path, loader=loader, submodule_search_locations=places)


class _Finder(MetaPathFinder):
    """Leads the names of such packages to them, and knows no others."""

    def __init__(self) -> None:
        self.packages: dict[str, PrivatePackage] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = self.packages.get(name.partition(".")[0])
        return package.spec(name) if package else None


class _Loader(Loader):
    """Runs a file as it was read: a `.pyc` file beside it could be of another version."""

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
