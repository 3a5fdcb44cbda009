"""`ostler ext list|validate`: every extension that counts here, and whether it can be loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from ostler.context.text_files import Unusable, quoted_path
from ostler.extensions.extension import Standing
from ostler.extensions.installing.manifest import (
    InstalledExtension,
    installed_extensions,
    project_scope,
    user_scope,
)
from ostler.extensions.installing.scanning import scan_extensions
from ostler.extensions.installing.trial import Tried, try_loading
from ostler.extensions.loader.finding import Found, Search, check_named, find_extensions
from ostler.extensions.loader.trusting import ToTrust
from ostler.extensions.lookout import own_extensions
from ostler.extensions.rows import ExtensionRow
from ostler.faces.cli.columns import one_line, table
from ostler.faces.cli.directory import short_path
from ostler.faces.cli.saying import counted, print_json, say
from ostler.runs.trust import trusted_folders

SHORT = 12
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
        say(f"there are no extensions; they are files like {places}")
    return 0


def validate_extensions(cwd: Path, path: Path | None) -> int:
    """Says what is wrong, a line for each; 1 if something is."""
    rows = _rows(_search(cwd) if path is None else _search_in(path, cwd))
    failed = [row for row in rows if row.state == "failed"]
    for row in rows:
        if row.state == "loaded":
            print(one_line(f"{row.name}: {_brings(row) or 'brings nothing'}"))
        else:
            print(one_line(f"{row.name} ({short_path(Path(row.path), cwd)}): {row.problem}"))
    if not rows:
        say("there is no extension to load")
    return 1 if failed else 0


def _search(cwd: Path) -> Search:
    from ostler.runs.settings import load_settings

    settings = load_settings(cwd, {}).settings
    return Search(cwd, configured=tuple(map(Path, settings.extensions)))


def _search_in(path: Path, cwd: Path) -> Search:
    """For the extension at a path, or those of a package that lies there."""
    named = [path / one for one in scan_extensions(path)] if path.is_dir() else []
    search = Search(cwd, named=tuple(named or [path]), automatic=False)
    check_named(search)
    return search


def _rows(search: Search) -> list[ExtensionRow]:
    """In the order of loading. Only what may run is tried."""
    rows = [(one, _not_tried(one)) for one in find_extensions(search)]
    tried = iter(try_loading([one for one, row in rows if row is None], search.cwd))
    return [row or _row(one, next(tried)) for one, row in rows]


def _not_tried(found: Found) -> ExtensionRow | None:
    """What can be told without running anything."""
    standing: Standing = "failed"
    problem = found.problem
    if not problem and found.project is not None:
        try:
            if ToTrust(found).is_trusted:
                return None
            standing = "changed" if str(found.path.resolve()) in trusted_folders() else "untrusted"
            problem = f"look at it, and say `ostler trust {quoted_path(found.project)}`"
        except Unusable as unusable:
            problem = str(unusable)
    if not problem:
        return None
    return ExtensionRow(found.name, found.origin, str(found.path), found.version, standing, problem=problem)


def _row(found: Found, tried: Tried) -> ExtensionRow:
    return ExtensionRow(
        name=tried.name,
        origin=found.origin,
        path=str(found.path),
        version=found.version or tried.version,
        state=tried.standing,
        tools=tried.tools,
        commands=tried.commands,
        fences=tried.fences,
        hooks=tried.hooks,
        events=tried.events,
        problem=tried.problem,
    )


def _installed(cwd: Path, *, enabled: bool = True) -> list[InstalledExtension]:
    scopes = (user_scope(), project_scope(cwd))
    return [one for scope in scopes for one in installed_extensions(scope, enabled=enabled)]


def _disabled(cwd: Path) -> Iterator[ExtensionRow]:
    for one in _installed(cwd, enabled=False):
        yield ExtensionRow(one.name, "installed", str(one.path), one.version, "disabled", package=one.package)


def _cells(row: ExtensionRow, cwd: Path) -> tuple[str, ...]:
    where = short_path(Path(row.path), cwd)
    origin = f"package {row.package}" if row.package else row.origin
    cells = (row.name, origin, row.state, row.version[:SHORT], _brings(row), where, row.problem)
    return tuple(one_line(one) for one in cells)


def _brings(row: ExtensionRow) -> str:
    brought = ((row.tools, "tool"), (row.commands, "command"), (row.fences, "fence"))
    kinds = (*brought, (row.hooks, "hook"), (row.events, "event"))
    return ", ".join(counted(len(some), what) for some, what in kinds if some)
