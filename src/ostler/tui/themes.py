"""Themes by name, read from their files when they are needed, and the chosen one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.context.files import Unusable, entries_in, folders_up_to, printable_path, read_head
from ostler.extensions.ui.themes import (
    DEFAULT,
    DEFAULT_THEME,
    SLOTS,
    Theme,
    ThemeColor,
    ThemeRegistry,
    full_hex,
)
from ostler.store.paths import configuration_file, project_folder

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost


def has_colors(environment: Mapping[str, str]) -> bool:
    """Whether to use colours: not with `NO_COLOR`, nor on a dumb terminal."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def chosen_theme(wanted: str, environment: Mapping[str, str]) -> str:
    """The name of the first theme; empty without colours."""
    return (wanted or DEFAULT) if has_colors(environment) else ""


async def missing_theme(wanted: str, themes: ThemeRegistry, host: ExtensionHost | None, session: str) -> str:
    """A message about a missing theme; empty if it exists. An extension may add it when the session opens."""
    if not wanted or wanted in themes:
        return ""
    if host is not None and (extension_session := host.sessions.get(session)) is not None:
        await extension_session.drain()
    return "" if wanted in themes else f"there is no theme {wanted!r:.60}; /theme lists the themes"


WORDS = ("description", "inherits")
SIDES = ("light", "dark")


class ThemeFile(msgspec.Struct, frozen=True):
    """A theme file; what it leaves out comes from the theme that it inherits."""

    theme: Theme = Theme()
    description: str = ""
    inherits: str = ""
    problems: tuple[str, ...] = ()
    """Problems, one line each."""


def parse_theme(values: Mapping[str, Any]) -> ThemeFile:
    """Parses a TOML theme. A mistake costs its own line, never the theme."""
    problems: list[str] = []
    colors: dict[str, ThemeColor] = {}
    words: dict[str, str] = {}
    for name, value in values.items():
        if name in SLOTS:
            colors[name] = _color(name, value, problems)
        elif name not in WORDS:
            problems.append(f"unknown name {name!r:.60}{_near(name)}")
        elif isinstance(value, str):
            words[name] = " ".join(value.split())
        else:
            problems.append(f"{name} must be a text, not {value!r:.60}")
    return ThemeFile(Theme(**colors), **words, problems=tuple(problems))


def filled(theme: Theme, base: Theme) -> Theme:
    """Fills missing colours from another theme, for each slot, light and dark separately."""
    colors = {}
    for slot in SLOTS:
        color, other = getattr(theme, slot), getattr(base, slot)
        colors[slot] = ThemeColor(color.light or other.light, color.dark or other.dark)
    return Theme(**colors)


def _color(slot: str, value: object, problems: list[str]) -> ThemeColor:
    """One colour for both sides, or a table with one for each."""
    if not isinstance(value, dict):
        both = _hex(slot, value, problems)
        return ThemeColor(both, both)
    problems += [f"{slot} has light and dark, but no {name!r:.60}" for name in value if name not in SIDES]
    return ThemeColor(**{side: _hex(slot, value[side], problems) for side in SIDES if side in value})


def _hex(slot: str, value: object, problems: list[str]) -> str:
    if isinstance(value, str) and (color := full_hex(value)):
        return color
    problems.append(f"{slot} must be a colour like #rrggbb, not {value!r:.60}")
    return ""


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, (*SLOTS, *WORDS), n=1)
    return f"; did you mean {near[0]}?" if near else "; docs/themes.md lists all names"


BUILT_IN = Path(__file__).with_name("theme_files")
PROJECT_FOLDER = Path(".ostler") / "themes"
"""In a project's folders. Themes are only colours, so they need no trust."""

LARGEST_FILE = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Place(msgspec.Struct, frozen=True):
    """A folder of themes, or one theme file."""

    path: Path
    project: Path | None = None
    """The folder that links must not leave."""


_DEFAULT = Place(BUILT_IN / f"{DEFAULT}.toml")
_DEFAULT_FILE = ThemeFile(DEFAULT_THEME, "Clear colours on white or near black")


