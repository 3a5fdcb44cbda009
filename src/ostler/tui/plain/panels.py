"""Lists and questions in plain lines: the options have numbers, and a typed line chooses one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from ostler.app.question_queue import DECLINED, QuestionQueue, answer_options, parse_answer, question_text
from ostler.extensions.ui.types import InputDialog, MultiSelectDialog, dialog_of
from ostler.schema.errors import UsageError
from ostler.schema.events import QuestionAsked
from ostler.schema.outcomes import Question
from ostler.tui.panels.panel import Panel, Panels, ReadingPanel, TextLine
from ostler.tui.panels.picker import Choice, Picker
from ostler.tui.plain.items import plain

_LONGEST = 60
"""Lines of a diff that a question prints, at most."""


class PlainQuestions:
    """Questions in plain lines, one after the other. `say` prints lines."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._print = say
        self._open = QuestionQueue()
        self._open.opened = self._print_new
        self._printed: QuestionAsked | None = None

    @property
    def present(self) -> QuestionAsked | None:
        return self._open.present

    async def ask(self, asked: QuestionAsked) -> Any:
        try:
            return await self._open.ask(asked)
        finally:
            self._print_new()

    def _print_new(self) -> None:
        """Prints the present question once."""
        asked = self._open.present
        if asked is self._printed:
            return
        self._printed = asked
        echo(asked is None or not asked.question.secret)
        if asked is not None:
            self._print(*_question_in_words(asked))

    def take(self, line: str) -> None:
        """Answers with a line; if it is no answer, says why."""
        asked = self._open.present
        if asked is None:
            return
        try:
            self._open.answer(DECLINED if line == "/cancel" else _parsed(asked.question, line))
        except UsageError as error:
            self._print(f"error: {error.message}", "answer:")


def _parsed(question: Question, line: str) -> Any:
    match dialog_of(question.details):
        case MultiSelectDialog() as dialog:
            return _selection(dialog, line)
        case InputDialog(default=default):
            return line or default
    return parse_answer(question, line, numbered=True)


def _selection(dialog: MultiSelectDialog, line: str) -> list[str]:
    places = range(len(dialog.options))
    match line.replace(",", " ").split():
        case ["all"]:
            selected = set(places)
        case ["none"]:
            selected = set()
        case []:
            selected = set(dialog.selected)
        case words if all(word.isdecimal() and 0 < int(word) <= len(places) for word in words):
            selected = {int(word) - 1 for word in words}
        case _:
            raise UsageError(f"type numbers from 1 to {len(places)}, all or none")
    return list(dict.fromkeys(text for place, text in enumerate(dialog.options) if place in selected))


def _question_in_words(asked: QuestionAsked) -> list[str]:
    question, details = asked.question, asked.question.details or {}
    lines = ["question: " + plain(question_text(question))]
    if diff := details.get("diff"):
        lines += plain(str(diff)).splitlines()[:_LONGEST]
    elif command := details.get("command"):
        lines.append(f"command: {plain(str(command))}")
    elif isinstance(arguments := details.get("arguments"), dict):
        lines += [f"{plain(name)}: {plain(_spelled(value))}" for name, value in arguments.items()]
    match dialog_of(details):
        case MultiSelectDialog(options=many, selected=selected):
            marks = ["selected" if place in selected else "not selected" for place in range(len(many))]
            lines += [f"{place + 1}. {plain(text)}, {marks[place]}" for place, text in enumerate(many)]
            lines.append("type numbers, all or none; an empty line keeps this selection")
        case InputDialog(placeholder=placeholder, default=default):
            lines += [f"for example: {plain(placeholder)}"] if placeholder else []
            lines += [f"an empty line answers: {plain(default)}"] if default else []
    options = answer_options(question)
    lines += [f"{number}. {plain(option.label)}" for number, option in enumerate(options, 1)]
    return [*lines, "answer:"]


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def echo(is_on: bool) -> None:
    """Sets whether the terminal shows what is typed."""
    if sys.stdin is None or not sys.stdin.isatty():
        return
    import termios

    state = termios.tcgetattr(sys.stdin)
    state[3] = state[3] | termios.ECHO if is_on else state[3] & ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, state)


