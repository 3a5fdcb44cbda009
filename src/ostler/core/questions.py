"""Questions to the user: the first answer wins, whichever front end it comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.core.lazy import lazy_module
from ostler.core.process_tree import local_user
from ostler.schema.errors import CallRefused
from ostler.schema.events import QuestionAnswered, QuestionAsked
from ostler.schema.outcomes import Question

if TYPE_CHECKING:
    from ostler.core import json_schema
    from ostler.core.journal import Journal
    from ostler.core.run_state import CallState
else:
    json_schema = lazy_module("ostler.core.json_schema")

NOBODY_TO_ASK = "Refused: this needs the user's permission, and there is no user to ask."


class OpenQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question that can be answered now, and where it was asked."""

    session: str
    asked: QuestionAsked
    agent: str = ""
    """The child that asks; empty if it is the run itself."""


class Questions:
    """Delivers answers that arrive from outside to the code that waits for them in this process."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[QuestionAnswered]] = {}
        self._taken: set[str] = set()

    def take(self, request: str) -> bool:
        """False if this request has been handled already: its facts may not be committed yet."""
        if request in self._taken:
            return False
        self._taken.add(request)
        return True

    def expect(self, asked: QuestionAsked) -> None:
        """From now on, `deliver` passes answers from outside to `ask`."""
        self._waiting[asked.id] = asyncio.get_running_loop().create_future()

    def expects(self, question: str) -> bool:
        return question in self._waiting

    def deliver(self, answer: QuestionAnswered) -> bool:
        """False if the question has its answer already."""
        waiting = self._waiting[answer.id]
        if waiting.done():
            return False
        waiting.set_result(answer)
        return True

    async def ask(self, asked: QuestionAsked, asker: Asker, journal: Journal) -> QuestionAnswered:
        """Asks an expected question, and waits for the asker's answer or for a delivered one. The answer is
        recorded before any other task runs, so that the next answer finds the question closed."""
        waiting = self._waiting[asked.id]
        asking = asyncio.ensure_future(_call_asker(asked, asker, journal.store.consent_problem))
        try:
            await asyncio.wait({waiting, asking}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                answer = waiting.result()
            elif asking.cancelled():
                answer = QuestionAnswered(asked.id, "withdrawn", "the question could not be asked")
            else:
                answer = asking.result()
            record_answer(journal, asked, answer)
            return answer
        except asyncio.CancelledError:
            if waiting.done():
                self._taken.discard(waiting.result().request)  # it is refused then
            raise
        finally:
            asking.cancel()
            del self._waiting[asked.id]


async def _call_asker(
    asked: QuestionAsked, asker: Asker, consent_problem: Callable[[], str]
) -> QuestionAnswered:
    """The answer of the person at this process. If an agent started the process, that is no person: then only
    an answer from outside can allow something."""
    if asked.question.kind == "permission" and (problem := consent_problem()):
        return QuestionAnswered(asked.id, "declined", f"Refused: {problem}.")
    try:
        answer: Any = await asker(asked)
    except CallRefused as refusal:
        return QuestionAnswered(asked.id, "declined", refusal.message, identity=local_user())
    except Exception as error:
        return QuestionAnswered(asked.id, "withdrawn", f"the question could not be asked: {error}")
    return QuestionAnswered(asked.id, "answered", answer, identity=local_user())


def answer_problem(question: Question, value: Any) -> str:
    """Why the value does not answer the question; empty if it does. A text may be anything, and `grants`
    decides what an answer to a permission means."""
    if question.kind == "choice" and question.choices and value not in question.choices:
        return f"the answer must be one of: {', '.join(question.choices)}"
    if question.kind == "form" and question.form is not None:
        problem = json_schema.schema_error(value, question.form)
        if problem and question.secret:  # it may quote the answer
            return "the answer does not match the form"
        return f"the answer does not match the form: {problem}" if problem else ""
    return ""


def record_answer(journal: Journal, asked: QuestionAsked, answer: QuestionAnswered) -> None:
    """Records the answer to an open question. A secret is never stored."""
    if asked.id in journal.state.questions:
        stored = msgspec.structs.replace(answer, answer=None) if asked.question.secret else answer
        journal.record(stored, run=run_of(asked), settles=answer.request)


def withdraw_question(journal: Journal, asked: QuestionAsked) -> None:
    """Closes a question without an answer, if it is still open."""
    if not journal.failed:
        record_answer(journal, asked, QuestionAnswered(asked.id, "withdrawn"))


def withdraw_imported(journal: Journal, call: CallState) -> None:
    """Closes the open questions about a call that came with an import."""
    for asked in tuple(journal.state.questions.values()):
        if asked.call == call.called.call and asked is not call.question:
            withdraw_question(journal, asked)


def run_of(asked: QuestionAsked) -> str | None:
    """The run of a question and its answer, for `Journal.record`. Those of an extension belong to no run,
    because the code that asks may outlive one."""
    return "" if asked.asked_by == "extension" else None


def grants(asked: QuestionAsked, answer: QuestionAnswered) -> bool:
    """Whether the answer to a permission question is a yes, once or for an offered scope."""
    value = answer.answer.strip().lower() if isinstance(answer.answer, str) else answer.answer
    offered = [scope for scope in asked.question.choices if scope in ("session", "project", "user")]
    wider = (asked.question.details or {}).get("remember_wider") or {}
    offered += [f"{scope}+" for scope in offered if scope in wider]
    return answer.outcome == "answered" and value in (True, "yes", "y", "allow", *offered)


Asker = Callable[[QuestionAsked], Awaitable[Any]]
"""Asks the user through a front end. Returns the answer; raises `CallRefused` to decline."""
