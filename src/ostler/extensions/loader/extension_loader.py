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
    from ostler.extensions.loader import reload as reload_module
    from ostler.extensions.ui.front_end import FrontEnd
    from ostler.permissions import protected
else:
    executor_module = lazy_module("ostler.extensions.executor")
    host_module = lazy_module("ostler.extensions.host")
    protected = lazy_module("ostler.permissions.protected")
    reload_module = lazy_module("ostler.extensions.loader.reload")

Versions = dict[str, LoadedVersion]
"""Versions by name, in the order of the extensions."""
Consent = Callable[[Sequence[ProjectExtension]], bool]
"""Asks a person to review extensions; returns whether they may run."""


class ExtensionLoader:
    """Loads new versions of extensions, and reports those that are left out."""

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
        """Versions of the program that embeds Ostler: they come first, and stay."""
        self._reports: dict[str, str] = {}
        """The last report by subject, so that each is made once although files are checked often."""

    async def refresh(self, old: Versions, *, anew: bool = False) -> Versions:
        """Loads the versions of the present files, keeping those that have not changed, unless `anew`. A
        running version is kept if the new one is not trusted or cannot be loaded."""
        new: Versions = {one.candidate.name: one for one in self._own}
        fresh: Versions = {}
        candidates = find_extensions(self.search)
        trusted = self._check_trust([one for one in candidates if one.project and not one.problem])
        for one in candidates:
            if one.name in new:
                reason = one.problem or f"the program has an extension {one.name} itself"
                self._report(str(one.path), f"the extension {printable_path(one.path)} is ignored: {reason}")
                continue
            before = old.get(one.name)
            if before and not anew and _is_current(before, one):
                before.extension.status = "loaded"
                new[one.name] = before
            elif one.project and not one.problem and one not in trusted:
                new[one.name] = self._untrusted(one, before)
            else:
                new[one.name] = fresh[one.name] = _version(one, trusted.get(one))
        for version in fresh.values():
            version.process_limits = self.search.process_limits
        await _load(fresh.values())
        for name, version in fresh.items():
            new[name] = await self._loaded_or_old(version, old.get(name))
        self._report_untrusted(new)
        self._consent = None  # a person is asked once, at the beginning
        return new

    def _check_trust(
        self, candidates: Sequence[DiscoveredExtension]
    ) -> dict[DiscoveredExtension, CodeFiles | Unusable]:
        """The extensions of a project that may run, with their files, and those that cannot be reviewed."""
        checked: dict[DiscoveredExtension, CodeFiles | Unusable] = {}
        unknown: list[ProjectExtension] = []
        for one in candidates:
            try:
                files = ProjectExtension(one)
            except Unusable as problem:
                checked[one] = problem
                continue
            if self.search.trusts or files.is_trusted:
                checked[one] = files.code
            else:
                unknown.append(files)
        if unknown and self._consent and self._consent(unknown):
            for files in unknown:
                files.trust()
                checked[files.candidate] = files.code
        return checked

    def _untrusted(self, candidate: DiscoveredExtension, before: LoadedVersion | None) -> LoadedVersion:
        command = f"`ostler trust {_project_of(candidate)}`"
        if before is None or not _runs(before):
            version = LoadedVersion(candidate, CodeFiles(candidate, {}))
            version.extension.status = "untrusted"
            version.extension.problem = f"not trusted: {command}"
            return version
        before.extension.status = "changed"
        state = "was changed: its old version runs until you review it and run"
        self._report(candidate.name, f"the extension {candidate.name} {state} {command}")
        return before

    def _report_untrusted(self, versions: Versions) -> None:
        untrusted = [one.candidate for one in versions.values() if one.extension.status == "untrusted"]
        if not untrusted:
            self._reports.pop("", None)
            return
        names = ", ".join(one.name for one in untrusted)
        commands = " and ".join(dict.fromkeys(f"`ostler trust {_project_of(one)}`" for one in untrusted))
        state = "are not used until you review them and run"
        self._report("", f"extensions of this project {state} {commands}: {names}")

    async def _loaded_or_old(self, version: LoadedVersion, before: LoadedVersion | None) -> LoadedVersion:
        """The new version, or the running one if the new one cannot be loaded."""
        name, problem = version.candidate.name, version.extension.problem
        if version.extension.status != "failed":
            self._reports.pop(name, None)
            return version
        extension = f"the extension {name} ({printable_path(version.candidate.path)})"
        if before is None or not _runs(before):
            self._report(name, f"{extension} is not loaded: {problem}")
            return version
        await version.forget()
        self._report(name, f"{extension} was changed, but its old version still runs: {problem}")
        return before

    def _report(self, about: str, text: str) -> None:
        if self._reports.get(about) != text:
            self._reports[about] = text
            self.tell(text)


def _version(candidate: DiscoveredExtension, files: CodeFiles | Unusable | None) -> LoadedVersion:
    if isinstance(files, Unusable):
        return LoadedVersion(replace(candidate, problem=str(files)), CodeFiles(candidate, {}))
    return LoadedVersion(candidate, files or CodeFiles(candidate))


