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
    """A front end in the same process as the extensions. Everything here is called on the event loop.

    - Widgets, header, footer, status, visibility and theme are live values, printed text is `Printed`, and
      dialogs are questions: a front end gets them by following the session. If it opens later,
      `host.ui.live_values` returns the current ones.
    - It calls their code only through the host: `render`, `tool_header`, `tool_body`, `editor_key`,
      `editor_lines` and `shortcut` never raise what an extension raises.
    """

    name: str
    interactive: bool
    is_dark: bool

    def size(self) -> tuple[int, int]:
        """Columns and rows; (0, 0) without a terminal."""
        return 0, 0

    def editor_text(self) -> str:
        return ""

    def set_editor_text(self, text: str) -> None:
        """Replaces the typed text; the cursor moves to its end."""
        return

    def set_editor(self, editor: Editor | None) -> None:
        """An extension has taken over the editor, or released it."""
        return

    def suspended(self) -> AbstractAsyncContextManager[None]:
        """Releases the terminal while the block runs."""
        return nullcontext()

    def exit(self) -> None:
        """Closes the front end."""
        return

    def set_theme(self, name: str) -> None:
        """One of `host.ui.themes`."""
        return

    def theme(self) -> str:
        """The name of the current theme; empty without colours."""
        return ""

    async def switch(self, session: str, prompt: str) -> str:
        """Switches to another session, a new one if none is named; returns its id. Raises `UsageError` if the
        front end shows only one session."""
        raise UsageError("there is no front end here that could switch sessions")


class Headless(FrontEnd):
    """No front end, or one in another process: each call returns its default."""

    name = ""
    interactive = False
    is_dark = False


class KeyAction(msgspec.Struct, frozen=True):
    """What happens to a key: the front end's default, nothing, another key, or submitting the text."""

    kind: Literal["pass", "consume", "remap", "submit"] = "pass"
    key: str = ""
    """The other key, for `remap`. If it is unknown, the original key applies."""
    text: str = ""
    """The text to send, for `submit`; if empty, the typed text."""


PASS = KeyAction()


class Editor(msgspec.Struct, frozen=True):
    """Gets keys before the front end does, except those that quit or interrupt, and shortcuts. `handle_key`
    gets the key and the typed text; `render` gets a width and the default rendering. Both are optional, and
    returning None means the default."""

    handle_key: Callable[[str, str], KeyAction | Awaitable[KeyAction | None] | None] | None = None
    render: Callable[[int, str], str | Awaitable[str | None] | None] | None = None


class EditorStack:
    """The extensions that have taken over the editor: the last one is active."""

    def __init__(self) -> None:
        self._editors: list[tuple[ExtensionContext, Editor]] = []

    def push(self, owner: ExtensionContext, editor: Editor) -> None:
        self.remove(owner)
        self._editors.append((owner, editor))

    def remove(self, owner: object) -> bool:
        """Removes an extension's editor; False if it has none."""
        before = len(self._editors)
        self._editors = [one for one in self._editors if one[0] is not owner]
        return len(self._editors) < before

    def active(self) -> tuple[ExtensionContext, Editor] | None:
        return self._editors[-1] if self._editors else None


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

_FRONT_END_KEYS = frozenset(
    {"esc", "ctrl+x", "pgup", "pgdown", "ctrl+home", "ctrl+end", "shift+tab", "enter", "tab", "up", "down"}
)


def normalised_key(key: str) -> str:
    """`Shift+Control+S` becomes `ctrl+shift+s`. A key with an unknown modifier is unchanged. A single
    character keeps its case: `A` is what `shift+a` types."""
    if len(key.strip()) == 1:
        return key.strip()
    *prefixes, last = key.split("+")
    if prefixes[1:] and not prefixes[-1] and not last:  # the plus itself: ctrl++
        prefixes, last = prefixes[:-1], "+"
    plain = last.strip().lower() or last[:1]
    plain = _KEY_ALIASES.get(plain, plain)
    modifiers = {_MODIFIER_ALIASES.get(one, one) for one in (name.strip().lower() for name in prefixes)}
    if not plain or not modifiers <= {*_MODIFIERS}:
        return key
    return "+".join([*(one for one in _MODIFIERS if one in modifiers), plain])


def shortcut_key(key: str) -> str:
    """The normalised name of a key for a shortcut. Raises `UsageError` for a reserved one."""
    plain = normalised_key(key)
    if not plain.strip():
        raise UsageError("a shortcut needs a key such as ctrl+shift+s")
    if plain == "ctrl+c":
        raise UsageError("an extension cannot use ctrl+c: it interrupts a run")
    return plain


def is_reserved(key: str) -> bool:
    """Whether front ends use the key themselves."""
    return key in _FRONT_END_KEYS
