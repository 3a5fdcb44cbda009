"""Lists and questions in plain lines: the options have numbers, and a typed line chooses one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ostler.app.question_queue import (
    DECLINED,
    REMEMBER,
    AnswerOption,
    AnswerSteps,
    Attention,
    Declined,
    QuestionQueue,
    answer_steps,
    dialog_in,
    parse_answer,
    question_text,
)
from ostler.extensions.ui.types import InputDialog, MultiSelectDialog
from ostler.history.call_preview import preview_lines, preview_of, visible
from ostler.schema.errors import UsageError
from ostler.schema.events import QuestionAsked
from ostler.schema.outcomes import Question
from ostler.schema.text import plural
from ostler.tui.panels.panel import Panel, Panels, ReadingPanel, TextLine
from ostler.tui.panels.picker import Choice, Picker
from ostler.tui.plain.items import plain

DIFF_PAGE = 12
"""Lines of a question with a diff that are printed at once, so that the first change stays on the screen."""


class PlainQuestions:
    """Questions in plain lines, one after the other. `say` prints lines.

    A line that comes before "answer:" is printed was typed for something else, and is a prompt.
    """

    def __init__(self, say: Callable[..., None], clock: Callable[[], float] = time.monotonic) -> None:
        self._print = say
        self._clock = clock
        self._open = QuestionQueue()
        self._open.opened = self._print_new
        self._printed: QuestionAsked | None = None
        self._attention = Attention(clock)
        self._steps = AnswerSteps(())
        self._options: tuple[AnswerOption, ...] = ()
        self._rest: list[str] = []
        """Lines of the diff that are not printed yet."""
        self._timer: asyncio.TimerHandle | None = None
        self.cwd: Path | None = None
        """Where the files of calls are; None if they are on another machine."""

    @property
    def present(self) -> QuestionAsked | None:
        return self._open.present

    @property
    def is_answerable(self) -> bool:
        """A line that comes now is the answer."""
        return self.present is not None and self._attention.is_on_question(has_draft=False)

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if asked is None:
            return
        self._attention = Attention(self._clock)
        self._attention.seen()
        self._steps = answer_steps(asked.question)
        self._options = self._steps.first
        self._print(*self._in_words(asked))
        left = self._attention.seconds_left
        self._timer = asyncio.get_running_loop().call_later(left, self._print, "answer:")

    def _in_words(self, asked: QuestionAsked) -> list[str]:
        question, details = asked.question, asked.question.details or {}
        dialog = dialog_in(asked)
        lines = ["question: " + visible(plain(question_text(question)))]
        preview = preview_of(details, self.cwd)
        about = [] if dialog else preview_lines(preview)
        page = _first_page(about) if preview.hunks else len(about)
        self._rest = about[page:]
        lines += about[:page]
        lines += self._more()
        match dialog:
            case MultiSelectDialog(options=many, selected=selected):
                marks = ["selected" if place in selected else "not selected" for place in range(len(many))]
                lines += [f"{place + 1}. {plain(text)}, {marks[place]}" for place, text in enumerate(many)]
                lines.append("type numbers, all or none; an empty line keeps this selection")
            case InputDialog(placeholder=placeholder, default=default):
                lines += [f"for example: {plain(placeholder)}"] if placeholder else []
                lines += [f"an empty line answers: {plain(default)}"] if default else []
        return [*lines, *self._option_lines(question)]

    def _more(self) -> list[str]:
        if not self._rest:
            return []
        hunks = sum(line.startswith("@@ ") for line in self._rest)
        below = f"{plural(hunks, 'more hunk')} and " if hunks else ""
        return [f"{below}{plural(len(self._rest), 'more line')} below: + prints them"]

    def _option_lines(self, question: Question) -> list[str]:
        if question.kind != "permission":
            return [f"{number}. {plain(one.label)}" for number, one in enumerate(self._options, 1)]
        lines = [f"{number}. {_label(one)}" for number, one in enumerate(self._options, 1)]
        return [*lines, "type a number or a word of the list; any other text is a reason to decline"]

    def take(self, line: str) -> None:
        """Answers with a line; if it is no answer, says why."""
        asked = self._open.present
        if asked is None:
            return
        if line == "+" and self._rest:
            rest, self._rest = self._rest, []
            self._print(*rest, *self._option_lines(asked.question), "answer:")
            return
        try:
            answer = DECLINED if line == "/cancel" else self._parsed(asked, line)
        except UsageError as error:
            self._print(f"error: {error.message}", "answer:")
            return
        if answer == REMEMBER and asked.question.kind == "permission":
            self._options = self._steps.remembered
            self._print(*self._option_lines(asked.question), "answer:")
        else:
            self._open.answer(answer)

    def _parsed(self, asked: QuestionAsked, line: str) -> Any:
        question = asked.question
        match dialog_in(asked):
            case MultiSelectDialog() as dialog:
                return _selection(dialog, line)
            case InputDialog(default=default):
                return line or default
        if question.kind != "permission":
            return parse_answer(question, line, numbered=True)
        word = line.strip().lower()
        for number, option in enumerate(self._options, 1):
            if word in (str(number), option.answer, *option.keys):
                return option.answer
        if not word:
            raise UsageError(f"type a number from 1 to {len(self._options)}, or why not")
        return Declined(line.strip())


def _first_page(lines: list[str]) -> int:
    """How many lines to print at once: the first hunk, as far as it fits."""
    hunks = [at for at, line in enumerate(lines) if line.startswith("@@ ")]
    end = min(DIFF_PAGE, hunks[1] if len(hunks) > 1 else len(lines))
    return end if len(lines) > end + 1 else len(lines)


def _label(option: AnswerOption) -> str:
    """The option with the words that choose it."""
    words = ", ".join([*(key for key in option.keys if not key.isdecimal()), option.answer])
    label = plain(option.label).removeprefix(f"{option.answer}: ")
    return words if label == option.answer else f"{words}: {label}"


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
