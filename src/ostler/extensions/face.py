"""What a face can do for extensions, beyond following the log and answering questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ostler.vocabulary.errors import UsageError

Returned = TypeVar("Returned")


class Face(Protocol):
    """A face in the same process as the extensions. Everything here is called on the event loop.

    What extensions show (widgets, header, footer, status, visibility) are live values in the stream, what
    they print is `Printed`, and what they ask are questions: a face gets those by following the session.
    """

    name: str
    interactive: bool

    def size(self) -> tuple[int, int]:
        """Columns and rows; (0, 0) where there is no terminal."""
        ...

    def editor_text(self) -> str: ...

    def set_editor_text(self, text: str) -> None:
        """The cursor goes to its end."""

    def set_editor(self, editor: Any | None) -> None:
        """An `Editor` that sees keys before the face does; None for the face's own."""

    def suspend(self, work: Callable[[], Returned]) -> Returned:
        """Gives the terminal away for so long."""
        ...

    def exit(self) -> None: ...

    def set_theme(self, name: str) -> None: ...

    def theme(self) -> str: ...

    def themes(self) -> list[str]: ...

    async def switch(self, session: str, prompt: str) -> str:
        """Leaves for another session, a new one if none is named; returns its id.

        Raises `UsageError` where a face shows one session only.
        """
        ...


class Headless:
    """No face, or one in another process: each call has its documented value."""

    name = ""
    interactive = False

    def size(self) -> tuple[int, int]:
        return 0, 0

    def editor_text(self) -> str:
        return ""

    def set_editor_text(self, text: str) -> None:
        return None

    def set_editor(self, editor: Any | None) -> None:
        return None

    def suspend(self, work: Callable[[], Returned]) -> Returned:
        return work()

    def exit(self) -> None:
        return None

    def set_theme(self, name: str) -> None:
        return None

    def theme(self) -> str:
        return ""

    def themes(self) -> list[str]:
        return []

    async def switch(self, session: str, prompt: str) -> str:
        raise UsageError("there is no face here that could show another session")
