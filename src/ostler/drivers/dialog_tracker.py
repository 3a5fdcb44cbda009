"""When an agent asks on its screen, and how a choice is made there: from the screen and the time alone.

An agent asks if it announces that, or if its screen stands still without an input box. A screen that shows
choices is enough; without any it has to stand still for longer, because some agents work silently.
"""

from __future__ import annotations

import re

from ostler.drivers.agent_spec import Timing
from ostler.drivers.announcements import Announced
from ostler.drivers.dialog import Dialog, Drawn, OpenDialog, is_border, read_dialog, unreadable_dialog
from ostler.drivers.driver import AnswerFailed
from ostler.drivers.input_box import has_known_box, remove_box
from ostler.drivers.screen import trim_blank_lines
from ostler.drivers.screen_text import is_ready, new_text
from ostler.schema.errors import UsageError

_ENTER = b"\r"
_ARROWS = {"list": (b"A", b"B"), "row": (b"D", b"C")}
_NEEDLE = 6
_GEMINI_RULE = re.compile("─{15,}")
"""Stands above its input box, with hints between them."""

GONE = "the dialog is no longer on the screen"
_NOT_SELECTED = "the choice could not be selected on the screen: answer it in the agent's terminal"
_STILL_OPEN = "the dialog is still open: answer it in the agent's terminal"


class DialogAnswer:
    """Makes one choice: moves the mark one step at a time, and presses Enter once the screen shows the choice
    marked. `look` gets the dialog on the screen and returns the keys to press.

    With the choice -1 the key that closes the dialog was pressed: only its effect is waited for.
    """

    def __init__(self, dialog: Dialog, choice: int, now: float, timing: Timing, cursor_keys: bool) -> None:
        self.wants = now
        self.ended = False
        self.problem = ""
        self.dialog = dialog
        self._choice = choice
        self._timing = timing
        self._prefix = b"\x1bO" if cursor_keys else b"\x1b["
        self._moves = 2 * len(dialog.choices)
        self._awaits: tuple[int, str] | None = None
        self._at: tuple[int, int] | None = None
        """What was marked, and where, when Enter was pressed."""
        self._entered = False
        self._deadline = now
        if choice < 0:
            self._press(now, b"", is_last=True)

    def look(self, now: float, shown: Dialog | None) -> bytes:
        if shown is None or not shown.is_same(self.dialog):
            return self._end("" if self._entered else GONE)
        if self._entered:
            is_next = self._at is not None and self._at != (
                shown.marked,
                shown.row,
            )  # the same is asked again
            return self._end("" if is_next else _STILL_OPEN) if is_next or now >= self._deadline else b""
        if self._is_selected(shown):
            self._at = (shown.marked, shown.row)
            return self._press(now, _ENTER, is_last=True)
        if self._awaits == (shown.marked, shown.typed):  # the last key has no effect yet
            return self._end(_NOT_SELECTED) if now >= self._deadline else b""
        if self._moves <= 0:
            return self._end(_NOT_SELECTED)
        self._moves -= 1
        self._awaits = (shown.marked, shown.typed)
        return self._next_key(now, shown)

    def _is_selected(self, shown: Dialog) -> bool:
        if shown.kind == "typed":
            return shown.typed.lower() == shown.choices[self._choice].key
        return shown.marked == self._choice

    def _next_key(self, now: float, shown: Dialog) -> bytes:
        key = shown.choices[self._choice].key
        if shown.kind == "typed":
            return self._end(_NOT_SELECTED) if shown.typed else self._press(now, key.encode())
        if shown.marked < 0:
            return self._end(_NOT_SELECTED)
        back, forth = _ARROWS[shown.kind]
        return self._press(now, self._prefix + (forth if shown.marked < self._choice else back))

    def _press(self, now: float, keys: bytes, *, is_last: bool = False) -> bytes:
        self._entered = is_last
        self._deadline = now + (self._timing.dialog_closes if is_last else self._timing.dialog_key)
        self.wants = self._deadline
        return keys

    def _end(self, problem: str) -> bytes:
        self.ended, self.problem = True, problem
        return b""


