"""One entry of a session after the other, in as many rows as there are: scrolled, searched, copied."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.boxes import framed, inside
from ostler.faces.tui.drawing.pieces import DIM, REVERSE, Piece, cut, drawn, one_line, sgr
from ostler.faces.tui.drawing.wide_rows import fitted
from ostler.faces.tui.panels import Panels
from ostler.faces.tui.session_entries import SessionEntry, entry_rows

_STYLES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\")
_LINES = {"up": -1, "k": -1, "ctrl+p": -1, "down": 1, "j": 1, "ctrl+n": 1, "enter": 1}
_PAGES = {"pgup": -1.0, "b": -1.0, "ctrl+u": -0.5, "pgdown": 1.0, " ": 1.0, "ctrl+d": 0.5}
_ENDS = {"home": 0, "g": 0, "end": 1_000_000_000, "G": 1_000_000_000}
_STEPS = {"left": -1, "h": -1, "right": 1, "l": 1}
_LEAVE = ("esc", "q")
_HINT = "esc closes · ←→ other messages · u U yours · / finds · y copies · # numbers"


class Reader:
    """A panel with all the room that there is. `read` opens it, and returns where it was left."""

    takes_text = True
    is_tall = True

    def __init__(
        self,
        entries: Sequence[SessionEntry],
        at: int,
        colors: Callable[[], ThemeColors | None],
        copy: Callable[[str], None],
        renew: Callable[[int], None],
    ) -> None:
        self._entries = entries
        """Each of which `renew` brings up to date, or completes later."""
        self._renew = renew
        self.at = at
        self._colors = colors
        self._copy = copy
        self._left: asyncio.Future[int] | None = None
        self._top = 0
        self._page = 1
        self._drawn: tuple[tuple[object, ...], list[str]] = ((), [])
        self._has_numbers = False
        self._query = ""
        self._is_typing = False
        self.note = ""
        """What came of the last key, until the next."""

    async def read(self, panels: Panels) -> int:
        self._left = asyncio.get_running_loop().create_future()
        panels.open(self)
        try:
            return await self._left
        finally:
            panels.close(self)

    # --- keys -----------------------------------------------------------------------------------------

    @property
    def takes_pastes(self) -> bool:
        return self._is_typing

    def takes(self, key: str) -> bool:
        return True

    def key(self, key: str) -> None:
        self.note = ""
        if self._is_typing:
            self._type(key)
        elif key in _LEAVE:
            self._leave(key)
        elif key in _LINES:
            self._top += _LINES[key]
        elif key in _PAGES:
            self._top += int(_PAGES[key] * self._page)
        elif key in _ENDS:
            self._top = _ENDS[key]
        elif key in _STEPS:
            self._go(self.at + _STEPS[key])
        elif key in ("u", "U"):
            self._go_to_own(-1 if key == "u" else 1)
        elif key == "/":
            self._is_typing, self._query = True, ""
        elif key in ("n", "N") and self._query:
            self._search(self._top + (1 if key == "n" else -1), -1 if key == "N" else 1)
        elif key == "y":
            self._copy(self._entries[self.at].text)
        elif key == "#":
            self._has_numbers = not self._has_numbers

    def _leave(self, key: str) -> None:
        if key == "esc" and self._query:
            self._query = ""
        elif self._left is not None and not self._left.done():
            self._left.set_result(self.at)

    def _type(self, key: str) -> None:
        match key:
            case "enter" | "esc":
                self._is_typing = False
                self._query = self._query if key == "enter" else ""
            case "backspace":
                self._query = self._query[:-1]
            case _ if len(key) == 1 and key.isprintable():
                self._query += key
        if self._query:
            self._search(self._top, 1)

    def _go(self, at: int) -> None:
        if 0 <= at < len(self._entries):
            self.at, self._top = at, 0

    def _go_to_own(self, step: int) -> None:
        at = self.at + step
        while 0 <= at < len(self._entries) and self._entries[at].who != "you":
            at += step
        self._go(at)

    # --- searching ------------------------------------------------------------------------------------

    def _search(self, start: int, step: int) -> None:
        """To the next row that has it, from there and around."""
        rows = self._drawn[1]
        places = [(start + step * number) % len(rows) for number in range(len(rows))] if rows else []
        found = next((at for at in places if self._matches(rows[at])), None)
        if found is None:
            self.note = "not found"
        else:
            self._top = found

    def _matches(self, row: str) -> list[tuple[int, int]]:
        """Where it has it; capital letters count if there are some in what is looked for."""
        flags = 0 if self._query != self._query.lower() else re.IGNORECASE
        return [found.span() for found in re.finditer(re.escape(self._query), _STYLES.sub("", row), flags)]

    def _marked(self, row: str) -> str:
        if not self._query or not (spans := self._matches(row)):
            return row
        text, pieces, end = _STYLES.sub("", row), [], 0
        for start, stop in spans:
            pieces += [Piece(text[end:start]), Piece(text[start:stop], REVERSE)]
            end = stop
        return drawn([*pieces, Piece(text[end:])])

    # --- rows -----------------------------------------------------------------------------------------

    def rows(self, width: int, most: int) -> list[str]:
        self._renew(self.at)
        entry, room, colors = self._entries[self.at], inside(width), self._colors()
        was_at_end = self._top + self._page >= len(self._drawn[1])
        rows = self._rows(entry, room, colors)
        self._page = max(1, most - (3 if room < width else 2))
        if entry.is_running and was_at_end:
            self._top = len(rows)
        self._top = max(0, min(self._top, len(rows) - self._page))
        shown = [self._marked(row) for row in rows[self._top : self._top + self._page]]
        last = drawn([Piece(cut(one_line(self._below()), room), sgr(colors, "muted") or DIM)])
        seen = f"{self._top + 1}-{self._top + len(shown)} of {len(rows)}"
        note = f"{seen} · {self.at + 1} of {len(self._entries)}"
        return framed(
            [*shown, last], width, colors, title=entry.who, about=entry.about, note=note, slot="info"
        )[:most]

    def _below(self) -> str:
        if self._is_typing:
            return f"/{self._query}▏{self.note}"
        if self.note:
            return self.note
        return f"/{self._query} · n N the next and the one before · esc forgets it" if self._query else _HINT

    def _rows(self, entry: SessionEntry, room: int, colors: ThemeColors | None) -> list[str]:
        state = (id(entry), room, colors, self._has_numbers)
        if self._drawn[0] != state:
            self._drawn = (state, self._numbered(entry, room, colors))
        return self._drawn[1]

    def _numbered(self, entry: SessionEntry, room: int, colors: ThemeColors | None) -> list[str]:
        if not self._has_numbers:
            return fitted(entry_rows(entry, room, colors), room)
        digits = len(str(len(fitted(entry_rows(entry, room, colors), room)))) + 1
        style = sgr(colors, "very_muted") or DIM
        narrower = max(1, room - digits - 1)
        rows = fitted(entry_rows(entry, narrower, colors), narrower)
        return [f"{drawn([Piece(f'{number:>{digits}} ', style)])}{row}" for number, row in enumerate(rows, 1)]
