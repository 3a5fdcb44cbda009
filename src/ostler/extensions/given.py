"""The extensions of a Python program: files and folders, or functions of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostler.kernel.harness import Harness
from ostler.kernel.user_paths import expand_home
from ostler.vocabulary.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from ostler.extensions.api import Ostler
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.loader.loading import Version

GivenExtension = Path | str | Callable[["Ostler"], Any]
"""A path, or a function as `setup` is."""


class GivenExtensions:
    """Loaded when they are needed first. One that cannot be loaded is an error: a guard that is missing must
    not go unnoticed."""

    def __init__(self, given: Iterable[GivenExtension]) -> None:
        given = list(given)
        self._paths = tuple(expand_home(one) for one in given if isinstance(one, str | Path))
        self._functions = [one for one in given if not isinstance(one, str | Path)]
        self._host: ExtensionHost | None = None
        for one in self._functions:
            if not callable(one):
                raise UsageError(f"an extension is a path or a function, not {one!r:.60}")

    def apply(self) -> None:
        """The harness was given other tools: those of the extensions stay."""
        if self._host is not None:
            self._host.apply()

    async def equip(self, harness: Harness) -> None:
        """Loads them, once."""
        if self._host is not None or not (self._paths or self._functions):
            return
        from ostler.extensions.loader.assembling import Assembly
        from ostler.extensions.loader.finding import Search, check_named
        from ostler.extensions.loader.hosting import host_of

        search = Search(harness.cwd, named=self._paths, automatic=False)
        check_named(search)
        problems: list[str] = []
        assembly = Assembly(search, problems.append, own=await _set_up(self._functions))
        versions = await assembly.renew({})
        host = host_of(assembly, versions, problems.append)
        host.equip(harness)
        if problems:
            await host.replace(())
            for one in versions.values():
                await one.forget()
            raise ConfigurationError("; ".join(problems))
        self._host = host


async def extend_harness(harness: Harness, extensions: Iterable[GivenExtension]) -> None:
    """From now on these extensions hold in every session of the harness. Raises `ConfigurationError`."""
    await GivenExtensions(extensions).equip(harness)


async def _set_up(functions: Iterable[Any]) -> list[Version]:
    from ostler.extensions.calling import CodeFailed
    from ostler.extensions.loader.code_files import CodeFiles
    from ostler.extensions.loader.finding import Found
    from ostler.extensions.loader.loading import Version, checked, set_up

    versions: dict[str, Version] = {}
    for function in functions:
        name = base = _name(function)
        while name in versions:
            name = f"{base}-{len(versions) + 1}"
        found = Found(name, "host", Path(), "module")
        versions[name] = Version(found, CodeFiles(found, {}))
        try:
            await set_up(versions[name].extension, checked(function))
        except CodeFailed as failure:
            raise ConfigurationError(f"the extension {name} is not loaded: {failure}") from None
    return list(versions.values())


def _name(function: Any) -> str:
    """Its own, or that of its module."""
    named = str(getattr(function, "__name__", ""))
    return str(getattr(function, "__module__", "")).rpartition(".")[2] if named in ("", "setup") else named
