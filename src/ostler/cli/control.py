"""`ostler answer`: answer what a run asks, and drive it on."""
# MERGED: Commands that ask something of one session: its run may be another process's, or nobody's.
# MERGED: `ostler resume`: drive a run on that was cut, paused, or has got what it waited for.
# MERGED: `ostler cancel`: end a run, or one of its calls.
# MERGED: `ostler pause`: let a run rest before its next step.
# MERGED: `ostler steer`: say something to a run between two of its steps.
# MERGED: `ostler release`: run the prompts that wait in a session, or drop them.

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from getpass import getpass

import msgspec

from ostler.app.console import print_json, print_stderr, prompt_from
from ostler.app.options import Parser, add_session, driving_parser, parse_words
from ostler.app.question_queue import NO_WORDS, parse_answer
from ostler.app.stores import find_session, open_store
from ostler.app.submit import new_request_id, submit_and_wait
from ostler.cli.output import print_waiting
from ostler.cli.session_runner import (
    NOTHING_TO_GO_ON_WITH,
    Rest,
    continue_session,
    exit_code,
    print_held,
    resume_as_begun,
    run_queue,
)
from ostler.core.questions import OpenQuestion
from ostler.core.state import SessionState
from ostler.core.store import Store
from ostler.schema.errors import NotFound, UsageError
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
from ostler.store.paths import store_file

Command = Callable[[argparse.Namespace, Store, SessionState], Awaitable[int]]


class SubmittedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a request, as `--json` prints it."""

    session: str
    request: str
    done: bool
    """False when it waits in the inbox."""
    holder: Holder | None = None
    """Who takes it up then; nobody yet when there is none."""


async def with_session(options: argparse.Namespace, command: Command) -> int:
    """Runs a command about the session that the options name."""
    if not store_file().exists():
        raise NotFound("there are no sessions yet; `ostler -p PROMPT…` begins one")
    store = open_store()
    try:
        return await command(options, store, await load_state(store, await find_session(store, options.id)))
    finally:
        await store.close()


def require_open_run(state: SessionState) -> None:
    if state.run is None and state.driver != "agent":
        raise UsageError(
            f"no run is open in session {state.id}, which belongs to another vendor's agent: "
            "talk to it with `ostler attach`, or start its agent again"
        )
    if state.run is None:
        raise UsageError(
            f"no run is open in session {state.id}: `ostler -p --session {state.id} PROMPT…` starts one"
        )


async def submit_and_report(
    options: argparse.Namespace, store: Store, session: str, request: AnyRequest, *, done: str, later: str
) -> int:
    """Asks, and says what came of it: `done`, or `later` when the session's holder has not got to it yet."""
    if await submit_and_wait(store, session, request):
        report_outcome(options, SubmittedRequest(session, request.id, True), done)
    else:
        await report_later(options, store, session, request, later)
    return 0


async def report_later(
    options: argparse.Namespace, store: Store, session: str, request: AnyRequest, later: str
) -> None:
    process = await store.holder(session)
    holder = Holder(process.pid, process.host) if process else None
    who = f"process {holder.pid} on {holder.host} holds session {session}: " if holder else ""
    report_outcome(options, SubmittedRequest(session, request.id, False, holder), f"{who}{later}")


def report_outcome(options: argparse.Namespace, outcome: SubmittedRequest, words: str) -> None:
    if options.json:
        print_json(outcome)
    else:
        print_stderr(words)


_RESUME_ABOUT = (
    "Drives a run on from its last fact: one whose process is gone, one that was paused, one that has got "
    "what it waited for. One that failed goes on from its messages. Prompts that wait in the session come "
    "after it."
)


def resume_command(arguments: list[str]) -> int:
    return asyncio.run(with_session(driving_parser("resume", _RESUME_ABOUT).parse_args(arguments), _resume))


