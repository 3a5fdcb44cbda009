"""What a question's panel shows when one of several answers is chosen: in one step, or in two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ostler.app.question_queue import (
    DECLINED,
    REMEMBER,
    AnswerOption,
    Declined,
    answer_options,
    answer_steps,
    rules_text,
)
from ostler.extensions.ui import types as ui
from ostler.schema.outcomes import Question
from ostler.schema.text import cells, cut, one_line, plural, printable
from ostler.tui.panels.call_details import DrawnCall
from ostler.tui.panels.question_forms import PENDING, QuestionBody, TextField
from ostler.tui.render.items import ItemRenderer
from ostler.tui.render.markdown import markdown_rows
from ostler.tui.render.spans import BOLD, DIM, Piece, after, drawn, fitted, sgr, wrapped

MOVES = {"up": -1, "down": 1}
DIALOG_MOVES = {**MOVES, "shift+tab": -1, "tab": 1, "left": -1, "k": -1, "right": 1, "j": 1}
"""An extension's dialog takes every key, so letters may move there."""

_PAGES = {"pgup": -1, "ctrl+u": -1, "pgdown": 1, "ctrl+d": 1}
_ENDS = {"home": 0, "end": 10**9}
_EDITS = frozenset({"enter", "left", "right", "backspace"})
_REASON_EDITS = frozenset({"delete", "ctrl+a", "ctrl+e", "ctrl+k", "ctrl+w"})
_USUAL_REASON = "need a person's consent"
_ABOUT = {"bash": "run this command", "write": "write ", "edit": "change "}
_LEAD = len("❯ 1. ")
_LEAST_ROWS = 3
"""Rows of what would run that stay visible beside the answers, where these take more than one row."""


