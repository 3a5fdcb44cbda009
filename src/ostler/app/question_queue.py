"""The queue of questions that a front end shows, which keys count, and the texts of questions and answers."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ostler.core.questions import answer_problem
from ostler.extensions.ui.types import Dialog, dialog_of
from ostler.permissions.rules import parse_rule, preview
from ostler.schema.errors import CallRefused, UsageError
from ostler.schema.events import ChildEvent, ChildStarted, Event, QuestionAnswered, QuestionAsked
from ostler.schema.facts import Fact
from ostler.schema.outcomes import Question
from ostler.schema.text import cells, one_line
from ostler.sessions.run_tree import QuestionRow


class Declined(NamedTuple):
    """The answer of a person who declines; the model gets the reason."""

    reason: str = ""


DECLINED = Declined()
PERSON_DECLINED = "The person declined."
"""Of a person who gives no reason."""

WIDER = "+"
"""Stands after a scope in the answer that takes the wider of two offers: `session+`."""

YES_WORDS, NO_WORDS = ("yes", "y", "allow"), ("no", "n", "deny")
REMEMBER = "remember"
"""Not an answer: it opens the list of answers that are remembered."""

_LETTERS = {"yes": "y", "no": "n", REMEMBER: "r", "session": "s", "project": "p", "user": "u"}


class AnswerOption(NamedTuple):
    """One answer that a person can choose."""

    answer: str
    label: str
    keys: tuple[str, ...]
    """Its number, if that has one digit, and its letter."""
    rules: tuple[str, ...] = ()
    """The rules that it also adds."""

    def label_in(self, room: int) -> str:
        """The label; if it does not fit into so many cells, with the number of rules only."""
        return scope_text(self.answer, self.rules, room) if self.rules else self.label


_PERMISSION_LABELS = {
    "yes": "yes, this once",
    "no": "no",
    "session": "yes, and the like in this session",
    "project": "yes, and the like in this project",
    "user": "yes, and the like everywhere",
}


def answer_options(question: Question) -> list[AnswerOption]:
    """The options with their keys; empty if the answer is typed."""
    is_permission = question.kind == "permission"
    answers = _permission_answers(question) if is_permission else question.choices
    options = []
    for number, answer in enumerate(answers, 1):
        keys: tuple[str, ...] = (str(number),) if number < 10 else ()
        if answers[:2] == ("yes", "no") and number < 3:
            keys += (_LETTERS[answer],)
        rules = _rules_of(question, answer) if is_permission else ()
        label = scope_text(answer, rules, sys.maxsize) if rules else answer
        if is_permission and not rules:
            label = _PERMISSION_LABELS[answer.removesuffix(WIDER)]
        options.append(AnswerOption(answer, label, keys, rules))
    return options


def _permission_answers(question: Question) -> tuple[str, ...]:
    scopes = [one for one in question.choices if one in _SCOPES]
    wider = (question.details or {}).get("remember_wider") or {}
    return ("yes", "no", *scopes, *(f"{one}{WIDER}" for one in scopes if one in wider))


def _rules_of(question: Question, answer: str) -> tuple[str, ...]:
    """The rules that an answer would remember."""
    scope = answer.removesuffix(WIDER)
    remember = (question.details or {}).get("remember" if scope == answer else "remember_wider")
    return tuple(remember.get(scope) or ()) if scope in _SCOPES and isinstance(remember, dict) else ()


def dialog_in(asked: QuestionAsked) -> Dialog | None:
    """The dialog of an extension. In other questions it counts for nothing: it could preselect a yes."""
    is_dialog = asked.asked_by == "extension" and asked.question.kind != "permission"
    return dialog_of(asked.question.details) if is_dialog else None


class AnswerSteps(NamedTuple):
    """The answers as a person gets them: those that hold for longer than this once are behind another key."""

    first: tuple[AnswerOption, ...]
    remembered: tuple[AnswerOption, ...] = ()


def answer_steps(question: Question) -> AnswerSteps:
    """The options in two lists, each numbered from 1. Several may have the same scope."""
    options = answer_options(question)
    remembered = [one for one in options if question.kind == "permission" and one.answer not in ("yes", "no")]
    first = [one for one in options if one not in remembered]
    if remembered:
        first.append(AnswerOption(REMEMBER, "remember: yes, and the like from now on…", ()))
    return AnswerSteps(_numbered(first), _numbered(remembered))


def _numbered(options: Sequence[AnswerOption]) -> tuple[AnswerOption, ...]:
    """With keys: a letter only where it is the letter of one option."""
    words = {"yes", "no", REMEMBER, *_SCOPES}
    letters = [_LETTERS.get(one.answer, "") for one in options]
    has_letters = all(one.answer in words for one in options[:2])
    numbered = []
    for number, (option, letter) in enumerate(zip(options, letters, strict=True), 1):
        keys: tuple[str, ...] = (str(number),) if number < 10 else ()
        if has_letters and letter and letters.count(letter) == 1:
            keys += (letter,)
        numbered.append(option._replace(keys=keys))
    return tuple(numbered)


def parse_answer(question: Question, text: str, *, numbered: bool = False) -> Any:
    """Parses a typed answer; raises `UsageError` if it is not an answer.

    With `numbered`, a person sees the options with their numbers and may also type those.
    """
    if question.kind == "form":
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise UsageError(f"the answer must be JSON: {error}") from None
        if problem := answer_problem(question, value):
            raise UsageError(problem)
        return value
    options = answer_options(question)
    word = text.lower()
    for number, option in enumerate(options, 1):
        names = {option.answer.lower()}
        if numbered:
            names |= {str(number), option.label.lower(), _LETTERS.get(option.answer, "")} - {""}
        if word in names:
            return option.answer
    if question.kind == "permission" and word in YES_WORDS:
        return "yes"
    for choice in question.choices:
        if word == choice.lower():
            return choice
    if not options:
        return text
    if numbered:
        raise UsageError(f"type a number from 1 to {len(options)}")
    choices = ", ".join(question.choices or ("yes", "no"))
    raise UsageError(f"{text!r} is not an answer; the answers are: {choices}")


_CHILD_EVENTS = {
    "question_asked": QuestionAsked,
    "question_answered": QuestionAnswered,
    "child_started": ChildStarted,
}


def event_in_child(event: ChildEvent) -> tuple[str, QuestionAsked | QuestionAnswered | ChildStarted] | None:
    """The question, answer or start of a child in the event of a child, and the child's id."""
    if isinstance(event.event, ChildEvent):
        return event_in_child(event.event)
    if isinstance(event.event, Event):
        return None
    line = event.line()  # facts arrive as the lines they are stored as
    if not any(f'"{name}"'.encode() in line for name in _CHILD_EVENTS):
        return None
    fact = msgspec.json.decode(line)
    if fact.get("type") == "child_event":
        return event_in_child(msgspec.convert(fact, ChildEvent))
    event_class = _CHILD_EVENTS.get(fact.get("type"))
    return (event.child, msgspec.convert(fact, event_class)) if event_class else None


