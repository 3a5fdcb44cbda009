"""Dialogs of extensions: panels of their own for what they ask."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ostler.extensions.showing.ui_data import (
    ConfirmDialog,
    InputDialog,
    MultiSelectDialog,
    OverlayDialog,
    Rendering,
    SelectDialog,
    dialog_of,
    overlay_extent,
)
from ostler.faces.tui.block_rows import BlockRows, on_background
from ostler.faces.tui.drawing.boxes import framed, inside
from ostler.faces.tui.drawing.markdown import markdown_rows
from ostler.faces.tui.drawing.pieces import (
    BOLD,
    DIM,
    REVERSE,
    Piece,
    cells,
    cut,
    drawn,
    harmless,
    one_line,
    sgr,
    styled,
    tint,
)
from ostler.faces.tui.panels import Panel
from ostler.faces.tui.questions import OpenQuestions
from ostler.vocabulary.events import QuestionAsked

ContentRows = Callable[[str, str, Rendering | None, int], list[str]]
MOVES = {"up": -1, "shift+tab": -1, "down": 1, "tab": 1}
_MOST_TEXT = 8


class AskedPanel:
    """Shows what is asked: a dialog in its own way, everything else in that of `other`."""

    def __init__(self, questions: OpenQuestions, other: Panel, draw: BlockRows, content: ContentRows) -> None:
        self._questions = questions
        self._other = other
        self._draw = draw
        self._content = content
        self._asked: QuestionAsked | None = None
        self._panel: Panel = other

    @property
    def _present(self) -> Panel:
        if self._asked is not self._questions.present:
            self._asked = self._questions.present
            self._panel = self._made(self._asked) if self._asked else self._other
        return self._panel

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
        return self._other

    @property
    def takes_text(self) -> bool:
        return self._present.takes_text

    def rows(self, width: int, most: int) -> list[str]:
        return self._present.rows(width, most)

    def takes(self, key: str) -> bool:
        return self._present.takes(key)

    def key(self, key: str) -> None:
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
        message = markdown_rows(self.asked.question.text, room, self.draw.colors)[:_MOST_TEXT]
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
        elif key in MOVES:
            questions.move(MOVES[key])
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
        elif key in MOVES:
            self._marked = (self._marked + MOVES[key]) % len(self._options)
        elif key == " ":
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
        self._placeholder = dialog.placeholder
        self._before, self._after = dialog.default, ""

    def below(self, width: int, most: int) -> list[str]:
        if not self._before and not self._after:
            rest = one_line(self._placeholder) or " "
            style = sgr(self.draw.colors, "very_muted") or DIM
            return [drawn([Piece("> "), Piece(rest[0], REVERSE), Piece(cut(rest[1:], width - 3), style)])]
        before, after = _in_one_line(self._before), _in_one_line(self._after) or " "
        before = before[-width:]
        while cells(before) > max(0, width - 4):
            before = before[1:]
        row = [Piece("> "), Piece(before), Piece(after[0], REVERSE)]
        return [drawn([*row, Piece(cut(after[1:], width - 3 - cells(before)))])]

    def key(self, key: str) -> None:
        match key:
            case "esc":
                self.questions.decline()
            case "enter":
                self.questions.type(self._before + self._after)
            case "backspace":
                self._before = self._before[:-1]
            case "delete":
                self._after = self._after[1:]
            case "left" if self._before:
                self._before, self._after = self._before[:-1], self._before[-1] + self._after
            case "right" if self._after:
                self._before, self._after = self._before + self._after[0], self._after[1:]
            case "home" | "ctrl+a":
                self._before, self._after = "", self._before + self._after
            case "end" | "ctrl+e":
                self._before, self._after = self._before + self._after, ""
            case "ctrl+u":
                self._before = ""
            case "ctrl+k":
                self._after = ""
            case "ctrl+w":
                self._before = self._before.rstrip().rpartition(" ")[0]
            case _ if len(key) == 1:
                self._before += " " if key in "\r\n" else key


class OverlayPanel:
    """A window with actions. Inside of a conversation it stands where panels do, whatever its anchor is."""

    takes_text = True

    def __init__(
        self, questions: OpenQuestions, dialog: OverlayDialog, draw: BlockRows, content: ContentRows
    ) -> None:
        self._questions = questions
        self._dialog = dialog
        self._draw = draw
        self._content = content
        self._top = 0

    def takes(self, key: str) -> bool:
        return True

    def rows(self, width: int, most: int) -> list[str]:
        dialog, colors = self._dialog, self._draw.colors
        columns, height = overlay_extent(dialog, width, most)
        rows = self._content(dialog.text, dialog.markdown, dialog.render, inside(columns))
        room = max(1, height - 3)
        self._top = max(0, min(self._top, len(rows) - room))
        shown = [*rows[self._top : self._top + room], self._actions(inside(columns))]
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
        )
        if has_colors and (background := tint(dialog.style.background, dialog.style.background, 1.0)):
            made = [on_background(row, background, columns) for row in made]
        margin = " " * ((width - columns) // 2)
        return [f"{margin}{row}" for row in made][:most]

    def _actions(self, width: int) -> str:
        accent = sgr(self._draw.colors, "accent", REVERSE)
        said = [answer for answer, _ in self._questions.options]
        pieces = [
            piece
            for place, text in enumerate(said)
            for piece in (
                Piece(f"[{one_line(text)}]", accent if place == self._questions.marked else ""),
                Piece(" "),
            )
        ]
        return drawn(pieces)

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
                self._top += 10 if key == "pgdown" else -10


def _in_one_line(text: str) -> str:
    return harmless(text.replace("\n", " ").replace("\t", " "))
