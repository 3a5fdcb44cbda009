"""Finds extensions in folders, installed packages and settings, in load order, without running any code."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from ostler.context.files import Unusable, entries_in
from ostler.core.lazy import lazy_module
from ostler.extensions import idle_host
from ostler.extensions.idle_host import INSTALLED, own_extensions, places, project_extensions
from ostler.permissions.memory import project_folder
from ostler.schema.errors import UsageError
from ostler.store.paths import state_folder

if TYPE_CHECKING:
    from ostler.extensions.extension import Origin
    from ostler.extensions.loader import manifest as manifest_module
    from ostler.extensions.loader.manifest import Scope
else:
    manifest_module = lazy_module("ostler.extensions.loader.manifest")

MANIFEST = "extension.json"
"""Its folder is an extension in some other language."""
_NO_CODE = re.compile(r"\..*|__pycache__|test_.*\.py|.*_test\.py")
Kind = Literal["file", "folder", "foreign", "module"]


class ExtensionSearch(msgspec.Struct, frozen=True):
    """Where extensions are looked for."""

    cwd: Path
    named: tuple[Path, ...] = ()
    """With `-e`: files and folders, found wherever they are."""
    configured: tuple[Path, ...] = ()
    of_project: Mapping[Path, Path] = {}
    """Those of `configured` that a project's file names, with its folder: it must be trusted first."""
    automatic: bool = True
    """Also where extensions usually are, and those that are configured."""
    trusts: bool = False
    """What a project brings is trusted, without being looked at."""

    @property
    def places(self) -> tuple[Path, ...]:
        """Where extensions appear and disappear."""
        return places(self.cwd) if self.automatic else ()


class DiscoveredExtension(msgspec.Struct, frozen=True):
    """An extension, as it lies there."""

    name: str
    origin: Origin
    path: Path
    kind: Kind
    function: str = ""
    """Of a module that is installed: `module:function`."""
    version: str = ""
    project: Path | None = None
    """The folder to be trusted before it may run; None for what is the user's own."""
    problem: str = ""
    """Why it cannot be loaded, if that is plain already."""


def find_extensions(search: ExtensionSearch) -> list[DiscoveredExtension]:
    """All of them: also those that cannot be loaded, and say why. A path counts once, at its first place."""
    found: dict[Path | str, DiscoveredExtension] = {}
    for one in _everywhere(search):
        found.setdefault(one.function or one.path.resolve(), one)
    taken: dict[str, DiscoveredExtension] = {}
    listed = []
    for one in found.values():
        first = taken.setdefault(one.name, one)
        problem = "" if first is one else f"{first.path} has the name {one.name}, too, and comes first"
        listed.append(one if not problem else replace(one, problem=problem))
    return listed


def check_named(search: ExtensionSearch) -> None:
    """Raises for something that was named and is not there."""
    for path in search.named:
        if not path.exists():
            raise UsageError(f"there is no extension {path}: name a file or a folder")


def _everywhere(search: ExtensionSearch) -> Iterator[DiscoveredExtension]:
    if search.automatic:
        yield from extensions_in(own_extensions(), "user")
        yield from _installed_for_user()
        yield from _installed_modules()
        yield from _of_project(search.cwd.resolve())
        for path in search.configured:
            project = search.of_project.get(path)
            for one in _named(path, "configured", project):
                yield _inside(one, project) if project is not None else one
    for path in search.named:
        yield from _named(path, "option", None)


def extensions_in(folder: Path, origin: Origin, project: Path | None = None) -> Iterator[DiscoveredExtension]:
    """By name. What has no `setup` is there for others to import."""
    try:
        paths = entries_in(folder)
    except Unusable as error:
        yield DiscoveredExtension(
            folder.name, origin, folder, "folder", project=project, problem=f"cannot be read: {error}"
        )
        return
    for path in paths:
        if kind := kind_in_folder(path):
            yield DiscoveredExtension(_name(path, kind), origin, path, kind, project=project)


def kind_of(path: Path) -> Kind | None:
    """What kind of extension it is, if it is one."""
    if (path / MANIFEST).is_file():
        return "foreign"
    if path.suffix == ".py" and path.is_file():
        return "file" if is_extension(path) else None
    return "folder" if path.is_dir() and is_extension(path) else None


def kind_in_folder(path: Path) -> Kind | None:
    """The same, of something in a folder of extensions: there, not everything is meant to be one."""
    return None if path.name.startswith("_") or not is_code(path) else kind_of(path)


def is_code(path: Path) -> bool:
    """Whether it may belong to an extension: nothing that is hidden, and no tests."""
    return not _NO_CODE.fullmatch(path.name)


