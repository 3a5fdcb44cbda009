"""Compares screens of a terminal with those on file, and draws pictures of some.

`make screens` updates the files.
"""

from __future__ import annotations

import os
import re
import sys
from difflib import unified_diff
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from tests.tui.terminal import Cell, Terminal

SCREENS = Path(__file__).parent / "screens"
IMAGES = ROOT / "docs" / "images"
RENEW = "OSTLER_RENEW_SCREENS"
PICTURED = 80
"""Columns of the screens that there are pictures of."""

sys.path.append(str(ROOT / "scripts"))
import picture  # noqa: E402  # a script beside the package, not in it

FOREGROUND, DIMMED, BACKGROUND = "#d6d9e0", "#969cab", "#16181d"
_SPINNERS = frozenset("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
_TIMES = re.compile(r"  run [\d:]+(?: s)?| · \d[\d:]*(?: s)?(?=  | ─|$)| for [\d:]+(?: s)?(?=,)")
_EDGE = re.compile("╭.*─$")


def masked(row: list[Cell], columns: int) -> list[Cell]:
    """Masks what differs in every run; edges keep their length."""
    row = [cell._replace(text="⠋") if cell.text in _SPINNERS else cell for cell in row]
    text = "".join(cell.text[0] for cell in row)
    for match in reversed(list(_TIMES.finditer(text))):
        del row[match.start() : match.end()]
    if _EDGE.match(text):
        row += [row[-1]] * (columns - sum(cell.width for cell in row))
    return row


def check(terminal: Terminal, name: str, *, title: str = "") -> None:
    """Checks that the screen is the one on file; with a title, also its picture."""
    columns = terminal.columns
    rows = [masked(row, columns) for row in terminal.cells()]
    text = "\n".join("".join(cell.text for cell in row).rstrip() for row in rows).rstrip()
    _compare(SCREENS / f"{name}-{columns}.txt", f"{text}\n")
    if title and columns == PICTURED:
        _compare(IMAGES / f"{name}.svg", _drawn(rows[: text.count("\n") + 1], columns, f"Ostler: {title}"))


def check_text(screen: str, name: str, columns: int) -> None:
    """The same for the text of a screen, without styles."""
    cells = [[Cell(one, 1, {}) for one in row] for row in screen.splitlines()]
    rows = ["".join(cell.text for cell in masked(row, columns)).rstrip() for row in cells]
    _compare(SCREENS / f"{name}-{columns}.txt", "\n".join(rows).rstrip() + "\n")


def _compare(path: Path, now: str) -> None:
    if os.environ.get(RENEW):
        path.parent.mkdir(exist_ok=True)
        path.write_text(now)
    before = path.read_text() if path.exists() else ""
    if before != now:
        changes = unified_diff(before.splitlines(), now.splitlines(), "on file", "now", lineterm="")
        name = path.relative_to(ROOT)
        raise AssertionError(f"{name} has changed; `make screens` renews it:\n" + "\n".join(changes))


def _drawn(rows: list[list[Cell]], columns: int, title: str) -> str:
    body: list[str] = []
    for number, row in enumerate(rows):
        column = 0
        for look, group in groupby(row, key=lambda cell: _look(cell.style)):
            cells = list(group)
            width = sum(cell.width for cell in cells)
            body += _span(number, column, cells, *look)
            column += width
    return str(picture.window(columns, len(rows), title, body))


def _look(style: dict[str, Any]) -> tuple[str, str, bool]:
    """The foreground and background colours, and whether it is bold."""
    front, ground = _color(style["fg"]) or (DIMMED if style["faint"] else FOREGROUND), _color(style["bg"])
    if style["inverse"]:
        front, ground = ground or BACKGROUND, front
    return front, ground, style["bold"]


def _color(color: tuple[str, tuple[int, int, int]] | None) -> str:
    if color is None or color[0] != "rgb":
        return ""
    return "#" + "".join(f"{channel:02x}" for channel in color[1])


def _span(row: int, column: int, cells: list[Cell], front: str, ground: str, bold: bool) -> list[str]:
    drawn = []
    if ground:
        x, y = picture.SIDE + column * picture.COLUMN, picture.TOP + row * picture.LINE - 13
        width = sum(cell.width for cell in cells) * picture.COLUMN
        drawn.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{picture.LINE}" fill="{ground}"/>'
        )
    while cells and cells[0].text.isspace():
        column += cells.pop(0).width
    while cells and cells[-1].text.isspace():
        cells.pop()
    if cells:
        text, width = "".join(cell.text for cell in cells), sum(cell.width for cell in cells)
        drawn.append(picture.span(row, column, text, width, front, ' font-weight="600"' if bold else ""))
    return drawn
