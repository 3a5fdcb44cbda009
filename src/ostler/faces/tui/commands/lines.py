"""Lines of a command, as rows of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ostler.faces.tui.drawing.pieces import BOLD, Piece, cut, drawn, harmless, sgr

if TYPE_CHECKING:
    from ostler.faces.tui.tui import Tui


def print_lines(tui: Tui, lines: Sequence[str], *, has_heading: bool = False) -> None:
    """What does not fit into a row is cut: columns stay columns."""
    width, colors = tui.app.size.columns, tui.colors()
    heading = sgr(colors, "secondary", BOLD)
    rows = [
        drawn([Piece(cut(harmless(line.expandtabs(4)), width), heading if has_heading and not at else "")])
        for at, line in enumerate(lines)
    ]
    tui.app.print(["", *rows, ""])
