"""`ostler answer`: answer what a run asks, and drive it on."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from getpass import getpass
from typing import Any

import msgspec

from ostler.faces.cli.arguments import driving_parser, parse_words
from ostler.faces.cli.columns import one_line
from ostler.faces.cli.driving import Rest, go_on, run_queue
from ostler.faces.cli.going_on import drive_on
from ostler.faces.cli.requesting import (
    Requested,
    ask_session,
    new_request_id,
    tell,
    tell_later,
    with_session,
)
from ostler.faces.cli.resume import show_waiting
from ostler.faces.cli.saying import say
from ostler.faces.cli.stdin import prompt_from
from ostler.kernel.json_schema import mismatch
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.runs.inbox import SECRET_NEEDS_ITS_CALL
from ostler.runs.run_tree import OpenQuestion, is_stuck, open_questions, root_of, state_of
from ostler.runs.session import Session
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.outcomes import Question
from ostler.vocabulary.requests import Answer

_ANSWER_ABOUT = (
    "Answers a question that a run or one of its children waits for, and drives the run on here. A "
    "permission is answered with yes, no, or a scope that the question offers; a choice with one of its "
    "choices; a form with JSON. Without an answer it is read from standard input."
)
_YES, _NO = ("yes", "y", "allow"), ("no", "n", "deny")


def answer_command(arguments: list[str]) -> int:
    parser = driving_parser("answer", _ANSWER_ABOUT)
    parser.add_argument("words", metavar="ANSWER", nargs="*")
    parser.add_argument("--question", metavar="ID", help="which one, when there are several")
    parser.add_argument("--decline", action="store_true", help="do not answer; ANSWER is the reason, if any")
    parser.add_argument("--record-only", action="store_true", help="leave the rest to `ostler resume`")
    return asyncio.run(with_session(parse_words(parser, arguments), _answer))


async def _answer(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    one = _chosen(await open_questions(store, state), options.question, state.id)
    if one.asked.question.secret and not options.decline:
        return await _answer_secret(options, store, state, one)
    answer = _request(one.asked.id, one.asked.question, options)
    root = await root_of(store, state)
    is_driven = any([await store.holder(session) for session in (root.id, one.session)])
    if not await ask_session(store, one.session, answer):
        await tell_later(options, store, one.session, answer, "it will take the answer")
        return 0
    if options.record_only or is_driven:
        tell(options, Requested(one.session, answer.id, True), "the answer is recorded")
        return 0
    root = await state_of(store, root.id)
    if await is_stuck(store, root):
        return await show_waiting(options, store, root)
    return await drive_on(options, store, root, go_on)


async def _answer_secret(
    options: argparse.Namespace, store: Store, state: SessionState, one: OpenQuestion
) -> int:
    """It is handed to the tool in this process, and kept nowhere."""
    if one.session != state.id or state.child_of or options.record_only:
        raise UsageError(SECRET_NEEDS_ITS_CALL)
    if options.words:
        raise UsageError("a secret is not said on the command line, where others see it: pipe it in")
    secret = getpass(f"{one_line(one.asked.question.text)} ") if sys.stdin.isatty() else prompt_from([])[0]
    if not secret:
        raise UsageError(f"there is no answer to: {one_line(one.asked.question.text)}")

    async def work(session: Session) -> AsyncIterator[Rest]:
        first = await session.answer(one.asked.id, secret)
        assert first is not None
        yield first
        async for quiet in run_queue(session, first):
            yield quiet

    return await drive_on(options, store, state, work)


def _chosen(questions: Sequence[OpenQuestion], wanted: str | None, session: str) -> OpenQuestion:
    if not questions:
        raise UsageError(f"nothing is asked in session {session}; `ostler runs` shows which runs wait")
    if wanted is not None:
        found = [one for one in questions if one.asked.id.startswith(wanted)] if wanted else []
        if len(found) == 1:
            return found[0]
        raise UsageError(f"the question {wanted} is not open; open are: {_listed(questions)}")
    if len(questions) > 1:
        raise UsageError(f"say which with --question: {_listed(questions)}")
    return questions[0]


def _listed(questions: Sequence[OpenQuestion]) -> str:
    return ", ".join(f"{one.asked.id} ({one_line(one.asked.question.text)})" for one in questions)


def _request(asked: str, question: Question, options: argparse.Namespace) -> Answer:
    text = " ".join(options.words).strip()
    if not text and not options.decline:
        text, notice = prompt_from([])
        if notice:
            say(notice)
    is_refusal = question.kind == "permission" and text.lower() in _NO
    if options.decline or is_refusal:
        reason = None if is_refusal else text or None
        return Answer(id=new_request_id(), by="cli", question=asked, answer=reason, declined=True)
    if not text:
        raise UsageError(f"there is no answer to: {one_line(question.text)}")
    return Answer(id=new_request_id(), by="cli", question=asked, answer=_fitting(question, text))


def _fitting(question: Question, text: str) -> Any:
    """The answer as the question wants it."""
    if question.kind == "form":
        return _form(question, text)
    if question.kind == "permission" and text.lower() in _YES:
        return "yes"
    if not question.choices:
        if question.kind == "permission":
            raise UsageError(f"{text!r} is no answer; the answers are: yes, no")
        return text
    for choice in question.choices:
        if choice.lower() == text.lower():
            return choice
    raise UsageError(f"{text!r} is no answer; the answers are: {', '.join(question.choices)}")


def _form(question: Question, text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(f"the answer must be JSON: {error}") from None
    if problem := mismatch(value, question.form or {}):
        raise UsageError(f"the answer does not fit the form: {problem}")
    return value
