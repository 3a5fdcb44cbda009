"""What keys do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prompt_toolkit.filters import (
    Condition,
    emacs_insert_mode,
    emacs_mode,
    vi_insert_mode,
    vi_navigation_mode,
)
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
    _bind_ends(tui, keys)
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
        """A key without a letter comes as a sequence."""
        for one in "" if event.data.startswith("\x1b") else event.data:
            tui.panels.key(one)

    @keys.add(Keys.CPRResponse, eager=True, save_before=lambda event: False)
    def located(event: KeyPressEvent) -> None:
        """Where the cursor is: an answer of the terminal's, which no panel may take for something typed."""
        event.app.renderer.report_absolute_cursor_row(int(event.data[2:-1].partition(";")[0]))


def _bind_line(tui: Tui, keys: KeyBindings) -> None:
    writing, line = tui.writing, tui.writing.line
    # With a filter, so that Escape alone is seen at once where it has a meaning of its own.
    with_alt = emacs_mode

    @keys.add("enter")
    def submit(event: KeyPressEvent) -> None:
        writing.enter()

    @keys.add("escape", "enter", filter=with_alt)
    @keys.add("c-j")
    def newline(event: KeyPressEvent) -> None:
        line.buffer.newline(copy_margin=False)

    @keys.add("escape", "s", filter=with_alt)
    def steer(event: KeyPressEvent) -> None:
        writing.steer()

    @keys.add("up")
    @keys.add("c-p")
    def up(event: KeyPressEvent) -> None:
        writing.up()

    @keys.add("down")
    @keys.add("c-n")
    def down(event: KeyPressEvent) -> None:
        writing.down()

    @keys.add("backspace", filter=emacs_insert_mode | vi_insert_mode)
    def delete(event: KeyPressEvent) -> None:
        if not line.delete_chip():
            line.buffer.delete_before_cursor(event.arg)

    @keys.add("tab")
    def complete(event: KeyPressEvent) -> None:
        writing.popup.complete_when_found()

    @keys.add("c-r", filter=~vi_navigation_mode)
    def search(event: KeyPressEvent) -> None:
        writing.search.open()

    @keys.add("c-x", filter=Condition(lambda: not tui.panels.takes("ctrl+x")), eager=True)
    def chord(event: KeyPressEvent) -> None:
        writing.chords.open()

    @keys.add("c-v", filter=~vi_navigation_mode)
    def paste_clipboard(event: KeyPressEvent) -> None:
        writing.soon(writing.paste_clipboard())

    @keys.add(Keys.BracketedPaste, eager=True)
    def paste(event: KeyPressEvent) -> None:
        writing.paste(event.data)

    @keys.add("c-t", filter=~vi_navigation_mode)
    def thoughts(event: KeyPressEvent) -> None:
        tui.show_thoughts()

    @keys.add("c-l")
    def repaint(event: KeyPressEvent) -> None:
        """Not the screen: what was printed above stays."""
        event.app.renderer.erase()
        event.app.invalidate()


def _bind_ends(tui: Tui, keys: KeyBindings) -> None:
    writing, line = tui.writing, tui.writing.line
    last_ctrl_c = -TWICE_SECONDS

    @keys.add("escape", filter=emacs_mode | vi_navigation_mode)
    def escape(event: KeyPressEvent) -> None:
        writing.soon(writing.back.escape())

    @keys.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        """Clears the line, closes a panel, ends what the shell runs; twice in a row it leaves."""
        nonlocal last_ctrl_c
        now = time.monotonic()
        if now - last_ctrl_c <= TWICE_SECONDS:
            tui.leave()
            return
        last_ctrl_c = now
        if tui.questions.present is None and tui.panels.takes("esc"):
            tui.panels.key("esc")
        elif not line.text and writing.shell:
            writing.soon(writing.shell.stop())
        cleared = line.take()
        tui.notice = "ctrl+c again leaves"
        writing.soon(writing.back.return_(cleared.text))
        tui.app.refresh()

    @keys.add("c-d", filter=Condition(lambda: not line.text))
    def leave(event: KeyPressEvent) -> None:
        tui.leave()