async def _load(versions: Collection[LoadedVersion]) -> None:
    """Starts programs concurrently, and runs Python modules, which share this process, in order."""

    async def in_order() -> None:
        for one in versions:
            if one.candidate.kind != "foreign":
                await one.load()
                protected.protect_used(one.code.paths)  # also what it shares with others

    protected.protect_used(one.candidate.path for one in versions)
    programs = (one.load() for one in versions if one.candidate.kind == "foreign")
    try:
        await asyncio.gather(in_order(), *programs)
    except asyncio.CancelledError:
        for one in versions:
            await one.forget()
        raise


def _runs(version: LoadedVersion) -> bool:
    return version.extension.status in ("loaded", "changed")


def _is_current(version: LoadedVersion, candidate: DiscoveredExtension) -> bool:
    return version.candidate == candidate and _runs(version) and not version.code.has_changed()


def _project_of(candidate: DiscoveredExtension) -> str:
    assert candidate.project is not None
    return quoted_path(candidate.project)


async def load_into(
    harness: Harness,
    search: ExtensionSearch,
    *,
    say: Callable[[str], None],
    options: Mapping[str, str] | None = None,
    consent: Consent | None = None,
    face: FrontEnd | None = None,
) -> host_module.ExtensionHost | None:
    """Loads the extensions of a search. Returns None if there are none; then an `IdleHost` waits for the
    first. Raises `UsageError` if a named extension does not exist."""
    check_named(search)
    if not find_extensions(search):
        if search.automatic:
            set_host(harness, IdleHost(harness, lambda: empty_host(search, say, options, face)))
        return None
    loader = ExtensionLoader(search, say, consent)
    host = make_host(loader, await loader.refresh({}), options, face)
    host.install_into(harness)
    return host


def make_host(
    loader: ExtensionLoader,
    versions: Versions,
    options: Mapping[str, str] | None = None,
    face: FrontEnd | None = None,
) -> host_module.ExtensionHost:
    """A host that reloads its extensions when their files change."""
    extensions = [one.extension for one in versions.values()]
    host = host_module.ExtensionHost(extensions, face=face, say=loader.tell, options=dict(options or {}))
    host.reloading = reload_module.HotReload(host, loader, versions)
    loader.tell = host.warn
    return host


def empty_host(
    search: ExtensionSearch,
    say: Callable[[str], None],
    options: Mapping[str, str] | None = None,
    face: FrontEnd | None = None,
) -> host_module.ExtensionHost:
    """A host that has not searched for its extensions yet."""
    return make_host(ExtensionLoader(search, say), {}, options, face)


EmbeddedExtension = Path | str | Callable[["ExtensionAPI"], Any]
"""A path, or a function like `setup`."""


class EmbeddedExtensions:
    """Extensions that are loaded on first use. One that cannot be loaded is an error: a missing guard must
    not go unnoticed."""

    def __init__(self, extensions: Iterable[EmbeddedExtension]) -> None:
        extensions = list(extensions)
        self._paths = tuple(expand_home(one) for one in extensions if isinstance(one, str | Path))
        self._functions = [one for one in extensions if not isinstance(one, str | Path)]
        self._host: host_module.ExtensionHost | None = None
        for one in self._functions:
            if not callable(one):
                raise UsageError(f"an extension is a path or a function, not {one!r:.60}")

    def apply(self) -> None:
        """Adds the extensions' tools again after the harness got other tools."""
        if self._host is not None:
            self._host.apply()

    async def equip(self, harness: Harness) -> None:
        """Loads them once, into the harness."""
        if self._host is not None or not (self._paths or self._functions):
            return
        search = ExtensionSearch(harness.cwd, named=self._paths, automatic=False)
        check_named(search)
        problems: list[str] = []
        loader = ExtensionLoader(search, problems.append, own=await _set_up(self._functions))
        versions = await loader.refresh({})
        host = make_host(loader, versions)
        host.install_into(harness)
        if problems:
            await host.replace(())
            for one in versions.values():
                await one.forget()
            raise ConfigurationError("; ".join(problems))
        self._host = host


async def extend_harness(harness: Harness, extensions: Iterable[EmbeddedExtension]) -> None:
    """Applies extensions to every session of the harness from now on. Raises `ConfigurationError`."""
    await EmbeddedExtensions(extensions).equip(harness)


async def _set_up(functions: Iterable[Any]) -> list[LoadedVersion]:
    versions: dict[str, LoadedVersion] = {}
    for function in functions:
        name = base = _name(function)
        while name in versions:
            name = f"{base}-{len(versions) + 1}"
        candidate = DiscoveredExtension(name, "host", Path(), "module")
        versions[name] = LoadedVersion(candidate, CodeFiles(candidate, {}))
        try:
            await set_up(versions[name].extension, check_setup(function))
        except executor_module.ExtensionError as failure:
            raise ConfigurationError(f"the extension {name} is not loaded: {failure}") from None
    return list(versions.values())


def _name(function: Any) -> str:
    """The function's name, or that of its module if it is `setup`."""
    name = str(getattr(function, "__name__", ""))
    return str(getattr(function, "__module__", "")).rpartition(".")[2] if name in ("", "setup") else name
