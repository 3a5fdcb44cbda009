"""The panel of a question: one frame, and a body for each kind of answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostler.app.question_queue import DECLINED, AnswerOption, answer_options, rules_text
from ostler.extensions.ui import types as ui
from ostler.schema.events import QuestionAsked
from ostler.schema.outcomes import Question
from ostler.schema.text import cells, cut, one_line, printable
from ostler.tui.extension_ui import MOST_ROWS
from ostler.tui.panels.question_forms import PENDING, FormBody, QuestionBody, TextBody
from ostler.tui.render.boxes import NARROW, framed, inside
from ostler.tui.render.items import ItemRenderer, on_background
from ostler.tui.render.markdown import markdown_rows
from ostler.tui.render.spans import (
    BOLD,
    DIM,
    REVERSE,
    Piece,
    after,
    cells_of,
    drawn,
    fitted,
    sgr,
    styled,
    tint,
    wrapped,
)

if TYPE_CHECKING:
    from ostler.tui.terminal_ui import TerminalUI

ContentRows = Callable[[str, str, ui.Rendering | None, int], list[str]]
MOVES = {"up": -1, "shift+tab": -1, "down": 1, "tab": 1}
DIALOG_MOVES = {**MOVES, "left": -1, "k": -1, "right": 1, "j": 1}
"""An extension's dialog takes every key, so letters may move there."""

_PAGES = {"pgup": -1, "ctrl+u": -1, "pgdown": 1, "ctrl+d": 1}
_ENDS = {"home": 0, "end": 10**9}
_USUAL_REASON = "need a person's consent"
_ABOUT = {"bash": "run this command", "write": "write ", "edit": "change "}
_LEAD = len("❯ 1. ")
_LEAST_ROWS = 3
"""Rows of what would run that stay visible beside the answers, where these take more than one row."""


class QuestionPanel:
    """Shows the present question of a queue, and answers it.

    A person who is typing when it appears goes on typing: no key answers before they pause. Once they begin
    with a letter that answers nothing, what they type goes into the input line until they send it, or
    an arrow key leads back to the question.
    """

    def __init__(self, tui: TerminalUI) -> None:
        self._tui = tui
        self._queue = tui.questions
        self._asked: QuestionAsked | None = None
        self._body: QuestionBody | None = None
        self._was_noticed = False
        self._is_typed_beside = False

    @property
    def _present(self) -> QuestionBody | None:
        if self._asked is not self._queue.present:
            self._asked = self._queue.present
            self._body = self._new_body(self._asked.question) if self._asked else None
            self._was_noticed = self._is_typed_beside = False
        return self._body

    def _new_body(self, question: Question) -> QuestionBody:
        dialog, cwd = ui.dialog_of(question.details), self._tui.conversation.harness.cwd
        if isinstance(dialog, ui.OverlayDialog):
            return OverlayBody(question, dialog, self._tui.rows, cwd, self._tui.extensions.content_rows)
        body: type[QuestionBody] = FormBody if question.kind == "form" else TextBody
        if isinstance(dialog, ui.MultiSelectDialog):
            body = ManyBody
        elif isinstance(dialog, ui.InputDialog):
            body = TextBody
        elif dialog or question.kind == "permission" or question.choices:
            body = ChoiceBody
        return body(question, dialog, self._tui.rows, cwd)

    # --- drawing ----------------------------------------------------------------------------------------

    @property
    def anchor(self) -> ui.Anchor:
        return body.anchor if isinstance(body := self._present, OverlayBody) else "center"

    def rows(self, width: int, most: int) -> list[str]:
        body, asked = self._present, self._asked
        if body is None or asked is None:
            return []
        if isinstance(body, OverlayBody):
            return body.window(width, most)
        height = max(2, most - (1 if width <= NARROW else 2))
        rows, about = body.rows(inside(width), height), (body.question.details or {}).get("extension", "")
        if not body.dialog:
            about = " · ".join(filter(None, (asked.asked_by, self._queue.asking_child(asked.id))))
        note = f"{self._queue.behind} more" if self._queue.behind else ""
        slot = "accent" if body.dialog else "warning"
        return framed(rows, width, body.colors, title="?", about=about, note=note, slot=slot)[:most]

    # --- keys -------------------------------------------------------------------------------------------

    @property
    def is_noticed(self) -> bool:
        if self._present is not None:
            self._was_noticed = self._was_noticed or not self._tui.composer.is_typing
        return self._was_noticed

    @property
    def _ready(self) -> QuestionBody | None:
        return self._present if self.is_noticed else None

    @property
    def _is_beside(self) -> bool:
        """Keys are for the input line, where a prompt is typed."""
        return self._is_typed_beside and bool(self._tui.composer.line.text)

    @property
    def takes_text(self) -> bool:
        return self._ready is not None and not self._is_beside

    @property
    def takes_pastes(self) -> bool:
        return self._present is not None and self._present.takes_pastes

    def takes(self, key: str) -> bool:
        body = self._present if key == "esc" else self._ready
        if body is None or (key == "enter" and self._is_beside):
            return False
        return key == "esc" or body.takes(key)

    def leaves(self, letter: str) -> bool:
        if self._present is None or not self._present.leaves(letter):
            return False
        self._is_typed_beside = True
        return True

    def key(self, key: str) -> None:
        if (body := self._present) is None:
            return
        self._is_typed_beside = False
        answer = body.escape() if key == "esc" else body.key(key)
        if answer is not PENDING:
            self._queue.answer(answer)


