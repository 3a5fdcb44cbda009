"""Which panel a question gets."""
# MERGED: The panel for a permission or a choice: what it is about, all of it, and what can be answered.
# MERGED: Overlays of extensions: windows with actions.
# MERGED: Dialogs of extensions: panels of their own for what they ask.

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ostler.app.question_queue import QuestionQueue, rules_text, scope_text
from ostler.core.lazy import lazy_module
from ostler.extensions.ui.types import (
    Anchor,
    ConfirmDialog,
    InputDialog,
    MultiSelectDialog,
    OverlayDialog,
    Rendering,
    SelectDialog,
    dialog_of,
    overlay_extent,
)
from ostler.schema.events import QuestionAsked
from ostler.schema.text import cells, cut, one_line, printable
from ostler.tui.extension_ui import MOST_ROWS
from ostler.tui.panels.panel import IgnoresLetters, Panel
from ostler.tui.panels.question_forms import Asked, FormPanel, TextField, TextPanel, room_inside
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
    from ostler.tui.panels import call_details
else:
    call_details = lazy_module("ostler.tui.panels.call_details")

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
        self._planned = call_details.CallDetails(asked.details, asked.cwd)
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
        said += rules_text(self._remember(), answer_room)
        style = sgr(colors, "muted") or DIM
        for line in filter(None, said):
            rows += [drawn(row) for row in wrapped([Piece(printable(line), style)], room)]
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
            text = scope_text(answer, remember[answer], answer_room) if answer in remember else said
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


def panel_for(asked: Asked) -> Panel:
    question = asked.question
    if question.kind == "permission" or question.choices:
        return QuestionPanel(asked)
    return FormPanel(asked) if question.kind == "form" else TextPanel(asked)


ContentRows = Callable[[str, str, Rendering | None, int], list[str]]


