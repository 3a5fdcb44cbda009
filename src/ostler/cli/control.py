"""Commands that control a run of this or another process: answer, resume, cancel, pause, steer, release."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from getpass import getpass
from pathlib import Path
from typing import TypeVar

import msgspec

from ostler.app.console import print_json, print_stderr, prompt_from
from ostler.app.options import Parser, RunOptions, add_json, add_session, continue_parser, parse_words
from ostler.app.question_queue import NO_WORDS, parse_answer
from ostler.app.session_choice import new_request_id, submit_and_wait
from ostler.app.stores import find_session, opened_store, require_store
from ostler.cli.output import print_waiting
from ostler.cli.session_runner import NOTHING_TO_CONTINUE, exit_code, print_held, resume_session
from ostler.core.questions import OpenQuestion
from ostler.core.state import SessionState
from ostler.core.store import Store
from ostler.schema.errors import UsageError
from ostler.schema.messages import as_content
from ostler.schema.outcomes import Question
from ostler.schema.requests import (
    Answer,
    AnyRequest,
    Cancel,
    Continue,
    Pause,
    Prompt,
    ReleasePrompts,
    Resume,
    Steer,
)
from ostler.schema.text import one_line, plural
from ostler.sessions.inbox import SECRET_NEEDS_ITS_CALL
from ostler.sessions.run_tree import Holder, is_stuck, load_state, open_questions, root_of
from ostler.sessions.session import Session, require_own_agent


class ControlOptions(RunOptions):
    id: str
    question: str | None = None
    decline: bool = False
    record_only: bool = False
    call: str = ""
    drop: bool = False


Options = TypeVar("Options", ControlOptions, argparse.Namespace)


class SubmittedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a request, as `--json` prints it."""

    session: str
    request: str
    done: bool
    """False while it waits in the inbox."""
    holder: Holder | None = None
    """The process that will handle it, if one holds the session."""


async def with_session(
    options: Options, command: Callable[[Options, Store, SessionState], Awaitable[int]]
) -> int:
    """Runs a command on the session that the options name."""
    require_store()
    async with opened_store() as store:
        return await command(options, store, await load_state(store, await find_session(store, options.id)))


def require_open_run(state: SessionState) -> None:
    if state.run is None:
        hint = f": `ostler -p --session {state.id} PROMPT…` starts one"
        if state.driver != "agent":
            hint = ", which belongs to another vendor's agent: use `ostler attach`, or start its agent again"
        raise UsageError(f"no run is open in session {state.id}{hint}")


async def submit_and_report(
    options: ControlOptions, store: Store, session: str, request: AnyRequest, *, done: str, later: str
) -> int:
    """Submits a request and reports the result: `done`, or `later` if the holder has yet to handle it."""
    if await submit_and_wait(store, session, request):
        report_outcome(options, SubmittedRequest(session, request.id, True), done)
    else:
        await report_later(options, store, session, request, later)
    return 0


async def report_later(
    options: ControlOptions, store: Store, session: str, request: AnyRequest, later: str
) -> None:
    process = await store.holder(session)
    holder = Holder(process.pid, process.host) if process else None
    who = f"process {holder.pid} on {holder.host} holds session {session}: " if holder else ""
    report_outcome(options, SubmittedRequest(session, request.id, False, holder), f"{who}{later}")


def report_outcome(options: ControlOptions, outcome: SubmittedRequest, text: str) -> None:
    if options.json:
        print_json(outcome)
    else:
        print_stderr(text)


def _simple_parser(command: str, about: str) -> Parser:
    """The parser of a command that needs no model."""
    parser = Parser(prog=f"ostler {command}", description=about)
    add_session(parser)
    add_json(parser, "print the result as one JSON object")
    return parser


Command = Callable[[ControlOptions, Store, SessionState], Awaitable[int]]


def _start(parser: Parser, arguments: list[str], command: Command, *, has_words: bool = False) -> int:
    options = ControlOptions()
    if has_words:
        parse_words(parser, arguments, options)
    else:
        parser.parse_args(arguments, options)
    return asyncio.run(with_session(options, command))


_RESUME_ABOUT = (
    "Continues a run that was paused, whose process is gone, or that has received what it waited for. A "
    "failed run continues from its messages. Queued prompts of the session run after it."
)


def resume_command(arguments: list[str]) -> int:
    return _start(continue_parser("resume", _RESUME_ABOUT), arguments, _resume)