QUIET_SECONDS = 0.6
"""How long a question is shown before a key can answer it."""


class Attention:
    """Whether keys are for a question or for the input line. `seen` starts it when the question is drawn.

    - In the first 600 ms keys are for the line; so they are 600 ms after something else was typed.
    - While the line holds a draft, keys are for the line, until `toggle`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen_at: float | None = None
        self._busy_at = -QUIET_SECONDS
        self._chosen: bool | None = None
        """Whether a person has chosen the question, or the line; None if nobody has chosen."""
        self._had_draft = False

    def seen(self) -> None:
        if self._seen_at is None:
            self._seen_at = self._clock()

    @property
    def is_chosen(self) -> bool:
        """Keys are where a person has led them."""
        return self._chosen is not None

    @property
    def seconds_left(self) -> float:
        """How long no key answers yet; infinite before the question is seen."""
        if self._seen_at is None:
            return float("inf")
        begin = self._seen_at if self._chosen else max(self._seen_at, self._busy_at)
        return max(0.0, begin + QUIET_SECONDS - self._clock())

    def is_on_question(self, *, has_draft: bool, is_busy: bool = False) -> bool:
        """Whether a key that comes now is for the question. `is_busy`: a person types elsewhere."""
        if has_draft or is_busy:
            self._busy_at = self._clock()
        if self._had_draft and not has_draft:
            self._chosen = None  # it was sent or deleted
        self._had_draft = has_draft
        if self._chosen is not None:
            return self._chosen and not self.seconds_left
        return not has_draft and not is_busy and not self.seconds_left

    def toggle(self, *, has_draft: bool) -> None:
        """Leads keys to the question, or to the line."""
        self._chosen = not self.is_on_question(has_draft=has_draft)


class QuestionQueue:
    """The open questions of one front end: it shows the first one, and the others wait.

    When a question is answered elsewhere, the task that waits in `ask` is cancelled, which removes it.
    """

    def __init__(self) -> None:
        self.opened: Callable[[], None] = lambda: None
        self.closed: Callable[[], None] = lambda: None
        """Called when a question comes, and when none is left."""
        self._open: list[tuple[QuestionAsked, asyncio.Future[Any]]] = []
        self._child_names: dict[str, str] = {}
        self._askers: dict[str, str] = {}

    def asking_child(self, question: str) -> str:
        """The child that asks a question; empty for the session itself."""
        return self._askers.get(question, "")

    def with_child_questions(self, batch: Sequence[Fact | Event]) -> Sequence[Fact | Event]:
        """The events, and after each event of a child the question or answer in it."""
        events: list[Fact | Event] = []
        for one in batch:
            events.append(one)
            child, event = "", one.event if isinstance(one, Fact) else one
            if isinstance(event, ChildEvent) and (inner := event_in_child(event)):
                child, event = inner
            if isinstance(event, ChildStarted):
                self._child_names[event.child] = event.agent or one_line(event.task)[:40]
            elif child and isinstance(event, QuestionAsked | QuestionAnswered):
                self._askers[event.id] = f"child {self._child_names.get(child, '')}".rstrip()
                # Its call is none of this session's, whatever its id.
                is_asked = isinstance(event, QuestionAsked)
                events.append(msgspec.structs.replace(event, call="") if is_asked else event)
        return events

    async def ask(self, asked: QuestionAsked) -> Any:
        """The asker of a harness."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        entry = (asked, answer)
        self._open.append(entry)
        self.opened()
        try:
            value = await answer
        finally:
            self._open.remove(entry)
            if not self._open:
                self.closed()
        if isinstance(value, Declined):
            raise CallRefused(value.reason or PERSON_DECLINED)
        return value

    @property
    def present(self) -> QuestionAsked | None:
        return self._open[0][0] if self._open else None

    @property
    def behind(self) -> int:
        """How many wait after the present one."""
        return max(0, len(self._open) - 1)

    def answer(self, value: Any) -> str:
        """Answers the present question, or returns why the value does not fit."""
        if not self._open:
            return ""
        asked, answer = self._open[0]
        problem = "" if isinstance(value, Declined) else answer_problem(asked.question, value)
        if not problem and not answer.done():
            answer.set_result(value)
        return problem


