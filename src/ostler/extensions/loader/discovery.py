"""Finds extensions in folders, installed packages and settings, in load order, without running any code."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from ostler.context.files import Unusable, entries_in
from ostler.core.lazy import lazy_module
from ostler.core.processes import ProcessLimits
from ostler.extensions import idle_host
from ostler.extensions.idle_host import INSTALLED, own_extensions, places, project_extensions
from ostler.schema.errors import UsageError
from ostler.store.paths import project_folder, state_folder

if TYPE_CHECKING:
    from ostler.extensions.loader import manifest as manifest_module
    from ostler.extensions.loader.manifest import Scope
else:
    manifest_module = lazy_module("ostler.extensions.loader.manifest")

MANIFEST = "extension.json"
"""A folder with this file is an extension in another language."""
_NO_CODE = re.compile(r"\..*|__pycache__|test_.*\.py|.*_test\.py")
Kind = Literal["file", "folder", "foreign", "module"]
Origin = Literal["user", "project", "package", "installed", "configured", "option", "host"]
"""Where an extension comes from: the user's folder, the project's, a Python package, `ostler ext install`,
the configuration, `-e PATH`, or the program that embeds Ostler."""


class ExtensionSearch(msgspec.Struct, frozen=True):
    """Where to search for extensions."""

    cwd: Path
    named: tuple[Path, ...] = ()
    """The files and folders of `-e`."""
    configured: tuple[Path, ...] = ()
    of_project: Mapping[Path, Path] = {}
    """Those of `configured` that a project's settings name, with its folder, which must be trusted first."""
    automatic: bool = True
    """Also search the default folders, and use the configured ones."""
    trusts: bool = False
    """Trust extensions of projects without a review."""
    process_limits: ProcessLimits = ProcessLimits()
    """For the processes of extensions in other languages."""

    @property
    def places(self) -> tuple[Path, ...]:
        """The folders and files in which extensions appear."""
        return places(self.cwd) if self.automatic else ()


class DiscoveredExtension(msgspec.Struct, frozen=True):
    """An extension that was found, before it is loaded."""

    name: str
    origin: Origin
    path: Path
    kind: Kind
    function: str = ""
    """`module:function`, for an installed package."""
    version: str = ""
    project: Path | None = None
    """The project that must be trusted before it may run; None for the user's own extensions."""
    problem: str = ""
    """Why it cannot be loaded, if known already."""


def find_extensions(search: ExtensionSearch) -> list[DiscoveredExtension]:
    """All extensions, also those with a problem. A path counts once, at its first place."""
    candidates: dict[Path | str, DiscoveredExtension] = {}
    for one in _everywhere(search):
        candidates.setdefault(one.function or one.path.resolve(), one)
    by_name: dict[str, DiscoveredExtension] = {}
    extensions = []
    for one in candidates.values():
        first = by_name.setdefault(one.name, one)
        if first is not one:
            one = replace(one, problem=f"{first.path} has the name {one.name}, too, and comes first")
        extensions.append(one)
    return extensions


def check_named(search: ExtensionSearch) -> None:
    """Raises `UsageError` if a named extension does not exist."""
    for path in search.named:
        if not path.exists():
            raise UsageError(f"there is no extension {path}: name a file or a folder")


def _everywhere(search: ExtensionSearch) -> Iterator[DiscoveredExtension]:
    if search.automatic:
        yield from extensions_in(own_extensions(), "user")
        if (state_folder() / INSTALLED).is_file():
            yield from _installed(manifest_module.user_scope(), None)
        yield from entry_points()
        yield from _of_project(search.cwd.resolve())
        for path in search.configured:
            project = search.of_project.get(path)
            for one in _named(path, "configured", project):
                yield _inside(one, project) if project is not None else one
    for path in search.named:
        yield from _named(path, "option", None)


def extensions_in(folder: Path, origin: Origin, project: Path | None = None) -> Iterator[DiscoveredExtension]:
    """The extensions in a folder, sorted by name. Files without `setup` are helpers for them to import."""
    try:
        paths = entries_in(folder)
    except Unusable as error:
        problem = f"cannot be read: {error}"
        yield DiscoveredExtension(folder.name, origin, folder, "folder", project=project, problem=problem)
        return
    for path in paths:
        if kind := kind_in_folder(path):
            yield DiscoveredExtension(_name(path, kind), origin, path, kind, project=project)


def kind_of(path: Path) -> Kind | None:
    """The kind of extension at a path; None if there is none."""
    if (path / MANIFEST).is_file():
        return "foreign"
    if path.suffix == ".py" and path.is_file():
        return "file" if is_extension(path) else None
    return "folder" if path.is_dir() and is_extension(path) else None


def kind_in_folder(path: Path) -> Kind | None:
    """Like `kind_of`, in a folder of extensions, where some files are only helpers."""
    return None if path.name.startswith("_") or not is_code(path) else kind_of(path)


def is_code(path: Path) -> bool:
    """Whether it may belong to an extension: not a hidden file, and not a test."""
    return not _NO_CODE.fullmatch(path.name)


def _named(path: Path, origin: Origin, project: Path | None) -> Iterator[DiscoveredExtension]:
    """The extension at a path, or the extensions in that folder."""
    if kind := kind_of(path):
        yield DiscoveredExtension(_name(path, kind), origin, path, kind, project=project)
        return
    if inside := list(extensions_in(path, origin, project)):
        yield from inside
        return
    problem = "it has no `def setup(ostler)`" if path.exists() else "there is no such file or folder"
    kind = "folder" if path.is_dir() else "file"
    yield DiscoveredExtension(_name(path, kind), origin, path, kind, project=project, problem=problem)


