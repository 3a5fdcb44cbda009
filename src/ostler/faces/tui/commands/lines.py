"""Lines of a command, as rows of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ostler.faces.tui.drawing.pieces import BOLD, Piece, after, cells, cut, drawn, harmless, sgr, wrapped

if TYPE_CHECKING:
    from ostler.faces.tui.tui import Tui

LEAST_BESIDE = 32
"""Columns."""


def print_lines(tui: Tui, lines: Sequence[str], *, has_heading: bool = False) -> None:
    """What does not fit into a row is cut: columns stay columns."""
    width, colors = tui.app.size.columns, tui.colors()
    heading = sgr(colors, "secondary", BOLD)
    rows = [
        drawn([Piece(cut(harmless(line.expandtabs(4)), width), heading if has_heading and not at else "")])
        for at, line in enumerate(lines)
    ]
    tui.app.print(["", *rows, ""])


def print_terms(tui: Tui, heading: str, terms: Sequence[tuple[str, str]]) -> None:
    """Words and what they mean, all of it: beside one another, or below, where there is little room."""
    width = tui.app.size.columns
    first = max(cells(term) for term, _ in terms) + 2
    is_beside = width - first >= LEAST_BESIDE
    indent = first if is_beside else 2
    rows = [drawn([Piece(heading, sgr(tui.colors(), "secondary", BOLD))])]
    for term, meaning in terms:
        term, lines = harmless(term), wrapped([Piece(harmless(meaning))], max(1, width - indent))
        if is_beside:
            lead = f"{term}{' ' * (first - cells(term))}"
        else:
            rows += [drawn(row) for row in wrapped([Piece(term)], width)]
            lead = " " * indent
        rows += [drawn(row) for row in after([Piece(lead)], lines, [Piece(" " * indent)])]
    tui.app.print(["", *rows])
