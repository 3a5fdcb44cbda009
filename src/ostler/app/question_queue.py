"""The questions of a session to the person at this terminal, one after the other, and their wording."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from ostler.core.json_schema import schema_error
from ostler.permissions.rules import parse_rule, preview
from ostler.schema.errors import CallRefused, UsageError
from ostler.schema.events import QuestionAsked
from ostler.schema.outcomes import Question
from ostler.schema.text import cells
from ostler.sessions.run_tree import QuestionRow

DECLINED = object()


_ABOUT_PERMISSION = {
    "yes": "yes, this once",
    "no": "no",
    "session": "yes, and the like in this session",
    "project": "yes, and the like in this project",
    "user": "yes, and the like everywhere",
}


class QuestionQueue:
    """The open questions. The first one is shown; the others wait.

    If a question is answered elsewhere, its `ask` is cancelled.
    """

    def __init__(self) -> None:
        self.opened: Callable[[], None] = lambda: None
        self.closed: Callable[[], None] = lambda: None
        """Called when the queue gets a question, and when it becomes empty."""
        self._open: list[tuple[QuestionAsked, asyncio.Future[Any]]] = []
        self.marked = 0

    async def ask(self, asked: QuestionAsked) -> Any:
        """The asker of a harness."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        entry = (asked, answer)
        self._open.append(entry)
        self.opened()
        try:
            given = await answer
        finally:
            self._open.remove(entry)
            self.marked = 0
            if not self._open:
                self.closed()
        if given is DECLINED:
            raise CallRefused("The person declined.")
        return given

    @property
    def present(self) -> QuestionAsked | None:
        return self._open[0][0] if self._open else None

    @property
    def behind(self) -> int:
        """How many others wait."""
        return max(0, len(self._open) - 1)

    @property
    def options(self) -> list[tuple[str, str]]:
        """The answers to choose from, each with its label. Empty if the answer is typed."""
        if (asked := self.present) is None:
            return []
        question = asked.question
        if question.kind == "permission":
            scopes = [one for one in question.choices if one in ("session", "project", "user")]
            labels = {scope: _always(question, scope) for scope in scopes}
            return [(one, labels.get(one) or _ABOUT_PERMISSION[one]) for one in ("yes", "no", *scopes)]
        return [(one, one) for one in question.choices]

    def move(self, by: int) -> None:
        if self.options:
            self.marked = (self.marked + by) % len(self.options)

    def choose(self, place: int | None = None) -> None:
        """Answers with an option; default: the marked one."""
        options = self.options
        chosen = self.marked if place is None else place
        if chosen < len(options):
            self._answer(options[chosen][0])

    def type(self, text: str) -> str:
        """Answers with typed text; returns what is wrong with it, or an empty string."""
        asked = self.present
        if asked is None:
            return ""
        if asked.question.kind != "form":
            self._answer(text)
            return ""
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            return f"the answer is JSON: {error}"
        problem = schema_error(value, asked.question.form or {})
        if not problem:
            self._answer(value)
        return problem

    def decline(self) -> None:
        self._answer(DECLINED)

    def _answer(self, answer: Any) -> None:
        if self._open and not self._open[0][1].done():
            self._open[0][1].set_result(answer)


def _always(question: Question, scope: str) -> str:
    """Everything that the answer would allow from now on."""
    remember = (question.details or {}).get("remember")
    rules = remember.get(scope) if isinstance(remember, dict) else None
    if not rules:
        return ""

    return scope_text(scope, rules, sys.maxsize)


UNSEEN = "•••"


def question_text(question: Question) -> str:
    """A question in one line; for a permission, what it is for."""
    details = question.details or {}
    if question.kind != "permission" or "tool" not in details:
        return question.text
    return f"Allow {details['tool']}: {preview(str(details['tool']), details.get('arguments') or {})}"


def answer_text(question: Question, answer: Any) -> str:
    """An answer in one line, without secrets."""
    if question.secret:
        return "answered"
    if isinstance(answer, str):
        return answer
    fields = (question.form or {}).get("properties")
    if isinstance(answer, dict) and isinstance(fields, dict):
        answer = {name: UNSEEN if is_secret_field(fields.get(name)) else one for name, one in answer.items()}
    return msgspec.json.encode(answer).decode()


def is_secret_field(field: Any) -> bool:
    """Whether the schema of a field marks it as secret."""
    return isinstance(field, dict) and (field.get("format") == "password" or bool(field.get("writeOnly")))


def value_text(question: Question | QuestionRow) -> str:
    """A question with its reason and possible answers, for the command line."""
    words = [question.text]
    if question.kind == "permission":
        return question.text
    if question.reason:
        words.append(f"({question.reason})")
    if question.choices:
        words.append(f"[{' / '.join(question.choices)}]")
    if question.form is not None:
        words.append(f"[JSON: {msgspec.json.encode(question.form).decode()}]")
    if question.secret:
        words.append("[a secret]")
    return " ".join(words)


_SCOPES = {
    "session": "yes, and for this session",
    "project": "yes, and for this project",
    "user": "yes, and always",
}


def scope_text(scope: str, rules: list[str], room: int) -> str:
    """What an answer would allow from now on; only the number of rules if they do not fit into `room`."""
    text = f"{_SCOPES[scope]}: {'; '.join(map(rule_text, rules))}"
    if cells(text) <= room:
        return text
    return f"{_SCOPES[scope]}: {'what is said' if len(rules) == 1 else f'the {len(rules)} rules'} above"


def rules_text(remember: dict[str, list[str]], room: int) -> list[str]:
    """The rules that did not fit, a line each; scopes with the same rules together."""
    together: dict[tuple[str, ...], list[str]] = {}
    for scope, rules in remember.items():
        if not scope_text(scope, rules, room).endswith(rule_text(rules[-1])):
            together.setdefault(tuple(rules), []).append(_SCOPES[scope].removeprefix("yes, and "))
    return [
        line
        for rules, scopes in together.items()
        for line in (f"would be allowed {', '.join(scopes)}:", *(f"  {rule_text(one)}" for one in rules))
    ]


@lru_cache(1024)
def rule_text(rule: str) -> str:
    try:
        parsed = parse_rule(rule, "allow")
    except UsageError:
        return rule
    tool, pattern = parsed.tool, parsed.pattern
    if pattern is None:
        return f"whatever {tool} does"
    if tool == "edit":
        folder = pattern.removesuffix("/**")
        return f"any change below {folder}/" if folder != pattern else f"any change of {pattern}"
    if tool == "fetch":
        return f"anything from {pattern}"
    if pattern.startswith("="):
        return f"exactly: {pattern[1:]}"
    return f"{pattern} with any arguments" if tool == "bash" else f"{tool} of {pattern}"
