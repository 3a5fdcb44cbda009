"""A screen on libghostty-vt, through `pyghostty`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyghostty import Terminal  # type: ignore[import-untyped]
from pyghostty._ffi import check, ffi, lib, union_fn  # type: ignore[import-untyped]
from pyghostty.core import init_sized  # type: ignore[import-untyped]

from ostler.drivers.screen import Cursor, Modes, check_size

_PAGE_ROWS = 4_096  # stored in addition, because the emulator drops whole pages of rows
_SCROLLED_OFF_BYTES = 64 * 1024 * 1024
_LONGEST_STRING = 64 * 1024
_CELL = (8, 16)
_CURSOR_KEYS, _ORIGIN, _BRACKETED_PASTE, _SYNCHRONISED = 1, 6, 2004, 2026


class GhosttyScreen:
    def __init__(self, columns: int, rows: int, scrolled_off: int) -> None:
        self.columns = columns
        self.rows = rows
        self._most_scrolled_off = scrolled_off
        self._answers = bytearray()
        # Programs that query the colours (OSC 10, 11) get an answer.
        self._terminal: Any = Terminal(
            columns, rows, scrolled_off + _PAGE_ROWS, fg=(0xD0, 0xD0, 0xD0), bg=(0, 0, 0)
        )
        self._set("SCROLLBACK_MAX_BYTES", ffi.new("size_t*", _SCROLLED_OFF_BYTES))
        self._set("KITTY_IMAGE_STORAGE_LIMIT", ffi.new("uint64_t*", 0))
        self._set("APC_MAX_BYTES", ffi.new("size_t*", _LONGEST_STRING))
        self._size_answer = ffi.callback("GhosttyTerminalSizeFn", self._report_size)
        self._set("SIZE", self._size_answer)
        self._terminal.on_reply(self._answers.extend)
        self._lines: tuple[str, ...] | None = None
        self._scrolled_off: tuple[str, ...] | None = None

    def feed(self, data: bytes) -> bytes:
        self._forget()
        self._terminal.feed(data)
        # A program may ask for 132 columns, and does not get them.
        if self._terminal.size != (self.columns, self.rows):
            self._terminal.resize(self.columns, self.rows, *_CELL)
        answers = bytes(self._answers)
        self._answers.clear()
        return answers

    def resize(self, columns: int, rows: int) -> None:
        check_size(columns, rows)
        self._forget()
        self._terminal.resize(columns, rows, *_CELL)
        self.columns, self.rows = columns, rows

    def lines(self) -> tuple[str, ...]:
        if self._lines is None:
            # Without a selection everything is formatted, which is faster while nothing has scrolled off.
            selected = self._selection("ACTIVE", self.rows) if self._history_rows() else None
            rows = self._formatted(lib.GHOSTTY_FORMATTER_FORMAT_PLAIN, selected).split("\n")
            self._lines = (*rows, *[""] * (self.rows - len(rows)))
        return self._lines

    def scrolled_off(self) -> tuple[str, ...]:
        if self._scrolled_off is None:
            stored = self._history_rows()
            count = min(stored, self._most_scrolled_off)
            rows: list[str] = []
            if count:
                selected = self._selection("HISTORY", stored, first=stored - count)
                rows = self._formatted(lib.GHOSTTY_FORMATTER_FORMAT_PLAIN, selected).split("\n")
                rows += [""] * (count - len(rows))
            self._scrolled_off = tuple(rows)
        return self._scrolled_off

    def drawn(self, first: int, count: int) -> list[str]:
        stored = self._history_rows()
        return [self._drawn_row(stored, row) for row in range(first, first + count)]

    def _drawn_row(self, stored: int, row: int) -> str:
        if not -stored <= row < self.rows:
            return ""
        place, number = ("ACTIVE", row) if row >= 0 else ("HISTORY", stored + row)
        selected = self._selection(place, number + 1, first=number)
        return self._formatted(lib.GHOSTTY_FORMATTER_FORMAT_VT, selected)

    def ansi(self) -> str:
        selected = self._selection("ACTIVE", self.rows)
        drawn = self._formatted(lib.GHOSTTY_FORMATTER_FORMAT_VT, selected, with_state=True)
        if not self._terminal.mode(_ORIGIN):
            return drawn
        cursor = self.cursor()  # the formatter counts from the screen's corner, whatever the origin is
        return f"{drawn}\x1b[?6l\x1b[{cursor.row + 1};{cursor.column + 1}H"

    def cursor(self) -> Cursor:
        column, row = self._terminal.cursor
        return Cursor(column, row, bool(self._terminal.get("cursor_visible", "bool")))

    def modes(self) -> Modes:
        mode: Callable[[int], bool] = self._terminal.mode
        return Modes(
            alternate=self._terminal.get("active_screen", "int") == lib.GHOSTTY_TERMINAL_SCREEN_ALTERNATE,
            bracketed_paste=mode(_BRACKETED_PASTE),
            cursor_keys=mode(_CURSOR_KEYS),
            drawing=mode(_SYNCHRONISED),
        )

    def close(self) -> None:
        self._terminal.close()

    def _forget(self) -> None:
        self._lines = self._scrolled_off = None

    def _set(self, option: str, value: Any) -> None:
        number = getattr(lib, f"GHOSTTY_TERMINAL_OPT_{option}")
        check(lib.ghostty_terminal_set(self._terminal._t[0], number, value), option)

    def _report_size(self, terminal: Any, user_data: Any, size: Any) -> bool:
        size.rows, size.columns = self.rows, self.columns
        size.cell_width, size.cell_height = _CELL
        return True

    def _history_rows(self) -> int:
        return int(self._terminal.get("scrollback_rows", "size_t"))

    def _reference(self, place: str, column: int, row: int) -> Any:
        find = union_fn(
            "ghostty_terminal_grid_ref", "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyGridRef*)"
        )
        point = ffi.new("GhosttyPointS*")
        point.tag = getattr(lib, f"GHOSTTY_POINT_TAG_{place}")
        point.value.x, point.value.y = column, row
        reference = init_sized("GhosttyGridRef")
        check(find(self._terminal._t[0], point[0], reference), f"{place} {column},{row}")
        return reference

    def _selection(self, place: str, rows: int, first: int = 0) -> Any:
        selected = init_sized("GhosttySelection")
        selected.start = self._reference(place, 0, first)[0]
        selected.end = self._reference(place, self.columns - 1, rows - 1)[0]
        return selected

    def _formatted(self, form: int, selected: Any, *, with_state: bool = False) -> str:
        options = init_sized("GhosttyFormatterTerminalOptions")
        options.emit, options.trim = form, True
        if selected is not None:
            options.selection = selected
        if with_state:
            extra = options.extra
            extra.modes = extra.scrolling_region = extra.tabstops = extra.keyboard = True
            extra.screen.cursor = extra.screen.style = extra.screen.kitty_keyboard = True
            extra.screen.charsets = True
        formatter = ffi.new("GhosttyFormatter*")
        made = lib.ghostty_formatter_terminal_new(ffi.NULL, formatter, self._terminal._t[0], options[0])
        check(made, "format")
        try:
            size = ffi.new("size_t*")
            lib.ghostty_formatter_format_buf(formatter[0], ffi.NULL, 0, size)
            buffer = ffi.new("uint8_t[]", max(size[0], 1))
            check(lib.ghostty_formatter_format_buf(formatter[0], buffer, len(buffer), size), "format")
            text: str = ffi.buffer(buffer, size[0])[:].decode("utf-8", "replace")
            return text
        finally:
            lib.ghostty_formatter_free(formatter[0])
