"""Key bindings: double presses, chords after Ctrl+X, and which keys go to a panel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from prompt_toolkit.filters import (
    Condition,
    emacs_insert_mode,
    emacs_mode,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys

from ostler.core.lazy import lazy_module
from ostler.tui.panels.panel import ModalPanel, Panels
from ostler.tui.render.items import ItemRenderer

if TYPE_CHECKING:
    from ostler.tui import history_viewer
    from ostler.tui.terminal_ui import TerminalUI
else:
    history_viewer = lazy_module("ostler.tui.history_viewer")

SECONDS = 2.0


class DoublePress:
    """A key that acts when pressed twice, while the notice of the first press is shown."""

    def __init__(self, tui: TerminalUI, notice: str) -> None:
        self._tui = tui
        self._notice = notice
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_second(self) -> bool:
        return self._tui.notice.endswith(self._notice)

    def first(self, before: str = "") -> None:
        """Shows what a second press does, after another notice."""
        self._tui.show_notice(f"{before}; {self._notice}" if before else self._notice)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(SECONDS, self._clear)

    def _clear(self) -> None:
        if self.is_second:
            self._tui.show_notice("")


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
"""Keys of panels: prompt_toolkit's names and ours."""


def key_bindings(tui: TerminalUI) -> KeyBindings:
    keys = KeyBindings()
    _bind_panels(tui, keys)
    _bind_line(tui, keys)
    _bind_ends(tui, keys)
    return keys


def _bind_panels(tui: TerminalUI, keys: KeyBindings) -> None:
    for toolkit_name, name in PANEL_KEYS.items():

        @keys.add(toolkit_name, filter=Condition(partial(tui.panels.takes, name)), eager=True)
        def press(event: KeyPressEvent, name: str = name) -> None:
            tui.panels.key(name)

    @keys.add(Keys.Any, filter=Condition(lambda: tui.panels.takes_text), eager=True)
    def letter(event: KeyPressEvent) -> None:
        """A key without a letter arrives as an escape sequence."""
        for one in "" if event.data.startswith("\x1b") else event.data:
            tui.panels.key(one)


def _bind(keys: KeyBindings, sequence: str, action: Callable[[], None], **options: Any) -> None:
    keys.add(*sequence.split(), **options)(lambda event: action())


def _bind_line(tui: TerminalUI, keys: KeyBindings) -> None:
    composer, line = tui.composer, tui.composer.line

    def free(name: str) -> Condition:
        return Condition(lambda: not tui.panels.takes(name))

    def new_line() -> None:
        line.buffer.newline(copy_margin=False)

    def show_last() -> None:
        composer.soon(history_viewer.HistoryViewer(tui).last())

    # With a filter, so that Escape alone acts at once where it has a meaning of its own. `alt` handles keys
    # with Alt in vi's insert mode.
    _bind(keys, "escape enter", new_line, filter=emacs_mode)
    _bind(keys, "escape s", composer.steer, filter=emacs_mode)
    _bind(keys, "c-j", new_line)
    _bind(keys, "up", composer.up)
    _bind(keys, "c-p", composer.up)
    _bind(keys, "down", composer.down)
    _bind(keys, "c-n", composer.down)
    _bind(keys, "s-tab", lambda: composer.soon(composer.thinking.next()))
    _bind(keys, "tab", lambda: composer.popup.complete_when_ready())
    _bind(keys, "c-r", composer.search.open, filter=~vi_navigation_mode)
    _bind(keys, "c-v", lambda: composer.soon(composer.paste_clipboard()), filter=~vi_navigation_mode)
    # Eager, so that a panel does not get them as letters.
    _bind(keys, "c-x", composer.chords.open, filter=free("ctrl+x"), eager=True)
    _bind(keys, "c-t", tui.show_thoughts, filter=~vi_navigation_mode & free("ctrl+t"), eager=True)
    _bind(keys, "c-o", show_last, filter=~vi_navigation_mode & free("ctrl+o"), eager=True)

    @keys.add("enter")
    def submit(event: KeyPressEvent) -> None:
        composer.enter()
        event.app.vi_state.input_mode = InputMode.INSERT  # in vi mode, a new line begins in insert mode

    @keys.add("backspace", filter=emacs_insert_mode | vi_insert_mode)
    def delete(event: KeyPressEvent) -> None:
        if not line.delete_chip():
            line.buffer.delete_before_cursor(event.arg)

    @keys.add(Keys.BracketedPaste, eager=True)
    def paste(event: KeyPressEvent) -> None:
        composer.paste(event.data)

    @keys.add("c-l", filter=free("ctrl+l"), eager=True)
    def repaint(event: KeyPressEvent) -> None:
        """Redraws our part of the screen; what is printed above stays."""
        event.app.renderer.erase()
        event.app.invalidate()