def themes_for(cwd: Path, say: Callable[[str], None]) -> ThemeList:
    """Themes: built-in, of the user, and of the project from its root to `cwd`."""
    cwd = cwd.resolve()
    root = project_folder(cwd)
    projects = (Place(folder / PROJECT_FOLDER, root) for folder in reversed(folders_up_to(root, cwd)))
    return ThemeList([Place(configuration_file().parent / "themes"), *projects], say)


class ThemeList(Mapping[str, Theme]):
    """Built-in themes and those of some places; the last one of a name wins.

    - A theme that inherits its own name inherits the one it replaces.
    - Problems of a file are reported once, when it is read, in lines that begin with its path.
    """

    def __init__(self, places: Sequence[Place], say: Callable[[str], None]) -> None:
        self._places = (Place(BUILT_IN), *places)
        self._say = say
        self._reported: set[str] = set()
        # The one theme without a file: extensions have it in every front end.
        self._files = {_DEFAULT.path: _DEFAULT_FILE}

    def __getitem__(self, name: str) -> Theme:
        return self._theme(name, self._sources[name], ())

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._sources))

    def __len__(self) -> int:
        return len(self._sources)

    def description(self, name: str) -> str:
        """The description of a theme, or empty."""
        return self._file(self._sources[name][-1]).description

    @cached_property
    def _sources(self) -> dict[str, tuple[Place, ...]]:
        """Sources by name; the last one wins."""
        by_name: dict[str, tuple[Place, ...]] = {DEFAULT: (_DEFAULT,)}
        for place in self._places:
            for path in self._paths_in(place.path):
                by_name[path.stem] = (*by_name.get(path.stem, ()), Place(path, place.project))
        return by_name

    def _paths_in(self, folder: Path) -> Iterator[Path]:
        try:
            paths = [path for path in entries_in(folder) if path.suffix == ".toml"]
        except Unusable as error:
            self._report(folder, f"it cannot be read: {error}")
            return
        for path in paths:
            if _NAME.fullmatch(path.stem):
                yield path
            else:
                self._report(path, "the name of a theme may only have letters, digits, . - and _")

    def _theme(self, name: str, sources: tuple[Place, ...], heirs: tuple[Path, ...]) -> Theme:
        """The theme of the last source, with what it inherits."""
        path, file = sources[-1].path, self._file(sources[-1])
        below = sources[:-1] if file.inherits == name else self._sources.get(file.inherits, ())
        if not file.inherits:
            return file.theme
        if not below:
            self._report(path, f"it inherits {file.inherits!r:.60}, which does not exist")
            return file.theme
        if below[-1].path in (*heirs, path):
            self._report(path, f"it inherits {file.inherits!r:.60}, which inherits it back")
            return file.theme
        return filled(file.theme, self._theme(file.inherits, below, (*heirs, path)))

    def _file(self, source: Place) -> ThemeFile:
        if source.path not in self._files:
            try:
                file = parse_theme(_values(source))
            except Unusable as error:
                replaces = self._sources[source.path.stem][0] != source
                inherits = source.path.stem if replaces else ""
                file = ThemeFile(inherits=inherits, problems=(str(error),))
            self._files[source.path] = file
            for problem in file.problems:
                self._report(source.path, problem)
        return self._files[source.path]

    def _report(self, path: Path, problem: str) -> None:
        line = f"{printable_path(path)}: {problem}"
        if line not in self._reported:
            self._reported.add(line)
            self._say(line)


def _values(source: Place) -> dict[str, object]:
    import tomllib

    head = read_head(source.path, source.project, LARGEST_FILE)
    if head is None:
        raise Unusable("it is a broken link")
    if head.size > LARGEST_FILE:
        raise Unusable(f"it is larger than {LARGEST_FILE // 1024} KiB")
    try:
        return tomllib.loads(head.content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Unusable(f"it is not valid TOML: {error}") from None