class DialogTracker:
    """The dialog on one agent's screen. The tracker of the agent gives it each screen that it reads."""

    def __init__(self, agent_type: str, timing: Timing, box: re.Pattern[str] | None) -> None:
        """`box`: a pattern that a person named for the agent's input box."""
        self.announced: Announced = ""
        self.open: OpenDialog | None = None
        self.answer: DialogAnswer | None = None
        self.is_missing_box = False
        """The screen stands still without the input box that it should have."""
        self._agent_type = agent_type
        self._timing = timing
        self._box = box
        self._has_shown_box = False
        self._number = 0

    @property
    def keeps_waiting(self) -> bool:
        """Whether a message would not reach an input box."""
        is_asking = self.open is not None or self.announced == "asking"
        return is_asking or self.answer is not None or self.is_missing_box

    def choose(self, now: float, number: int, choice: int, cursor_keys: bool) -> None:
        """Begins to make a choice. Raises `UsageError` if that dialog is not open."""
        if self.open is None or self.open.number != number:
            raise UsageError(GONE)
        self.answer = DialogAnswer(self.open.dialog, choice, now, self._timing, cursor_keys)
        self.open = None

    def look(
        self, now: float, screen: str, drawn: Drawn | None, *, since: float, is_still: bool, is_ready: bool
    ) -> tuple[bytes, AnswerFailed | None]:
        """Reads the screen, which is unchanged since then; returns keys, and why an answer failed."""
        failure = None
        if self.answer is not None:
            keys = self.answer.look(now, self._shown(self.answer.dialog, screen, drawn))
            if not self.answer.ended:
                return keys, None
            failure = AnswerFailed(self.answer.problem) if self.answer.problem else None
            self.answer = None
        if self.open is not None and not self._is_still_open(self.open, screen, drawn):
            self.open = None
        is_announced = self.announced == "asking" and now >= since + self._timing.announced_dialog
        if not (is_still or is_announced):
            self.is_missing_box = False
            return b"", failure
        shows_box = self._shows_box(screen)
        self._has_shown_box = self._has_shown_box or shows_box
        self.is_missing_box = is_ready and not shows_box and self._expects_box and bool(screen.strip())
        if self.open is None and (is_announced or not shows_box):
            is_long = now >= since + self._timing.unreadable_dialog
            self._find(screen, drawn, is_long=is_long, is_expected=is_announced or self.is_missing_box)
        return b"", failure

    def wants_look_at(self, since: float, last_look: float) -> list[float]:
        """When to look at a screen that is unchanged since then."""
        if self.answer is not None:
            return [self.answer.wants]
        if self.open is not None or not (self.announced == "asking" or self.is_missing_box):
            return []
        times = (since + self._timing.announced_dialog, since + self._timing.unreadable_dialog)
        return [time for time in times if time > last_look]

    def refuses_text(self, screen: str) -> bool:
        """Whether text typed on this screen would not go into an input box. Read right before it is typed."""
        if self.keeps_waiting:
            return True
        return not self._shows_box(screen) and (self._expects_box or self._read(screen) is not None)

    def refuses_enter(self, screen: str, before: str, text: str) -> bool:
        """Whether Enter would answer a dialog, instead of sending the text that was typed since `before`."""
        if self.announced == "asking":
            return True
        if self._shows_box(screen):
            return False
        shown = _squeezed(new_text(before, screen, self._agent_type))
        typed = _squeezed(text)
        has_echo = typed[:_NEEDLE] in shown
        dialog = self._read(screen)
        if dialog is not None and not all(_squeezed(choice.label) in typed for choice in dialog.choices):
            return not (has_echo and text.startswith(("/", "@")))  # which lists what it can complete
        return self._expects_box and screen != before and not has_echo

    @property
    def _expects_box(self) -> bool:
        if self._agent_type == "custom":  # where a pattern is named, its prompt may look otherwise
            return self._has_shown_box and self._box is None
        return has_known_box(self._agent_type)

    def _shows_box(self, screen: str) -> bool:
        if self._box is not None and self._agent_type != "custom" and self._box.search(screen):
            return self._read(screen) is None
        if not is_ready(self._agent_type, screen) or not has_known_box(self._agent_type):
            return False
        text = trim_blank_lines(screen)
        dialog = self._read(text)
        if dialog is None:
            return True
        if dialog.kind == "typed":
            return self._agent_type != "amazonq"  # its prompt stands below its questions
        above = remove_box(self._agent_type, text).count("\n")
        rows = [row for row in text.split("\n")[above : dialog.row] if is_border(row)]
        if self._agent_type == "gemini":
            rows = [row for row in rows if not _GEMINI_RULE.fullmatch(row.strip())]
        return dialog.kind != "list" or len(rows) <= 1  # a draft is below one border, choices below a frame

    def _find(self, screen: str, drawn: Drawn | None, *, is_long: bool, is_expected: bool) -> None:
        dialog = self._read(screen, drawn) if is_long or self.announced != "working" else None
        if dialog is None and is_long and is_expected and self.announced != "working":
            dialog = unreadable_dialog(screen)
        if dialog is not None:
            self._number += 1
            self.open = OpenDialog(self._number, dialog)

    def _is_still_open(self, one: OpenDialog, screen: str, drawn: Drawn | None) -> bool:
        has_no_box = self.announced == "asking" or not self._shows_box(screen)
        return has_no_box and one.dialog.is_same(self._shown(one.dialog, screen, drawn))

    def _shown(self, dialog: Dialog, screen: str, drawn: Drawn | None) -> Dialog | None:
        return unreadable_dialog(screen) if dialog.kind == "keys" else self._read(screen, drawn)

    def _read(self, screen: str, drawn: Drawn | None = None) -> Dialog | None:
        return read_dialog(self._agent_type, screen, drawn)


def _squeezed(text: str) -> str:
    return "".join(text.split())
