"""What a call would do, in full, as rows: the command, the diff, or the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ostler.extensions.ui.themes import ThemeColors
from ostler.history.call_preview import CallPreview, marks_in, preview_of, visible, warning
from ostler.schema.text import one_line
from ostler.tui.render.code import code_rows
from ostler.tui.render.diff import DiffLine, diff_lines, diff_rows, rows_of_lines
from ostler.tui.render.spans import BOLD, DIM, Piece, drawn, muted_row, sgr, wrapped


class DrawnCall(NamedTuple):
    rows: list[str]
    changes: tuple[range, ...] = ()
    """The rows of the changed lines, a range for each hunk."""


class CallDetails:
    """Reads files once, when it is made. Nothing is left out, and characters that deceive are named."""

    def __init__(self, details: dict[str, Any], cwd: Path | None, preview: CallPreview | None = None) -> None:
        """Without a preview it is made here, from files below `cwd`."""
        self.preview = preview_of(details, cwd) if preview is None else preview
        self._marks = marks_in(self.preview)

    @property
    def path(self) -> str:
        """The file that the call changes, and where it really is."""
        preview = self.preview
        target = f" ({visible(preview.target)})" if preview.target else ""
        return one_line(visible(preview.path)) + target

    @property
    def note(self) -> str:
        return self.preview.note

    def rows(self, width: int, colors: ThemeColors | None) -> list[str]:
        return self.drawn(width, colors).rows

    def drawn(self, width: int, colors: ThemeColors | None) -> DrawnCall:
        preview = self.preview
        rows = _argument_rows(preview.arguments, width, colors)
        if self._marks:
            pieces = [Piece(f"! {warning(self._marks)}", sgr(colors, "warning", BOLD))]
            rows += [drawn(row) for row in wrapped(pieces, width)]
        if preview.command:
            rows += code_rows(visible(preview.command), width, colors, language="bash")
        if preview.diff:
            return _diff(preview.diff, rows, width, colors)
        if preview.content:
            content = visible(preview.content, is_file=True)
            rows += code_rows(content, width, colors, path=preview.path, first_line=1)
        return DrawnCall([*rows, *_replacements(preview.edits, width, colors)])


def _diff(diff: str, above: list[str], width: int, colors: ThemeColors | None) -> DrawnCall:
    lines = [
        msgspec.structs.replace(line, text=visible(line.text, is_file=True)) for line in diff_lines(diff)
    ]
    rows, changes, changed = list(above), [], range(0)
    for line, drawn_line in zip(lines, rows_of_lines(lines, width, colors), strict=True):
        first = len(rows)
        rows += drawn_line
        if line.sign in "+-":
            changed = range(changed.start if changed else first, len(rows))
        elif line.sign == "⋮" and not line.text:
            changes.append(changed)
            changed = range(0)
    return DrawnCall(rows, tuple(filter(None, [*changes, changed])))


def _argument_rows(values: dict[str, Any], width: int, colors: ThemeColors | None) -> list[str]:
    """Each argument with its name: `path: notes.txt`."""
    style = sgr(colors, "muted") or DIM
    rows = []
    for name, value in values.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        pieces = [Piece(f"{one_line(visible(name))}: ", style), Piece(visible(text))]
        rows += [drawn(row) for row in wrapped(pieces, width)]
    return rows


def _replacements(edits: Sequence[dict[str, Any]], width: int, colors: ThemeColors | None) -> list[str]:
    """The replacements of an edit that does not match the file."""
    rows = []
    for number, edit in enumerate(edits, 1):
        every = ", everywhere" if edit.get("replace_all") else ""
        rows.append(muted_row(f"edit {number}{every}", width, colors))
        old, new = (visible(str(edit.get(name, "")), is_file=True) for name in ("old_text", "new_text"))
        lines = [DiffLine("-", line) for line in old.split("\n")]
        lines += [DiffLine("+", line) for line in new.split("\n")]
        rows += diff_rows(lines, width, colors)
    return rows
