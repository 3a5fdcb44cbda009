"""What keys do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from ostler.faces.tui.tui import Tui

TWICE_SECONDS = 2.0

PANEL_KEYS = {
    "escape": "esc",
    "enter": "enter",
    "up": "up",
    "down": "down",
    "left": "left",
    "right": "right",
    "tab": "tab",
    "s-tab": "shift+tab",
    "pageup": "pgup",
    "pagedown": "pgdown",
    "home": "home",
    "end": "end",
    "backspace": "backspace",
    "delete": "delete",
    **{f"c-{letter}": f"ctrl+{letter}" for letter in "adeklnoprstuvwxy"},
}
"""How the toolkit and how we call the keys that a panel may take."""


def key_bindings(tui: Tui) -> KeyBindings:
    keys = KeyBindings()
    _bind_panels(tui, keys)
    _bind_line(tui, keys)
    return keys


def _bind_panels(tui: Tui, keys: KeyBindings) -> None:
    for spelled, name in PANEL_KEYS.items():

        def takes(name: str = name) -> bool:
            return tui.panels.takes(name)

        @keys.add(spelled, filter=Condition(takes), eager=True)
        def press(event: KeyPressEvent, name: str = name) -> None:
            tui.panels.key(name)

    @keys.add(Keys.Any, filter=Condition(lambda: tui.panels.takes_text), eager=True)
    def letter(event: KeyPressEvent) -> None:
        for one in event.data:
            tui.panels.key(one)


def _bind_line(tui: Tui, keys: KeyBindings) -> None:
    last_ctrl_c = [-TWICE_SECONDS]

    @keys.add("enter")
    def submit(event: KeyPressEvent) -> None:
        text = tui.app.editor.text
        tui.app.editor.reset(append_to_history=True)
        event.app.create_background_task(tui.submit(text))

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def newline(event: KeyPressEvent) -> None:
        tui.app.editor.insert_text("\n")

    @keys.add("escape")
    def stop(event: KeyPressEvent) -> None:
        event.app.create_background_task(tui.stop())

    @keys.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        """Clears the line; twice in a row it leaves."""
        now = time.monotonic()
        if now - last_ctrl_c[0] <= TWICE_SECONDS:
            tui.leave()
            return
        last_ctrl_c[0] = now
        tui.app.editor.reset()
        tui.notice = "ctrl+c again leaves"
        tui.app.refresh()

    @keys.add("c-d", filter=Condition(lambda: not tui.app.editor.text))
    def leave(event: KeyPressEvent) -> None:
        tui.leave()
