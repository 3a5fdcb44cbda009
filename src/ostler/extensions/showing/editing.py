"""The line where people type, while an extension has a say in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from ostler.extensions.context import ExtensionContext

KeyActionKind = Literal["pass", "consume", "remap", "submit"]


class KeyAction(msgspec.Struct, frozen=True):
    """What becomes of a key: the face's own way with it, nothing, that of another key, or what was typed
    is sent."""

    kind: KeyActionKind = "pass"
    key: str = ""
    """The other key, of `remap`. One that the face does not know is handled as the first would be."""
    text: str = ""
    """What is sent, of `submit`; when it is empty, what was typed."""


PASS = KeyAction()

HandleKey = Callable[[str, str], KeyAction | Awaitable[KeyAction | None] | None]
RenderEditor = Callable[[int, str], str | Awaitable[str | None] | None]


class Editor(msgspec.Struct, frozen=True):
    """Sees keys before the face does, except those that end or interrupt, and shortcuts.

    `handle_key` gets the key and what was typed so far; `render` gets a width and what the face would
    draw. Either may be left out, and None is always "as if I were not here".
    """

    handle_key: HandleKey | None = None
    render: RenderEditor | None = None


class EditorSeat:
    """Who has the editor: the last who took it; when he leaves it, the one before him."""

    def __init__(self) -> None:
        self._taken: list[tuple[ExtensionContext, Editor]] = []

    def take(self, owner: ExtensionContext, editor: Editor) -> None:
        self.leave(owner)
        self._taken.append((owner, editor))

    def leave(self, owner: object) -> bool:
        """False if he had not taken it."""
        before = len(self._taken)
        self._taken = [one for one in self._taken if one[0] is not owner]
        return len(self._taken) < before

    def present(self) -> tuple[ExtensionContext, Editor] | None:
        return self._taken[-1] if self._taken else None
