"""Keys of extensions: shortcuts, keys for an editor of their own, and keys with several modifiers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding.key_processor import KeyPress, KeyProcessor
from prompt_toolkit.keys import Keys

from ostler.extensions.ui.front_end import normalised_key
from ostler.tui.extension_ui import ExtensionPanel
from ostler.tui.keys import alt

if TYPE_CHECKING:
    from ostler.tui.terminal_ui import TerminalUI

_MODIFIERS = {6: ("ctrl", "shift"), 7: ("ctrl", "alt"), 8: ("ctrl", "alt", "shift")}
"""Modifiers by the number that terminals use."""

_MODIFIED_KEYS = {
    sequence: "+".join([*modifiers, letter])
    for number, modifiers in _MODIFIERS.items()
    for letter in ascii_lowercase + digits
    for code in {ord(letter), ord(letter.upper())}
    for sequence in (f"\x1b[{code};{number}u", f"\x1b[27;{number};{code}~")
}
"""Keys with several modifiers, in both encodings of terminals; prompt_toolkit ignores them."""

_NAMES = {
    Keys.Escape: "esc",
    Keys.ControlM: "enter",
    Keys.ControlI: "tab",
    Keys.BackTab: "shift+tab",
    Keys.ControlH: "backspace",
    Keys.PageUp: "pgup",
    Keys.PageDown: "pgdown",
    Keys.ControlAt: "ctrl+space",
}

_PARTS = {"c": "ctrl", "s": "shift"}
_NEVER = frozenset({"ctrl+c", "ctrl+d", ""})
"""Never passed to an editor: keys that end something, and what is no key."""

_AGAIN = frozenset({"ctrl+c", "esc", ""})
"""Keys that keep a notice, since they may be pressed twice. Any other key clears it."""

Stroke = tuple[KeyPress, ...]
"""One key, or Escape and a key for Alt."""


def name_of(stroke: Stroke) -> str:
    """The name, such as `ctrl+s`, `alt+enter` or `A`; empty for what is no key, such as a paste."""
    if len(stroke) > 1:
        name = name_of(stroke[1:])
        return f"alt+{name}" if name else ""
    key = stroke[0].key
    if key == Keys.Ignore:
        name = _MODIFIED_KEYS.get(stroke[0].data, "")
        return normalised_key(name) if name else ""
    if key in _NAMES:
        return _NAMES[Keys(key)]
    if len(key) == 1:
        return "space" if key == " " else key
    if key.startswith("<"):
        return ""
    *modifiers, last = key.split("-")
    return normalised_key("+".join([*(_PARTS.get(one, one) for one in modifiers), last]))


def press_of(name: str) -> Stroke:
    """The stroke with a name; empty if terminals have no such key."""
    name = normalised_key(name)
    if name.startswith("alt+"):
        stroke = press_of(name.removeprefix("alt+"))
        return (KeyPress(Keys.Escape, "\x1b"), *stroke) if stroke else ()
    if len(name) == 1 or name == "space":
        text = " " if name == "space" else name
        return (KeyPress(text, text),)
    return next((stroke for key in Keys if name_of(stroke := (KeyPress(key),)) == name), ())


def strokes_of(presses: list[KeyPress]) -> list[Stroke]:
    """Groups keys that are read at once: Escape right before another key is Alt."""
    strokes: list[Stroke] = []
    for press in presses:
        has_alt = bool(strokes) and [one.key for one in strokes[-1]] == [Keys.Escape]
        if has_alt and press.key != Keys.Escape:
            strokes[-1] += (press,)
        else:
            strokes.append((press,))
    return strokes


class ExtensionKeys(KeyProcessor):
    """Gets all keys first, and passes on those that no extension handles, in order.

    - A shortcut runs concurrently: it may ask a question, whose answer is typed.
    - While an extension has the editor, each key waits until the one before is handled.
    - A panel gets keys before both.
    """

    def __init__(self, before: KeyProcessor, tui: TerminalUI) -> None:
        super().__init__(before._bindings)
        self._tui = tui
        self._pending: deque[Stroke] = deque()
        self._task: asyncio.Task[None] | None = None
        self._started: set[asyncio.Future[object]] = set()

    def feed_multiple(self, key_presses: list[KeyPress], first: bool = False) -> None:
        if first:  # fed by the toolkit itself, not typed
            super().feed_multiple(key_presses, first)
            return
        for stroke in strokes_of(key_presses):
            if name_of(stroke) not in _AGAIN:
                self._tui.notice = ""
            if self._task is not None or self._pending or self._is_for_editor(stroke):
                self._pending.append(stroke)
            elif not self._is_handled(stroke):
                self._feed(stroke)
        if self._pending and self._task is None:
            self._task = asyncio.ensure_future(self._handle_pending())

    def _feed(self, stroke: Stroke) -> None:
        if len(stroke) > 1:
            self.process_keys()  # earlier keys first
            if alt(self._tui, name_of(stroke)):
                return
        super().feed_multiple(list(stroke))

    # --- at once ----------------------------------------------------------------------------------------

    def _is_handled(self, stroke: Stroke) -> bool:
        name, host, panel = name_of(stroke), self._tui.conversation.host, self._tui.panels.present
        if isinstance(panel, ExtensionPanel) and name == "ctrl+c":
            self._tui.panels.key(name)
            return True
        if host is None or panel is not None or name in ("", "ctrl+c"):
            return False
        spelled = (name, f"shift+{name.lower()}") if len(name) == 1 and name.isupper() else (name,)
        if not any(one in host.ui.shortcuts() for one in spelled):
            return False
        self._run(host.ui.shortcut(self._tui.conversation.session.id, *spelled))
        return True

    def _is_for_editor(self, stroke: Stroke) -> bool:
        host, name = self._tui.conversation.host, name_of(stroke)
        if host is None or self._tui.panels.present is not None or name in _NEVER:
            return False
        if name in host.ui.shortcuts() or (name == "esc" and self._tui.conversation.is_working):
            return False
        present = host.ui.editors.active()
        return present is not None and present[1].handle_key is not None

    # --- later ------------------------------------------------------------------------------------------

    async def _handle_pending(self) -> None:
        try:
            while self._pending:
                stroke = self._pending.popleft()
                if self._is_for_editor(stroke):
                    stroke = await self._editor_stroke(stroke)
                elif self._is_handled(stroke):
                    stroke = ()
                self._feed(stroke)
                self.process_keys()
        finally:
            self._task = None

    async def _editor_stroke(self, stroke: Stroke) -> Stroke:
        """What the extension's editor makes of a stroke."""
        host, text = self._tui.conversation.host, self._tui.app.editor.text
        assert host is not None
        action = await host.ui.editor_key(name_of(stroke), text)
        match action.kind:
            case "consume":
                return ()
            case "submit" if action.text:
                self._tui.app.editor.reset()
                self._run(self._tui.submit(action.text))
                return ()
            case "submit":
                return press_of("enter")
            case "remap":
                return press_of(action.key) or stroke
        return stroke

    def _run(self, work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        self._started.add(task)
        task.add_done_callback(self._started.discard)


def give_keys_to_extensions(tui: TerminalUI) -> None:
    """Lets extensions handle keys before the terminal, and reports its size to them."""
    ANSI_SEQUENCES.update(dict.fromkeys(_MODIFIED_KEYS, Keys.Ignore))
    application = tui.app.application
    application.key_processor = ExtensionKeys(application.key_processor, tui)
    application.before_render += lambda _: tui.extensions.report_size()
