"""`TuiFrontEnd`, the terminal as extensions use it; and output that others write while it is drawn."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ostler.app.console import real_stdout
from ostler.app.question_queue import QuestionQueue
from ostler.extensions.ui.themes import DEFAULT, DEFAULT_THEME, Theme, ThemeRegistry
from ostler.schema.errors import UsageError
from ostler.schema.events import QuestionAsked
from ostler.tui.inline_app import InlineApp
from ostler.tui.render.items import ItemRenderer

if TYPE_CHECKING:
    from ostler.extensions.ui.front_end import Editor

BEAT_SECONDS = 0.05
MOST_LINES = 100
"""Lines that are printed per beat; of further lines only the number."""

_LONGEST_LINE = 2000
_READ_SIZE = 1 << 16
_LAST_SECONDS = 0.2
"""Seconds to wait for the last lines; a process that keeps writing is not waited for."""


class StrayOutput:
    """Captures stdout and stderr of extensions, their processes and libraries, and reports the lines.

    A thread reads them, since code that writes on the event loop would block a reader there. It never waits
    for the loop, and keeps no more lines than are reported.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._streams = (2,) if real_stdout() is sys.stdout else (1, 2)
        self._terminal = self._pipe = -1
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
            self._redirect(self._pipe)
            yield
        finally:
            self._redirect(self._terminal)
            os.close(self._pipe)
            os.close(self._terminal)
            self._pipe = self._terminal = -1
            reader.join(_LAST_SECONDS)
            self._report = partial(print, file=sys.stderr)
            self._report_lines()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Both streams lead to the terminal inside the block."""
        if self._pipe == -1:
            yield
            return
        self._redirect(self._terminal)
        try:
            yield
        finally:
            self._redirect(self._pipe)

    def _redirect(self, descriptor: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:  # an extension may have done that
                stream.flush()
        for number in self._streams:
            os.dup2(descriptor, number)

    # --- in the thread ----------------------------------------------------------------------------------

    def _read(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        line = b""
        while data := os.read(descriptor, _READ_SIZE):
            *lines, line = (line + data).split(b"\n")
            if len(line) > _READ_SIZE:
                lines, line = [*lines, line], b""
            self._add(lines, loop)
        self._add([line], loop)
        os.close(descriptor)

    def _add(self, lines: list[bytes], loop: asyncio.AbstractEventLoop) -> None:
        lines = [line for line in lines if line.strip()]
        with self._lock:
            is_first = not self._lines
            room = MOST_LINES - len(self._lines)
            self._lines += lines[:room]
            self._left_out += len(lines[room:])
        if is_first and lines:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._report_soon)

    # --- on the loop ------------------------------------------------------------------------------------

    def _report_soon(self) -> None:
        if self._beat is None:
            self._beat = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._report_lines)

    def _report_lines(self) -> None:
        self._beat = None
        with self._lock:
            lines, self._lines = self._lines, []
            left_out, self._left_out = self._left_out, 0
        for line in lines:
            self._report(line.decode(errors="replace").rstrip()[:_LONGEST_LINE])
        if left_out:
            self._report(f"{left_out} more lines")


class TuiFrontEnd:
    """The terminal for extensions, which load before the UI exists; `show` connects both."""

    name = "tui"
    interactive = True

    def __init__(self) -> None:
        self.questions = QuestionQueue()
        self.is_dark = True
        self.switch_to: Callable[[str, str], Awaitable[str]] | None = None
        """Switches to another session, once one is shown."""
        self.themes = ThemeRegistry()
        """The available themes; the registry of the host, once there is one."""
        self.without_focus_reports: Callable[[], AbstractContextManager[None]] = nullcontext
        """While another program has the terminal."""
        self._stray: StrayOutput | None = None
        self._own_themes: Mapping[str, Theme] = {DEFAULT: DEFAULT_THEME}
        self.editor: Editor | None = None
        self.app: InlineApp | None = None
        self._renderer: ItemRenderer | None = None
        self._theme = DEFAULT
        self._has_quit = False

    async def ask(self, asked: QuestionAsked) -> Any:
        return await self.questions.ask(asked)

    def show(self, app: InlineApp, renderer: ItemRenderer) -> None:
        self.app, self._renderer = app, renderer
        self._recolor()
        if self._has_quit:
            app.exit()

    # --- the terminal -----------------------------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        return (self.app.size.columns, self.app.size.rows) if self.app else (0, 0)

    @contextmanager
    def captured_output(self, report: Callable[[str], None]) -> Iterator[None]:
        """Reports what others write to stdout and stderr, unless another program has the terminal."""
        self._stray = StrayOutput(report)
        with self._stray.captured():
            yield

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        if self.app is None:
            yield
            return
        from prompt_toolkit.application.run_in_terminal import in_terminal

        async with in_terminal():
            try:
                with self.without_focus_reports(), self._stray.released() if self._stray else nullcontext():
                    yield
            finally:
                # Moves to a new row unless the cursor starts one: the spaces wrap only from another column.
                output = self.app.application.output
                output.write_raw(" " * (self.app.size.columns - 1) + "\r")
                output.flush()
        self.app.refresh()

    async def stop_for_shell(self) -> None:
        """Suspends the whole process group, as Ctrl+Z does in a terminal, until the shell resumes it."""
        async with self.suspended():
            os.kill(0, signal.SIGTSTP)

    def exit(self) -> None:
        self._has_quit = True
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
        self._own_themes = themes
        self.themes.bring_along(themes)

    def use_themes(self, registry: ThemeRegistry) -> None:
        """Uses the registry of the host, where extensions add themes."""
        if registry is not self.themes:
            self.themes = registry
            registry.bring_along(self._own_themes)
            registry.changed = self._recolor
            self._recolor()

    def begin_with(self, theme: str) -> None:
        """Sets the first theme; empty without colours. An extension may add the theme later."""
        self._theme = theme
        self._recolor()

    def set_background(self, *, dark: bool) -> None:
        """Takes a late answer about the terminal's background."""
        if dark is not self.is_dark:
            self.is_dark = dark
            self._recolor()

    def theme(self) -> str:
        """The theme in use. If its extension is unloaded, the default theme until it is back."""
        return self._theme if not self._theme or self._theme in self.themes else DEFAULT

    def set_theme(self, name: str) -> None:
        """Sets the theme from the next frame on; without colours nothing changes."""
        if self._theme:
            self._theme = name
            self._recolor()

    def _recolor(self) -> None:
        if self._renderer is not None:
            dark, theme = self.is_dark, self._theme
            self._renderer.colors = self.themes.resolved(theme, dark=dark) if theme else None
        if self.app:
            self.app.refresh()