async def _resume(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    is_paused = _is_paused(state)
    if is_paused and await store.holder(state.id) is not None:
        resume = Resume(id=new_request_id(), by="cli")
        return await submit_and_report(
            options, store, state.id, resume, done="the run goes on", later="it will go on with the run"
        )
    root = await root_of(store, state)
    require_own_agent(root.id, root.driver)
    if root.id != state.id:
        print_stderr(f"session {state.id} works for session {root.id}: that one goes on")
        if is_paused:
            await submit_and_wait(store, state.id, Resume(id=new_request_id(), by="cli"))
    if root.run and root.run.waiting and not _is_paused(root) and await is_stuck(store, root):
        return await show_waiting(options, store, root)
    if root.run is None and not await _can_begin(store, root):
        raise UsageError(NOTHING_TO_GO_ON_WITH)
    return await resume_as_begun(options, store, root, continue_session)


async def _can_begin(store: Store, state: SessionState) -> bool:
    """Whether there is something to go on with although no run is open: a failure, or a prompt that waits."""
    if state.last_status not in (None, "completed"):
        return True
    return any(isinstance(one, Prompt | Continue) for one in await store.pending(state.id))


def _is_paused(state: SessionState) -> bool:
    waiting = state.run.waiting if state.run else None
    return waiting is not None and waiting.reason == "paused"


async def show_waiting(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    """Nothing can be done but to say what the run waits for."""
    assert state.run is not None and state.run.waiting is not None
    if options.json:
        import sys

        for fact in await store.read(state.id, state.run.first_seq - 1):
            if fact.run == state.run.id:
                sys.stdout.buffer.write(fact.line() + b"\n")
    print_waiting(state.run.waiting, state.id, await open_questions(store, state))
    return exit_code(state.run.waiting)


_ANSWER_ABOUT = (
    "Answers a question that a run or one of its children waits for, and drives the run on here. A "
    "permission is answered with yes, no, or a scope that the question offers; a choice with one of its "
    "choices; a form with JSON. Without an answer it is read from standard input."
)


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
    if not await submit_and_wait(store, one.session, answer):
        await report_later(options, store, one.session, answer, "it will take the answer")
        return 0
    if options.record_only or is_driven:
        report_outcome(options, SubmittedRequest(one.session, answer.id, True), "the answer is recorded")
        return 0
    root = await load_state(store, root.id)
    if await is_stuck(store, root):
        return await show_waiting(options, store, root)
    return await resume_as_begun(options, store, root, continue_session)


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

    return await resume_as_begun(options, store, state, work)


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
            print_stderr(notice)
    is_refusal = question.kind == "permission" and text.lower() in NO_WORDS
    if options.decline or is_refusal:
        reason = None if is_refusal else text or None
        return Answer(id=new_request_id(), by="cli", question=asked, answer=reason, declined=True)
    if not text:
        raise UsageError(f"there is no answer to: {one_line(question.text)}")
    return Answer(id=new_request_id(), by="cli", question=asked, answer=parse_answer(question, text))


def cancel_command(arguments: list[str]) -> int:
    return asyncio.run(with_session(_cancel_parser().parse_args(arguments), _cancel))


def _cancel_parser() -> Parser:
    parser = Parser(
        prog="ostler cancel",
        description="Ends a run and its children, whoever works on it, or nobody. No model is needed.",
    )
    add_session(parser)
    parser.add_argument("--call", metavar="CALL", default="", help="only this call, by its id")
    parser.add_argument("--json", action="store_true", help="what came of it, as one JSON object")
    return parser


async def _cancel(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    require_open_run(state)
    root = await root_of(store, state)
    cancel = Cancel(id=new_request_id(), by="cli", call=options.call)
    what = f"the call {options.call}" if options.call else "the run"
    code = await submit_and_report(
        options,
        store,
        state.id,
        cancel,
        done=f"{what} was cancelled in session {state.id}",
        later=f"it will cancel {what}",
    )
    if not options.json:
        await print_held(store, await load_state(store, state.id))
    if root.id != state.id and not options.json and await store.holder(root.id) is None:
        print_stderr(f"session {root.id} worked with it: `ostler resume {root.id}` goes on there")
    return code


def pause_command(arguments: list[str]) -> int:
    return asyncio.run(with_session(_pause_parser().parse_args(arguments), _pause))


def _pause_parser() -> Parser:
    parser = Parser(
        prog="ostler pause",
        description="Lets a run rest before its next step, until `ostler resume`. One that waits stays where "
        "it is: an answer alone does not wake it then.",
    )
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="what came of it, as one JSON object")
    return parser


async def _pause(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    require_open_run(state)
    assert state.run is not None
    if state.run.waiting is None and await store.holder(state.id) is None:
        raise UsageError(
            f"the run of session {state.id} is not under way, because its process is gone: "
            f"`ostler resume {state.id}` goes on, `ostler cancel {state.id}` ends it"
        )
    return await submit_and_report(
        options,
        store,
        state.id,
        Pause(id=new_request_id(), by="cli"),
        done=f"paused; `ostler resume {state.id}` goes on",
        later="the run rests before its next step",
    )


def steer_command(arguments: list[str]) -> int:
    return asyncio.run(with_session(parse_words(_steer_parser(), arguments), _steer))


def _steer_parser() -> Parser:
    parser = Parser(
        prog="ostler steer",
        description="Says something to a run, whoever works on it. The model is told between two steps; if "
        "it was finished, it gets another one.",
    )
    add_session(parser)
    parser.add_argument("words", metavar="TEXT", nargs="*", help="what to say")
    parser.add_argument("--json", action="store_true", help="what came of it, as one JSON object")
    return parser


async def _steer(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    text = " ".join(options.words).strip()
    if not text:
        raise UsageError("there is nothing to say: say it after the session's id")
    require_open_run(state)
    steer = Steer(id=new_request_id(), by="cli", content=as_content(text))
    if await store.holder(state.id) is not None:
        told, later = "the model was told", "the model is told before its next step"
        return await submit_and_report(options, store, state.id, steer, done=told, later=later)
    await store.submit(state.id, steer)
    later = f"nobody works on it now; the model is told when the run goes on: `ostler resume {state.id}`"
    await report_later(options, store, state.id, steer, later)
    return 0


_RELEASE_ABOUT = (
    "Prompts that wait in a session are held when the run before them did not complete. This runs them "
    "one after the other, as long as each completes."
)


def release_command(arguments: list[str]) -> int:
    parser = driving_parser("release", _RELEASE_ABOUT)
    parser.add_argument("--drop", action="store_true", help="forget them instead; no model is needed")
    return asyncio.run(with_session(parser.parse_args(arguments), _release))


async def _release(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    waiting = [one for one in await store.pending(state.id) if isinstance(one, Prompt | Continue)]
    if not waiting:
        raise UsageError(f"no prompts wait in session {state.id}")
    prompts = plural(len(waiting), "prompt")
    release = ReleasePrompts(id=new_request_id(), by="cli", drop=options.drop)
    if options.drop:
        done, later = f"{prompts} dropped", f"it will drop {prompts}"
        return await submit_and_report(options, store, state.id, release, done=done, later=later)
    if state.run is not None or await store.holder(state.id) is not None:
        later = f"{prompts} will be run when the open run has ended"
        return await submit_and_report(options, store, state.id, release, done=later, later=later)
    if not await submit_and_wait(store, state.id, release):
        report_outcome(
            options,
            SubmittedRequest(state.id, release.id, False),
            f"{prompts} will be run by another process",
        )
        return 0
    return await resume_as_begun(options, store, state, _queue)


async def _queue(session: Session) -> AsyncIterator[Rest]:
    async for quiet in run_queue(session):
        yield quiet