async def _resume(options: ControlOptions, store: Store, state: SessionState) -> int:
    is_paused = _is_paused(state)
    if is_paused and await store.holder(state.id) is not None:
        resume = Resume(id=new_request_id(), by="cli")
        done, later = "the run continues", "it will continue the run"
        return await submit_and_report(options, store, state.id, resume, done=done, later=later)
    root = await root_of(store, state)
    require_own_agent(root.id, root.driver)
    if root.id != state.id:
        print_stderr(f"session {state.id} is a subagent of session {root.id}: continuing that one")
        if is_paused:
            await submit_and_wait(store, state.id, Resume(id=new_request_id(), by="cli"))
    if root.run and root.run.waiting and not _is_paused(root) and await is_stuck(store, root):
        return await show_waiting(options, store, root)
    if root.run is None and not await _can_begin(store, root):
        raise UsageError(NOTHING_TO_CONTINUE)
    return await resume_session(options, store, root)


async def _can_begin(store: Store, state: SessionState) -> bool:
    """Whether there is something to continue although no run is open: a failure, or a queued prompt."""
    if state.last_status not in (None, "completed"):
        return True
    return any(isinstance(one, Prompt | Continue) for one in await store.pending(state.id))


def _is_paused(state: SessionState) -> bool:
    waiting = state.run.waiting if state.run else None
    return waiting is not None and waiting.reason == "paused"


async def show_waiting(options: ControlOptions, store: Store, state: SessionState) -> int:
    """Prints what the run waits for."""
    assert state.run is not None and state.run.waiting is not None
    if options.json:
        for fact in await store.read(state.id, state.run.first_seq - 1):
            if fact.run == state.run.id:
                sys.stdout.buffer.write(fact.line() + b"\n")
    print_waiting(state.run.waiting, state.id, await open_questions(store, state), Path(state.cwd))
    return exit_code(state.run.waiting)


_ANSWER_ABOUT = (
    "Answers a question of a waiting run or one of its subagents, and continues the run here. Answer a "
    "permission with yes, no, or a scope that the question offers; a choice with one of its choices; a form "
    "with JSON. Without ANSWER, the answer is read from standard input."
)


def answer_command(arguments: list[str]) -> int:
    parser = continue_parser("answer", _ANSWER_ABOUT)
    add = parser.add_argument
    add("words", metavar="ANSWER", nargs="*", help="the answer")
    add("--question", metavar="ID", help="which question, if there are several")
    add("--decline", action="store_true", help="decline the question; ANSWER is an optional reason")
    about = "only record the answer; `ostler resume` continues the run"
    add("--record-only", action="store_true", help=about)
    return _start(parser, arguments, _answer, has_words=True)


async def _answer(options: ControlOptions, store: Store, state: SessionState) -> int:
    one = _chosen(await open_questions(store, state), options.question, state.id)
    if one.asked.question.secret and not options.decline:
        return await _answer_secret(options, store, state, one)
    answer = _request(one.asked.id, one.asked.question, options)
    root = await root_of(store, state)
    is_driven = any([await store.holder(session) for session in (root.id, one.session)])
    if not await submit_and_wait(store, one.session, answer):
        await report_later(options, store, one.session, answer, "it will handle the answer")
        return 0
    if options.record_only or is_driven:
        report_outcome(options, SubmittedRequest(one.session, answer.id, True), "the answer is recorded")
        return 0
    root = await load_state(store, root.id)
    if await is_stuck(store, root):
        return await show_waiting(options, store, root)
    return await resume_session(options, store, root)


async def _answer_secret(
    options: ControlOptions, store: Store, state: SessionState, one: OpenQuestion
) -> int:
    """Passes a secret to the tool in this process, and stores it nowhere."""
    if one.session != state.id or state.child_of or options.record_only:
        raise UsageError(SECRET_NEEDS_ITS_CALL)
    if options.words:
        raise UsageError("a secret must not be an argument, which others can see: pipe it in")
    secret = getpass(f"{one_line(one.asked.question.text)} ") if sys.stdin.isatty() else prompt_from([])[0]
    if not secret:
        raise UsageError(f"there is no answer to: {one_line(one.asked.question.text)}")
    return await resume_session(options, store, state, lambda session: session.answer(one.asked.id, secret))


def _chosen(questions: Sequence[OpenQuestion], wanted: str | None, session: str) -> OpenQuestion:
    if not questions:
        raise UsageError(f"session {session} has no open question; `ostler runs` shows which runs wait")
    if wanted is not None:
        matches = [one for one in questions if one.asked.id.startswith(wanted)] if wanted else []
        if len(matches) == 1:
            return matches[0]
        raise UsageError(f"the question {wanted} is not open; open: {_listed(questions)}")
    if len(questions) > 1:
        raise UsageError(f"choose one with --question: {_listed(questions)}")
    return questions[0]


def _listed(questions: Sequence[OpenQuestion]) -> str:
    return ", ".join(f"{one.asked.id} ({one_line(one.asked.question.text)})" for one in questions)