UNSEEN = "•••"


def question_text(question: Question) -> str:
    """The question in a line; for a permission, the call that it is about."""
    details = question.details or {}
    if question.kind != "permission" or "tool" not in details:
        return question.text
    return f"Allow {details['tool']}: {preview(str(details['tool']), details.get('arguments') or {})}"


def answer_text(question: Question, answer: Any) -> str:
    """The answer in a line, without secrets."""
    if question.secret:
        return "answered"
    if isinstance(answer, str):
        return answer
    fields = (question.form or {}).get("properties")
    if isinstance(answer, dict) and isinstance(fields, dict):
        answer = {name: UNSEEN if is_secret_field(fields.get(name)) else one for name, one in answer.items()}
    return msgspec.json.encode(answer).decode()


def is_secret_field(field: Any) -> bool:
    """Whether a schema marks its value as secret."""
    return isinstance(field, dict) and (field.get("format") == "password" or bool(field.get("writeOnly")))


def value_text(question: Question | QuestionRow) -> str:
    """The question, its reason and the possible answers. A permission names its answers itself."""
    if question.kind == "permission":
        return question.text
    parts = [question.text]
    if question.reason:
        parts.append(f"({question.reason})")
    if question.choices:
        parts.append(f"[{' / '.join(question.choices)}]")
    if question.form is not None:
        parts.append(f"[JSON: {msgspec.json.encode(question.form).decode()}]")
    if question.secret:
        parts.append("[a secret]")
    return " ".join(parts)


_SCOPES = {
    "session": "yes, and for this session",
    "project": "yes, and for this project",
    "user": "yes, and always",
}


def scope_text(scope: str, rules: Sequence[str], room: int) -> str:
    """What an answer allows from now on; if that does not fit, with the number of rules only."""
    beginning = _SCOPES[scope.removesuffix(WIDER)]
    text = f"{beginning}: {'; '.join(map(rule_text, rules))}"
    if cells(text) <= room:
        return text
    wider = "wider " if scope.endswith(WIDER) else ""
    return (
        f"{beginning}: the {wider}rule above"
        if len(rules) == 1
        else f"{beginning}: the {len(rules)} {wider}rules above"
    )


def rules_text(options: Sequence[AnswerOption], room: int) -> list[str]:
    """The rules that do not fit into their labels, a line each; answers with the same rules share them."""
    scopes_of: dict[tuple[str, ...], list[str]] = {}
    for option in options:
        if option.rules and not option.label_in(room).endswith(rule_text(option.rules[-1])):
            scope = _SCOPES[option.answer.removesuffix(WIDER)].removeprefix("yes, and ")
            scopes_of.setdefault(option.rules, []).append(scope)
    return [
        line
        for rules, scopes in scopes_of.items()
        for line in (f"would be allowed {', '.join(scopes)}:", *(f"  {rule_text(one)}" for one in rules))
    ]


_FORMS = {
    "=": "exactly: {}",
    "+": "{}, also with more operands",
    "~": "{} with any options that only read",
}


@lru_cache(1024)
def rule_text(rule: str) -> str:
    try:
        parsed = parse_rule(rule, "allow")
    except UsageError:
        return rule
    tool, pattern = parsed.tool, parsed.pattern
    if pattern is None:
        return f"whatever {tool} does"
    if parsed.form:
        return _FORMS[parsed.form].format(pattern)
    if tool == "edit":
        folder = pattern.removesuffix("/**")
        return f"any change below {folder}/" if folder != pattern else f"any change of {pattern}"
    if tool == "fetch":
        return f"anything from {pattern}"
    if pattern.startswith("="):
        return f"exactly: {pattern[1:]}"
    return f"{pattern} with any arguments" if tool == "bash" else f"{tool} of {pattern}"
