"""Questions in plain lines: what is asked, a line for each answer, and the line that was typed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from ostler.extensions.showing.ui_data import InputDialog, MultiSelectDialog, dialog_of
from ostler.faces.tui.asking.answers import question_in_words
from ostler.faces.tui.block_words import plain
from ostler.faces.tui.questions import OpenQuestions
from ostler.vocabulary.events import QuestionAsked

_LONGEST = 60
"""Lines of a change that a person is shown to judge it."""


class PlainQuestions:
    """One after the other. `say` prints lines."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say
        self._open = OpenQuestions()
        self._open.opened = self._look
        self._shown: QuestionAsked | None = None

    @property
    def present(self) -> QuestionAsked | None:
        return self._open.present

    async def ask(self, asked: QuestionAsked) -> Any:
        try:
            return await self._open.ask(asked)
        finally:
            self._look()

    def _look(self) -> None:
        """Says what is asked, if that is news."""
        asked = self._open.present
        if asked is self._shown:
            return
        self._shown = asked
        echo(asked is None or not asked.question.secret)
        if asked is not None:
            self._say(*_question_in_words(asked, [said for _, said in self._open.options]))

    def take(self, line: str) -> None:
        """An answer. What is none is said, and the question stays."""
        asked = self._open.present
        if asked is None:
            return
        if line == "/cancel":
            self._open.decline()
            return
        problem = self._answer(asked, line)
        if problem:
            self._say(f"error: {problem}", "answer:")

    def _answer(self, asked: QuestionAsked, line: str) -> str:
        match dialog_of(asked.question.details):
            case MultiSelectDialog() as dialog:
                return self._answer_many(dialog, line)
            case InputDialog(default=default):
                return self._open.type(line or default)
        options = self._open.options
        if not options:
            return self._open.type(line)
        for place, (answer, said) in enumerate(options):
            if line.lower() in (str(place + 1), answer.lower(), said.lower(), *_short(answer)):
                self._open.choose(place)
                return ""
        return f"type a number from 1 to {len(options)}"

    def _answer_many(self, dialog: MultiSelectDialog, line: str) -> str:
        there = range(len(dialog.options))
        words = line.replace(",", " ").split()
        if words == ["all"]:
            chosen = set(there)
        elif words == ["none"]:
            chosen = set()
        elif not words:
            chosen = set(dialog.selected)
        elif all(word.isdecimal() and 0 < int(word) <= len(there) for word in words):
            chosen = {int(word) - 1 for word in words}
        else:
            return f"type numbers from 1 to {len(there)}, all or none"
        answer = dict.fromkeys(text for place, text in enumerate(dialog.options) if place in chosen)
        return self._open.type(msgspec.json.encode(list(answer)).decode())


def _question_in_words(asked: QuestionAsked, options: list[str]) -> list[str]:
    question, details = asked.question, asked.question.details or {}
    lines = ["question: " + plain(question_in_words(question))]
    if diff := details.get("diff"):
        lines += plain(str(diff)).splitlines()[:_LONGEST]
    elif command := details.get("command"):
        lines.append(f"command: {plain(str(command))}")
    elif isinstance(arguments := details.get("arguments"), dict):
        lines += [f"{plain(name)}: {plain(_spelled(value))}" for name, value in arguments.items()]
    match dialog_of(details):
        case MultiSelectDialog(options=many, selected=selected):
            marks = ["chosen" if place in selected else "not chosen" for place in range(len(many))]
            lines += [f"{place + 1}. {plain(text)}, {marks[place]}" for place, text in enumerate(many)]
            lines.append("type numbers, all or none; an empty line leaves it as it is")
        case InputDialog(placeholder=placeholder, default=default):
            lines += [f"such as: {plain(placeholder)}"] if placeholder else []
            lines += [f"an empty line answers: {plain(default)}"] if default else []
    lines += [f"{place + 1}. {plain(said)}" for place, said in enumerate(options)]
    return [*lines, "answer:"]


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _short(answer: str) -> tuple[str, ...]:
    return (answer[0],) if answer in ("yes", "no") else ()


def echo(is_on: bool) -> None:
    """Whether the terminal shows what is typed."""
    if sys.stdin is None or not sys.stdin.isatty():
        return
    import termios

    state = termios.tcgetattr(sys.stdin)
    state[3] = state[3] | termios.ECHO if is_on else state[3] & ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, state)
