"""`ExtensionLoader`: discovers extensions, checks trust, loads them, and makes the host of a harness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ostler.context.files import Unusable, printable_path, quoted_path
from ostler.core.harness import Harness
from ostler.core.lazy import lazy_module
from ostler.extensions.idle_host import IdleHost, set_host
from ostler.extensions.loader.code_files import CodeFiles, ProjectExtension
from ostler.extensions.loader.discovery import (
    DiscoveredExtension,
    ExtensionSearch,
    check_named,
    find_extensions,
)
from ostler.extensions.loader.module_loader import LoadedVersion, check_setup, set_up
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.store.paths import expand_home

if TYPE_CHECKING:
    from ostler.extensions import executor as executor_module
    from ostler.extensions import host as host_module
    from ostler.extensions.api import ExtensionAPI
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.loader import reload as reload_module
    from ostler.extensions.ui.front_end import FrontEnd
else:
    executor_module = lazy_module("ostler.extensions.executor")
    host_module = lazy_module("ostler.extensions.host")
    reload_module = lazy_module("ostler.extensions.loader.reload")

Versions = dict[str, LoadedVersion]
"""By name, in the order of the extensions."""
Consent = Callable[[Sequence[ProjectExtension]], bool]
"""Asks a person to look at extensions, and whether they may run."""


class ExtensionLoader:
    """Makes the versions that shall run of those that do, and tells of what is left out."""

    def __init__(
        self,
        search: ExtensionSearch,
        tell: Callable[[str], None],
        consent: Consent | None = None,
        own: Sequence[LoadedVersion] = (),
    ) -> None:
        self.search = search
        self.tell = tell
        self._consent = consent
        self._own = own
        """Of the program that embeds us: they come first, and stay."""
        self._told: dict[str, str] = {}
        """What was told last, by what it is about: files are looked at often, and change seldom."""

    async def refresh(self, old: Versions, *, anew: bool = False) -> Versions:
        """The versions as the files are now. What has not changed is kept, unless all is wanted `anew`.

        A version that runs is kept when the new one is not trusted, or cannot be loaded.
        """
        new: Versions = {one.found.name: one for one in self._own}
        fresh: Versions = {}
        found = find_extensions(self.search)
        trusted = self._look_at([one for one in found if one.project and not one.problem])
        for one in found:
            if one.name in new:
                why = one.problem or f"the program has one of that name, {one.name}, itself"
                self._say(str(one.path), f"the extension {printable_path(one.path)} is ignored: {why}")
                continue
            before = old.get(one.name)
            if before and not anew and _is_current(before, one):
                before.extension.status = "loaded"
                new[one.name] = before
            elif one.project and not one.problem and one not in trusted:
                new[one.name] = self._held_back(one, before)
            else:
                new[one.name] = fresh[one.name] = _version(one, trusted.get(one))
        await _load(fresh.values())
        for name, version in fresh.items():
            new[name] = await self._put_to_use(version, old.get(name))
        self._tell_untrusted(new)
        self._consent = None  # a person is asked once, at the beginning
        return new

    def _look_at(
        self, found: Sequence[DiscoveredExtension]
    ) -> dict[DiscoveredExtension, CodeFiles | Unusable]:
        """Of a project's extensions those that may run, with their files; or why they cannot be judged."""
        looked: dict[DiscoveredExtension, CodeFiles | Unusable] = {}
        unknown: list[ProjectExtension] = []
        for one in found:
            try:
                files = ProjectExtension(one)
            except Unusable as problem:
                looked[one] = problem
                continue
            if self.search.trusts or files.is_trusted:
                looked[one] = files.code
            else:
                unknown.append(files)
        if unknown and self._consent and self._consent(unknown):
            for files in unknown:
                files.trust()
                looked[files.found] = files.code
        return looked

    def _held_back(self, found: DiscoveredExtension, before: LoadedVersion | None) -> LoadedVersion:
        if before is None or not _runs(before):
            version = LoadedVersion(found, CodeFiles(found, {}))
            version.extension.status = "untrusted"
            version.extension.problem = f"not trusted: `ostler trust {quoted_path(_folder(found))}`"
            return version
        before.extension.status = "changed"
        self._say(
            found.name,
            f"the extension {found.name} was changed: its old version runs until you review it and run "
            f"`ostler trust {quoted_path(_folder(found))}`",
        )
        return before

    def _tell_untrusted(self, versions: Versions) -> None:
        held = [one.found for one in versions.values() if one.extension.status == "untrusted"]
        if not held:
            self._told.pop("", None)
            return
        names = ", ".join(one.name for one in held)
        folders = dict.fromkeys(quoted_path(_folder(one)) for one in held)
        how = " and ".join(f"`ostler trust {folder}`" for folder in folders)
        self._say("", f"extensions of this project are not used until you review them and run {how}: {names}")

    async def _put_to_use(self, version: LoadedVersion, before: LoadedVersion | None) -> LoadedVersion:
        """What was loaded, or the version before it if that cannot be."""
        found = version.found
        if version.extension.status != "failed":
            self._told.pop(found.name, None)
            return version
        about = f"the extension {found.name} ({printable_path(found.path)})"
        if before is None or not _runs(before):
            self._say(found.name, f"{about} is not loaded: {version.extension.problem}")
            return version
        await version.forget()
        self._say(
            found.name, f"{about} was changed, but its old version runs on: {version.extension.problem}"
        )
        return before

    def _say(self, about: str, text: str) -> None:
        if self._told.get(about) != text:
            self._told[about] = text
            self.tell(text)


