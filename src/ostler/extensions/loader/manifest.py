"""`extensions.json`: the packages that are installed in a scope, and their sources.

A package gets a new folder, and is installed once the manifest that names the folder replaces the old one.
A folder that no row names is left from an interrupted installation; the next one removes it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

import msgspec

from ostler.schema.errors import ConfigurationError, NotFound
from ostler.store.paths import project_folder, state_folder

FILE = "extensions.json"
FOLDER = "packages"
VERSION = 1
Kind = Literal["git", "path", "pypi"]
OWN_FOLDER = re.compile(r"package_[0-9a-z]+")


class Scope(msgspec.Struct, frozen=True):
    """Where packages are installed: for the user, or into a project."""

    name: Literal["user", "project"]
    root: Path

    @property
    def file(self) -> Path:
        return self.root / FILE

    @property
    def packages(self) -> Path:
        return self.root / FOLDER


def user_scope() -> Scope:
    return Scope("user", state_folder())


def project_scope(cwd: Path) -> Scope:
    return Scope("project", project_folder(cwd) / ".ostler")


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An extension in a package."""

    name: str
    path: str = "."
    """A file or folder in the package's folder."""
    function: str = ""
    """`module:function`, imported with that folder on the path; for packages from PyPI."""


class Package(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of the manifest."""

    name: str
    kind: Kind
    source: str
    """As passed to git, pip or the file system."""
    identity: str
    ref: str = ""
    """The tag, branch, commit or version it is pinned to. A pinned package is not updated."""
    version: str = ""
    """The installed commit or version."""
    folder: str = ""
    """Its folder below `packages`; empty for one that is used in place."""
    include: tuple[str, ...] = ()
    """The chosen extensions, by relative path or, on PyPI, by name; empty for all."""
    extensions: tuple[Entry, ...] = ()
    """The extensions to load, in order."""
    broken: tuple[str, ...] = ()
    """The names of extensions that failed to load when it was installed."""
    may_build: bool = False
    enabled: bool = True
    installed_ms: int = 0
    updated_ms: int = 0

    def place(self, scope: Scope) -> Path:
        """Where its files are."""
        return scope.packages / self.folder / self.name if self.folder else Path(self.source)


class Manifest(msgspec.Struct, frozen=True):
    version: int = VERSION
    packages: tuple[Package, ...] = ()

    def named(self, name: str) -> Package:
        for one in self.packages:
            if one.name == name:
                return one
        raise NotFound(f"no package {name!r} is installed here; `ostler ext list` lists the packages")

    def with_package(self, package: Package) -> Manifest:
        """In its old place, or at the end."""
        if all(one.name != package.name for one in self.packages):
            return Manifest(packages=(*self.packages, package))
        return Manifest(packages=tuple(package if one.name == package.name else one for one in self.packages))

    def without(self, name: str) -> Manifest:
        return Manifest(packages=tuple(one for one in self.packages if one.name != name))


class InstalledExtension(msgspec.Struct, frozen=True):
    """An extension of an installed package."""

    name: str
    path: Path
    """The file or folder of the extension; with a `function`, the folder to import it from."""
    package: str
    version: str = ""
    function: str = ""
    """`module:function`, for packages from PyPI."""


class _Header(msgspec.Struct):
    version: int


def read_manifest(scope: Scope) -> Manifest:
    """Raises `ConfigurationError` if the manifest is damaged or of a newer version."""
    path = scope.file
    try:
        content = path.read_bytes()
        if (version := msgspec.json.decode(content, type=_Header).version) > VERSION:
            raise ConfigurationError(f"{path} has version {version}, which needs a newer ostler")
        manifest = msgspec.json.decode(content, type=Manifest)
    except FileNotFoundError:
        return Manifest()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "repair it, or move it away and install again"
        raise ConfigurationError(f"{path} is damaged ({error}); {hint}") from None
    for one in manifest.packages:
        _check(one, scope)
    return manifest


def installed_extensions(scope: Scope, *, enabled: bool = True) -> list[InstalledExtension]:
    """The extensions of the enabled packages of a scope (or the disabled ones), in order of installation. It
    reads only the manifest, and raises `ConfigurationError` if that is damaged."""
    return [
        InstalledExtension(
            one.name, path_of(package.place(scope), one), package.name, package.version, one.function
        )
        for package in read_manifest(scope).packages
        if package.enabled == enabled
        for one in package.extensions
    ]


def path_of(place: Path, entry: Entry) -> Path:
    return Path(os.path.normpath(place / entry.path))


def _check(package: Package, scope: Scope) -> None:
    """A project's manifest is not trusted: a row must not name files outside of its scope, nor modules that
    are imported in the usual way, with bytecode that nobody has reviewed."""
    paths = [package.name, *package.include, *(one.path for one in package.extensions)]
    leads_out = any(Path(one).is_absolute() or ".." in Path(one).parts for one in paths)
    has_folder = bool(OWN_FOLDER.fullmatch(package.folder))
    has_modules = package.kind == "pypi" or any(one.function for one in package.extensions)
    if scope.name == "user":
        has_modules = False
        has_folder |= not package.folder and package.kind == "path" and Path(package.source).is_absolute()
    if leads_out or has_modules or not has_folder or not package.name or "/" in package.name:
        raise ConfigurationError(f"{scope.file} is damaged (the row of {package.name!r} cannot be used)")
