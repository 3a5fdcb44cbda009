"""What a face can do for extensions, beyond following the log and answering questions."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from ostler.vocabulary.errors import UsageError

if TYPE_CHECKING:  # loaded by extensions that use it
    from ostler.extensions.showing.editing import Editor


class Face(Protocol):
    """A face in the same process as the extensions. Everything here is called on the event loop.

    - What extensions show (widgets, header, footer, status, visibility, theme) are live values, what they
      print is `Printed`, and what they ask are questions: a face gets those by following the session. Where
      it opens later, `host.live_values` has those that are there already.
    - It calls their code only through the host: `render`, `tool_header`, `tool_body`, `editor_key`,
      `editor_lines` and `shortcut` never raise what an extension raises.
    """

    name: str
    interactive: bool
    is_dark: bool

    def size(self) -> tuple[int, int]:
        """Columns and rows; (0, 0) where there is no terminal."""
        ...

    def editor_text(self) -> str: ...

    def set_editor_text(self, text: str) -> None:
        """The cursor goes to its end."""

    def set_editor(self, editor: Editor | None) -> None:
        """An extension has a say in what is typed, or none has any more."""

    def suspended(self) -> AbstractAsyncContextManager[None]:
        """Inside, the terminal is somebody else's."""
        ...

    def exit(self) -> None: ...

    def set_theme(self, name: str) -> None:
        """One of `host.themes`."""

    def theme(self) -> str:
        """The name of the present one; empty where there are no colours."""
        ...

    async def switch(self, session: str, prompt: str) -> str:
        """Leaves for another session, a new one if none is named; returns its id.

        Raises `UsageError` where a face shows one session only.
        """
        ...


class Headless:
    """No face, or one in another process: each call has its documented value."""

    name = ""
    interactive = False
    is_dark = False

    def size(self) -> tuple[int, int]:
        return 0, 0

    def editor_text(self) -> str:
        return ""

    def set_editor_text(self, text: str) -> None:
        return None

    def set_editor(self, editor: Editor | None) -> None:
        return None

    def suspended(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def exit(self) -> None:
        return None

    def set_theme(self, name: str) -> None:
        return None

    def theme(self) -> str:
        return ""

    async def switch(self, session: str, prompt: str) -> str:
        raise UsageError("there is no face here that could show another session")