class OverlayPanel:
    """A window with actions: over all that still changes, right above the line to type in, or below it."""

    takes_text = True

    def __init__(
        self, questions: QuestionQueue, dialog: OverlayDialog, draw: ItemRenderer, content: ContentRows
    ) -> None:
        self._questions = questions
        self._dialog = dialog
        self._draw = draw
        self._content = content
        self._top = 0
        self._page = 1

    @property
    def anchor(self) -> Anchor:
        return self._dialog.anchor

    def takes(self, key: str) -> bool:
        return True

    def rows(self, width: int, most: int) -> list[str]:
        dialog, colors = self._dialog, self._draw.colors
        columns, height = overlay_extent(dialog, width, most)
        is_bare = width <= NARROW
        inner = columns if is_bare else columns - 2
        rows = self._content(dialog.text, dialog.markdown, dialog.render, inner)
        edges = 1 if is_bare else 2
        actions = self._actions(inner, max(1, (height - edges) // 2))
        self._page = room = max(1, height - edges - len(actions))
        self._top = max(0, min(self._top, len(rows) - room))
        shown = [*rows[self._top : self._top + room], *actions]
        more = len(rows) - self._top - room
        has_colors = bool(colors and colors.name)
        made = framed(
            shown,
            columns,
            colors,
            title=dialog.title,
            note=f"{more} more rows" if more > 0 else "",
            slot="accent",
            edge_style=styled(dialog.style.border) if has_colors else "",
            is_bare=is_bare,
        )
        if has_colors and (background := tint(dialog.style.background, dialog.style.background, 1.0)):
            made = [on_background(row, background, columns) for row in made]
        margin = " " * ((width - columns) // 2)
        return [f"{margin}{row}" for row in made][:most]

    def _actions(self, width: int, most: int) -> list[str]:
        """Side by side, in as many rows as they need; where there is no room for all, around the marked."""
        accent = sgr(self._draw.colors, "accent", REVERSE)
        rows: list[list[Piece]] = [[]]
        at_marked = 0
        for place, (text, _) in enumerate(self._questions.options):
            is_marked = place == self._questions.marked
            action = Piece(cut(f"[{one_line(text)}]", width), accent if is_marked else "")
            if rows[-1] and cells_of(rows[-1]) + 1 + cells(action.text) > width:
                rows.append([])
            rows[-1] += [Piece(" "), action] if rows[-1] else [action]
            at_marked = len(rows) - 1 if is_marked else at_marked
        first = max(0, min(at_marked - most // 2, len(rows) - most))
        return [drawn(row) for row in rows[first : first + most]]

    def key(self, key: str) -> None:
        questions = self._questions
        match key:
            case "esc" if self._dialog.actions:
                questions.decline()
            case "esc":
                questions.choose(0)
            case "enter":
                questions.choose()
            case "left" | "shift+tab":
                questions.move(-1)
            case "right" | "tab":
                questions.move(1)
            case "up" | "down":
                self._top += 1 if key == "down" else -1
            case "pgup" | "pgdown":
                self._top += self._page if key == "pgdown" else -self._page
            case "home" | "end":
                self._top = 0 if key == "home" else MOST_ROWS


_BACK, _ON = ("up", "left", "k", "shift+tab"), ("down", "right", "j", "tab")

LIST_KEYS = {**dict.fromkeys(_BACK, -1), **dict.fromkeys(_ON, 1)}

_MOST_TEXT = 8


class AskedPanel:
    """Shows what is asked: a dialog in its own way, everything else in the panel that `other` makes for it.

    Whoever is typing when it comes goes on typing, in the line or in a panel: no key of theirs is an answer
    before they pause. Whoever begins with a letter that answers nothing writes until it is sent, or an arrow
    leads back.
    """

    def __init__(
        self,
        questions: QuestionQueue,
        other: Callable[[QuestionAsked], Panel],
        draw: ItemRenderer,
        content: ContentRows,
        is_typing: Callable[[], bool] = lambda: False,
        has_draft: Callable[[], bool] = lambda: False,
    ) -> None:
        self._questions = questions
        self._other = other
        self._draw = draw
        self._content = content
        self._is_typing = is_typing
        self._has_draft = has_draft
        self._asked: QuestionAsked | None = None
        self._panel: Panel | None = None
        self._was_noticed = False
        self._is_written_beside = False

    @property
    def _present(self) -> Panel | None:
        if self._asked is not self._questions.present:
            self._asked = self._questions.present
            self._panel = self._made(self._asked) if self._asked else None
            self._was_noticed = self._is_written_beside = False
        return self._panel

    @property
    def is_noticed(self) -> bool:
        if self._present is not None:
            self._was_noticed = self._was_noticed or not self._is_typing()
        return self._was_noticed

    @property
    def _ready(self) -> Panel | None:
        return self._present if self.is_noticed else None

    def _made(self, asked: QuestionAsked) -> Panel:
        questions, draw = self._questions, self._draw
        match dialog_of(asked.question.details):
            case SelectDialog():
                return ChoiceDialog(questions, asked, draw)
            case ConfirmDialog(default=default):
                questions.marked = 0 if default else 1
                return ChoiceDialog(questions, asked, draw)
            case InputDialog() as dialog:
                return TextDialog(questions, asked, draw, dialog)
            case MultiSelectDialog() as dialog:
                return ManyDialog(questions, asked, draw, dialog)
            case OverlayDialog() as dialog:
                return OverlayPanel(questions, dialog, draw, self._content)
        return self._other(asked)

    @property
    def anchor(self) -> Anchor:
        return panel.anchor if isinstance(panel := self._present, OverlayPanel) else "center"

    @property
    def takes_text(self) -> bool:
        return self._ready is not None and self._ready.takes_text and not self._is_beside

    @property
    def _is_beside(self) -> bool:
        return self._is_written_beside and self._has_draft()

    @property
    def takes_pastes(self) -> bool:
        return not self._questions.options

    def rows(self, width: int, most: int) -> list[str]:
        return self._present.rows(width, most) if self._present else []

    def takes(self, key: str) -> bool:
        panel = self._present if key == "esc" else self._ready
        return panel is not None and panel.takes(key) and not (key == "enter" and self._is_beside)

    def leaves(self, letter: str) -> bool:
        if not isinstance(self._present, IgnoresLetters) or not self._present.leaves(letter):
            return False
        self._is_written_beside = True
        return True

    def key(self, key: str) -> None:
        if self._present is not None:
            self._is_written_beside = False
            self._present.key(key)


class _Dialog:
    """A message in a frame, with something to do under it."""

    takes_text = True
    hint = "enter answers, esc cancels"

    def __init__(self, questions: QuestionQueue, asked: QuestionAsked, draw: ItemRenderer) -> None:
        self.questions = questions
        self.asked = asked
        self.draw = draw

    def takes(self, key: str) -> bool:
        return True

    def rows(self, width: int, most: int) -> list[str]:
        room = inside(width)
        message = fitted(markdown_rows(self.asked.question.text, room, self.draw.colors), room)[:_MOST_TEXT]
        left = max(1, most - len(message) - 3)
        rows = [*message, *self.below(room, left), self.dim(self.hint, room)]
        details = self.asked.question.details or {}
        behind = self.questions.behind
        return framed(
            rows,
            width,
            self.draw.colors,
            title="?",
            about=details.get("extension", ""),
            note=f"{behind} more" if behind else "",
            slot="accent",
        )[:most]

    def below(self, width: int, most: int) -> list[str]:
        raise NotImplementedError

    def dim(self, text: str, width: int) -> str:
        return drawn([Piece(cut(text, width), sgr(self.draw.colors, "muted") or DIM)])

    def listed(self, options: list[str], marked: int, width: int, most: int) -> list[str]:
        """As many as there is room for, the marked one among them."""
        first = max(0, min(marked - most // 2, len(options) - most))
        return [
            drawn(
                [
                    Piece(
                        cut(f"{'❯' if place == marked else ' '} {one_line(text)}", width),
                        sgr(self.draw.colors, "accent", BOLD) if place == marked else "",
                    )
                ]
            )
            for place, text in list(enumerate(options))[first : first + most]
        ]


class ChoiceDialog(_Dialog):
    """One of several."""

    def below(self, width: int, most: int) -> list[str]:
        options = [f"{place + 1}. {said}" for place, (_, said) in enumerate(self.questions.options)]
        return self.listed(options, self.questions.marked, width, most)

    def key(self, key: str) -> None:
        questions = self.questions
        answers = [answer for answer, _ in questions.options]
        if key == "esc":
            questions.decline()
        elif key == "enter":
            questions.choose()
        elif key in LIST_KEYS:
            questions.move(LIST_KEYS[key])
        elif key in "123456789" and int(key) <= len(answers):
            questions.choose(int(key) - 1)
        elif answers == ["yes", "no"] and key in ("y", "n"):
            questions.choose("yn".index(key))


class ManyDialog(_Dialog):
    """Some of several."""

    hint = "space marks, a all, n none, enter answers, esc cancels"

    def __init__(
        self, questions: QuestionQueue, asked: QuestionAsked, draw: ItemRenderer, dialog: MultiSelectDialog
    ) -> None:
        super().__init__(questions, asked, draw)
        self._options = dialog.options
        self._chosen = set(dialog.selected)
        self._marked = 0

    def below(self, width: int, most: int) -> list[str]:
        options = [
            f"[{'x' if place in self._chosen else ' '}] {text}" for place, text in enumerate(self._options)
        ]
        return self.listed(options, self._marked, width, most)

    def key(self, key: str) -> None:
        if key == "esc":
            self.questions.decline()
        elif key == "enter":
            chosen = [text for place, text in enumerate(self._options) if place in self._chosen]
            self.questions.type(msgspec.json.encode(list(dict.fromkeys(chosen))).decode())
        elif key in LIST_KEYS:
            self._marked = (self._marked + LIST_KEYS[key]) % len(self._options)
        elif key in (" ", "x"):
            self._chosen ^= {self._marked}
        elif key == "a":
            self._chosen = set(range(len(self._options)))
        elif key == "n":
            self._chosen = set()


class TextDialog(_Dialog):
    """A text, in a line of its own: what was being typed elsewhere stays."""

    def __init__(
        self, questions: QuestionQueue, asked: QuestionAsked, draw: ItemRenderer, dialog: InputDialog
    ) -> None:
        super().__init__(questions, asked, draw)
        self._field = TextField(dialog.default, placeholder=dialog.placeholder)

    def below(self, width: int, most: int) -> list[str]:
        return [drawn([Piece("> "), *self._field.row(width - 2, self.draw.colors)])]

    def key(self, key: str) -> None:
        if key == "esc":
            self.questions.decline()
        elif key == "enter":
            self.questions.type(self._field.text)
        else:
            self._field.key(key)
