"""The arguments of a call while the model writes them, edits as lines of the file they change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ostler.extensions.ui.themes import ThemeColors
from ostler.history.partial_json import EACH, StreamingString
from ostler.schema.text import plural
from ostler.tui.render.code import CodeStream
from ostler.tui.render.diff import DiffLine, Sign, diff_rows

_LARGEST = 1_000_000
"""Largest file in bytes that is read for a frame."""


class Replacement:
    """One replacement as far as it is written: the old and the new text."""

    def __init__(self) -> None:
        self._old: list[str] = []
        self._new: list[str] = []
        self.is_done = False
        self._looked_for = ""
        self._place = -1

    @property
    def old(self) -> str:
        self._old[:] = ["".join(self._old)]
        return self._old[0]

    @property
    def new(self) -> str:
        self._new[:] = ["".join(self._new)]
        return self._new[0]

    @property
    def added(self) -> int:
        """The change in lines, once the edit is made."""
        return self.new.count("\n") - self.old.count("\n")

    def grow(self, text: str, *, is_new: bool, is_done: bool) -> None:
        if text:
            (self._new if is_new else self._old).append(text)
        self.is_done = is_new and is_done

    def place_in(self, text: str) -> int:
        """Where the old text is; -1 unless it occurs exactly once."""
        old = self.old
        if old != self._looked_for:
            self._looked_for = old
            self._place = text.find(old)
            if self._place >= 0 and text.find(old, self._place + 1) >= 0:
                self._place = -1
        return self._place if old else -1


def text_before(cwd: Path, path: str) -> str | None:
    """The text of a file with plain line ends; None if it cannot be read."""
    try:
        file = cwd / path
        if not file.is_file() or file.stat().st_size > _LARGEST:  # opening a pipe might block
            return None
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, ValueError):
        return None


def lines_of(replacement: Replacement, earlier: Sequence[Replacement], before: str | None) -> list[DiffLine]:
    """Whole lines with numbers, if the old text occurs once in the known file."""
    old, new = replacement.old, replacement.new
    place = replacement.place_in(before) if before is not None else -1
    if before is None or place < 0:
        return [*_signed("-", old, None), *_signed("+", new, None)]
    begin = before.rfind("\n", 0, place) + 1
    is_whole = old.endswith("\n") and (not replacement.is_done or not new or new.endswith("\n"))
    line_end = "" if is_whole else before[place + len(old) :].partition("\n")[0]
    number = before.count("\n", 0, begin) + 1
    shift = sum(one.added for one in earlier if 0 <= one.place_in(before) < place)
    lead = before[begin:place]
    removed = _signed("-", lead + old + line_end, number)
    added = lead + new + line_end if replacement.is_done else lead + new if new else ""
    return [*removed, *_signed("+", added, number + shift)]


def _signed(sign: Sign, text: str, first: int | None) -> list[DiffLine]:
    lines = text.removesuffix("\n").split("\n") if text else []
    return [DiffLine(sign, line, None if first is None else first + at) for at, line in enumerate(lines)]


_UP_TO_QUOTES = re.compile(r'[^"]*"|[^"]+')
"""Splits so that a fragment begins or ends at most one string."""

_ABOUT = ("path", "query", "pattern", "url", "task", "name")
_MUCH = 400
"""From so many unseen characters of arguments on, their number is shown."""


class ArgumentsStream(Protocol):
    """The arguments of one call, while they arrive."""

    @property
    def path(self) -> str:
        """The subject of the call, as far as it is written."""

    @property
    def note(self) -> str:
        """How much is written."""

    def feed(self, fragment: str) -> None: ...
    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]: ...


def arguments_stream(tool: str, cwd: Path | None = None) -> ArgumentsStream:
    """The stream for a tool; paths begin in `cwd`."""
    match tool:
        case "write":
            return WriteStream()
        case "edit":
            return EditStream(lambda path: text_before(cwd, path) if cwd else None)
        case "bash":
            return CommandStream()
        case _:
            return OtherStream()


class WriteStream:
    """The arguments of `write`."""

    def __init__(self) -> None:
        self._path = StreamingString("path")
        self._content = StreamingString("content")
        self._code: CodeStream | None = None
        self._lines = 0
        self._is_in_line = False

    @property
    def path(self) -> str:
        return self._path.value

    @property
    def note(self) -> str:
        return plural(self._lines + self._is_in_line, "line") if self._code else "…"

    def feed(self, fragment: str) -> None:
        self._path.feed(fragment)
        if content := self._content.feed(fragment):
            self._lines += content.count("\n")
            self._is_in_line = not content.endswith("\n")
            self._code = self._code or CodeStream(path=self.path)
            self._code.feed(content)

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        return self._code.tail(rows, width, colors) if self._code else []


class EditStream:
    """The arguments of `edit`: for each replacement the old text, then the new one."""

    def __init__(self, read: Callable[[str], str | None] = lambda path: None) -> None:
        self._read = read
        self._before: str | None = None
        self._has_looked = False
        self._path = StreamingString("path")
        self._old = StreamingString("edits", EACH, "old_text")
        self._new = StreamingString("edits", EACH, "new_text")
        self._replacements: list[Replacement] = []

    @property
    def path(self) -> str:
        return self._path.value

    @property
    def note(self) -> str:
        return plural(len(self._replacements), "edit") if self._replacements else "…"

    def feed(self, fragment: str) -> None:
        for piece in _UP_TO_QUOTES.findall(fragment):
            self._path.feed(piece)
            for growing in (self._old, self._new):
                text = growing.feed(piece)
                while growing.index > len(self._replacements):
                    self._replacements.append(Replacement())
                if growing.index:
                    replacement = self._replacements[growing.index - 1]
                    replacement.grow(text, is_new=growing is self._new, is_done=growing.done)

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


class CommandStream:
    """The arguments of `bash`. Only a command of several lines is drawn; others fit the title."""

    def __init__(self) -> None:
        self._command = StreamingString("command")
        self._code = CodeStream(language="bash")
        self._first = ""
        self._lines = 0

    @property
    def path(self) -> str:
        return self._first

    @property
    def note(self) -> str:
        return plural(self._lines + 1, "line") if self._lines else "…"

    def feed(self, fragment: str) -> None:
        if text := self._command.feed(fragment):
            if not self._lines:
                self._first += text.partition("\n")[0]
            self._lines += text.count("\n")
            self._code.feed(text)

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        return self._code.tail(rows, width, colors) if self._lines else []


class OtherStream:
    """The arguments of any other tool; their subject appears as soon as it is known."""

    def __init__(self) -> None:
        self._fields = [StreamingString(name) for name in _ABOUT]
        self._size = 0

    @property
    def path(self) -> str:
        return next((field.value for field in self._fields if field.is_found), "")

    @property
    def note(self) -> str:
        return f"{self._size:,} characters" if self._size >= _MUCH else "…"

    def feed(self, fragment: str) -> None:
        self._size += len(fragment)
        for field in self._fields:
            field.feed(fragment)

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        return []
