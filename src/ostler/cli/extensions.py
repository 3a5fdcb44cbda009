"""`ostler ext`: lists, checks, installs, updates, removes and creates extensions."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from shlex import quote

from msgspec.structs import replace

from ostler.app.console import ask_consent, has_terminal, print_json, print_stderr, print_table
from ostler.app.options import Parser, add_json, command_adder, default_to_list
from ostler.app.settings import load_settings, project_paths, short_path, working_directory
from ostler.context.files import Unusable, quoted_path
from ostler.core.lazy import lazy_module
from ostler.extensions.extension import ExtensionStatus, ExtensionSummary
from ostler.extensions.idle_host import own_extensions
from ostler.extensions.install.trial import try_loading
from ostler.extensions.loader.code_files import ProjectExtension
from ostler.extensions.loader.discovery import (
    DiscoveredExtension,
    ExtensionSearch,
    check_named,
    find_extensions,
    scan_extensions,
)
from ostler.extensions.loader.manifest import (
    InstalledExtension,
    Package,
    Scope,
    installed_extensions,
    project_scope,
    read_manifest,
    user_scope,
)
from ostler.permissions.trust import trusted_folders
from ostler.schema.errors import NotFound, OstlerError, UsageError
from ostler.schema.text import one_line, plural, printable
from ostler.store.paths import state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.extensions.install import packages, sources
    from ostler.extensions.install.packages import InstallResult
else:
    packages = lazy_module("ostler.extensions.install.packages")
    sources = lazy_module("ostler.extensions.install.sources")


LANGUAGES = ("python", "node", "any")
SHORT = 12
"""Digits of a commit that are printed."""


def ext_command(arguments: list[str]) -> int:
    options = _ext_parser().parse_args(default_to_list(arguments))
    # As Ctrl-C does, SIGTERM raises an exception, so that unfinished work is cleaned up.
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        code: int | None = options.command(options)
    finally:
        signal.signal(signal.SIGTERM, before)
    return code or 0


def _ext_parser() -> Parser:
    parser = Parser(
        prog="ostler ext",
        description="Lists, installs, updates, removes, checks and creates extensions. "
        "An extension is code that runs with your rights.",
    )
    add = command_adder(parser)
    add_json(add("list", "list the extensions of this directory in loading order (the default)", _list))
    about = "install a package of extensions, after loading it in a separate process to check it"
    one = add("install", about, _install)
    about = (
        "github.com/OWNER/REPOSITORY, git:HOST/PATH, https://…, ssh://…, git@HOST:PATH or file://…, each "
        "with @REF to pin it; a path; or NAME or NAME==VERSION on PyPI"
    )
    one.add_argument("source", metavar="SOURCE", help=about)
    _add_local(one)
    one.add_argument("--name", metavar="NAME", default="", help="a name for the package")
    about = "only this extension of the package; repeatable"
    one.add_argument("--include", metavar="PATH", action="append", default=[], help=about)
    one.add_argument("--link", action="store_true", help="use a path in place instead of a copy")
    about = "allow building a package from PyPI here, which runs its code"
    one.add_argument("--build", action="store_true", help=about)
    one.add_argument("--yes", action="store_true", help="do not ask")
    about = "update packages; pinned ones stay, and a version that does not load is rejected"
    one = add("update", about, _update)
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument("name", metavar="NAME", nargs="?", help="one package")
    which.add_argument("--all", action="store_true", help="all packages")
    _add_local(one)
    for name, about, command in (
        ("remove", "remove a package and its files", _remove),
        ("enable", "use a package again", _switch),
        ("disable", "stop using a package, but keep it", _switch),
    ):
        one = add(name, about, command)
        one.add_argument("name", metavar="NAME", help="as `ostler ext list` shows it")
        one.set_defaults(enabled=name == "enable")
        _add_local(one)
    one = add("validate", "load extensions in a separate process; exit code 1 if one fails", _validate)
    about = "a file or folder (default: all extensions of this directory)"
    one.add_argument("path", metavar="PATH", nargs="?", help=about)
    one = add("new", "create a starter extension with a test", _new)
    one.add_argument("name", metavar="NAME", help="its name, or the path of its new folder")
    one.add_argument("--lang", choices=LANGUAGES, default=LANGUAGES[0], help="its language (default: python)")
    one = add("logs", "show what an extension in another language wrote to standard error", _logs)
    one.add_argument("name", metavar="NAME", help="the name of the extension")
    one.add_argument("-f", "--follow", action="store_true", help="keep printing new lines")
    return parser


def _add_local(parser: Parser) -> None:
    parser.add_argument("--local", action="store_true", help="the project's own, in its .ostler folder")


def _scope(options: argparse.Namespace) -> Scope:
    return project_scope(working_directory()) if options.local else user_scope()


def _new(options: argparse.Namespace) -> None:
    cwd = working_directory()
    folder = Path(cwd, options.name)
    for file in packages.write_scaffold(folder, options.lang):
        print(f"wrote {one_line(str(file.relative_to(cwd) if file.is_relative_to(cwd) else file))}")
    print_stderr(f"`ostler ext install --link {quote(str(folder))}` installs it")


def _install(options: argparse.Namespace) -> None:
    source = sources.parse_source(options.source, working_directory())
    wish = packages.InstallOptions(options.name, tuple(options.include), options.link, options.build)
    scope = _scope(options)

    def announce(package: Package) -> None:
        when = "after `ostler trust` here" if options.local else "in all your sessions"
        print_stderr(
            f"{_titled(package)} from {package.source}: {_names(package)} will be loaded now to check it, "
            f"and then {when}, with your rights"
        )
        if has_terminal() and not options.yes and not ask_consent("install it?"):
            raise UsageError("nothing was installed")

    if source.kind != "path":
        print_stderr(f"fetching {source.identity}")
    outcome = packages.install(scope, source, wish, announce)
    _warn(outcome.tried)
    print(f"installed {_titled(outcome.package)}: {_names(outcome.package)}")
    if options.local:
        print_stderr("it belongs to the project: review it and run `ostler trust` to use it")


def _update(options: argparse.Namespace) -> int:
    scope = _scope(options)
    if not options.all:
        _there(options, scope)
    names = [one.name for one in read_manifest(scope).packages] if options.all else [options.name]
    if not names:
        print_stderr("there are no packages; `ostler ext install SOURCE` installs one")
    failed = False
    for name in names:
        try:
            _print_update(packages.update(scope, name, _announce_update))
        except OstlerError as error:
            if not options.all:
                raise
            failed = True
            print_stderr(error.message)
    return 1 if failed else 0


def _announce_update(package: Package) -> None:
    print_stderr(f"{_titled(package)} is loaded to check it: {_names(package)}")


def _print_update(outcome: InstallResult) -> None:
    package = outcome.package
    if outcome.change == "pinned":
        print(f"{package.name} is pinned to {package.ref} and stays at that version")
    elif outcome.change == "current":
        print(f"{_titled(package)} is up to date")
    else:
        print(f"updated {_titled(package)}: {_names(package)}")
    _warn(outcome.tried)


def _remove(options: argparse.Namespace) -> None:
    scope = _scope(options)
    package = packages.remove(scope, _there(options, scope).name)
    left = "" if package.folder else f"; {one_line(package.source)} is not deleted"
    print(f"removed {package.name}{left}")


def _switch(options: argparse.Namespace) -> None:
    scope = _scope(options)
    is_changed = packages.set_enabled(scope, _there(options, scope).name, options.enabled)
    state = "enabled" if options.enabled else "disabled"
    print(f"{options.name} is {state}{'' if is_changed else ' (it was already)'}")


def _there(options: argparse.Namespace, scope: Scope) -> Package:
    """The package; the error says if the other scope has one of that name."""
    try:
        return read_manifest(scope).named(options.name)
    except NotFound as error:
        other = user_scope() if options.local else project_scope(working_directory())
        if all(one.name != options.name for one in read_manifest(other).packages):
            raise
        hint = "leave out --local" if options.local else "use --local"
        raise NotFound(f"{error.message}; {other.root} has one: {hint}") from None


def _titled(package: Package) -> str:
    version = package.version[:SHORT] if package.kind == "git" else package.version
    return one_line(f"{package.name} {version}".rstrip())


def _names(package: Package) -> str:
    listed = ", ".join(one.name for one in package.extensions)
    return one_line(f"{plural(len(package.extensions), 'extension')} ({listed})")


def _warn(tried: tuple[ExtensionSummary, ...]) -> None:
    for one in tried:
        if one.problem:
            print_stderr(f"{one.name} cannot be loaded: {one.problem}")


HEADINGS = ("NAME", "FROM", "STATE", "VERSION", "BRINGS", "WHERE", "PROBLEM")


def _list(options: argparse.Namespace) -> None:
    cwd = working_directory()
    packages = {one.path: one.package for one in _installed(cwd)}
    rows = [replace(row, package=packages.get(Path(row.path), "")) for row in _rows(_search(cwd))]
    for one in _installed(cwd, enabled=False):
        path = str(one.path)
        rows.append(
            ExtensionSummary(one.name, "installed", path, one.version, "disabled", package=one.package)
        )
    if options.json:
        print_json(*rows)
        return
    print_table(HEADINGS, [_cells(row, cwd) for row in rows])
    if not rows:
        places = f".ostler/extensions/NAME.py here, or {own_extensions()}/NAME.py"
        print_stderr(f"there are no extensions; create {places}")


def _validate(options: argparse.Namespace) -> int:
    """Prints a line for each extension; returns 1 if one fails to load."""
    cwd = working_directory()
    rows = _rows(_search(cwd) if options.path is None else _search_in(cwd / options.path, cwd))
    for row in rows:
        if row.state == "loaded":
            print(one_line(f"{row.name}: {_registers(row) or 'registers nothing'}"))
        else:
            print(one_line(f"{row.name} ({short_path(Path(row.path), cwd)}): {row.problem}"))
    if not rows:
        print_stderr("there is no extension to load")
    return int(any(row.state == "failed" for row in rows))


def _search(cwd: Path) -> ExtensionSearch:
    configured = tuple(map(Path, load_settings(cwd, {}).settings.extensions))
    return ExtensionSearch(cwd, configured=configured, of_project=project_paths(cwd))


def _search_in(path: Path, cwd: Path) -> ExtensionSearch:
    """Searches for the extension at a path, or those of the package there."""
    named = [path / one for one in scan_extensions(path)] if path.is_dir() else []
    search = ExtensionSearch(cwd, named=tuple(named or [path]), automatic=False)
    check_named(search)
    return search


def _rows(search: ExtensionSearch) -> list[ExtensionSummary]:
    """In loading order. Only trusted extensions are loaded."""
    extensions = [(one, _without_loading(one)) for one in find_extensions(search)]
    loaded = iter(try_loading([one for one, row in extensions if row is None], search.cwd))
    rows = []
    for one, row in extensions:
        if row is None:
            row = next(loaded)
            row = replace(row, path=str(one.path), version=one.version or row.version)
        rows.append(row)
    return rows


def _without_loading(extension: DiscoveredExtension) -> ExtensionSummary | None:
    """The summary of an extension that must not or cannot be loaded."""
    status: ExtensionStatus = "failed"
    path, problem = extension.path, extension.problem
    if not problem and extension.project is not None:
        try:
            if ProjectExtension(extension).is_trusted:
                return None
            status = "changed" if str(path.resolve()) in trusted_folders() else "untrusted"
            problem = f"review it and run `ostler trust {quoted_path(extension.project)}`"
        except Unusable as unusable:
            problem = str(unusable)
    if not problem:
        return None
    about = (extension.name, extension.origin, str(path), extension.version, status)
    return ExtensionSummary(*about, problem=problem)


def _installed(cwd: Path, *, enabled: bool = True) -> list[InstalledExtension]:
    scopes = (user_scope(), project_scope(cwd))
    return [one for scope in scopes for one in installed_extensions(scope, enabled=enabled)]


def _cells(row: ExtensionSummary, cwd: Path) -> tuple[str, ...]:
    where = short_path(Path(row.path), cwd)
    origin = f"package {row.package}" if row.package else row.origin
    cells = (row.name, origin, row.state, row.version[:SHORT], _registers(row), where, row.problem)
    return tuple(one_line(one) for one in cells)


def _registers(row: ExtensionSummary) -> str:
    fields = ("tools", "commands", "fences", "hooks", "events")
    return ", ".join(plural(len(names), field[:-1]) for field in fields if (names := getattr(row, field)))


PAUSE = 0.2
"""Seconds between two reads of a followed file."""


def _logs(options: argparse.Namespace) -> None:
    name = options.name
    path = state_folder() / "logs" / f"extension-{name}.log"
    if not options.follow and not path.is_file():
        raise NotFound(f"there is no log of an extension {name!r}; only those in other languages have one")
    position = _print_from(path, 0, 0)
    while options.follow:
        time.sleep(PAUSE)
        position = _print_from(path, *position)


def _print_from(path: Path, inode: int, offset: int) -> tuple[int, int]:
    """Prints what was added; returns the inode of the file, and its end."""
    try:
        with path.open("rb") as file:
            new_inode = os.fstat(file.fileno()).st_ino
            file.seek(offset if new_inode == inode else 0)  # a large log is rotated
            content = file.read()
            end = file.tell()
    except FileNotFoundError:
        return inode, offset
    sys.stdout.write(printable(content.decode(errors="replace")))
    sys.stdout.flush()
    return new_inode, end
