"""Where what was drawn stands after a terminal got narrower: it has broken the rows that are too wide now."""

from __future__ import annotations

from collections.abc import Mapping

from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Char, Screen


def breaks_rows(environment: Mapping[str, str]) -> bool:
    """Terminals do, but for a few old ones, which cut."""
    term = environment.get("TERM", "")
    is_old_screen = term.startswith("screen") and not environment.get("TMUX")
    return not environment.get("XTERM_VERSION") and not is_old_screen and not term.startswith(("linux", "vt"))


def cursor_after(screen: Screen, cursor: Point, columns: int) -> Point:
    """Where the cursor is now, from the first row that was drawn."""
    more = sum(_rows(screen.data_buffer[row], columns) - 1 for row in range(cursor.y))
    return Point(cursor.x % columns, cursor.y + more + cursor.x // columns)


def _rows(row: Mapping[int, Char], columns: int) -> int:
    width = max(
        (at + one.width for at, one in row.items() if one.char != " " or "bg:" in one.style), default=0
    )
    return max(1, -(-width // columns))
