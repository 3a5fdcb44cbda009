"""A screen on `bittty`, in pure Python: for machines that the other emulator has no wheel for."""

from __future__ import annotations

from collections import deque
from importlib import import_module
from typing import Any

from ostler.drivers.screen import Cursor, Modes, check_size


class BitttyScreen:
    def __init__(self, columns: int, rows: int, scrolled_off: int) -> None:
        self.columns = columns
        self.rows = rows
        bittty = import_module("bittty")
        self._rows_scrolled_off = import_module("bittty.present").RowsScrolledOff
        self._scrollback_cleared = import_module("bittty.present").ScrollbackCleared
        self._continuation: str = import_module("bittty.video").CONTINUATION
        self._answers: Any = bittty.MemoryConnection()
        self._history: deque[str] = deque(maxlen=scrolled_off)
        self._board: Any = bittty.Board(command="", width=columns, height=rows)
        self._board.set_caps(bittty.TerminalCaps(grapheme_mode="permanently-set"))
        self._board.host.attach(self._answers)
        self._board.attach_display(self)
        self._lines: tuple[str, ...] | None = None

    keeps_scrollback = True

    def present(self, event: Any) -> None:
        """Called by the emulator, of which this is the display."""
        if isinstance(event, self._rows_scrolled_off):
            for line in event.lines:
                cells = (character for _style, character in line.cells if character != self._continuation)
                self._history.append("".join(cells).rstrip())
        elif isinstance(event, self._scrollback_cleared):
            self._history.clear()

    def feed(self, data: bytes) -> bytes:
        self._lines = None
        self._board.feed_host_data(data)
        if (self._board.width, self._board.height) != (self.columns, self.rows):
            self._board.resize(self.columns, self.rows)
        answers = b"".join(part.encode() if isinstance(part, str) else part for part in self._answers.data)
        self._answers.data.clear()
        return answers

    def resize(self, columns: int, rows: int) -> None:
        check_size(columns, rows)
        self._lines = None
        self._board.resize(columns, rows)
        self.columns, self.rows = columns, rows

    def lines(self) -> tuple[str, ...]:
        if self._lines is None:
            page = self._board.blitter.main_page
            self._lines = tuple(page.get_line_text(row).rstrip() for row in range(self.rows))
        return self._lines

    def scrolled_off(self) -> tuple[str, ...]:
        return () if self.modes().alternate else tuple(self._history)

    def drawn(self, first: int, count: int) -> list[str]:
        page, above = self._board.blitter.main_page, self.scrolled_off()
        return [
            page.get_line(row) if 0 <= row < self.rows else above[row] if -len(above) <= row < 0 else ""
            for row in range(first, first + count)
        ]

    def ansi(self) -> str:
        modes, cursor = self.modes(), self.cursor()
        page = self._board.blitter.main_page
        before = "\x1b[?1049h" * modes.alternate + "\x1b[?2004h" * modes.bracketed_paste + "\x1b[H"
        drawn = "\r\n".join(page.get_line(row).rstrip(" ") for row in range(self.rows))
        after = f"\x1b[{cursor.row + 1};{cursor.column + 1}H" + "\x1b[?25l" * (not cursor.visible)
        return before + drawn + after

    def cursor(self) -> Cursor:
        register = self._board.cursor
        return Cursor(min(register.x, self.columns - 1), register.y, bool(self._board.modes.cursor_visible))

    def modes(self) -> Modes:
        modes = self._board.modes
        return Modes(
            alternate=bool(self._board.blitter.in_alt_screen),
            bracketed_paste=bool(modes.bracketed_paste),
            cursor_keys=bool(modes.cursor_application_mode),
            drawing=bool(modes.synchronized_output),
        )

    def close(self) -> None:
        self._board.detach_display()
