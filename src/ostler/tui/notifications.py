"""Notifies a person who looks elsewhere: by a notification or the bell, and in the terminal's title.

Some terminals show the text of OSC 9 or OSC 777, the others ring. In tmux and screen only the bell reaches
the outer terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.keys import Keys

from ostler.schema import events
from ostler.schema.text import one_line

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

Notify = Literal["auto", "bell", "off"]
LONG_RUN = 10.0
"""Seconds of a run after which we notify if the terminal does not report its focus."""

_SAVE_TITLE, _RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_WATCH_FOCUS, _UNWATCH_FOCUS = "\x1b[?1004h", "\x1b[?1004l"
_BELL = "\x07"
_FOCUS_IN, _FOCUS_OUT = Keys.F23, Keys.F24
"""Keys for the focus reports, which prompt_toolkit lacks; no keyboard has these."""

_WITH_OSC_9 = {"iTerm.app", "WezTerm", "ghostty"}
_WITH_OSC_777 = ("foot", "rxvt-unicode")
_WITHOUT_TITLE = ("dumb", "linux", "eterm")


class Notifier:
    """Writes notifications and the title, which do not move the cursor."""

    def __init__(
        self, write: Callable[[str], None], project: str, environment: Mapping[str, str], notify: Notify
    ) -> None:
        self._write = write
        self._project = one_line(project)
        self._notification = _notification_format(environment, notify)
        self._has_title = not environment.get("TERM", "").startswith(_WITHOUT_TITLE)
        self._title = ""
        self.is_focused: bool | None = None
        """Whether the terminal has the focus; None if it does not report it."""

    def begin(self) -> None:
        if self._has_title:
            self._write(_SAVE_TITLE + _WATCH_FOCUS)
        self.set_title("")

    def end(self) -> None:
        if self._has_title:  # an empty one for terminals that keep no titles: the shell sets its own
            self._write(f"\x1b]2;{_BELL}{_RESTORE_TITLE}{_UNWATCH_FOCUS}")

    @contextmanager
    def without_focus_reports(self) -> Iterator[None]:
        """Turns focus reports off while another program has the terminal, which would read them as keys."""
        if not self._has_title:
            yield
            return
        self._write(_UNWATCH_FOCUS)
        try:
            yield
        finally:
            self._write(_WATCH_FOCUS)

    def set_title(self, state: str) -> None:
        """Sets the title, such as `my-project: needs you`."""
        title = f"{self._project}: {one_line(state)}" if state else self._project
        if self._has_title and title != self._title:
            self._title = title
            self._write(f"\x1b]2;{title[:120]}{_BELL}")

    def notify(self, text: str, seconds: float, *, is_needed: bool = False) -> None:
        """Notifies a person who may look elsewhere."""
        is_away = not self.is_focused if self.is_focused is not None else is_needed or seconds >= LONG_RUN
        if is_away and self._notification is not None:
            self._write(self._notification(one_line(f"{self._project}: {text}")[:200]))

    def take(self, event: object, seconds: float) -> None:
        """Takes an event, and the seconds since the run started."""
        match event:
            case events.RunStarted() | events.RunResumed() | events.QuestionAnswered():
                self.set_title("working")
            case events.QuestionAsked(question=question):
                self.set_title("needs you")
                self.notify(f"needs you: {question.text}", seconds, is_needed=True)
            case events.RunWaiting():
                self.set_title("waiting")
            case events.RunEnded(status=status):
                self.set_title("")
                if status != "cancelled":
                    self.notify(status, seconds)

    def bind(self, keys: KeyBindings) -> None:
        """Binds the focus reports of the terminal."""
        ANSI_SEQUENCES["\x1b[I"], ANSI_SEQUENCES["\x1b[O"] = _FOCUS_IN, _FOCUS_OUT

        @keys.add(_FOCUS_IN, eager=True)
        @keys.add(_FOCUS_OUT, eager=True)
        def focus(event: KeyPressEvent) -> None:
            self.is_focused = event.key_sequence[0].key == _FOCUS_IN


def _notification_format(environment: Mapping[str, str], notify: Notify) -> Callable[[str], str] | None:
    if notify == "off":
        return None
    terminal = environment.get("TERM", "")
    is_inside = "TMUX" in environment or terminal.startswith(("screen", "tmux"))
    if notify == "auto" and not is_inside:
        if environment.get("TERM_PROGRAM") in _WITH_OSC_9 or terminal.startswith("xterm-kitty"):
            return lambda text: f"\x1b]9;{text}{_BELL}"
        if terminal.startswith(_WITH_OSC_777):
            return lambda text: f"\x1b]777;notify;{text.replace(';', ',')};{_BELL}"
    return lambda text: _BELL
