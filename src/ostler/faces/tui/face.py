"""The terminal as a face of extensions."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from ostler.extensions.showing.theme_colors import Theme
from ostler.extensions.showing.themes import DEFAULT, DEFAULT_THEME, ThemeBook
from ostler.faces.tui.app import TerminalApp
from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.stray_output import StrayOutput
from ostler.faces.tui.themes.choosing import colors_of
from ostler.vocabulary.errors import UsageError

if TYPE_CHECKING:  # loaded when there are extensions
    from ostler.extensions.showing.editing import Editor


class TuiFace:
    """What extensions may do with the terminal: see its size, type, change its colours, borrow it, leave.

    It is there before there is anything to see, because extensions are loaded before; `show` says what is.
    """

    name = "tui"
    interactive = True

    def __init__(self) -> None:
        self.is_dark = True
        self.switch_to: Callable[[str, str], Awaitable[str]] | None = None
        """How another session is shown, once one is."""
        self.book = ThemeBook()
        """The themes that can be chosen: the host's, once there is one."""
        self.stray: StrayOutput | None = None
        """What has taken the other streams; they are given back with the terminal."""
        self.unwatched: Callable[[], AbstractContextManager[None]] = nullcontext
        """For as long as another program has the terminal, which does not report its focus then."""
        self._brought: Mapping[str, Theme] = {DEFAULT: DEFAULT_THEME}
        self.editor: Editor | None = None
        self.app: TerminalApp | None = None
        self._draw: BlockRows | None = None
        self._theme = DEFAULT
        self._is_left = False

    def show(self, app: TerminalApp, draw: BlockRows) -> None:
        self.app, self._draw = app, draw
        self._recolor()
        if self._is_left:
            app.exit()

    # --- the terminal ---------------------------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        if self.app is None:
            return 0, 0
        size = self.app.size
        return size.columns, size.rows

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        if self.app is None:
            yield
            return
        from prompt_toolkit.application.run_in_terminal import in_terminal

        async with in_terminal():
            try:
                with self.unwatched(), self.stray.given_back() if self.stray else nullcontext():
                    yield
            finally:
                self._to_a_new_row(self.app)
        self.app.refresh()

    def _to_a_new_row(self, app: TerminalApp) -> None:
        """Unless the cursor is at the beginning of one: as many blanks as fit into a row lead into the next
        one from anywhere else."""
        output = app.application.output
        output.write_raw(" " * (app.size.columns - 1) + "\r")
        output.flush()

    async def stop_for_shell(self) -> None:
        """As Ctrl+Z does elsewhere, until the shell lets it go on. The whole group, as a terminal would."""
        async with self.suspended():
            os.kill(0, signal.SIGTSTP)

    def exit(self) -> None:
        self._is_left = True
        if self.app:
            self.app.exit()

    async def switch(self, session: str, prompt: str) -> str:
        if self.switch_to is None:
            raise UsageError("there is nothing to leave for another session yet")
        return await self.switch_to(session, prompt)

    # --- the line to type in --------------------------------------------------------------------------

    def editor_text(self) -> str:
        return self.app.editor.text if self.app else ""

    def set_editor_text(self, text: str) -> None:
        if self.app:
            self.app.editor.text = text
            self.app.editor.cursor_position = len(text)
            self.app.refresh()

    def set_editor(self, editor: Editor | None) -> None:
        self.editor = editor
        if self.app:
            self.app.refresh()

    # --- colours --------------------------------------------------------------------------------------

    def bring_along(self, themes: Mapping[str, Theme]) -> None:
        """The themes of the face itself."""
        self._brought = themes
        self.book.bring_along(themes)

    def take_book(self, book: ThemeBook) -> None:
        """Of the host, where extensions register theirs."""
        if book is not self.book:
            self.book = book
            book.bring_along(self._brought)
            book.changed = self._recolor
            self._recolor()

    def begin_with(self, theme: str) -> None:
        """Empty where there are no colours. One that nobody has brought yet is shown once somebody does."""
        self._theme = theme
        self._recolor()

    def see_background(self, *, dark: bool) -> None:
        """The terminal has said, late, what is behind its text."""
        if dark is not self.is_dark:
            self.is_dark = dark
            self._recolor()

    def theme(self) -> str:
        """A theme that its extension took along comes back with it: when it is loaded anew, for example."""
        return self._theme if not self._theme or self._theme in self.book else DEFAULT

    def set_theme(self, name: str) -> None:
        """From the next frame on. Where there are no colours, there are none after it."""
        if self._theme:
            self._theme = name
            self._recolor()

    def _recolor(self) -> None:
        if self._draw is not None:
            self._draw.colors = colors_of(self.book, self._theme, dark=self.is_dark) if self._theme else None
        if self.app:
            self.app.refresh()
