"""What a front end offers to extensions: `FrontEnd`, `Headless`, the editor, and names of keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from ostler.schema.errors import UsageError

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext


class FrontEnd(Protocol):
    """A face in the same process as the extensions. Everything here is called on the event loop.

    - What extensions show (widgets, header, footer, status, visibility, theme) are live values, what they
      print is `Printed`, and what they ask are questions: a face gets those by following the session. Where
      it opens later, `host.ui.live_values` has those that are there already.
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
        """One of `host.ui.themes`."""

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


class EditorStack:
    """Who has the editor: the last who took it; when he leaves it, the one before him."""

    def __init__(self) -> None:
        self._taken: list[tuple[ExtensionContext, Editor]] = []

    def push(self, owner: ExtensionContext, editor: Editor) -> None:
        self.remove(owner)
        self._taken.append((owner, editor))

    def remove(self, owner: object) -> bool:
        """False if he had not taken it."""
        before = len(self._taken)
        self._taken = [one for one in self._taken if one[0] is not owner]
        return len(self._taken) < before

    def present(self) -> tuple[ExtensionContext, Editor] | None:
        return self._taken[-1] if self._taken else None


_MODIFIERS = ("ctrl", "alt", "shift", "meta", "hyper", "super")

_MODIFIER_ALIASES = {
    "control": "ctrl",
    "opt": "alt",
    "option": "alt",
    "cmd": "meta",
    "command": "meta",
    "win": "super",
}

_KEY_ALIASES = {
    "escape": "esc",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "pageup": "pgup",
    "pagedn": "pgdown",
    "pagedown": "pgdown",
    "pgdn": "pgdown",
    "spacebar": "space",
    " ": "space",
}

_NOBODYS = frozenset({"ctrl+c"})

_OF_FACES = frozenset(
    {
        "esc",
        "ctrl+x",
        "pgup",
        "pgdown",
        "ctrl+home",
        "ctrl+end",
        "shift+tab",
        "enter",
        "tab",
        "up",
        "down",
    }
)


def normalised_key(key: str) -> str:
    """`Shift+Control+S` is `ctrl+shift+s`. What has an unknown modifier is left as it is.

    A single character by itself keeps its case: `A` is what `shift+a` types.
    """
    if len(key.strip()) == 1:
        return key.strip()
    *named, last = key.split("+")
    if named[1:] and not named[-1] and not last:  # the plus itself: ctrl++
        named, last = named[:-1], "+"
    plain = last.strip().lower() or last[:1]
    plain = _KEY_ALIASES.get(plain, plain)
    modifiers = {_MODIFIER_ALIASES.get(one, one) for one in (name.strip().lower() for name in named)}
    if not plain or not modifiers <= {*_MODIFIERS}:
        return key
    return "+".join([*(one for one in _MODIFIERS if one in modifiers), plain])


def shortcut_key(key: str) -> str:
    """A key that an extension may take, by its one name. Raises `UsageError` for one that nobody may."""
    plain = normalised_key(key)
    if not plain.strip():
        raise UsageError("a shortcut needs a key, as ctrl+shift+s")
    if plain in _NOBODYS:
        raise UsageError(f"{plain} is not an extension's to take: it ends what runs")
    return plain


def is_reserved(key: str) -> bool:
    """Whether faces use the key themselves, so that a shortcut takes something away."""
    return key in _OF_FACES
