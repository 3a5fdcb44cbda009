"""Driving a session here: what happens is printed, signals end it, and its end is the exit code."""
# MERGED: What a run's end means to a shell.
# MERGED: Driving on a run that somebody else began, here and as it was begun.
# MERGED: Prompts that a run left behind which did not complete: whoever queued them is told.
# MERGED: `--schema`: the JSON Schema that an answer shall fit, and whether it does.

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from ostler.app.console import print_stderr
from ostler.app.extension_setup import load_extensions
from ostler.app.harness import LIMITS, prepare_harness, settings_for
from ostler.app.session_choice import enable_gc, open_for_run, require_free, store_model
from ostler.app.settings import Settings, working_directory
from ostler.app.stores import open_store
from ostler.core.lazy import load
from ostler.core.questions import OpenQuestion
from ostler.core.run_state import RunState
from ostler.core.state import SessionState
from ostler.core.store import Store
from ostler.permissions.rules import PROFILES
from ostler.schema.errors import UsageError
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.requests import Continue, Prompt
from ostler.schema.text import plural
from ostler.sessions.run_tree import open_questions
from ostler.sessions.session import Session

TERMINATED = "terminated"
"""The reason of a run that was cancelled by SIGTERM."""


def exit_code(quiet: RunEnded | RunWaiting) -> int:
    """130 and 143 before 1, 5, 6 and 4: the first that is true. (2 and 3 never get as far as a run.)"""
    if isinstance(quiet, RunWaiting):
        return 6
    if quiet.status == "cancelled":
        return 143 if quiet.reason == TERMINATED else 130
    if quiet.status in ("failed", "interrupted"):
        return 1
    if quiet.status == "limit":
        return 5
    if quiet.status == "refused" or quiet.own.refused_calls or quiet.children.refused_calls:
        return 4
    return 0


NOTHING_TO_GO_ON_WITH = "there is nothing to go on with: say what to do after -p"


Rest = RunEnded | RunWaiting

Work = Callable[[Session], AsyncIterator[Rest]]
"""Drives one run after the other, and says where each came to rest."""


async def run_session(session: Session, work: Work, *, as_lines: bool) -> int:
    """Does the work, prints what comes of it, and gives the session back. Returns the exit code."""
    if as_lines:
        return await _drive_to_lines(session, work)
    from ostler.cli.output import ConsoleOutput

    output = ConsoleOutput()
    session.subscribe(output.see)
    _on_signals(session.cancel)
    quiet: Rest | None = None
    async for quiet in work(session):
        output.finish(quiet, session.id, await _questions(session, quiet))
        await session.drain()
    await session.drain()
    await _say_held(session)
    await session.close()
    await _tidy(session)
    return _code(quiet, session)


async def _drive_to_lines(session: Session, work: Work) -> int:
    from ostler.cli.json_output import JsonOutput
    from ostler.cli.output import NoticePrinter

    def end(reason: str) -> None:
        output.hurry()
        session.cancel(reason)

    output = JsonOutput(session)
    notices = NoticePrinter()
    if session.state.run is not None:
        output.see(await _facts_of_run(session, session.state.run.id))
    session.subscribe(output.see)
    session.subscribe(notices.see)
    _on_signals(end)
    try:
        quiet = await _last(session, work)
    except Exception:
        await output.finish()  # what happened before is promised to the reader, whole lines of it
        raise
    questions = await _questions(session, quiet)
    await session.close()
    code = _code(quiet, session)
    read_to_its_end = await output.finish()
    if quiet is not None:
        notices.say_end(quiet, session.id, questions)
    await _say_held(session)
    await _tidy(session)
    if read_to_its_end:
        return code
    print_stderr("the output was not read to its end, and is not waited for any longer")
    return code or exit_code(RunEnded("cancelled", TERMINATED))


async def _last(session: Session, work: Work) -> Rest | None:
    last = None
    async for quiet in work(session):
        last = quiet
        await session.drain()
    await session.drain()
    return last


async def _questions(session: Session, quiet: Rest | None) -> list[OpenQuestion]:
    if not isinstance(quiet, RunWaiting):
        return []
    return await open_questions(session.journal.store, session.state)


async def _say_held(session: Session) -> None:
    if session.state.held:
        await print_held(session.journal.store, session.state)


def _code(quiet: Rest | None, session: Session) -> int:
    if quiet is None:
        return 0
    is_complete = isinstance(quiet, RunEnded) and quiet.status == "completed"
    if is_complete and session.harness.answer_schema and (problem := schema_problem(session)):
        print_stderr(problem)
        return 1
    return exit_code(quiet)


async def _tidy(session: Session) -> None:
    """Nothing more is read. The store is not closed: that would cost the next start a file of its own."""
    await session.journal.store.checkpoint()


async def _facts_of_run(session: Session, run: str) -> list[Fact]:
    """What an open run has so far: whoever reads the lines gets all of it, from its beginning."""
    return [fact for fact in await session.journal.store.read(session.id) if fact.run == run]