def _request(asked: str, question: Question, options: ControlOptions) -> Answer:
    text = " ".join(options.words).strip()
    if not text and not options.decline:
        text, notice = prompt_from([])
        if notice:
            print_stderr(notice)
    is_refusal = question.kind == "permission" and text.lower() in NO_WORDS
    declined = options.decline or is_refusal
    if not declined and not text:
        raise UsageError(f"there is no answer to: {one_line(question.text)}")
    reason = None if is_refusal else text or None
    answer = reason if declined else parse_answer(question, text)
    return Answer(id=new_request_id(), by="cli", question=asked, answer=answer, declined=declined)


def cancel_command(arguments: list[str]) -> int:
    about = "Cancels a run and its subagents, whether a process runs it or not. Needs no model."
    parser = _simple_parser("cancel", about)
    parser.add_argument("--call", metavar="CALL", default="", help="cancel only this call, by its id")
    return _start(parser, arguments, _cancel)


async def _cancel(options: ControlOptions, store: Store, state: SessionState) -> int:
    require_open_run(state)
    root = await root_of(store, state)
    cancel = Cancel(id=new_request_id(), by="cli", call=options.call)
    what = f"the call {options.call}" if options.call else "the run"
    done, later = f"{what} was cancelled in session {state.id}", f"it will cancel {what}"
    code = await submit_and_report(options, store, state.id, cancel, done=done, later=later)
    if not options.json:
        await print_held(store, await load_state(store, state.id))
    if root.id != state.id and not options.json and await store.holder(root.id) is None:
        print_stderr(f"it is a subagent of session {root.id}: `ostler resume {root.id}` continues there")
    return code


_PAUSE_ABOUT = (
    "Pauses a run before its next step, until `ostler resume`. A run that waits for an answer stays paused "
    "after the answer, too."
)


def pause_command(arguments: list[str]) -> int:
    return _start(_simple_parser("pause", _PAUSE_ABOUT), arguments, _pause)


async def _pause(options: ControlOptions, store: Store, state: SessionState) -> int:
    require_open_run(state)
    assert state.run is not None
    if state.run.waiting is None and await store.holder(state.id) is None:
        raise UsageError(
            f"the run of session {state.id} is not running, because its process is gone: "
            f"`ostler resume {state.id}` continues it, `ostler cancel {state.id}` ends it"
        )
    pause = Pause(id=new_request_id(), by="cli")
    done, later = f"paused; `ostler resume {state.id}` continues", "the run pauses before its next step"
    return await submit_and_report(options, store, state.id, pause, done=done, later=later)


_STEER_ABOUT = (
    "Sends a message to a run of any process. The model gets it before its next step; if the model had "
    "finished, it gets another step."
)


def steer_command(arguments: list[str]) -> int:
    parser = _simple_parser("steer", _STEER_ABOUT)
    parser.add_argument("words", metavar="TEXT", nargs="*", help="the message")
    return _start(parser, arguments, _steer, has_words=True)


async def _steer(options: ControlOptions, store: Store, state: SessionState) -> int:
    text = " ".join(options.words).strip()
    if not text:
        raise UsageError("there is no message: give it after the session's id")
    require_open_run(state)
    steer = Steer(id=new_request_id(), by="cli", content=as_content(text))
    if await store.holder(state.id) is not None:
        done, later = "the model got the message", "the model gets the message before its next step"
        return await submit_and_report(options, store, state.id, steer, done=done, later=later)
    await store.submit(state.id, steer)
    later = f"no process runs it now; the model gets the message after `ostler resume {state.id}`"
    await report_later(options, store, state.id, steer, later)
    return 0


_RELEASE_ABOUT = (
    "Prompts in the queue of a session are held if the run before them did not complete. This runs them "
    "one after the other, as long as each completes."
)


def release_command(arguments: list[str]) -> int:
    parser = continue_parser("release", _RELEASE_ABOUT)
    parser.add_argument("--drop", action="store_true", help="delete them instead; needs no model")
    return _start(parser, arguments, _release)


async def _release(options: ControlOptions, store: Store, state: SessionState) -> int:
    waiting = [one for one in await store.pending(state.id) if isinstance(one, Prompt | Continue)]
    if not waiting:
        raise UsageError(f"session {state.id} has no queued prompts")
    prompts = plural(len(waiting), "prompt")
    release = ReleasePrompts(id=new_request_id(), by="cli", drop=options.drop)
    if options.drop:
        done, later = f"{prompts} dropped", f"it will drop {prompts}"
        return await submit_and_report(options, store, state.id, release, done=done, later=later)
    if state.run is not None or await store.holder(state.id) is not None:
        later = f"{prompts} will run when the open run has ended"
        return await submit_and_report(options, store, state.id, release, done=later, later=later)
    if not await submit_and_wait(store, state.id, release):
        outcome = SubmittedRequest(state.id, release.id, False)
        report_outcome(options, outcome, f"{prompts} will run in another process")
        return 0
    return await resume_session(options, store, state, Session.advance)
