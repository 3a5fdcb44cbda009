"""The prompt_toolkit application below the scrollback: open items, panels, input line and status.

Closed items are printed once, above it, into the terminal's own scrollback, and never touched again. The rest
of this module keeps that true when the terminal is resized, and gives panels an alternate screen.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.input import Input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import Processor
from prompt_toolkit.layout.screen import Char, Screen
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle, Style
from prompt_toolkit.styles.defaults import PROMPT_TOOLKIT_STYLE

from ostler.tui.render.spans import fitted


class PushedRows:
    """Rows of the open tail that the terminal pushed into the scrollback when it became lower.

    They stay there, and the rest is printed below them. Only identical rows count as already there, so at
    worst something appears twice.
    """

    def __init__(self) -> None:
        self._rows: list[str] = []

    def __len__(self) -> int:
        return len(self._rows)

    def push(self, drawn: Sequence[str]) -> None:
        self._rows += drawn

    def below(self, rows: Sequence[str]) -> Sequence[str]:
        """The rows to draw, without those pushed up."""
        same = self._same(rows)
        return rows[same:] if same == len(self) else rows

    def print(self, rows: Sequence[str]) -> Sequence[str]:
        """The rows to print, without those pushed up."""
        same = self._same(rows)
        self._rows = self._rows[same:] if same == len(rows) else []
        return rows[same:]

    def _same(self, rows: Sequence[str]) -> int:
        pairs = zip(self._rows, rows, strict=False)
        same = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(self), len(rows)))
        return same if any(rows[:same]) else 0  # blank rows match anything


def breaks_rows(environment: Mapping[str, str]) -> bool:
    """Whether the terminal rewraps rows that are too wide; a few old ones cut them."""
    term = environment.get("TERM", "")
    is_old_screen = term.startswith("screen") and not environment.get("TMUX")
    return not environment.get("XTERM_VERSION") and not is_old_screen and not term.startswith(("linux", "vt"))


def cursor_after(screen: Screen, cursor: Point, columns: int) -> Point:
    """The row of the cursor after a resize, from the first row that was drawn."""
    more = sum(_rows(screen.data_buffer[row], columns) - 1 for row in range(cursor.y))
    return Point(cursor.x % columns, cursor.y + more + cursor.x // columns)


def _rows(row: Mapping[int, Char], columns: int) -> int:
    width = max(
        (at + one.width for at, one in row.items() if one.char != " " or "bg:" in one.style), default=0
    )
    return max(1, -(-width // columns))


class AlternateScreen:
    """The alternate screen, which keeps the renderer's state of the main screen."""

    def __init__(self) -> None:
        self.is_seen = False
        self._other: tuple[Screen | None, Size | None, Point] = None, None, Point(0, 0)

    def set(self, is_seen: bool, renderer: Renderer) -> None:
        if is_seen == self.is_seen:
            return
        self.is_seen = is_seen
        if is_seen:
            self._other = renderer._last_screen, renderer._last_size, renderer._cursor_pos
            renderer.output.enter_alternate_screen()
            renderer._last_screen = renderer._last_size = None
            renderer._cursor_pos = Point(0, 0)
            return
        renderer.output.quit_alternate_screen()
        renderer._last_screen, renderer._last_size, renderer._cursor_pos = self._other
        if renderer._last_size == renderer.output.get_size():
            renderer.erase(leave_alternate_screen=False)


_STYLE = re.compile(r"\x1b\[[0-9;]*[34]8;2;[0-9;]*m")
_EXACT = re.compile(r"([34])8;2;(\d+);(\d+);(\d+)")


def with_depth(text: str, depth: ColorDepth) -> str:
    """Reduces colours to the nearest of 256 or 16."""
    if depth is ColorDepth.TRUE_COLOR:
        return text
    return _STYLE.sub(lambda style: _reduced(style[0], depth), text)


@lru_cache(1024)
def _reduced(style: str, depth: ColorDepth) -> str:
    from prompt_toolkit.output.vt100 import _16_bg_colors, _16_fg_colors, _256_colors

    def nearest(match: re.Match[str]) -> str:
        color = int(match[2]), int(match[3]), int(match[4])
        if depth is ColorDepth.DEPTH_8_BIT:
            return f"{match[1]}8;5;{_256_colors[color]}"
        return str((_16_fg_colors if match[1] == "3" else _16_bg_colors).get_code(color)[0])

    return _EXACT.sub(nearest, style)


FRAMES = 15
"""Frames per second, at most."""

SMALLEST_HALF = 10
"""Rows that a region may always take: a question needs them."""

ESCAPE_SECONDS = 0.05
"""Seconds after which Escape is a key of its own."""