def _on_signals(end: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    for number, reason in (
        (signal.SIGINT, "cancelled"),
        (signal.SIGTERM, TERMINATED),
        (signal.SIGHUP, TERMINATED),
    ):
        loop.add_signal_handler(number, end, reason)


# --- what a session is driven to do -----------------------------------------------------------------


async def continue_session(session: Session) -> AsyncIterator[Rest]:
    """Without a prompt: an open run goes on from its last fact, one that failed from its messages.

    Prompts that wait in the inbox come after it.
    """
    first = await _first(session)
    yield first
    async for quiet in run_queue(session, first):
        yield quiet


async def _first(session: Session) -> Rest:
    state = session.state
    if state.run is None and state.last_status not in (None, "completed"):
        return await session.continue_()
    is_paused = state.run is not None and state.run.waiting and state.run.waiting.reason == "paused"
    quiet = await (session.resume() if is_paused else session.advance())
    if quiet is None:
        raise UsageError(NOTHING_TO_GO_ON_WITH)
    return quiet


async def run_queue(session: Session, quiet: Rest | None = None) -> AsyncIterator[Rest]:
    """Runs the prompts that wait in the inbox, as long as each completes."""
    while quiet is None or (isinstance(quiet, RunEnded) and quiet.status == "completed"):
        quiet = await session.advance()
        if quiet is None:
            return
        yield quiet


async def permit(session: Session) -> Rest | None:
    """Says yes to everything that the run and its children want to be permitted, and drives the run on."""
    from ostler.sessions.submit import answer_question

    store = session.journal.store
    quiet = None
    answered: set[str] = set()
    while asked := [
        one
        for one in await open_questions(store, session.state)
        if one.asked.question.kind == "permission" and one.asked.id not in answered
    ]:
        answered.add(asked[0].asked.id)
        quiet = await answer_question(session, asked[0], "yes", by="cli")
    return quiet


async def resume_as_begun(options: argparse.Namespace, store: Store, state: SessionState, work: Work) -> int:
    """Opens the session with what its run needs, in its own directory, and does the work."""
    await require_free(store, state.id)
    cwd = _place(options, state)
    settings = settings_for(options, cwd)
    if state.run is not None:
        settings = _as_begun(settings, state.run, options)
    settings, harness = prepare_harness(settings, cwd, state.settings.model, options)
    if settings.durability != "process":
        store = open_store(settings)
    await load_extensions(
        options, settings, harness, lambda: load("ostler.cli.front_end:CliFrontEnd")(harness)
    )
    session = await open_for_run(store, state.id, harness)
    enable_gc()
    store_model(options, session)
    return await run_session(session, work, as_lines=options.json)


def _place(options: argparse.Namespace, state: SessionState) -> Path:
    if options.cwd is not None:
        return working_directory(options.cwd)
    place = Path(state.cwd)
    if not place.is_dir():
        raise UsageError(f"session {state.id} worked in {place}, which is gone: say where with --cwd")
    if not place.samefile("."):
        print_stderr(f"working in {place}, where the session is")
    return working_directory(state.cwd)


def _as_begun(settings: Settings, run: RunState, options: argparse.Namespace) -> Settings:
    """The settings, with the limits of the run, and so that a person is asked and not refused.

    The permissions that it was begun with are not taken from the log: an imported one could bring its own.
    """
    changes: dict[str, Any] = {}
    for name in LIMITS:
        begun, now = getattr(run.started.limits, name.removeprefix("max_")), getattr(settings, name)
        if begun is not None and getattr(options, name) is None:
            changes[name] = begun if now is None else min(begun, now)
    begun_with = run.started.permissions
    is_unsaid = options.permissions is None and not options.yes
    if is_unsaid and begun_with in PROFILES[PROFILES.index(settings.permissions) + 1 :]:
        print_stderr(f"the run began with --permissions {begun_with}; until you say so again, it asks")
        changes["permissions"] = max(settings.permissions, "ask", key=PROFILES.index)
        changes["on_question"] = "wait"
    if run.waiting or run.still_ms:
        changes["on_question"] = "wait"
    if options.on_question is not None:
        changes.pop("on_question", None)
    return msgspec.structs.replace(settings, **changes)


async def print_held(store: Store, state: SessionState) -> None:
    if not state.held:
        return
    held = [one for one in await store.pending(state.id) if isinstance(one, Prompt | Continue)]
    if held:
        prompts, release = plural(len(held), "prompt"), f"ostler release {state.id}"
        print_stderr(
            f"{prompts} held, because the run did not complete; `{release}` goes on, or with --drop forgets"
        )


def read_schema(file: Path) -> dict[str, Any]:
    from ostler.core.json_schema import schema_problem

    try:
        schema = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"the schema {file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is not a JSON Schema: {error}") from None
    if problem := schema_problem(schema):
        raise UsageError(f"{file} is not a JSON Schema: {problem}")
    return schema


def schema_problem(session: Session) -> str:
    """Why the answer is not what `--schema` asked for; empty when it is, or when nothing was asked for."""
    schema = session.harness.answer_schema
    if schema is None:
        return ""
    from ostler.core.json_schema import schema_error

    try:
        answer = msgspec.json.decode(session.state.transcript[-1].text)
    except msgspec.DecodeError as error:
        return f"the answer is not JSON ({error})"
    problem = schema_error(answer, schema)
    return f"the answer does not fit the schema: {problem}" if problem else ""