PAGE = 20
"""Choices that are printed at once."""

_FEW = 8
"""Up to so many choices are printed with a description."""


class PlainPanels(Panels):
    """Panels in plain lines: each is printed once, and `take` gets the lines that are typed meanwhile."""

    def __init__(self, say: Callable[..., None]) -> None:
        super().__init__(self._print_new)
        self._print = say
        self._printed: Panel | None = None
        self._first = 0

    def _print_new(self) -> None:
        panel = self.present
        if isinstance(panel, ReadingPanel) and panel.note != "…":
            self._print(*plain(panel.text).splitlines(), f"({plain(panel.note)})")
            panel.note = "…"  # printed
            asyncio.get_running_loop().call_soon(panel.key, "esc")
        if panel is self._printed:
            return
        self._printed = panel
        echo(not (isinstance(panel, TextLine) and panel.is_secret))
        self._first = 0
        match panel:
            case Picker():
                self._list(panel)
            case TextLine():
                self._print(f"{plain(panel.title)}:", "type it, or /cancel")

    def take(self, line: str) -> None:
        """Handles a line that is typed while a panel is open."""
        panel = self.present
        if line == "/cancel":
            self.key("esc")
        elif isinstance(panel, Picker):
            self._choose(panel, line)
        else:
            for letter in line:
                self.key(letter)
            self.key("enter")

    # --- lists ------------------------------------------------------------------------------------------

    def _choose(self, picker: Picker, line: str) -> None:
        """Chooses by number, with an optional key before it, or by the text of the choice."""
        word, _, number = line.rpartition(" ")
        choices = _choices(picker)
        named = [at for at, one in enumerate(choices) if one.text.strip().lower() == line.lower()]
        if number.isdecimal() and 0 < int(number) <= len(choices) and word in ("", *picker.keys):
            self._pick(picker, int(number) - 1, word or "enter")
        elif line in picker.keys and choices:
            self._pick(picker, 0, line)
        elif line in ("", "+"):
            self._first = self._first + PAGE if self._first + PAGE < len(choices) else 0
            self._list(picker)
        elif named:
            self._pick(picker, named[0], "enter")
        else:  # narrows the list
            for key in ("ctrl+u", *line):
                picker.key(key)
            if not len(picker):
                self._print(f"error: nothing matches {line!r:.60}")
                picker.key("ctrl+u")
            self._first = 0
            self._list(picker)

    def _pick(self, picker: Picker, place: int, key: str) -> None:
        picker.place = place
        self.key(key)

    def _list(self, picker: Picker) -> None:
        choices = _choices(picker)
        lines = [f"choose: {plain(picker.title)}"]
        last = min(len(choices), self._first + PAGE)
        for at in range(self._first, last):
            lines.append(f"{at + 1}. {_in_words(choices[at], is_explained=len(choices) <= _FEW)}")
        if len(choices) > last:
            lines.append(f"and {len(choices) - last} more: press enter for the next")
        ways = ["a number chooses", "text narrows the list", "/cancel closes it"]
        lines += [", ".join(ways), *(f"{key} and a number: {about}" for key, about in picker.keys.items())]
        self._print(*lines, "answer:")


def _choices(picker: Picker) -> list[Choice]:
    before, choices = picker.place, []
    for place in range(len(picker)):
        picker.place = place
        if (choice := picker.present) is not None:
            choices.append(choice)
    picker.place = before
    return choices


def _in_words(choice: Choice, *, is_explained: bool) -> str:
    words = [choice.text.strip(), *choice.cells]
    words += [choice.about] if is_explained else []
    words += ["current"] if choice.is_present else []
    return ", ".join(" ".join(plain(one).split()) for one in words if one)