def _named(path: Path, origin: Origin, project: Path | None) -> Iterator[DiscoveredExtension]:
    """The extension at a path, or those in a folder that is none itself."""
    if kind := kind_of(path):
        yield DiscoveredExtension(_name(path, kind), origin, path, kind, project=project)
        return
    inside = list(extensions_in(path, origin, project))
    if inside:
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
    """Of the manifest, what is needed before it is loaded."""

    name: str = ""
    exec: str = ""
    args: tuple[str, ...] = ()


def process_fields(folder: Path) -> ProcessFields:
    """Nothing, where the manifest cannot be understood: loading it will say why."""
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


def _inside(found: DiscoveredExtension, project: Path) -> DiscoveredExtension:
    """What a project brings must lie in it: who trusts the project has not looked elsewhere."""
    if found.problem or found.path.resolve().is_relative_to(project.resolve()):
        return found
    return replace(found, problem="it leads out of the project")


def _installed_for_user() -> Iterable[DiscoveredExtension]:
    if not (state_folder() / INSTALLED).is_file():
        return ()
    return _installed(manifest_module.user_scope(), None)


def _installed(scope: Scope, project: Path | None) -> Iterator[DiscoveredExtension]:
    """What `ostler ext install` has brought."""
    for one in manifest_module.installed_extensions(scope):
        kind = "module" if one.function else kind_of(one.path)
        problem = "" if kind else "it is gone, or has no `def setup(ostler)` any more"
        yield DiscoveredExtension(
            one.name, "installed", one.path, kind or "file", one.function, one.version, project, problem
        )


def _installed_modules() -> Iterator[DiscoveredExtension]:
    """Of packages that are installed beside Ostler, by their entry points."""

    for one in entry_points():
        yield DiscoveredExtension(one.name, "package", one.distribution, "module", one.function, one.version)


class EntryPoint(msgspec.Struct, frozen=True):
    name: str
    function: str
    """`module:function`."""
    version: str
    distribution: Path
    """The folder of the package's metadata."""


def entry_points(folders: list[str] | None = None) -> list[EntryPoint]:
    """By name, of the packages that can be imported. The first folder that has a package has it."""
    found: dict[str, list[EntryPoint]] = {}
    for metadata, content in idle_host.entry_points(folders):
        package, _, version = metadata.rpartition("/")[2].rpartition(".")[0].partition("-")
        if package not in found:
            found[package] = _parsed(content, version, Path(metadata))
    return sorted((one for points in found.values() for one in points), key=lambda one: one.name)


def _parsed(content: bytes, version: str, metadata: Path) -> list[EntryPoint]:
    points: list[EntryPoint] = []
    if idle_host.OURS not in content:
        return points
    is_ours = False
    for line in content.splitlines():
        line = line.strip()
        if line.startswith(b"["):
            is_ours = line == b"[%s]" % idle_host.OURS
        elif is_ours and line and line[:1] not in b"#;":
            name, _, function = (part.strip() for part in line.decode(errors="replace").partition("="))
            points.append(EntryPoint(name, function.partition("[")[0].strip(), version, metadata))
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
"""So much of a file is looked at."""


def scan_extensions(folder: Path) -> list[str]:
    """Paths in the folder, `.` for the folder itself: what is an extension by where it lies and what it says.

    That is the folder if it has `setup` in its `__init__.py` or `main.py`, or an `extension.json`. Else it is
    files with `setup` and folders as just described: in the folder itself, in `extensions`, in `ext`, and in
    folders named like `git-ext`.
    """
    if is_extension(folder):
        return ["."]
    found = dict.fromkeys(_in_place(folder))
    for one in _folders(folder):
        if one.name in ("extensions", "ext") or one.name.endswith(("-extensions", "-ext")):
            found |= dict.fromkeys(_in_place(one))
    return [one.relative_to(folder).as_posix() for one in found]


def is_extension(path: Path) -> bool:
    """Whether a file has `setup`; whether a folder has it in its entry, or an `extension.json`."""
    if path.is_file():
        return path.suffix == ".py" and _has_setup(path)
    return (path / MANIFEST).is_file() or any(_has_setup(path / one) for one in ENTRIES)


def _in_place(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.glob("*.py")):
        if not _NO_EXTENSION.fullmatch(one.name) and _has_setup(one):
            yield one
    for one in _folders(folder):
        if is_extension(one):
            yield one


def _folders(folder: Path) -> list[Path]:
    return [
        one
        for one in sorted(folder.iterdir())
        if one.is_dir() and not one.is_symlink() and one.name not in _SKIPPED and one.name[0] not in "._"
    ]


def _has_setup(file: Path) -> bool:
    """Whether it defines `setup` or imports it, but not that of a build."""
    try:
        # Who has laid it out may have put a pipe there, which nobody writes to: opening it must not wait.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return is_file and bool(_SETUP.search(os.read(descriptor, MOST_BYTES)))
    finally:
        os.close(descriptor)