def alt(tui: TerminalUI, name: str) -> bool:
    """Whether a key with Alt is handled here. prompt_toolkit reads Alt as Escape before the key, which means
    something else in vi mode and to a panel: Alt must not decline a question."""
    is_for_line = not tui.panels.takes_text
    if not (vi_insert_mode() or tui.panels.takes("esc")) or not (is_for_line or tui.is_asked):
        return False
    match name:
        case "alt+s":
            tui.composer.steer()
        case "alt+enter" if is_for_line:
            tui.composer.line.buffer.newline(copy_margin=False)
        case _:
            return tui.is_asked
    return True


def _bind_ends(tui: TerminalUI, keys: KeyBindings) -> None:
    composer, line = tui.composer, tui.composer.line
    quitting = DoublePress(tui, "press ctrl+c again to quit")
    in_empty_line = Condition(lambda: not line.text)

    @keys.add("escape", filter=emacs_mode | vi_navigation_mode | (vi_insert_mode & in_empty_line))
    def escape(event: KeyPressEvent) -> None:
        event.app.vi_state.input_mode = InputMode.NAVIGATION
        composer.soon(composer.rewind.escape())

    @keys.add("c-c", eager=True)
    @keys.add(Keys.SIGINT, eager=True)
    def interrupt(event: KeyPressEvent) -> None:
        """Clears the line, closes a panel or stops shell commands; twice in a row it quits."""
        if quitting.is_second:
            tui.quit()
            return
        is_open = tui.panels.takes("esc") and not tui.is_asked
        is_for_line = not is_open or not tui.panels.takes_text
        if is_open:
            tui.panels.key("esc")
        elif not line.text and composer.shell:
            composer.soon(composer.shell.stop())
        cleared = line.take().text if is_for_line else ""
        quitting.first()
        composer.soon(undo_rewind(cleared))

    async def undo_rewind(cleared: str) -> None:
        if message := await composer.rewind.undo(cleared):
            quitting.first(message)

    # Not on the alternate screen: the output of the shell would vanish with it.
    is_main_screen = Condition(lambda: not tui.panels.is_tall)
    _bind(
        keys, "c-z", lambda: composer.soon(tui.front_end.stop_for_shell()), filter=is_main_screen, eager=True
    )
    _bind(keys, "c-d", tui.quit, filter=in_empty_line)


class KeyChords(ModalPanel[None]):
    """What a letter after Ctrl+X does, with or without Ctrl."""

    takes_pastes = False

    def __init__(
        self, panels: Panels, renderer: ItemRenderer, chords: dict[str, tuple[str, Callable[[], None]]]
    ) -> None:
        self._chords = chords
        self._panels = panels
        self._renderer = renderer

    def open(self) -> None:
        self._panels.open(self)

    def rows(self, width: int, most: int) -> list[str]:
        legend = " · ".join(f"{letter} {about}" for letter, (about, _) in self._chords.items())
        return self._renderer.note(f"ctrl+x: {legend}", width)[:most]

    def key(self, key: str) -> None:
        self._panels.close(self)
        if chord := self._chords.get(key.removeprefix("ctrl+")):
            chord[1]()
