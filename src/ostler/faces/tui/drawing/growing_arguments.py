"""The arguments of a call while the model writes them: the end of what there is, before there is a call."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.code import GrowingCode
from ostler.faces.tui.drawing.diff import DiffLine, diff_rows
from ostler.faces.tui.drawing.growing_replacements import Replacement, lines_of, text_before
from ostler.kernel.partial_json import EACH, GrowingString

_UP_TO_QUOTES = re.compile(r'[^"]*"|[^"]+')
"""So cut, a fragment begins or ends at most one string: none is passed over."""
_ABOUT = ("path", "query", "pattern", "url", "task", "name")
_MUCH = 400
"""Characters of arguments that nobody sees, from which on it is said how many there are."""


class GrowingArguments(Protocol):
    """Of one call."""

    @property
    def path(self) -> str:
        """What the call is about, as far as it can be read."""
        ...

    @property
    def note(self) -> str:
        """How much there is of it."""
        ...

    def feed(self, fragment: str) -> None: ...

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]: ...


def growing_arguments(tool: str, cwd: Path | None = None) -> GrowingArguments:
    """`cwd` is where the file is that an edit would change."""
    match tool:
        case "write":
            return GrowingWrite()
        case "edit":
            return GrowingEdit(lambda path: text_before(cwd, path) if cwd else None)
        case "bash":
            return GrowingCommand()
        case _:
            return GrowingOther()


class GrowingWrite:
    """The arguments of `write`."""

    def __init__(self) -> None:
        self._path = GrowingString("path")
        self._content = GrowingString("content")
        self._code: GrowingCode | None = None
        self._lines = 0
        self._is_in_line = False

    @property
    def path(self) -> str:
        return self._path.value

    @property
    def note(self) -> str:
        return _counted(self._lines + self._is_in_line, "line") if self._code else "…"

    def feed(self, fragment: str) -> None:
        self._path.feed(fragment)
        content = self._content.feed(fragment)
        if content:
            self._lines += content.count("\n")
            self._is_in_line = not content.endswith("\n")
        if content and self._code is None:
            self._code = GrowingCode(path=self.path)
        if content and self._code is not None:
            self._code.feed(content)

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        return self._code.tail(rows, width, colors) if self._code else []


class GrowingEdit:
    """The arguments of `edit`: for each replacement what goes, then what comes."""

    def __init__(self, read: Callable[[str], str | None] = lambda path: None) -> None:
        self._read = read
        self._before: str | None = None
        self._has_looked = False
        self._path = GrowingString("path")
        self._old = GrowingString("edits", EACH, "old_text")
        self._new = GrowingString("edits", EACH, "new_text")
        self._replacements: list[Replacement] = []

    @property
    def path(self) -> str:
        return self._path.value

    @property
    def note(self) -> str:
        return _counted(len(self._replacements), "edit") if self._replacements else "…"

    def feed(self, fragment: str) -> None:
        for piece in _UP_TO_QUOTES.findall(fragment):
            self._path.feed(piece)
            for growing in (self._old, self._new):
                text = growing.feed(piece)
                while growing.index > len(self._replacements):
                    self._replacements.append(Replacement())
                if growing.index:
                    self._replacements[growing.index - 1].grow(
                        text, is_new=growing is self._new, is_done=growing.done
                    )

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        if self._path.done and not self._has_looked:
            self._has_looked = True
            self._before = self._read(self.path)
        lines: list[DiffLine] = []
        for number, replacement in reversed(list(enumerate(self._replacements))):
            earlier = self._replacements[:number]
            between = [DiffLine("⋮", f"edit {number + 1}")] if number else []
            lines = [*between, *lines_of(replacement, earlier, self._before)[-rows:], *lines]
            if len(lines) >= rows:
                break
        return diff_rows(lines[-rows:], width, colors)[-rows:]


class GrowingCommand:
    """The arguments of `bash`. A command of several lines is shown; for others the title has room."""

    def __init__(self) -> None:
        self._command = GrowingString("command")
        self._code = GrowingCode(language="bash")
        self._first = ""
        self._lines = 0

    @property
    def path(self) -> str:
        return self._first

    @property
    def note(self) -> str:
        return _counted(self._lines + 1, "line") if self._lines else "…"

    def feed(self, fragment: str) -> None:
        text = self._command.feed(fragment)
        if not text:
            return
        if not self._lines:
            self._first += text.partition("\n")[0]
        self._lines += text.count("\n")
        self._code.feed(text)

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        return self._code.tail(rows, width, colors) if self._lines else []


class GrowingOther:
    """The arguments of any other tool: what they are about is seen as soon as it is there."""

    def __init__(self) -> None:
        self._fields = [GrowingString(name) for name in _ABOUT]
        self._size = 0

    @property
    def path(self) -> str:
        return next((field.value for field in self._fields if field.found), "")

    @property
    def note(self) -> str:
        return f"{self._size:,} characters" if self._size >= _MUCH else "…"

    def feed(self, fragment: str) -> None:
        self._size += len(fragment)
        for field in self._fields:
            field.feed(fragment)

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        return []


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