def _name(path: Path, kind: Kind) -> str:
    if kind == "foreign":
        return process_fields(path).name or path.name
    return path.stem if kind == "file" else path.name


class ProcessFields(msgspec.Struct):
    """The fields of a manifest that are needed before it is loaded."""

    name: str = ""
    exec: str = ""
    args: tuple[str, ...] = ()


def process_fields(folder: Path) -> ProcessFields:
    """Empty fields if the manifest is invalid: loading it reports the problem."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=ProcessFields)
    except (OSError, ValueError):
        return ProcessFields()


def _of_project(cwd: Path) -> Iterator[DiscoveredExtension]:
    root = project_folder(cwd)
    if (root / ".ostler" / INSTALLED).is_file():
        for one in _installed(manifest_module.project_scope(cwd), root):
            yield _inside(one, root)
    for folder in project_extensions(cwd):
        for one in extensions_in(folder, "project", folder.parent.parent):
            yield _inside(one, root)


def _inside(candidate: DiscoveredExtension, project: Path) -> DiscoveredExtension:
    """An extension of a project must be inside of it: trusting the project covers nothing else."""
    if candidate.problem or candidate.path.resolve().is_relative_to(project.resolve()):
        return candidate
    return replace(candidate, problem="it leads out of the project")


def _installed(scope: Scope, project: Path | None) -> Iterator[DiscoveredExtension]:
    """The extensions of `ostler ext install`."""
    for one in manifest_module.installed_extensions(scope):
        kind = "module" if one.function else kind_of(one.path)
        problem = "" if kind else "it was deleted, or has no `def setup(ostler)` any more"
        yield DiscoveredExtension(
            one.name, "installed", one.path, kind or "file", one.function, one.version, project, problem
        )


def entry_points(folders: list[str] | None = None) -> list[DiscoveredExtension]:
    """The extensions of Python packages that are installed beside Ostler, by the names of their entry points.
    The first folder with a package wins."""
    packages: dict[str, list[DiscoveredExtension]] = {}
    for metadata, content in idle_host.entry_points(folders):
        package, _, version = metadata.rpartition("/")[2].rpartition(".")[0].partition("-")
        if package not in packages:
            packages[package] = _parsed(content, version, Path(metadata))
    return sorted((one for points in packages.values() for one in points), key=lambda one: one.name)


def _parsed(content: bytes, version: str, metadata: Path) -> list[DiscoveredExtension]:
    points = []
    is_ours = False
    for line in map(bytes.strip, content.splitlines() if idle_host.OURS in content else ()):
        if line.startswith(b"["):
            is_ours = line == b"[%s]" % idle_host.OURS
        elif is_ours and line and line[:1] not in b"#;":
            name, _, function = (part.strip() for part in line.decode(errors="replace").partition("="))
            function = function.partition("[")[0].strip()
            points.append(DiscoveredExtension(name, "package", metadata, "module", function, version))
    return points


ENTRIES = ("__init__.py", "main.py")
_SKIPPED = ("build", "dist", "docs", "examples", "node_modules", "scripts", "test", "tests", "vendor", "venv")
_NO_EXTENSION = re.compile(r"setup\.py|conftest\.py|noxfile\.py|test_.*|.*_test\.py|[._].*")

_SETUP = re.compile(
    rb"^(?:async +)?def +setup *\(|^setup *="
    rb"|^from +(?!setuptools|distutils)[\w.]+ +import +(?:\([^)]*\bsetup\b|[^(\n]*\bsetup\b)",
    re.MULTILINE,
)

MOST_BYTES = 4 * 1024 * 1024
"""How much of a file is searched for `setup`."""


def scan_extensions(folder: Path) -> list[str]:
    """The relative paths of the extensions in a folder; `.` for the folder itself.

    A folder is an extension if its `__init__.py` or `main.py` has `setup`, or if it has an `extension.json`.
    If it is not, the result is the files with `setup` and the folders that are extensions: in the folder
    itself, in `extensions`, in `ext`, and in folders named like `git-ext`.
    """
    if is_extension(folder):
        return ["."]
    paths = dict.fromkeys(_in_place(folder))
    for one in _folders(folder):
        if one.name in ("extensions", "ext") or one.name.endswith(("-extensions", "-ext")):
            paths |= dict.fromkeys(_in_place(one))
    return [one.relative_to(folder).as_posix() for one in paths]


def is_extension(path: Path) -> bool:
    """Whether a file has `setup`, or a folder has it in its entry or has an `extension.json`."""
    if path.is_file():
        return path.suffix == ".py" and _has_setup(path)
    return (path / MANIFEST).is_file() or any(_has_setup(path / one) for one in ENTRIES)


def _in_place(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.glob("*.py")):
        if not _NO_EXTENSION.fullmatch(one.name) and _has_setup(one):
            yield one
    yield from filter(is_extension, _folders(folder))


def _folders(folder: Path) -> list[Path]:
    return [
        one
        for one in sorted(folder.iterdir())
        if one.is_dir() and not one.is_symlink() and one.name not in _SKIPPED and one.name[0] not in "._"
    ]


def _has_setup(file: Path) -> bool:
    """Whether it defines or imports `setup`, except that of setuptools."""
    try:
        # Opening must not block, even if somebody has put a pipe there.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return is_file and bool(_SETUP.search(os.read(descriptor, MOST_BYTES)))
    finally:
        os.close(descriptor)
