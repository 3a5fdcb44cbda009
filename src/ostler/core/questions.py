"""Questions to people: the first answer wins, whichever front end it comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.core.lazy import lazy_module
from ostler.schema.errors import CallRefused
from ostler.schema.events import QuestionAnswered, QuestionAsked
from ostler.schema.outcomes import Question

if TYPE_CHECKING:
    from ostler.core import json_schema
else:
    json_schema = lazy_module("ostler.core.json_schema")

NOBODY_TO_ASK = "Refused: this needs a person's permission, and nobody can be asked here."

Recorder = Callable[[QuestionAnswered], None]


class OpenQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question that somebody can answer now, and where it was asked."""

    session: str
    asked: QuestionAsked
    agent: str = ""
    """The child that asks; empty when it is the run itself."""


class Questions:
    """Delivers answers that arrive from outside to the code that waits for them in this process."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[QuestionAnswered]] = {}
        self._taken: set[str] = set()

    def take(self, request: str) -> bool:
        """False when this request has been handled already: its facts may not be committed yet."""
        if request in self._taken:
            return False
        self._taken.add(request)
        return True

    def expect(self, asked: QuestionAsked) -> None:
        """From now on answers from outside are delivered to `ask`."""
        self._waiting[asked.id] = asyncio.get_running_loop().create_future()

    def expects(self, question: str) -> bool:
        return question in self._waiting

    def deliver(self, answer: QuestionAnswered) -> bool:
        """False when the question has its answer already."""
        waiting = self._waiting[answer.id]
        if waiting.done():
            return False
        waiting.set_result(answer)
        return True

    async def ask(self, asked: QuestionAsked, asker: Asker, record: Recorder) -> QuestionAnswered:
        """Asks an expected question, and waits for the asker's answer or for a delivered one.

        The answer is recorded before any other task runs: the next answer must find the question closed.
        """
        waiting = self._waiting[asked.id]
        asking = asyncio.ensure_future(_call_asker(asked, asker))
        try:
            await asyncio.wait({waiting, asking}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                answer = waiting.result()
            elif asking.cancelled():
                answer = QuestionAnswered(asked.id, "withdrawn", "the question could not be put")
            else:
                answer = asking.result()
            record(answer)
            return answer
        except asyncio.CancelledError:
            if waiting.done():
                self._taken.discard(waiting.result().request)  # which is refused then
            raise
        finally:
            asking.cancel()
            del self._waiting[asked.id]


async def _call_asker(asked: QuestionAsked, asker: Asker) -> QuestionAnswered:
    try:
        answer: Any = await asker(asked)
    except CallRefused as refusal:
        return QuestionAnswered(asked.id, "declined", refusal.message)
    except Exception as error:
        return QuestionAnswered(asked.id, "withdrawn", f"the question could not be put: {error}")
    return QuestionAnswered(asked.id, "answered", answer)


def answer_problem(question: Question, value: Any) -> str:
    """Why the value does not answer the question; empty if it does.

    A text may be anything, and `grants` decides what an answer to a permission means.
    """
    if question.kind == "choice" and question.choices and value not in question.choices:
        return f"the answer must be one of: {', '.join(question.choices)}"
    if question.kind == "form" and question.form is not None:
        problem = json_schema.schema_error(value, question.form)
        if problem and question.secret:  # it may quote the answer
            return "the answer does not match the form"
        return f"the answer does not match the form: {problem}" if problem else ""
    return ""


def as_stored(asked: QuestionAsked, answer: QuestionAnswered) -> QuestionAnswered:
    """The answer for the log: a secret is never stored."""
    return msgspec.structs.replace(answer, answer=None) if asked.question.secret else answer


def run_of(asked: QuestionAsked) -> str | None:
    """The run of an answer, for `Journal.record`. An extension's question and its answer belong to no run,
    because the code that asks may outlive one."""
    return "" if asked.asked_by == "extension" else None


def grants(asked: QuestionAsked, answer: QuestionAnswered) -> bool:
    """Whether the answer to a permission question is a yes, once or for an offered scope."""
    value = answer.answer.strip().lower() if isinstance(answer.answer, str) else answer.answer
    offered = [scope for scope in asked.question.choices if scope in ("session", "project", "user")]
    return answer.outcome == "answered" and value in (True, "yes", "y", "allow", *offered)


Asker = Callable[[QuestionAsked], Awaitable[Any]]
"""Asks a person through a front end. Returns the answer; raises `CallRefused` to decline."""
