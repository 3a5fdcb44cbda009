"""Imports that wait until something is used: the one mechanism for it, and the only reason is start-up time.

`ostler -p hi` must reach its first request before a plain Python program has imported an HTTP client. So a
module that most runs never need is not imported at the top of those that may need it, but through one of
these: `load` for tables of `"module:name"`, `lazy_module` for a module that is imported when one of its names
is first used, and `lazy_exports` for the names of a package.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing takes longer to import than this module and its users
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


def load(target: str) -> Any:
    """What `"package.module:name"` stands for."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


class _LazyModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


def lazy_module(name: str) -> Any:
    """The module of that name, imported when one of its attributes is first used. Type checkers see the real
    module by an import under `TYPE_CHECKING`."""
    return _LazyModule(name)


def lazy_exports(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package: it exports `names`, listed by their modules, and
    imports a module when one of its names is first used. A name may also be a module of a package."""
    modules = {name: module for module, listed in names.items() for name in listed}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(modules[name])
        return getattr(module, name) if hasattr(module, name) else import_module(f"{modules[name]}.{name}")

    return get, lambda: sorted(modules), sorted(modules)
