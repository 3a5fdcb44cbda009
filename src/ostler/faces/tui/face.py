"""The terminal as a face of extensions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ostler.extensions.showing.editing import Editor
from ostler.faces.tui.app import TerminalApp


class TuiFace:
    """What extensions may do with the terminal: see its size, type, change its colours, borrow it, leave."""

    name = "tui"
    interactive = True

    def __init__(self, switch: Callable[[str, str], Awaitable[str]]) -> None:
        self.app: TerminalApp | None = None
        """Set when it is there: extensions are loaded before."""
        self.is_dark = True
        self.editor: Editor | None = None
        self._theme = "default"
        self._switch = switch

    def size(self) -> tuple[int, int]:
        if self.app is None:
            return 0, 0
        size = self.app.size
        return size.columns, size.rows

    def editor_text(self) -> str:
        return self.app.editor.text if self.app else ""

    def set_editor_text(self, text: str) -> None:
        if self.app:
            self.app.editor.text = text
            self.app.editor.cursor_position = len(text)

    def set_editor(self, editor: Editor | None) -> None:
        self.editor = editor

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        if self.app is None:
            yield
            return
        from prompt_toolkit.application.run_in_terminal import in_terminal

        async with in_terminal():
            yield

    def exit(self) -> None:
        if self.app:
            self.app.exit()

    def set_theme(self, name: str) -> None:
        self._theme = name
        if self.app:
            self.app.refresh()

    def theme(self) -> str:
        return self._theme

    async def switch(self, session: str, prompt: str) -> str:
        return await self._switch(session, prompt)
