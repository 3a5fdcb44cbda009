"""The themes of a terminal by name, each read from its file when somebody wants to see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from ostler.context.text_files import Unusable, entries_in, folders_up_to, printable_path, read_beginning
from ostler.extensions.showing.theme_colors import Theme
from ostler.extensions.showing.themes import DEFAULT, DEFAULT_THEME
from ostler.faces.tui.themes.theme_file import ThemeFile, laid_over, parse_theme
from ostler.runs.home import configuration_file
from ostler.runs.permission_memory import project_folder

BUILT_IN = Path(__file__).with_name("built_in")
PROJECT_FOLDER = Path(".ostler") / "themes"
"""In a project's folders. Themes are only colours, so nobody has to trust them."""
LARGEST_FILE = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Place(msgspec.Struct, frozen=True):
    """A folder of themes, or a file of one."""

    path: Path
    project: Path | None = None
    """What it must not lead out of."""


_DEFAULT = Place(BUILT_IN / f"{DEFAULT}.toml")
_DEFAULT_FILE = ThemeFile(DEFAULT_THEME, "Clear colours on white or near black")


def themes_for(cwd: Path, say: Callable[[str], None]) -> ThemeShelf:
    """Built-in themes, the user's, and those of the project from its root down to `cwd`."""
    cwd = cwd.resolve()
    root = project_folder(cwd)
    projects = (Place(folder / PROJECT_FOLDER, root) for folder in reversed(folders_up_to(root, cwd)))
    return ThemeShelf([Place(configuration_file().parent / "themes"), *projects], say)


class ThemeShelf(Mapping[str, Theme]):
    """Built-in themes and those of some places: the last one of a name counts.

    - A theme that inherits its own name inherits the one it replaces.
    - What is wrong with a file is said when it is read, in lines that begin with its path, each of them once.
    """

    def __init__(self, places: Sequence[Place], say: Callable[[str], None]) -> None:
        self._places = (Place(BUILT_IN), *places)
        self._say = say
        self._said: set[str] = set()
        # The one theme without a file of its own: extensions have it in any face.
        self._files = {_DEFAULT.path: _DEFAULT_FILE}

    def __getitem__(self, name: str) -> Theme:
        return self._theme(name, self._sources[name], ())

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._sources))

    def __len__(self) -> int:
        return len(self._sources)

    def description(self, name: str) -> str:
        """A line about a theme; empty if it says nothing of itself."""
        return self._file(self._sources[name][-1]).description

    @cached_property
    def _sources(self) -> dict[str, tuple[Place, ...]]:
        """By name; the last one counts."""
        found: dict[str, tuple[Place, ...]] = {DEFAULT: (_DEFAULT,)}
        for place in self._places:
            for path in self._paths_in(place.path):
                found[path.stem] = (*found.get(path.stem, ()), Place(path, place.project))
        return found

    def _paths_in(self, folder: Path) -> Iterator[Path]:
        try:
            paths = [path for path in entries_in(folder) if path.suffix == ".toml"]
        except Unusable as error:
            self._tell(folder, f"it cannot be read: {error}")
            return
        for path in paths:
            if _NAME.fullmatch(path.stem):
                yield path
            else:
                self._tell(path, "the name of a theme has letters, digits, - and _, and no others")

    def _theme(self, name: str, sources: tuple[Place, ...], heirs: tuple[Path, ...]) -> Theme:
        """What the last of the sources says, over what it inherits."""
        path, file = sources[-1].path, self._file(sources[-1])
        below = sources[:-1] if file.inherits == name else self._sources.get(file.inherits, ())
        if not file.inherits:
            return file.theme
        if not below:
            self._tell(path, f"it inherits {file.inherits!r:.60}, and there is no such theme")
            return file.theme
        if below[-1].path in (*heirs, path):
            self._tell(path, f"it inherits {file.inherits!r:.60}, which inherits it")
            return file.theme
        return laid_over(file.theme, self._theme(file.inherits, below, (*heirs, path)))

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
                self._tell(source.path, problem)
        return self._files[source.path]

    def _tell(self, path: Path, problem: str) -> None:
        line = f"{printable_path(path)}: {problem}"
        if line not in self._said:
            self._said.add(line)
            self._say(line)


def _values(source: Place) -> dict[str, object]:
    import tomllib

    beginning = read_beginning(source.path, source.project, LARGEST_FILE)
    if beginning is None:
        raise Unusable("it is a link to nothing")
    if beginning.size > LARGEST_FILE:
        raise Unusable(f"it is larger than {LARGEST_FILE // 1024} KiB")
    try:
        return tomllib.loads(beginning.content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Unusable(f"it is not valid TOML: {error}") from None
