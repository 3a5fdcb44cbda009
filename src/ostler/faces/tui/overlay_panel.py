"""Overlays of extensions: windows with actions."""

from __future__ import annotations

from collections.abc import Callable

from ostler.extensions.showing.ui_data import Anchor, OverlayDialog, Rendering, overlay_extent
from ostler.faces.tui.block_rows import BlockRows, on_background
from ostler.faces.tui.drawing.boxes import NARROW, framed
from ostler.faces.tui.drawing.pieces import (
    REVERSE,
    Piece,
    cells,
    cells_of,
    cut,
    drawn,
    one_line,
    sgr,
    styled,
    tint,
)
from ostler.faces.tui.extension_content import MOST_ROWS
from ostler.faces.tui.questions import OpenQuestions

ContentRows = Callable[[str, str, Rendering | None, int], list[str]]


class OverlayPanel:
    """A window with actions: over all that still changes, right above the line to type in, or below it."""

    takes_text = True

    def __init__(
        self, questions: OpenQuestions, dialog: OverlayDialog, draw: BlockRows, content: ContentRows
    ) -> None:
        self._questions = questions
        self._dialog = dialog
        self._draw = draw
        self._content = content
        self._top = 0
        self._page = 1

    @property
    def anchor(self) -> Anchor:
        return self._dialog.anchor

    def takes(self, key: str) -> bool:
        return True

    def rows(self, width: int, most: int) -> list[str]:
        dialog, colors = self._dialog, self._draw.colors
        columns, height = overlay_extent(dialog, width, most)
        is_bare = width <= NARROW
        inner = columns if is_bare else columns - 2
        rows = self._content(dialog.text, dialog.markdown, dialog.render, inner)
        edges = 1 if is_bare else 2
        actions = self._actions(inner, max(1, (height - edges) // 2))
        self._page = room = max(1, height - edges - len(actions))
        self._top = max(0, min(self._top, len(rows) - room))
        shown = [*rows[self._top : self._top + room], *actions]
        more = len(rows) - self._top - room
        has_colors = bool(colors and colors.name)
        made = framed(
            shown,
            columns,
            colors,
            title=dialog.title,
            note=f"{more} more rows" if more > 0 else "",
            slot="accent",
            edge_style=styled(dialog.style.border) if has_colors else "",
            is_bare=is_bare,
        )
        if has_colors and (background := tint(dialog.style.background, dialog.style.background, 1.0)):
            made = [on_background(row, background, columns) for row in made]
        margin = " " * ((width - columns) // 2)
        return [f"{margin}{row}" for row in made][:most]

    def _actions(self, width: int, most: int) -> list[str]:
        """Side by side, in as many rows as they need; where there is no room for all, around the marked."""
        accent = sgr(self._draw.colors, "accent", REVERSE)
        rows: list[list[Piece]] = [[]]
        at_marked = 0
        for place, (text, _) in enumerate(self._questions.options):
            is_marked = place == self._questions.marked
            action = Piece(cut(f"[{one_line(text)}]", width), accent if is_marked else "")
            if rows[-1] and cells_of(rows[-1]) + 1 + cells(action.text) > width:
                rows.append([])
            rows[-1] += [Piece(" "), action] if rows[-1] else [action]
            at_marked = len(rows) - 1 if is_marked else at_marked
        first = max(0, min(at_marked - most // 2, len(rows) - most))
        return [drawn(row) for row in rows[first : first + most]]

    def key(self, key: str) -> None:
        questions = self._questions
        match key:
            case "esc" if self._dialog.actions:
                questions.decline()
            case "esc":
                questions.choose(0)
            case "enter":
                questions.choose()
            case "left" | "shift+tab":
                questions.move(-1)
            case "right" | "tab":
                questions.move(1)
            case "up" | "down":
                self._top += 1 if key == "down" else -1
            case "pgup" | "pgdown":
                self._top += self._page if key == "pgdown" else -self._page
            case "home" | "end":
                self._top = 0 if key == "home" else MOST_ROWS
