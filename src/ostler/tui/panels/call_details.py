"""What a call would do, in full: the command, the diff, or the arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ostler.extensions.ui.themes import ThemeColors
from ostler.schema.errors import OstlerError
from ostler.schema.text import cut, one_line, printable
from ostler.tools.diff import diff_of_splices, diff_of_texts
from ostler.tools.edit import Replacement, plan
from ostler.tools.files import resolve
from ostler.tui.render.code import code_rows
from ostler.tui.render.diff import DiffLine, diff_lines, diff_rows
from ostler.tui.render.spans import BOLD, DIM, Piece, drawn, muted_row, sgr, wrapped

MOST_COMPARED = 2 * 1024 * 1024
"""Largest file in bytes that a diff is made of."""

_MAIN_ARGUMENT = {"bash": "command", "write": "content", "edit": "edits"}
"""The argument that is drawn on its own; the others stand above it, and a path in the question."""


class CallDetails:
    """Reads files once, when it is made. Nothing is left out, and control characters appear as marks."""

    def __init__(self, details: dict[str, Any], cwd: Path) -> None:
        arguments = details.get("arguments")
        self._details = details
        self._tool = str(details.get("tool", ""))
        self._arguments: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
        self._diff = str(details.get("diff", "")) or _diff(self._tool, self._arguments, cwd)
        self._replaces = self._tool == "write" and not self._diff and _exists(self._arguments, cwd)

    @property
    def path(self) -> str:
        """The file that the call changes."""
        return str(self._arguments.get("path", "")) if self._tool in ("write", "edit") else ""

    def rows(self, width: int, colors: ThemeColors | None) -> list[str]:
        if not self._tool and not self._diff:  # a hook or an extension asks, perhaps with a command
            command = self._details.get("command")
            return code_rows(str(command), width, colors, language="bash") if command else []
        if not self._tool:
            return diff_rows(diff_lines(self._diff), width, colors)
        main = _MAIN_ARGUMENT.get(self._tool, "")
        hidden = (main, "path") if self.path else (main,)
        others = {name: value for name, value in self._arguments.items() if name not in hidden}
        rows = _argument_rows(others, width, colors)
        if self._replaces:
            rows.append(drawn([Piece(cut("replaces the whole existing file with", width), BOLD)]))
        match self._tool, self._arguments.get(main):
            case "bash", str() as command:
                return [*rows, *code_rows(command, width, colors, language="bash")]
            case "write" | "edit", _ if self._diff:
                return [*rows, *diff_rows(diff_lines(self._diff), width, colors)]
            case "write", str() as content:
                return [*rows, *code_rows(content, width, colors, path=self.path, first_line=1)]
            case "edit", list() as edits:
                return [*rows, *_replacements(edits, width, colors)]
            case _, None:
                return rows
            case _, invalid:
                return [*rows, *_argument_rows({main: invalid}, width, colors)]


def _argument_rows(values: dict[str, Any], width: int, colors: ThemeColors | None) -> list[str]:
    """Each argument with its name: `path: notes.txt`."""
    style = sgr(colors, "muted") or DIM
    rows = []
    for name, value in values.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        pieces = [Piece(f"{one_line(name)}: ", style), Piece(printable(text))]
        rows += [drawn(row) for row in wrapped(pieces, width)]
    return rows


def _replacements(edits: list[Any], width: int, colors: ThemeColors | None) -> list[str]:
    """The replacements of an edit that does not match the file."""
    rows = []
    for number, edit in enumerate(edits, 1):
        if not isinstance(edit, dict):
            return _argument_rows({"edits": edits}, width, colors)
        every = ", everywhere" if edit.get("replace_all") else ""
        rows.append(muted_row(f"edit {number}{every}", width, colors))
        lines = [DiffLine("-", line) for line in str(edit.get("old_text", "")).split("\n")]
        lines += [DiffLine("+", line) for line in str(edit.get("new_text", "")).split("\n")]
        rows += diff_rows(lines, width, colors)
    return rows


def _diff(tool: str, arguments: dict[str, Any], cwd: Path) -> str:
    """The diff of the file; empty for a new file, or if the diff would be cut."""
    path = arguments.get("path")
    if tool not in ("write", "edit") or not isinstance(path, str):
        return ""
    try:
        file = resolve(path, cwd)
        if not file.is_file() or file.stat().st_size > MOST_COMPARED:
            return ""
        before = file.read_bytes().decode("utf-8")
        if tool == "write":
            diff = diff_of_texts(before, arguments["content"], path, path)
        else:
            edits = msgspec.convert(arguments["edits"], list[Replacement])
            diff = diff_of_splices(before, plan(before, edits).splices, path)
    except (OSError, OstlerError, ValueError, TypeError, KeyError, AttributeError):
        return ""
    return "" if diff.truncated else diff.text


def _exists(arguments: dict[str, Any], cwd: Path) -> bool:
    try:
        return (cwd / Path(str(arguments.get("path"))).expanduser()).exists()
    except (OSError, RuntimeError, ValueError):
        return False
