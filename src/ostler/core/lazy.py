"""Lazy loading, only for start-up time: the one mechanism for it.

`ostler -p hi` must send its first request before a plain Python program has imported an HTTP client. So a
module that most runs never need is not imported at the top, but through one of these: `load` for
`"module:name"`, `Lazy` for an object that is made on first use, `lazy_module` for a module that is imported
on first use, and `lazy_exports` for the names of a package.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing takes longer to import than this module and its users
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


def load(target: str) -> Any:
    """The object that `"package.module:name"` names."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


class Lazy:
    """Stands for an object that a factory makes when one of its attributes is first used."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory
        self._made: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._made is None:
            self._made = self._factory()
        return getattr(self._made, attribute)


def lazy_module(name: str) -> Any:
    """The module of that name, imported when one of its attributes is first used. Type checkers see the real
    module by an import under `TYPE_CHECKING`."""
    return Lazy(lambda: import_module(name))


def lazy_exports(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package: it exports `names`, listed by their modules, and
    imports a module when one of its names is first used. A name may also be a module of a package."""
    modules = {name: module for module, exports in names.items() for name in exports}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(modules[name])
        return getattr(module, name) if hasattr(module, name) else import_module(f"{modules[name]}.{name}")

    return get, lambda: sorted(modules), sorted(modules)
