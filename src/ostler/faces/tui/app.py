"""The lower part of the terminal: the open tail, what is asked, the line to type in, and the status.

What is closed is printed above it, once, into the terminal's own scrollback. Nothing up there is ever
touched again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.output import Output
from prompt_toolkit.styles import BaseStyle, DummyStyle

FRAMES = 15
"""A second, at most."""

Rows = Callable[[int, int], Sequence[str]]
"""What a region shows, given the columns and the most rows it may take: rows with their styles."""

_BEGIN_FRAME, _END_FRAME = "\x1b[?2026h", "\x1b[?2026l"


class TerminalApp:
    """Regions of rows around one line to type in. It knows nothing of sessions."""

    def __init__(
        self,
        editor: Buffer,
        keys: KeyBindingsBase,
        *,
        above: Sequence[Rows],
        below: Sequence[Rows],
        prompt: Callable[[], AnyFormattedText],
        style: BaseStyle | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.editor = editor
        self._waiting: list[str] = []
        self._frame: asyncio.TimerHandle | None = None
        self._last_frame = 0.0
        editing = Window(
            BufferControl(editor, input_processors=[]),
            wrap_lines=True,
            height=lambda: Dimension(min=1, max=max(1, min(8, self.size.rows // 3))),
            dont_extend_height=True,
            get_line_prefix=lambda line, wrapped: prompt() if line == 0 and wrapped == 0 else "  ",
        )
        regions = [*map(self._region, above), editing, *map(self._region, below)]
        self.application: Application[None] = Application(
            layout=Layout(HSplit(regions), focused_element=editing),
            key_bindings=keys,
            style=style or DummyStyle(),
            full_screen=False,
            mouse_support=False,
            input=input,
            output=output,
            max_render_postpone_time=0.05,
        )
        self.application.ttimeoutlen = 0.05

    @property
    def size(self) -> Size:
        return self.application.output.get_size()

    def _region(self, rows: Rows) -> ConditionalContainer:
        shown: list[Sequence[str]] = [()]

        def look() -> bool:
            size = self.size
            shown[0] = rows(size.columns, max(1, size.rows // 2))
            return bool(shown[0])

        window = Window(
            FormattedTextControl(lambda: ANSI("\n".join(shown[0])), focusable=False, show_cursor=False),
            height=lambda: Dimension.exact(len(shown[0])),
            wrap_lines=False,
        )
        from prompt_toolkit.filters import Condition

        return ConditionalContainer(window, Condition(look))

    # --- what is printed for good ---------------------------------------------------------------------

    def print(self, rows: Sequence[str]) -> None:
        """Puts rows above, with the next frame."""
        self._waiting += rows
        self.refresh()

    def refresh(self) -> None:
        """Something has changed: it is seen with the next frame."""
        if self._frame is not None or not self.application.is_running:
            return
        loop = asyncio.get_running_loop()
        due = max(loop.time(), self._last_frame + 1 / FRAMES)
        self._frame = loop.call_at(due, self._paint)

    def _paint(self) -> None:
        self._frame = None
        application = self.application
        if not application.is_running:
            return
        self._last_frame = asyncio.get_running_loop().time()
        if self._waiting:
            rows, self._waiting = self._waiting, []
            output = application.output
            output.write_raw(_BEGIN_FRAME)
            application.renderer.erase()
            output.write_raw("\r\n".join(rows) + "\x1b[0m\r\n")
            application._redraw()
            output.write_raw(_END_FRAME)
            output.flush()
        else:
            application.invalidate()

    async def run(self) -> None:
        def begin() -> None:
            self.refresh()

        await self.application.run_async(pre_run=begin)
        for row in self._waiting:  # what came while it was leaving
            self.application.output.write_raw(f"{row}\r\n")
        self.application.output.flush()

    def exit(self) -> None:
        if self.application.is_running:
            self.application.exit()