def _version(found: DiscoveredExtension, files: CodeFiles | Unusable | None) -> LoadedVersion:
    if isinstance(files, Unusable):
        return LoadedVersion(replace(found, problem=str(files)), CodeFiles(found, {}))
    return LoadedVersion(found, files or CodeFiles(found))


async def _load(versions: Collection[LoadedVersion]) -> None:
    """Programs start side by side. Python's modules meet in this process: they are run in order."""

    async def in_order() -> None:
        for one in versions:
            if one.found.kind != "foreign":
                await one.load()

    programs = (one.load() for one in versions if one.found.kind == "foreign")
    try:
        await asyncio.gather(in_order(), *programs)
    except asyncio.CancelledError:
        for one in versions:
            await one.forget()
        raise


def _runs(version: LoadedVersion) -> bool:
    return version.extension.status in ("loaded", "changed")


def _is_current(version: LoadedVersion, found: DiscoveredExtension) -> bool:
    return version.found == found and _runs(version) and not version.code.has_changed()


def _folder(found: DiscoveredExtension) -> Path:
    assert found.project is not None
    return found.project


async def load_into(
    harness: Harness,
    search: ExtensionSearch,
    *,
    say: Callable[[str], None],
    options: Mapping[str, str] | None = None,
    consent: Consent | None = None,
    face: FrontEnd | None = None,
) -> ExtensionHost | None:
    """Loads what is found. None if that is nothing: then the first extension is waited for.

    Raises `UsageError` when something that was named is not there.
    """
    check_named(search)
    if not find_extensions(search):
        if search.automatic:
            set_host(harness, IdleHost(harness, lambda: empty_host(search, say, options, face)))
        return None

    assembly = ExtensionLoader(search, say, consent)
    host = make_host(assembly, await assembly.refresh({}), say, options, face)
    host.install_into(harness)
    return host


def make_host(
    assembly: ExtensionLoader,
    versions: Versions,
    say: Callable[[str], None],
    options: Mapping[str, str] | None = None,
    face: FrontEnd | None = None,
) -> host_module.ExtensionHost:
    """A host that follows the files of its extensions."""
    extensions = [one.extension for one in versions.values()]
    host = host_module.ExtensionHost(extensions, face=face, say=say, options=dict(options or {}))
    host.reloading = reload_module.HotReload(host, assembly, versions)
    assembly.tell = host.warn
    return host


def empty_host(
    search: ExtensionSearch,
    say: Callable[[str], None],
    options: Mapping[str, str] | None = None,
    face: FrontEnd | None = None,
) -> ExtensionHost:
    """A host that has yet to look for its extensions."""

    return make_host(ExtensionLoader(search, say), {}, say, options, face)


EmbeddedExtension = Path | str | Callable[["ExtensionAPI"], Any]
"""A path, or a function as `setup` is."""


class EmbeddedExtensions:
    """Loaded when they are needed first. One that cannot be loaded is an error: a guard that is missing must
    not go unnoticed."""

    def __init__(self, given: Iterable[EmbeddedExtension]) -> None:
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
        search = ExtensionSearch(harness.cwd, named=self._paths, automatic=False)
        check_named(search)
        problems: list[str] = []
        assembly = ExtensionLoader(search, problems.append, own=await _set_up(self._functions))
        versions = await assembly.refresh({})
        host = make_host(assembly, versions, problems.append)
        host.install_into(harness)
        if problems:
            await host.replace(())
            for one in versions.values():
                await one.forget()
            raise ConfigurationError("; ".join(problems))
        self._host = host


async def extend_harness(harness: Harness, extensions: Iterable[EmbeddedExtension]) -> None:
    """From now on these extensions hold in every session of the harness. Raises `ConfigurationError`."""
    await EmbeddedExtensions(extensions).equip(harness)


async def _set_up(functions: Iterable[Any]) -> list[LoadedVersion]:
    versions: dict[str, LoadedVersion] = {}
    for function in functions:
        name = base = _name(function)
        while name in versions:
            name = f"{base}-{len(versions) + 1}"
        found = DiscoveredExtension(name, "host", Path(), "module")
        versions[name] = LoadedVersion(found, CodeFiles(found, {}))
        try:
            await set_up(versions[name].extension, check_setup(function))
        except executor_module.ExtensionError as failure:
            raise ConfigurationError(f"the extension {name} is not loaded: {failure}") from None
    return list(versions.values())


def _name(function: Any) -> str:
    """Its own, or that of its module."""
    named = str(getattr(function, "__name__", ""))
    return str(getattr(function, "__module__", "")).rpartition(".")[2] if named in ("", "setup") else named
