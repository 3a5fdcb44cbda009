"""Installs, updates and removes packages of extensions, atomically and one process at a time; scaffolds."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path, PurePosixPath
from shutil import Error as SeveralErrors
from shutil import copy2, copytree, ignore_patterns, rmtree
from typing import Literal

import msgspec
from msgspec.structs import replace

from ostler.core.files import write_atomically
from ostler.extensions.extension import ExtensionSummary
from ostler.extensions.install.sources import (
    Source,
    copy_of,
    entry_points_of,
    install_wheel,
    newest_commit,
    package_name,
)
from ostler.extensions.install.trial import try_loading
from ostler.extensions.loader.discovery import (
    MANIFEST,
    DiscoveredExtension,
    is_extension,
    kind_of,
    scan_extensions,
)
from ostler.extensions.loader.manifest import (
    OWN_FOLDER,
    Entry,
    Manifest,
    Package,
    Scope,
    path_of,
    read_manifest,
)
from ostler.extensions.protocol.process import read_manifest as read_process_manifest
from ostler.schema.errors import ConfigurationError, OstlerError, UsageError
from ostler.schema.ids import new_id


class ManifestEdit:
    """A locked scope and its manifest."""

    def __init__(self, scope: Scope, manifest: Manifest) -> None:
        self.scope = scope
        self.manifest = manifest

    def new_folder(self) -> Path:
        """An empty folder, which is removed again unless a committed manifest names it."""
        folder = self.scope.packages / new_id("package").lower()
        try:
            folder.mkdir()
        except OSError as error:
            raise ConfigurationError(f"{folder} cannot be created: {error.strerror}") from None
        return folder

    def commit(self, manifest: Manifest) -> None:
        content = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
        try:
            write_atomically(self.scope.file.resolve(), content)
        except OSError as error:
            raise ConfigurationError(f"{self.scope.file} cannot be written: {error.strerror}") from None
        self.manifest = manifest

    def tidy(self) -> None:
        """Removes the folders that no row names."""
        named = {one.folder for one in self.manifest.packages}
        for one in self.scope.packages.iterdir():
            if OWN_FOLDER.fullmatch(one.name) and one.name not in named and not one.is_symlink():
                rmtree(one, ignore_errors=True)  # the next edit removes what remains


@contextmanager
def edit_manifest(scope: Scope) -> Iterator[ManifestEdit]:
    """Locks a scope. Raises `OstlerError` if another process changes it."""
    for path in (scope.root, scope.packages, scope.file):
        if scope.name == "project" and path.is_symlink():
            raise ConfigurationError(f"{path} is a symbolic link: nothing is installed through it")
    try:
        for folder in (scope.root, scope.packages):
            folder.mkdir(parents=True, exist_ok=True, mode=0o755 if scope.name == "project" else 0o700)
        lock = os.open(scope.packages, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"{scope.packages} cannot be used: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OstlerError(f"another `ostler ext` is changing {scope.root}: try again later") from None
        change = ManifestEdit(scope, read_manifest(scope))
        try:
            yield change
        finally:
            change.tidy()
    finally:
        os.close(lock)


_IGNORED = ignore_patterns(".git", ".hg", ".ostler", ".venv", "__pycache__", ".*_cache")


class InstallResult(msgspec.Struct, frozen=True):
    """What happened to a package, and the result of loading its extensions."""

    package: Package
    change: Literal["installed", "updated", "current", "pinned"]
    tried: tuple[ExtensionSummary, ...] = ()


class InstallOptions(msgspec.Struct, frozen=True):
    name: str = ""
    include: tuple[str, ...] = ()
    link: bool = False
    """Use a path in place, without a copy."""
    may_build: bool = False
    """Allow building a package from PyPI from source, which runs its code."""


Announce = Callable[[Package], None]
"""Called before code of a package runs for the first time; an exception stops the installation."""


def install(scope: Scope, source: Source, options: InstallOptions, announce: Announce) -> InstallResult:
    """Fetches a package, tries its extensions in another process, and adds it to the scope."""
    name = package_name(options.name or source.name)
    if options.link and source.kind != "path":
        raise UsageError("only a path can be used in place: leave out --link")
    if options.link and scope.name == "project":
        raise UsageError("a project can use only files inside of it: leave out --link or --local")
    if source.kind == "pypi" and scope.name == "project":
        raise UsageError("a package from PyPI cannot be installed with --local: name its repository instead")
    with edit_manifest(scope) as change:
        _refuse_second(change.manifest, source, name)
        package = Package(
            name=name,
            kind=source.kind,
            source=source.address,
            identity=source.identity,
            ref=source.ref,
            include=tuple(dict.fromkeys(str(PurePosixPath(one)) for one in options.include)),
            may_build=options.may_build,
            installed_ms=_now_ms(),
        )
        package = _linked(package) if options.link else _fetch(change, package)
        announce(package)
        package, tried = _try_loading(scope, package)
        if len(package.broken) == len(package.extensions):
            raise OstlerError(f"nothing was installed: {tried[0].problem}")
        change.commit(change.manifest.with_package(package))
    return InstallResult(package, "installed", tried)


def update(scope: Scope, name: str, announce: Announce) -> InstallResult:
    """Fetches the newest version of a package. If that cannot be fetched or loaded, the old one stays."""
    with edit_manifest(scope) as change:
        old = change.manifest.named(name)
        if old.ref:
            return InstallResult(old, "pinned")
        try:
            return _update(change, old, announce)
        except OstlerError as error:
            raise type(error)(f"{name} stays at its version: {error.message}") from None


def _update(change: ManifestEdit, old: Package, announce: Announce) -> InstallResult:
    if old.kind == "git" and newest_commit(old.source, change.scope.packages) == old.version:
        return InstallResult(old, "current")
    new = _fetch(change, old) if old.folder else _linked(old)
    if old.kind == "pypi" and new.version == old.version:
        return InstallResult(old, "current")
    announce(new)
    new, tried = _try_loading(change.scope, replace(new, updated_ms=_now_ms()))
    for one, result in zip(new.extensions, tried, strict=True):
        if result.problem and one.name not in old.broken:
            raise OstlerError(f"{one.name} cannot be loaded: {result.problem}")
    change.commit(change.manifest.with_package(new))
    return InstallResult(new, "updated", tried)


def remove(scope: Scope, name: str) -> Package:
    """Removes a package, with its files unless it was used in place."""
    with edit_manifest(scope) as change:
        package = change.manifest.named(name)
        change.commit(change.manifest.without(name))
    return package


def set_enabled(scope: Scope, name: str, enabled: bool) -> bool:
    """Enables or disables a package; returns False if it was so already."""
    with edit_manifest(scope) as change:
        package = change.manifest.named(name)
        change.commit(change.manifest.with_package(replace(package, enabled=enabled)))
    return package.enabled != enabled


def _refuse_second(manifest: Manifest, source: Source, name: str) -> None:
    for one in manifest.packages:
        if (one.kind, one.identity) == (source.kind, source.identity):
            commands = f"`ostler ext update {one.name}` or `ostler ext remove {one.name}`"
            raise UsageError(f"{source.identity} is installed already, as {one.name}: use {commands}")
        if one.name == name:
            raise UsageError(f"another package is called {name} (from {one.source}): use --name OTHER")


def _fetch(change: ManifestEdit, package: Package) -> Package:
    folder = change.new_folder()
    place = folder / package.name
    package = replace(package, folder=folder.name)
    if package.kind == "pypi":
        distribution = install_wheel(package.source, package.ref, place, may_build=package.may_build)
        points = entry_points_of(distribution)
        entries = [Entry(name, function=function) for name, function in points.items()]
        return replace(package, version=distribution.version, extensions=_chosen_by_name(package, entries))
    if package.kind == "git":
        package = replace(package, version=copy_of(package.source, package.ref, place))
    else:
        _copy(Path(package.source), place, change.scope)
    return replace(package, extensions=_chosen(package, place))


def _linked(package: Package) -> Package:
    place = Path(package.source)
    if not place.exists():
        raise OstlerError(f"{place} does not exist any more; `ostler ext remove {package.name}` removes it")
    return replace(package, extensions=_chosen(package, place))


def _copy(path: Path, place: Path, scope: Scope) -> None:
    if scope.name == "user" and scope.packages.resolve().is_relative_to(path):
        raise UsageError(f"{path} contains the folder that it would be copied to: name a folder in it")
    try:
        if path.is_dir():
            copytree(path, place, symlinks=True, ignore=_IGNORED)
        else:
            place.mkdir()
            copy2(path, place)
    except SeveralErrors as errors:
        raise OstlerError(f"{path} cannot be copied: {errors.args[0][0][2]}") from None
    except OSError as error:
        raise OstlerError(f"{path} cannot be copied: {error.strerror}") from None


def _chosen(package: Package, place: Path) -> tuple[Entry, ...]:
    """The extensions in the folder, or the included ones."""
    if place.is_file():
        return (Entry(package.name),)
    for one in package.include:
        path = place / one
        is_inside = path.resolve().is_relative_to(place.resolve())
        if ".." in path.parts or not is_inside or not is_extension(path):
            paths = ", ".join(scan_extensions(place)) or "none"
            raise UsageError(f"{one} is not an extension of {package.name}; its extensions are: {paths}")
    included: Sequence[str] = package.include or scan_extensions(place)
    if not included:
        raise UsageError(
            f"there is no extension in {package.source}: no file with `def setup(ostler)` at its root or in "
            "`extensions`, and no folder with an extension.json; use --include PATH for another place"
        )
    entries = tuple(Entry(_name_of(place, one, package), one) for one in included)
    names = [one.name for one in entries]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"two extensions in {package.source} are called {twice}: choose with --include PATH")
    return entries


def _name_of(place: Path, path: str, package: Package) -> str:
    if (place / path / MANIFEST).is_file():
        return read_process_manifest(place / path).name
    return package.name if path == "." else Path(path).name.removesuffix(".py")


def _chosen_by_name(package: Package, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    by_name = {one.name: one for one in entries}
    if not by_name:
        raise UsageError(f"{package.source} has no extensions: it has no entry point 'ostler.extensions'")
    if unknown := next((name for name in package.include if name not in by_name), ""):
        names = ", ".join(by_name)
        raise UsageError(f"{unknown} is not an extension of {package.source}; its extensions are: {names}")
    return tuple(by_name[name] for name in package.include or sorted(by_name))


def _try_loading(scope: Scope, package: Package) -> tuple[Package, tuple[ExtensionSummary, ...]]:
    candidates = []
    for one in package.extensions:
        path = path_of(package.place(scope), one)
        kind = "module" if one.function else kind_of(path) or "file"
        candidates.append(DiscoveredExtension(one.name, "installed", path, kind, one.function))
    tried = tuple(try_loading(candidates))
    pairs = zip(package.extensions, tried, strict=True)
    return replace(package, broken=tuple(one.name for one, result in pairs if result.problem)), tried


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def write_scaffold(folder: Path, language: Literal["python", "node", "any"]) -> list[Path]:
    """Writes a new extension into a new folder, which has its name. Nothing is overwritten."""
    name = package_name(folder.name)
    templates = files(__package__) / "scaffolds"
    texts = {}
    for kind in (language, "every"):
        for template in sorted((templates / kind).iterdir(), key=lambda one: one.name):
            file = template.name.removesuffix(".txt").replace("@NAME@", name)
            texts[file] = template.read_text(encoding="utf-8").replace("@NAME@", name)
    try:
        folder.mkdir(parents=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UsageError(f"{folder} already exists: choose another name, or move it away") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    return [folder / file for file in texts]
