"""Dialogs of extensions: panels of their own for what they ask."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ostler.extensions.showing.ui_data import (
    Anchor,
    ConfirmDialog,
    InputDialog,
    MultiSelectDialog,
    OverlayDialog,
    SelectDialog,
    dialog_of,
)
from ostler.faces.tui.asking.text_field import TextField
from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.drawing.boxes import framed, inside
from ostler.faces.tui.drawing.markdown import markdown_rows
from ostler.faces.tui.drawing.pieces import BOLD, DIM, Piece, cut, drawn, one_line, sgr
from ostler.faces.tui.drawing.wide_rows import fitted
from ostler.faces.tui.overlay_panel import ContentRows, OverlayPanel
from ostler.faces.tui.panels import LeavesLetters, Panel
from ostler.faces.tui.questions import OpenQuestions
from ostler.vocabulary.events import QuestionAsked

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
        questions: OpenQuestions,
        other: Callable[[QuestionAsked], Panel],
        draw: BlockRows,
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
        if not isinstance(self._present, LeavesLetters) or not self._present.leaves(letter):
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

    def __init__(self, questions: OpenQuestions, asked: QuestionAsked, draw: BlockRows) -> None:
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
        self, questions: OpenQuestions, asked: QuestionAsked, draw: BlockRows, dialog: MultiSelectDialog
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
        self, questions: OpenQuestions, asked: QuestionAsked, draw: BlockRows, dialog: InputDialog
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