class ChoiceBody(QuestionBody):
    """One of several answers. What the question is about scrolls; the answers always stay in sight."""

    _options: tuple[AnswerOption, ...] = ()
    _marked: int | None = None

    def __init__(
        self, question: Question, dialog: ui.Dialog | None, draw: ItemRenderer, cwd: Path | None
    ) -> None:
        super().__init__(question, dialog, draw, cwd)
        self._top = -1
        """The first visible row; -1 before it is drawn, then it begins at the first change."""
        self._page = 1
        self._about: tuple[object, DrawnCall] = (None, DrawnCall([]))

    def _option_of(self, key: str) -> int | None:
        return next((place for place, option in enumerate(self._options) if key in option.keys), None)

    def _move(self, by: int) -> None:
        if self._marked is None:
            self._marked = 0 if by > 0 else len(self._options) - 1
        else:
            self._marked = (self._marked + by) % len(self._options)

    def _scroll(self, key: str) -> bool:
        """Whether the key scrolls what the question is about."""
        if key in _PAGES:
            self._top += _PAGES[key] * self._page
        elif key in _ENDS:
            self._top = _ENDS[key]
        else:
            return False
        self._top = max(0, self._top)
        return True

    # --- drawing ----------------------------------------------------------------------------------------

    def _below(self, room: int) -> list[str]:
        """Rows below the answers."""
        return [self.legend_row(room)]

    def rows(self, room: int, most: int) -> list[str]:
        """Where there is little room, each answer has one row."""
        below = self._below(room)
        most = max(2, most - len(below))
        heading = self._heading(room)
        # An answer may take two rows, less what a break at a space may cost.
        for answer_room, title in ((max(1, room - _LEAD) * 3 // 2, heading[:2]), (room - _LEAD, heading[:1])):
            options, marked = self._option_rows(room, answer_room)
            about = self._about_rows(heading[len(title) :], room, answer_room)
            left = most - len(title) - len(options)
            if left >= min(len(about.rows), _LEAST_ROWS):
                break
        above = [*title, *self._window(about, left, room)]
        left = max(1, most - len(above))
        first = max(0, min(marked - left // 2, len(options) - left))
        return [*above, *options[first : first + left]][-most:] + below

    def _heading(self, room: int) -> list[str]:
        tool = (self.question.details or {}).get("tool")
        if not tool:
            return fitted(markdown_rows(self.question.text, room, self.colors), room)
        text = f"May it use {tool}?"
        if tool in _ABOUT:
            text = f"May it {_ABOUT[tool]}{self.call.path}?"
        note = [Piece(f" {self.call.note}", sgr(self.colors, "muted") or DIM)] if self.call.note else []
        return fitted(map(drawn, wrapped([Piece(one_line(text), BOLD), *note], room)), room)

    def _about_rows(self, heading: list[str], room: int, answer_room: int) -> DrawnCall:
        """Why a person decides, what would run, and the rules that do not fit into the answers."""
        state = (room, answer_room, self.colors, self._options)
        if self._about[0] != state:
            reason = "" if _USUAL_REASON in self.question.reason else self.question.reason
            above = [*heading, *self._note_rows([reason], room)]
            call = self.call.drawn(room, self.colors)
            rows = [*above, *call.rows, *self._note_rows(rules_text(self._options, answer_room), room)]
            by = len(above)
            changes = tuple(range(one.start + by, one.stop + by) for one in call.changes)
            self._about = (state, DrawnCall(fitted(rows, room), changes))
        return self._about[1]

    def _note_rows(self, lines: list[str], room: int) -> list[str]:
        style = sgr(self.colors, "muted") or DIM
        pieces = ([Piece(printable(line), style)] for line in lines if line)
        return [drawn(row) for one in pieces for row in wrapped(one, room)]

    def _window(self, about: DrawnCall, most: int, room: int) -> list[str]:
        """The rows that fit; the last row counts those out of sight, and the hunks below."""
        rows, most = about.rows, max(2, most)
        self._page = max(1, most - 1)
        if len(rows) <= most:
            self._top = 0
            return rows
        if self._top < 0 and about.changes:
            # The whole first hunk if it fits, with as much as fits of what stands above it.
            first = about.changes[0]
            self._top = min(first.start, max(0, first.stop - self._page))
        self._top = max(0, min(self._top, len(rows) - self._page))
        above, below = self._top, len(rows) - self._top - self._page
        hunks = sum(one.start >= self._top + self._page for one in about.changes)
        parts = [f"{above} more above, pgup"] if above else []
        more_hunks = f"{plural(hunks, 'more hunk')}, " if hunks else ""
        parts += [f"{more_hunks}{below} more below, pgdn"] if below else []
        text = cut(f"… {' · '.join(parts)}", room)
        more = drawn([Piece(text, sgr(self.colors, "warning", BOLD))])
        return [*rows[self._top : self._top + self._page], more]

    def _option_rows(self, room: int, answer_room: int) -> tuple[list[str], int]:
        """Rows of the answers, and the first row of the marked one."""
        rows: list[str] = []
        marked = 0
        for place, option in enumerate(self._options):
            is_marked = place == self._marked
            marked = len(rows) if is_marked else marked
            style = sgr(self.colors, "accent", BOLD) if is_marked else ""
            text = option.label_in(answer_room)
            if answer_room < room and cells(text) > answer_room:
                text = cut(text.partition(": ")[0] if option.rules else text, answer_room)
            lead = f"{'❯' if is_marked else ' '} {place + 1}. "
            lines = wrapped([Piece(one_line(text), style)], max(1, room - _LEAD))
            rows += fitted(map(drawn, after([Piece(lead, style)], lines, [Piece(" " * _LEAD)])), room)
        return rows, marked


class DialogBody(ChoiceBody):
    """A dialog of an extension: one answer is marked at first, and a number or letter chooses at once."""

    def __init__(
        self, question: Question, dialog: ui.Dialog | None, draw: ItemRenderer, cwd: Path | None
    ) -> None:
        super().__init__(question, dialog, draw, cwd)
        self._options = tuple(answer_options(question))
        self._marked = 1 if isinstance(dialog, ui.ConfirmDialog) and not dialog.default else 0

    def key(self, key: str) -> Any:
        if key == "enter":
            return self._options[self._marked or 0].answer
        if key in DIALOG_MOVES:
            self._move(DIALOG_MOVES[key])
        elif not self._scroll(key) and (place := self._option_of(key)) is not None:
            return self._options[place].answer
        return PENDING


class ConsentBody(ChoiceBody):
    """A question that is answered in two steps: a key selects an answer, then Enter gives it.

    - Nothing is selected at first, so Enter alone answers nothing.
    - Answers that hold for longer than this once are in a second list.
    - If a letter follows a letter or number, all that was typed is the reason of a refusal.
    """

    def __init__(
        self, question: Question, dialog: ui.Dialog | None, draw: ItemRenderer, cwd: Path | None
    ) -> None:
        super().__init__(question, dialog, draw, cwd)
        self._steps = answer_steps(question)
        self._options = self._steps.first
        self._typed = TextField()
        self._is_reason = False
        self._is_leaving = False
        """Escape was pressed once, and there is no "no" to select."""

    @property
    def takes_pastes(self) -> bool:  # type: ignore[override]
        """Into a reason; a paste never selects an answer."""
        return self._is_reason

    def takes(self, key: str) -> bool:
        return any(key in keys for keys in (MOVES, _PAGES, _ENDS, _EDITS)) or (
            self._is_reason and key in _REASON_EDITS
        )

    # --- keys -------------------------------------------------------------------------------------------

    def key(self, key: str) -> Any:
        if key == "enter":
            return self._enter()
        self._is_leaving = False
        if key in _PAGES and not (self._is_reason and key == "ctrl+u"):
            self._scroll(key)
        elif len(key) == 1 and key.isprintable():
            self._type(key)
        elif self._is_reason:
            self._typed.key(key)
            if not self._typed.text:
                self._select(None)
        elif key in MOVES:
            self._select(self._marked)
            self._move(MOVES[key])
        elif key == "right" and self._selected == REMEMBER:
            self._open(self._steps.remembered)
        elif key in ("left", "backspace"):
            is_selected = self._marked is not None
            self._select(None) if is_selected else self._open(self._steps.first)
        else:
            self._scroll(key)
        return PENDING

    def escape(self) -> Any:
        """Goes back; from the first list it selects "no", and a second time it declines."""
        if self._is_reason:
            self._select(None)
        elif self._options is not self._steps.first:
            self._open(self._steps.first)
        elif self._is_leaving or self._selected == "no":
            return DECLINED
        else:
            self._select(next((place for place, one in enumerate(self._options) if one.answer == "no"), None))
            self._is_leaving = True
        return PENDING

    def leave(self) -> None:
        """What was selected must not wait for an Enter that is meant for something else."""
        if not self._is_reason:
            self._open(self._steps.first)

    @property
    def _selected(self) -> str:
        return self._options[self._marked].answer if self._marked is not None else ""

    def _open(self, options: tuple[AnswerOption, ...]) -> None:
        self._options = options
        self._select(None)

    def _select(self, place: int | None) -> None:
        self._marked = place
        self._typed, self._is_reason, self._is_leaving = TextField(), False, False

    def _type(self, letter: str) -> None:
        place = self._option_of(letter) if not self._typed.text else None
        self._typed.key(letter)
        self._marked, self._is_reason = place, place is None

    def _enter(self) -> Any:
        if self._is_reason:
            reason = self._typed.text.strip()
            return Declined(reason) if reason else PENDING
        if self._marked is None:
            return DECLINED if self._is_leaving else PENDING
        if self._selected == REMEMBER:
            self._open(self._steps.remembered)
            return PENDING
        return self._selected

    # --- drawing ----------------------------------------------------------------------------------------

    @property
    def legend(self) -> str:
        if self._is_reason:
            return "enter declines, with this as the reason · esc clears it"
        if self._is_leaving:
            return "enter or esc declines"
        if self._selected == REMEMBER:
            return "enter opens the list of what to remember"
        if self._marked is not None:
            more = " · another letter makes it a reason" if self._typed.text else ""
            return f"enter answers: {self._options[self._marked].label.partition(':')[0]}{more}"
        letters = " ".join(key for one in self._options for key in one.keys if not key.isdecimal())
        numbers = f"1-{min(9, len(self._options))}"
        back = "esc goes back" if self._options is not self._steps.first else "text is a reason to decline"
        return f"{' '.join(filter(None, (letters, numbers)))} or ↑↓ selects, then enter · {back}"

    def _below(self, room: int) -> list[str]:
        if not self._is_reason:
            return super()._below(room)
        field = drawn([Piece("› "), *self._typed.row(room - 2, self.colors)])
        return [field, *super()._below(room)]