Editing = Literal["emacs", "vi"]
Rows = Callable[[int, int], Sequence[str]]
"""Draws a region, given the columns and the most rows it may take."""

_SHIFT_ENTER = {"\x1b[13;2u": Keys.ControlJ, "\x1b[27;2;13~": Keys.ControlJ}
"""Shift+Enter, in terminals that report it: the same as Ctrl+J, a new line."""

_BEGIN_FRAME, _END_FRAME = "\x1b[?2026h", "\x1b[?2026l"


class _InlineApplication(Application[None]):
    """A renderer that handles a new size before it draws: `erase` clears rows that have moved."""

    def __init__(self, erase: Callable[[], None], **how: Any) -> None:
        super().__init__(**how)
        self._erase = erase

    def _on_resize(self) -> None:
        self._erase()
        super()._on_resize()

    def _create_merged_style(self, include_default_pygments_style: object) -> BaseStyle:
        """Only prompt_toolkit's styles for an input line: loading all takes longer than a frame."""
        return Style(PROMPT_TOOLKIT_STYLE)


class InlineApp:
    """Regions of rows around one input line. It knows nothing of sessions.

    Rows of `instead` replace the input line. Regions in `first` get room before all others, in that order; a
    region without room is hidden.
    """

    def __init__(
        self,
        editor: Buffer,
        keys: KeyBindingsBase,
        *,
        above: Sequence[Rows],
        below: Sequence[Rows],
        prompt: str,
        instead: Rows,
        first: Sequence[Rows],
        input: Input | None = None,
        output: Output | None = None,
        editing: Editing = "emacs",
        highlights: Sequence[Processor] = (),
    ) -> None:
        self.editor = editor
        self._pending: list[str] = []
        self.is_whole: Callable[[Rows], bool] = lambda region: False
        """Whether a region takes the whole alternate screen; afterwards the main screen is as before."""
        self.is_large: Callable[[Rows], bool] = lambda region: False
        """Whether a region may take most of the screen."""
        self._own_screen = AlternateScreen()
        self._above = above
        self.pushed = PushedRows()
        self.ends_blank = False
        """The last printed row is blank."""
        self._frame: asyncio.TimerHandle | None = None
        self._last_frame = 0.0
        self._has_exited = False
        self.is_seen = asyncio.Event()
        """Set after the first frame, for work that can wait for it."""
        window = Window(
            BufferControl(editor, input_processors=list(highlights)),
            wrap_lines=True,
            height=lambda: Dimension(min=1, max=self._most_lines),
            dont_extend_height=True,
            get_line_prefix=lambda line, wrapped: prompt if line == 0 and wrapped == 0 else "  ",
        )
        self._region_rows: dict[Rows, Sequence[str]] = {}
        self._shared_at = -1
        self._by_need = sorted(
            (instead, *above, *below), key=lambda one: first.index(one) if one in first else len(first)
        )
        replacement = self._region(instead)
        line = (replacement, ConditionalContainer(window, ~replacement.filter))
        regions = [*map(self._region, above), *line, *map(self._region, below)]
        self.application: Application[None] = _InlineApplication(
            self._begin_resized,
            layout=Layout(HSplit(regions), focused_element=window),
            key_bindings=keys,
            full_screen=False,
            erase_when_done=True,
            mouse_support=False,
            input=input,
            output=output,
            max_render_postpone_time=0.05,
            editing_mode=EditingMode.VI if editing == "vi" else EditingMode.EMACS,
            cursor=ModalCursorShapeConfig() if editing == "vi" else None,
            before_render=self._begin_frame,
            after_render=self._end_frame,
        )
        self.application.ttimeoutlen = ESCAPE_SECONDS
        if editing == "emacs":  # where only Escape begins a longer sequence
            self.application.timeoutlen = ESCAPE_SECONDS
        ANSI_SEQUENCES.update(_SHIFT_ENTER)

    @property
    def size(self) -> Size:
        return self.application.output.get_size()

    @property
    def _most_lines(self) -> int:
        """The height of the input line."""
        return max(1, min(8, self.size.rows // 3))

    def _region(self, rows: Rows) -> ConditionalContainer:
        def rows_now() -> Sequence[str]:
            return self._share()[rows]

        window = Window(
            FormattedTextControl(lambda: ANSI("\n".join(rows_now())), focusable=False, show_cursor=False),
            height=lambda: Dimension.exact(len(rows_now())),
            wrap_lines=False,
        )
        return ConditionalContainer(window, Condition(lambda: bool(rows_now())))

    def _share(self) -> dict[Rows, Sequence[str]]:
        """The rows of each region, so that all fit. Cached per frame: the toolkit asks several times."""
        if self._shared_at != self.application.render_counter:
            self._shared_at = self.application.render_counter
            size, lines = self.size, self.editor.text.split("\n")[: self._most_lines]
            line_rows = sum(1 + (len(line) + 2) // max(1, size.columns) for line in lines)
            left = size.rows - min(self._most_lines, line_rows)
            for region in self._by_need:
                most = size.rows * 3 // 4 if self.is_large(region) else size.rows // 2
                most = left - 1 if self.is_whole(region) else min(max(SMALLEST_HALF, most), left)
                rows = fitted(region(size.columns, most), size.columns) if most > 0 else ()
                self._region_rows[region] = rows[:most]
                left -= len(self._region_rows[region])
        return self._region_rows

    # --- what is printed for good -----------------------------------------------------------------------

    def print(self, rows: Sequence[str]) -> None:
        """Prints rows above with the next frame. The terminal wraps rows that are too wide."""
        self._pending += rows
        if rows:
            self.ends_blank = not rows[-1]
        self.refresh()

    def refresh(self) -> None:
        """Draws a new frame soon."""
        if self._frame is not None or not self.application.is_running:
            return
        loop = asyncio.get_running_loop()
        due = max(loop.time(), self._last_frame + 1 / FRAMES)
        self._frame = loop.call_at(due, self._paint)

    def _paint(self) -> None:
        self._frame = None
        application = self.application
        if not application.is_running or application._running_in_terminal:
            return  # or another program has the terminal, and a frame follows
        self._last_frame = asyncio.get_running_loop().time()
        application._redraw()

    def _begin_frame(self, _: object) -> None:
        """Prints pending rows before a frame, so that what leaves the tail appears above at once."""
        application = self.application
        application.output.write_raw(_BEGIN_FRAME)
        is_whole = not self._has_exited and any(map(self.is_whole, self._by_need))
        self._own_screen.set(is_whole, application.renderer)
        self._erase_after_resize()
        if self._pending and not self._own_screen.is_seen:
            rows = self._take_pending()
            application.renderer.erase()
            if rows:
                text = with_depth("\r\n".join(rows), application.color_depth)
                application.output.write_raw(f"{text}\x1b[0m\r\n")

    def _take_pending(self) -> Sequence[str]:
        rows, self._pending = self._pending, []
        return self.pushed.print(rows)

    def _begin_resized(self) -> None:
        self.application.output.write_raw(_BEGIN_FRAME)
        self._erase_after_resize()

    def _erase_after_resize(self) -> None:
        """Erases what was drawn, also where the terminal has rewrapped it."""
        renderer, columns = self.application.renderer, self.size.columns
        screen, size = renderer.last_rendered_screen, renderer._last_size
        if screen is None or size is None:
            return
        pushed = renderer._cursor_pos.y + 1 - self.size.rows  # at least: some also push the rows below it
        if pushed > 0 and columns >= size.columns and not self._own_screen.is_seen:
            self.pushed.push([row for region in self._above for row in self._region_rows[region]][:pushed])
        if columns == size.columns:
            return
        if columns < size.columns and breaks_rows(os.environ) and not self._own_screen.is_seen:
            renderer._cursor_pos = cursor_after(screen, renderer._cursor_pos, columns)
        has_left = renderer._cursor_pos.y >= self.size.rows
        renderer.erase(leave_alternate_screen=False)
        if has_left:  # the first row on the screen may continue one above it
            self.application.output.write_raw("\r\n")

    def _end_frame(self, _: object) -> None:
        self.application.output.write_raw(_END_FRAME)
        self.application.output.flush()
        self.is_seen.set()

    async def run(self) -> None:
        if not self._has_exited:
            with _interrupts(self.application):
                await self.application.run_async(pre_run=self.refresh, handle_sigint=False)

    def finish(self) -> None:
        """Prints what arrived during the exit."""
        for row in self._take_pending():
            self.application.output.write_raw(with_depth(f"{row}\r\n", self.application.color_depth))
        self.application.output.flush()

    def exit(self) -> None:
        """Exits; if it does not run yet, it will not start."""
        if self.application.is_running and not self._has_exited:
            self.application.exit()
        self._has_exited = True


@contextmanager
def _interrupts(application: Application[None]) -> Iterator[None]:
    """Turns SIGINT into a key. The toolkit would load `ctypes` for that, before the first frame."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, lambda: application.key_processor.send_sigint())
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


class InlineOutput(Vt100_Output):
    """Erases without leaving anything in the scrollback."""

    def erase_down(self) -> None:
        """Begins one cell later: tmux saves a screen that is erased from its first cell to its history."""
        self.write_raw("\x1b[K\x1b[C\x1b[J\x1b[D")
