"""`ostler ext`: lists, checks, installs, updates, removes and creates extensions."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import NoReturn

from msgspec.structs import replace

from ostler.app.console import ask_person, has_terminal, print_json, print_stderr, table
from ostler.app.options import Parser
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
"""So many digits of a commit are enough for a person."""


def ext_command(arguments: list[str]) -> int:
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = ["list", *arguments]
    options = _ext_parser().parse_args(arguments)
    # What is under way is ended and taken away, as with Ctrl-C.
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        code: int | None = options.command(options)
    finally:
        signal.signal(signal.SIGTERM, before)
    return code or 0


def _terminated(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _ext_parser() -> Parser:
    parser = Parser(
        prog="ostler ext",
        description="Lists, installs, updates, removes, checks and creates extensions. "
        "An extension is code that runs with your rights.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")

    one = add("list", "list the extensions of this directory in the order they are loaded (the default)")
    one.add_argument("--json", action="store_true", help="print one JSON object per line")
    one.set_defaults(command=_list)
    one = add(
        "install", "install a package of extensions, after loading it in a separate process to check it"
    )
    one.add_argument(
        "source",
        metavar="SOURCE",
        help="github.com/OWNER/REPOSITORY, git:HOST/PATH, https://…, ssh://…, git@HOST:PATH or file://…, "
        "each with @REF to pin it; a path; or NAME or NAME==VERSION on PyPI",
    )
    _add_local(one)
    one.add_argument("--name", metavar="NAME", default="", help="a name for the package")
    one.add_argument(
        "--include",
        metavar="PATH",
        action="append",
        default=[],
        help="only this extension of the package; repeatable",
    )
    one.add_argument("--link", action="store_true", help="use a path in place instead of a copy")
    one.add_argument(
        "--build", action="store_true", help="allow building a package from PyPI here, which runs its code"
    )
    one.add_argument("--yes", action="store_true", help="do not ask")
    one.set_defaults(command=_install)
    one = add("update", "update packages; pinned ones stay, and a version that does not load is rejected")
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument("name", metavar="NAME", nargs="?", help="one package")
    which.add_argument("--all", action="store_true", help="all packages")
    _add_local(one)
    one.set_defaults(command=_update)
    for name, about, command in (
        ("remove", "remove a package and its files", _remove),
        ("enable", "use a package again", _enable),
        ("disable", "stop using a package, but keep it", _disable),
    ):
        one = add(name, about)
        one.add_argument("name", metavar="NAME", help="as `ostler ext list` shows it")
        _add_local(one)
        one.set_defaults(command=command)
    one = add("validate", "load extensions in a separate process; exit code 1 if one fails")
    one.add_argument(
        "path", metavar="PATH", nargs="?", help="a file or folder (default: all extensions of this directory)"
    )
    one.set_defaults(command=_validate)
    one = add("new", "create a starter extension with a test")
    one.add_argument("name", metavar="NAME", help="its name, or the path of its new folder")
    one.add_argument("--lang", choices=LANGUAGES, default=LANGUAGES[0], help="its language (default: python)")
    one.set_defaults(command=_new)
    one = add("logs", "show what an extension in another language wrote to standard error")
    one.add_argument("name", metavar="NAME")
    one.add_argument("-f", "--follow", action="store_true", help="keep printing new lines")
    one.set_defaults(command=_logs)
    return parser


def _add_local(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--local", action="store_true", help="the project's own, in its .ostler folder")


def _scope(options: argparse.Namespace) -> Scope:
    return project_scope(working_directory()) if options.local else user_scope()


def _list(options: argparse.Namespace) -> int:

    return list_extensions(working_directory(), as_json=options.json)


def _validate(options: argparse.Namespace) -> int:

    cwd = working_directory()
    return validate_extensions(cwd, None if options.path is None else Path(cwd, options.path))


def _new(options: argparse.Namespace) -> None:
    cwd = working_directory()
    folder = Path(cwd, options.name)
    for file in packages.write_scaffold(folder, options.lang):
        print(f"wrote {one_line(str(file.relative_to(cwd) if file.is_relative_to(cwd) else file))}")
    print_stderr(f"`ostler ext install --link {quote(str(folder))}` installs it")


def _logs(options: argparse.Namespace) -> None:

    show_log(options.name, follow=options.follow)


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
        if has_terminal() and not options.yes and not ask_person("install it?"):
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
            _print_update(
                packages.update(
                    scope,
                    name,
                    lambda new: print_stderr(f"{_titled(new)} is loaded to check it: {_names(new)}"),
                )
            )
        except OstlerError as error:
            if not options.all:
                raise
            failed = True
            print_stderr(error.message)
    return 1 if failed else 0


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


def _enable(options: argparse.Namespace) -> None:
    _switch(options, enabled=True)


def _disable(options: argparse.Namespace) -> None:
    _switch(options, enabled=False)


def _switch(options: argparse.Namespace, *, enabled: bool) -> None:
    scope = _scope(options)
    was_other = packages.set_enabled(scope, _there(options, scope).name, enabled)
    print(
        f"{options.name} is {'enabled' if enabled else 'disabled'}{'' if was_other else ' (it was already)'}"
    )


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


def list_extensions(cwd: Path, *, as_json: bool) -> int:
    packages = {one.path: one.package for one in _installed(cwd)}
    rows = [replace(row, package=packages.get(Path(row.path), "")) for row in _rows(_search(cwd))]
    rows += _disabled(cwd)
    if as_json:
        for row in rows:
            print_json(row)
        return 0
    for line in table(HEADINGS, [_cells(row, cwd) for row in rows]):
        print(line)
    if not rows:
        places = f".ostler/extensions/NAME.py here, or {own_extensions()}/NAME.py"
        print_stderr(f"there are no extensions; create {places}")
    return 0


def validate_extensions(cwd: Path, path: Path | None) -> int:
    """Prints a line for each extension; returns 1 if one fails to load."""
    rows = _rows(_search(cwd) if path is None else _search_in(path, cwd))
    failed = [row for row in rows if row.state == "failed"]
    for row in rows:
        if row.state == "loaded":
            print(one_line(f"{row.name}: {_brings(row) or 'registers nothing'}"))
        else:
            print(one_line(f"{row.name} ({short_path(Path(row.path), cwd)}): {row.problem}"))
    if not rows:
        print_stderr("there is no extension to load")
    return 1 if failed else 0


def _search(cwd: Path) -> ExtensionSearch:
    settings = load_settings(cwd, {}).settings
    return ExtensionSearch(
        cwd, configured=tuple(map(Path, settings.extensions)), of_project=project_paths(cwd)
    )


def _search_in(path: Path, cwd: Path) -> ExtensionSearch:
    """Searches for the extension at a path, or those of the package there."""
    named = [path / one for one in scan_extensions(path)] if path.is_dir() else []
    search = ExtensionSearch(cwd, named=tuple(named or [path]), automatic=False)
    check_named(search)
    return search


def _rows(search: ExtensionSearch) -> list[ExtensionSummary]:
    """In loading order. Only trusted extensions are loaded."""
    rows = [(one, _not_tried(one)) for one in find_extensions(search)]
    tried = iter(try_loading([one for one, row in rows if row is None], search.cwd))
    return [row or _row(one, next(tried)) for one, row in rows]


def _not_tried(found: DiscoveredExtension) -> ExtensionSummary | None:
    """The summary of an extension that must not or cannot be loaded."""
    status: ExtensionStatus = "failed"
    problem = found.problem
    if not problem and found.project is not None:
        try:
            if ProjectExtension(found).is_trusted:
                return None
            status = "changed" if str(found.path.resolve()) in trusted_folders() else "untrusted"
            problem = f"review it and run `ostler trust {quoted_path(found.project)}`"
        except Unusable as unusable:
            problem = str(unusable)
    if not problem:
        return None
    return ExtensionSummary(found.name, found.origin, str(found.path), found.version, status, problem=problem)


def _row(found: DiscoveredExtension, tried: ExtensionSummary) -> ExtensionSummary:
    return replace(tried, path=str(found.path), version=found.version or tried.version)


def _installed(cwd: Path, *, enabled: bool = True) -> list[InstalledExtension]:
    scopes = (user_scope(), project_scope(cwd))
    return [one for scope in scopes for one in installed_extensions(scope, enabled=enabled)]


def _disabled(cwd: Path) -> Iterator[ExtensionSummary]:
    for one in _installed(cwd, enabled=False):
        yield ExtensionSummary(
            one.name, "installed", str(one.path), one.version, "disabled", package=one.package
        )


def _cells(row: ExtensionSummary, cwd: Path) -> tuple[str, ...]:
    where = short_path(Path(row.path), cwd)
    origin = f"package {row.package}" if row.package else row.origin
    cells = (row.name, origin, row.state, row.version[:SHORT], _brings(row), where, row.problem)
    return tuple(one_line(one) for one in cells)


def _brings(row: ExtensionSummary) -> str:
    brought = ((row.tools, "tool"), (row.commands, "command"), (row.fences, "fence"))
    kinds = (*brought, (row.hooks, "hook"), (row.events, "event"))
    return ", ".join(plural(len(some), what) for some, what in kinds if some)


PAUSE = 0.2
"""Seconds between two reads of a followed file."""


def show_log(name: str, *, follow: bool) -> None:
    path = state_folder() / "logs" / f"extension-{name}.log"
    if not follow and not path.is_file():
        raise NotFound(f"there is no log of an extension {name!r}; only those in other languages have one")
    position = (0, 0)
    while True:
        position = _show_from(path, *position)
        if not follow:
            return
        time.sleep(PAUSE)


def _show_from(path: Path, file_id: int, place: int) -> tuple[int, int]:
    """Prints what was added; returns the inode of the file, and its end."""
    try:
        with path.open("rb") as file:
            present = os.fstat(file.fileno()).st_ino
            file.seek(place if present == file_id else 0)  # a large log is rotated
            content = file.read()
            end = file.tell()
    except FileNotFoundError:
        return file_id, place
    sys.stdout.write(printable(content.decode(errors="replace")))
    sys.stdout.flush()
    return present, end
