"""The panel for a permission or a choice: what it is about, all of it, and what can be answered."""

from __future__ import annotations

from ostler.faces.tui.asking.asked import Asked, room_inside
from ostler.faces.tui.asking.planned_call import PlannedCall
from ostler.faces.tui.asking.rule_words import rules_in_words, scope_in_words
from ostler.faces.tui.drawing.boxes import inside
from ostler.faces.tui.drawing.markdown import markdown_rows
from ostler.faces.tui.drawing.pieces import (
    BOLD,
    DIM,
    Piece,
    after,
    cells,
    cut,
    drawn,
    harmless,
    one_line,
    sgr,
    wrapped,
)
from ostler.faces.tui.drawing.wide_rows import fitted

MOVES = {"up": -1, "shift+tab": -1, "down": 1, "tab": 1}
_PAGES = {"pgup": -1, "ctrl+u": -1, "pgdown": 1, "ctrl+d": 1}
_ENDS = {"home": 0, "end": 10**9}
_USUAL_REASON = "need a person's consent"
_ABOUT = {"bash": "run this command", "write": "write ", "edit": "change "}
_LEAD = len("❯ 1. ")
_LEAST_SEEN = 3
"""Rows of what would run that are seen beside the answers, where these take more than a row."""


class QuestionPanel:
    """For one question. A letter or a number answers at once."""

    takes_text = True

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._questions = asked.questions
        self._planned = PlannedCall(asked.details, asked.cwd)
        self._top = 0
        self._page = 1
        self._drawn: tuple[object, list[str]] = (None, [])

    # --- what is seen ---------------------------------------------------------------------------------

    def rows(self, width: int, most: int) -> list[str]:
        """Where there is little room, each answer has one row: what it is about scrolls, answers do not."""
        room, height = inside(width), room_inside(width, most)
        heading = self._heading(room)
        for answer_room, asked in ((_two_rows(room), heading[:2]), (room - _LEAD, heading[:1])):
            options, marked = self._options(room, answer_room)
            body = [*heading[len(asked) :], *self._body(room, answer_room)]
            left = height - len(asked) - len(options)
            if left >= min(len(body), _LEAST_SEEN):
                break
        seen = [*asked, *self._window(body, left, room)]
        left = max(1, height - len(seen))
        first = max(0, min(marked - left // 2, len(options) - left))
        return self._asked.framed([*seen, *options[first : first + left]][-height:], width)

    def _heading(self, room: int) -> list[str]:
        tool = self._asked.details.get("tool")
        if not tool:
            return fitted(markdown_rows(self._asked.question.text, room, self._asked.colors), room)
        said = f"May it use {tool}?"
        if tool in _ABOUT:
            said = f"May it {_ABOUT[tool]}{self._planned.path}?"
        return fitted(map(drawn, wrapped([Piece(one_line(said), BOLD)], room)), room)

    def _body(self, room: int, answer_room: int) -> list[str]:
        """What would run, why it is asked about, and what does not fit into the answers."""
        drawn_for = (room, answer_room, self._asked.colors)
        if self._drawn[0] != drawn_for:
            self._drawn = (drawn_for, self._draw_body(room, answer_room))
        return self._drawn[1]

    def _draw_body(self, room: int, answer_room: int) -> list[str]:
        colors, reason = self._asked.colors, self._asked.question.reason
        rows = list(self._planned.rows(room, colors))
        said = [] if _USUAL_REASON in reason else [reason]
        said += rules_in_words(self._remember(), answer_room)
        style = sgr(colors, "muted") or DIM
        for line in filter(None, said):
            rows += [drawn(row) for row in wrapped([Piece(harmless(line), style)], room)]
        return fitted(rows, room)

    def _window(self, rows: list[str], most: int, room: int) -> list[str]:
        """As many as there is room for; the last one says how many are not seen."""
        most = max(2, most)
        self._page = max(1, most - 1)
        if len(rows) <= most:
            self._top = 0
            return rows
        self._top = max(0, min(self._top, len(rows) - self._page))
        above, below = self._top, len(rows) - self._top - self._page
        parts = [f"{above} more above, pgup"] if above else []
        parts += [f"{below} more below, pgdn"] if below else []
        said = cut(f"… {' · '.join(parts)}", room)
        more = drawn([Piece(said, sgr(self._asked.colors, "warning", BOLD))])
        return [*rows[self._top : self._top + self._page], more]

    def _options(self, room: int, answer_room: int) -> tuple[list[str], int]:
        """Rows, and the one that the marked answer begins at."""
        rows: list[str] = []
        marked = 0
        remember = self._remember()
        for place, (answer, said) in enumerate(self._questions.options):
            is_marked = place == self._questions.marked
            marked = len(rows) if is_marked else marked
            style = sgr(self._asked.colors, "accent", BOLD) if is_marked else ""
            text = scope_in_words(answer, remember[answer], answer_room) if answer in remember else said
            if answer_room < room and cells(text) > answer_room:
                text = cut(text.partition(": ")[0] if answer in remember else text, answer_room)
            lead = f"{'❯' if is_marked else ' '} {place + 1}. "
            lines = wrapped([Piece(one_line(text), style)], max(1, room - _LEAD))
            rows += fitted(map(drawn, after([Piece(lead, style)], lines, [Piece(" " * _LEAD)])), room)
        return rows, marked

    def _remember(self) -> dict[str, list[str]]:
        found = self._asked.details.get("remember")
        is_offered = isinstance(found, dict) and self._asked.question.kind == "permission"
        return {scope: rules for scope, rules in found.items() if rules} if is_offered and found else {}

    # --- what a person does ---------------------------------------------------------------------------

    def takes(self, key: str) -> bool:
        return key in ("esc", "enter") or key in MOVES or key in _PAGES or key in _ENDS

    def leaves(self, letter: str) -> bool:
        """All but a blank, pressed in vain, and what answers."""
        return not letter.isspace() and self._answer(letter) is None

    def _answer(self, letter: str) -> int | None:
        answers = [answer for answer, _ in self._questions.options]
        if letter in "123456789" and int(letter) <= len(answers):
            return int(letter) - 1
        return "yn".index(letter) if answers[:2] == ["yes", "no"] and letter in ("y", "n") else None

    def key(self, key: str) -> None:
        questions = self._questions
        if key == "esc":
            questions.decline()
        elif key == "enter":
            questions.choose()
        elif key in MOVES:
            questions.move(MOVES[key])
        elif key in _PAGES:
            self._top += _PAGES[key] * self._page
        elif key in _ENDS:
            self._top = _ENDS[key]
        elif (answer := self._answer(key)) is not None:
            questions.choose(answer)


def _two_rows(room: int) -> int:
    """Cells that an answer may take, less what breaking it at a blank may cost."""
    return max(1, room - _LEAD) * 3 // 2
