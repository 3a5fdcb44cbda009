"""The lower part of the terminal: the open tail, what is asked, the line to type in, and the status.

What is closed is printed above it, once, into the terminal's own scrollback. Nothing up there is ever
touched again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
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
from prompt_toolkit.output import Output
from prompt_toolkit.styles import BaseStyle, DummyStyle

FRAMES = 15
"""A second, at most."""
ESCAPE_SECONDS = 0.05
"""After which Escape was pressed by itself."""

Editing = Literal["emacs", "vi"]

Rows = Callable[[int, int], Sequence[str]]
"""What a region shows, given the columns and the most rows it may take: rows with their styles."""

_SHIFT_ENTER = {"\x1b[13;2u": Keys.ControlJ, "\x1b[27;2;13~": Keys.ControlJ}
"""As terminals tell it that tell it at all: the same as Ctrl+J, which begins a new line."""

_BEGIN_FRAME, _END_FRAME = "\x1b[?2026h", "\x1b[?2026l"


class TerminalApp:
    """Regions of rows around one line to type in. It knows nothing of sessions.

    Where `instead` has rows, those are seen in place of the line.
    """

    def __init__(
        self,
        editor: Buffer,
        keys: KeyBindingsBase,
        *,
        above: Sequence[Rows],
        below: Sequence[Rows],
        prompt: Callable[[], AnyFormattedText],
        instead: Rows = lambda width, most: (),
        style: BaseStyle | None = None,
        input: Input | None = None,
        output: Output | None = None,
        editing: Editing = "emacs",
        highlights: Sequence[Processor] = (),
    ) -> None:
        self.editor = editor
        self._waiting: list[str] = []
        self._frame: asyncio.TimerHandle | None = None
        self._last_frame = 0.0
        self._is_left = False
        window = Window(
            BufferControl(editor, input_processors=list(highlights)),
            wrap_lines=True,
            height=lambda: Dimension(min=1, max=max(1, min(8, self.size.rows // 3))),
            dont_extend_height=True,
            get_line_prefix=lambda line, wrapped: prompt() if line == 0 and wrapped == 0 else "  ",
        )
        drawn = self._region(instead)
        line = (drawn, ConditionalContainer(window, ~drawn.filter))
        regions = [*map(self._region, above), *line, *map(self._region, below)]
        self.application: Application[None] = Application(
            layout=Layout(HSplit(regions), focused_element=window),
            key_bindings=keys,
            style=style or DummyStyle(),
            full_screen=False,
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
        if editing == "emacs":  # in which only Escape begins something longer
            self.application.timeoutlen = ESCAPE_SECONDS
        ANSI_SEQUENCES.update(_SHIFT_ENTER)

    @property
    def size(self) -> Size:
        return self.application.output.get_size()

    def _region(self, rows: Rows) -> ConditionalContainer:
        shown: list[Sequence[str]] = [()]
        looked_at = -1

        def look() -> bool:
            """The toolkit asks several times for each frame, and what is shown takes its time to draw."""
            nonlocal looked_at
            if looked_at != self.application.render_counter:
                looked_at = self.application.render_counter
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
        if not application.is_running or application._running_in_terminal:
            return  # or somebody else has it for a while, and asks for a frame when it is given back
        self._last_frame = asyncio.get_running_loop().time()
        application._redraw()

    def _begin_frame(self, _: object) -> None:
        """Before anything is drawn, also because of a key: what has left the tail stands above it at once."""
        application = self.application
        application.output.write_raw(_BEGIN_FRAME)
        if self._waiting:
            rows, self._waiting = self._waiting, []
            application.renderer.erase()
            application.output.write_raw("\r\n".join(rows) + "\x1b[0m\r\n")

    def _end_frame(self, _: object) -> None:
        self.application.output.write_raw(_END_FRAME)
        self.application.output.flush()

    async def run(self) -> None:
        def begin() -> None:
            self.refresh()

        if not self._is_left:
            await self.application.run_async(pre_run=begin)
        for row in self._waiting:  # what came while it was leaving
            self.application.output.write_raw(f"{row}\r\n")
        self.application.output.flush()

    def exit(self) -> None:
        """Also before it runs: then it does not begin."""
        if self.application.is_running and not self._is_left:
            self.application.exit()
        self._is_left = True
