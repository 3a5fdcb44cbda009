"""`TuiFrontEnd`, the terminal as extensions use it; and output that others write while it is drawn."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from ostler.app.console import real_stdout
from ostler.app.question_queue import QuestionQueue
from ostler.extensions.ui.themes import DEFAULT, DEFAULT_THEME, Theme, ThemeRegistry
from ostler.schema.errors import UsageError
from ostler.schema.events import QuestionAsked
from ostler.tui.inline_app import InlineApp
from ostler.tui.render.items import ItemRenderer
from ostler.tui.themes import colors_of

if TYPE_CHECKING:
    from ostler.extensions.ui.front_end import Editor

BEAT_SECONDS = 0.05
AT_ONCE = 100
"""Lines that are printed per beat; of the rest only the number."""

_LONGEST = 2000
"""Characters of a line, at most."""

_READ = 1 << 16
_LAST_SECONDS = 0.2
"""Seconds to wait for the last lines; a process that keeps writing is not waited for."""


class StrayOutput:
    """Captures stdout and stderr of extensions, their processes and libraries, and reports the lines.

    A thread reads them, since code that writes on the event loop would block a reader there. It never waits
    for the loop, and keeps no more lines than are reported.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self._streams = (2,) if real_stdout() is sys.stdout else (1, 2)
        self._terminal = -1
        self._pipe = -1
        self._lock = threading.Lock()
        self._lines: list[bytes] = []
        self._left_out = 0
        self._beat: asyncio.TimerHandle | None = None

    @contextmanager
    def captured(self) -> Iterator[None]:
        """Captures inside the block. A stderr that leads to a file stays."""
        if not os.isatty(2):
            yield
            return
        reading, self._pipe = os.pipe()
        self._terminal = os.dup(2)
        loop = asyncio.get_running_loop()
        reader = threading.Thread(target=self._read, args=(reading, loop), daemon=True, name="stray-output")
        reader.start()
        try:
            self._lead_to(self._pipe)
            yield
        finally:
            self._lead_to(self._terminal)
            os.close(self._pipe)
            os.close(self._terminal)
            self._pipe = self._terminal = -1
            reader.join(_LAST_SECONDS)
            self.tell = _say_again
            self._tell()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Both streams lead to the terminal inside the block."""
        if self._pipe == -1:
            yield
            return
        self._lead_to(self._terminal)
        try:
            yield
        finally:
            self._lead_to(self._pipe)

    def _lead_to(self, descriptor: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:  # an extension may have done that
                stream.flush()
        for number in self._streams:
            os.dup2(descriptor, number)

    # --- in the thread ----------------------------------------------------------------------------------

    def _read(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        rest = b""
        while data := os.read(descriptor, _READ):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _READ:
                lines, rest = [*lines, rest], b""
            self._keep(lines, loop)
        self._keep([rest], loop)
        os.close(descriptor)

    def _keep(self, lines: list[bytes], loop: asyncio.AbstractEventLoop) -> None:
        lines = [line for line in lines if line.strip()]
        with self._lock:
            is_first = not self._lines
            room = AT_ONCE - len(self._lines)
            self._lines += lines[:room]
            self._left_out += len(lines[room:])
        if is_first and lines:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._tell_soon)

    # --- on the loop ------------------------------------------------------------------------------------

    def _tell_soon(self) -> None:
        if self._beat is None:
            self._beat = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._tell)

    def _tell(self) -> None:
        self._beat = None
        with self._lock:
            lines, self._lines = self._lines, []
            left_out, self._left_out = self._left_out, 0
        for line in lines:
            self.tell(line.decode(errors="replace").rstrip()[:_LONGEST])
        if left_out:
            self.tell(f"{left_out} more lines")


def _say_again(text: str) -> None:
    """Prints what comes after the terminal UI has ended."""
    print(text, file=sys.stderr)


class TuiFrontEnd:
    """What extensions can do with the terminal: read its size, edit the input line, set themes, borrow it,
    quit.

    It exists before the UI, because extensions load first; `show` connects both.
    """

    name = "tui"
    interactive = True

    def __init__(self) -> None:
        self.questions = QuestionQueue()
        self.is_dark = True
        self.switch_to: Callable[[str, str], Awaitable[str]] | None = None
        """Switches to another session, once one is shown."""
        self.book = ThemeRegistry()
        """The available themes; the registry of the host, once there is one."""
        self.stray: StrayOutput | None = None
        """The capture of stdout and stderr, released while another program has the terminal."""
        self.unwatched: Callable[[], AbstractContextManager[None]] = nullcontext
        """Stops focus reports while another program has the terminal."""
        self._brought: Mapping[str, Theme] = {DEFAULT: DEFAULT_THEME}
        self.editor: Editor | None = None
        self.app: InlineApp | None = None
        self._draw: ItemRenderer | None = None
        self._theme = DEFAULT
        self._is_left = False

    async def ask(self, asked: QuestionAsked) -> Any:
        return await self.questions.ask(asked)

    def show(self, app: InlineApp, draw: ItemRenderer) -> None:
        self.app, self._draw = app, draw
        self._recolor()
        if self._is_left:
            app.exit()

    # --- the terminal -----------------------------------------------------------------------------------

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
                with self.unwatched(), self.stray.released() if self.stray else nullcontext():
                    yield
            finally:
                self._to_a_new_row(self.app)
        self.app.refresh()

    def _to_a_new_row(self, app: InlineApp) -> None:
        """Moves to a new row unless the cursor starts one: a row of spaces wraps only from another column."""
        output = app.application.output
        output.write_raw(" " * (app.size.columns - 1) + "\r")
        output.flush()

    async def stop_for_shell(self) -> None:
        """Suspends the whole process group, as Ctrl+Z does in a terminal, until the shell resumes it."""
        async with self.suspended():
            os.kill(0, signal.SIGTSTP)

    def exit(self) -> None:
        self._is_left = True
        if self.app:
            self.app.exit()

    async def switch(self, session: str, prompt: str) -> str:
        if self.switch_to is None:
            raise UsageError("no session is shown yet")
        return await self.switch_to(session, prompt)

    # --- the input line ---------------------------------------------------------------------------------

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

    # --- colours ----------------------------------------------------------------------------------------

    def bring_along(self, themes: Mapping[str, Theme]) -> None:
        """Sets the themes of the terminal itself."""
        self._brought = themes
        self.book.bring_along(themes)

    def take_book(self, book: ThemeRegistry) -> None:
        """Uses the registry of the host, where extensions add themes."""
        if book is not self.book:
            self.book = book
            book.bring_along(self._brought)
            book.changed = self._recolor
            self._recolor()

    def begin_with(self, theme: str) -> None:
        """Sets the first theme; empty without colours. An extension may add the theme later."""
        self._theme = theme
        self._recolor()

    def see_background(self, *, dark: bool) -> None:
        """Takes a late answer about the terminal's background."""
        if dark is not self.is_dark:
            self.is_dark = dark
            self._recolor()

    def theme(self) -> str:
        """The theme in use. If its extension is unloaded, the default theme until it is back."""
        return self._theme if not self._theme or self._theme in self.book else DEFAULT

    def set_theme(self, name: str) -> None:
        """Sets the theme from the next frame on; without colours nothing changes."""
        if self._theme:
            self._theme = name
            self._recolor()

    def _recolor(self) -> None:
        if self._draw is not None:
            self._draw.colors = colors_of(self.book, self._theme, dark=self.is_dark) if self._theme else None
        if self.app:
            self.app.refresh()
