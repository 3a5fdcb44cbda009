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
from ostler.tui.render.spans import BOLD, DIM, Piece, drawn, sgr, wrapped

MOST_COMPARED = 2 * 1024 * 1024
"""Largest file in bytes that a diff is made of."""

_TELLING = {"bash": "command", "write": "content", "edit": "edits"}
"""The argument that is drawn on its own; the others stand above it, and a path in the question."""


class CallDetails:
    """Reads files once, when it is made. Nothing is left out, and control characters appear as marks."""

    def __init__(self, details: dict[str, Any], cwd: Path) -> None:
        arguments = details.get("arguments")
        self._details = details
        self._tool = str(details.get("tool", ""))
        self._arguments: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
        self._diff = str(details.get("diff", "")) or _diff(self._tool, self._arguments, cwd)
        self._replaces = self._tool == "write" and not self._diff and _is_there(self._arguments, cwd)

    @property
    def path(self) -> str:
        """The file that the call changes."""
        return str(self._arguments.get("path", "")) if self._tool in ("write", "edit") else ""

    def rows(self, width: int, colors: ThemeColors | None) -> list[str]:
        if not self._tool:
            return self._by_hook(width, colors)
        telling = _TELLING.get(self._tool, "")
        hidden = (telling, "path") if self.path else (telling,)
        beside = {name: value for name, value in self._arguments.items() if name not in hidden}
        rows = _named(beside, width, colors)
        if self._replaces:
            rows.append(drawn([Piece(cut("replaces the whole existing file with", width), BOLD)]))
        match self._tool, self._arguments.get(telling):
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
            case _, odd:
                return [*rows, *_named({telling: odd}, width, colors)]

    def _by_hook(self, width: int, colors: ThemeColors | None) -> list[str]:
        """A diff or command that a hook or an extension provides."""
        if self._diff:
            return diff_rows(diff_lines(self._diff), width, colors)
        if command := self._details.get("command"):
            return code_rows(str(command), width, colors, language="bash")
        return []


def _named(values: dict[str, Any], width: int, colors: ThemeColors | None) -> list[str]:
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
            return _named({"edits": edits}, width, colors)
        every = ", everywhere" if edit.get("replace_all") else ""
        rows.append(drawn([Piece(cut(f"edit {number}{every}", width), sgr(colors, "muted") or DIM)]))
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
            made = diff_of_texts(before, arguments["content"], path, path)
        else:
            edits = msgspec.convert(arguments["edits"], list[Replacement])
            made = diff_of_splices(before, plan(before, edits).splices, path)
    except (OSError, OstlerError, ValueError, TypeError, KeyError, AttributeError):
        return ""
    return "" if made.truncated else made.text


def _is_there(arguments: dict[str, Any], cwd: Path) -> bool:
    try:
        return (cwd / Path(str(arguments.get("path"))).expanduser()).exists()
    except (OSError, RuntimeError, ValueError):
        return False