class ChoiceBody(QuestionBody):
    """One of several answers. What the question is about scrolls; the answers always stay in sight."""

    def __init__(self, question: Question, dialog: ui.Dialog | None, draw: ItemRenderer, cwd: Path) -> None:
        super().__init__(question, dialog, draw, cwd)
        self._options = answer_options(question)
        self._moves = DIALOG_MOVES if dialog else MOVES
        self._marked = 1 if isinstance(dialog, ui.ConfirmDialog) and not dialog.default else 0
        self._top = 0
        self._page = 1
        self._about: tuple[object, list[str]] = (None, [])

    # --- keys -------------------------------------------------------------------------------------------

    def takes(self, key: str) -> bool:
        return bool(self.dialog) or key == "enter" or any(key in one for one in (self._moves, _PAGES, _ENDS))

    def leaves(self, letter: str) -> bool:
        """All but a key of an answer. A space is ignored: nobody begins a prompt with it."""
        return not self.dialog and not letter.isspace() and self._option_of(letter) is None

    def _option_of(self, key: str) -> AnswerOption | None:
        return next((option for option in self._options if key in option.keys), None)

    def key(self, key: str) -> Any:
        if key == "enter":
            return self._options[self._marked].answer
        if key in self._moves:
            self._marked = (self._marked + self._moves[key]) % len(self._options)
        elif key in _PAGES:
            self._top += _PAGES[key] * self._page
        elif key in _ENDS:
            self._top = _ENDS[key]
        elif option := self._option_of(key):
            return option.answer
        return PENDING

    # --- drawing ----------------------------------------------------------------------------------------

    def rows(self, room: int, most: int) -> list[str]:
        """Where there is little room, each answer has one row."""
        legend = [self.dim(self.legend, room)] if self.dialog else []
        most = max(2, most - len(legend))
        heading = self._heading(room)
        # An answer may take two rows, less what a break at a space may cost.
        for answer_room, title in ((max(1, room - _LEAD) * 3 // 2, heading[:2]), (room - _LEAD, heading[:1])):
            options, marked = self._option_rows(room, answer_room)
            about = [*heading[len(title) :], *self._about_rows(room, answer_room)]
            left = most - len(title) - len(options)
            if left >= min(len(about), _LEAST_ROWS):
                break
        above = [*title, *self._window(about, left, room)]
        left = max(1, most - len(above))
        first = max(0, min(marked - left // 2, len(options) - left))
        return [*above, *options[first : first + left]][-most:] + legend

    def _heading(self, room: int) -> list[str]:
        tool = (self.question.details or {}).get("tool")
        if not tool:
            return fitted(markdown_rows(self.question.text, room, self.colors), room)
        text = f"May it use {tool}?"
        if tool in _ABOUT:
            text = f"May it {_ABOUT[tool]}{self.call.path}?"
        return fitted(map(drawn, wrapped([Piece(one_line(text), BOLD)], room)), room)

    def _about_rows(self, room: int, answer_room: int) -> list[str]:
        """What would run, why a person decides, and the rules that do not fit into the answers."""
        state = (room, answer_room, self.colors)
        if self._about[0] != state:
            rows = list(self.call.rows(room, self.colors))
            lines = [] if _USUAL_REASON in self.question.reason else [self.question.reason]
            style = sgr(self.colors, "muted") or DIM
            for line in filter(None, (*lines, *rules_text(self._options, answer_room))):
                rows += [drawn(row) for row in wrapped([Piece(printable(line), style)], room)]
            self._about = (state, fitted(rows, room))
        return self._about[1]

    def _window(self, rows: list[str], most: int, room: int) -> list[str]:
        """The rows that fit; the last row counts those out of sight."""
        most = max(2, most)
        self._page = max(1, most - 1)
        if len(rows) <= most:
            self._top = 0
            return rows
        self._top = max(0, min(self._top, len(rows) - self._page))
        above, below = self._top, len(rows) - self._top - self._page
        parts = [f"{above} more above, pgup"] if above else []
        parts += [f"{below} more below, pgdn"] if below else []
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


class ManyBody(QuestionBody):
    """Some of several."""

    def __init__(self, question: Question, dialog: ui.Dialog | None, draw: ItemRenderer, cwd: Path) -> None:
        super().__init__(question, dialog, draw, cwd)
        assert isinstance(dialog, ui.MultiSelectDialog)
        self._options = dialog.options
        self._selected = set(dialog.selected)
        self._marked = 0

    @property
    def legend(self) -> str:
        return f"space selects, a all, n none, {super().legend}"

    def fields(self, room: int, most: int) -> list[str]:
        first = max(0, min(self._marked - most // 2, len(self._options) - most))
        rows = []
        for place, option in list(enumerate(self._options))[first : first + most]:
            is_marked = place == self._marked
            mark = "x" if place in self._selected else " "
            text = f"{'❯' if is_marked else ' '} [{mark}] {one_line(option)}"
            style = sgr(self.colors, "accent", BOLD) if is_marked else ""
            rows.append(drawn([Piece(cut(text, room), style)]))
        return rows

    def key(self, key: str) -> Any:
        if key == "enter":
            selected = (text for place, text in enumerate(self._options) if place in self._selected)
            return list(dict.fromkeys(selected))
        if key in DIALOG_MOVES:
            self._marked = (self._marked + DIALOG_MOVES[key]) % len(self._options)
        elif key in (" ", "x"):
            self._selected ^= {self._marked}
        elif key == "a":
            self._selected = set(range(len(self._options)))
        elif key == "n":
            self._selected = set()
        return PENDING


class OverlayBody(QuestionBody):
    """An extension's window with actions: above all that still changes, above the input line, or below it."""

    dialog: ui.OverlayDialog

    def __init__(
        self,
        question: Question,
        dialog: ui.OverlayDialog,
        draw: ItemRenderer,
        cwd: Path,
        content: ContentRows,
    ) -> None:
        super().__init__(question, dialog, draw, cwd)
        self._options = answer_options(question)
        self._content = content
        self._marked = 0
        self._top = 0
        self._page = 1

    @property
    def anchor(self) -> ui.Anchor:
        return self.dialog.anchor

    def window(self, width: int, most: int) -> list[str]:
        """The whole window: it has a frame of its own."""
        dialog, colors = self.dialog, self.colors
        columns, height = ui.overlay_extent(dialog, width, most)
        is_bare = width <= NARROW
        inner = columns if is_bare else columns - 2
        rows = self._content(dialog.text, dialog.markdown, dialog.render, inner)
        edges = 1 if is_bare else 2
        actions = self._actions(inner, max(1, (height - edges) // 2))
        self._page = room = max(1, height - edges - len(actions))
        self._top = max(0, min(self._top, len(rows) - room))
        more = len(rows) - self._top - room
        note = f"{more} more rows" if more > 0 else ""
        rows = [*rows[self._top : self._top + room], *actions]
        has_colors = bool(colors and colors.name)
        edge = styled(dialog.style.border) if has_colors else ""
        window = framed(
            rows,
            columns,
            colors,
            title=dialog.title,
            note=note,
            slot="accent",
            edge_style=edge,
            is_bare=is_bare,
        )
        if has_colors and (background := tint(dialog.style.background, dialog.style.background, 1.0)):
            window = [on_background(row, background, columns) for row in window]
        margin = " " * ((width - columns) // 2)
        return [f"{margin}{row}" for row in window][:most]

    def _actions(self, width: int, most: int) -> list[str]:
        """Side by side, in as many rows as they need; where not all fit, those around the marked one."""
        accent = sgr(self.colors, "accent", REVERSE)
        rows: list[list[Piece]] = [[]]
        at_marked = 0
        for place, option in enumerate(self._options):
            is_marked = place == self._marked
            action = Piece(cut(f"[{one_line(option.label)}]", width), accent if is_marked else "")
            if rows[-1] and cells_of(rows[-1]) + 1 + cells(action.text) > width:
                rows.append([])
            rows[-1] += [Piece(" "), action] if rows[-1] else [action]
            at_marked = len(rows) - 1 if is_marked else at_marked
        first = max(0, min(at_marked - most // 2, len(rows) - most))
        return [drawn(row) for row in rows[first : first + most]]

    def escape(self) -> Any:
        """A window that is only read is closed, not declined."""
        return DECLINED if self.dialog.actions else self._options[0].answer

    def key(self, key: str) -> Any:
        match key:
            case "enter":
                return self._options[self._marked].answer
            case "left" | "shift+tab" | "right" | "tab":
                by = -1 if key in ("left", "shift+tab") else 1
                self._marked = (self._marked + by) % len(self._options)
            case "up" | "down":
                self._top += 1 if key == "down" else -1
            case "pgup" | "pgdown":
                self._top += self._page if key == "pgdown" else -self._page
            case "home" | "end":
                self._top = 0 if key == "home" else MOST_ROWS
        return PENDING
