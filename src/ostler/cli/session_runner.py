"""Runs a session in this process: prints what happens, stops on signals, and returns the exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.app.console import print_stderr
from ostler.app.extension_setup import load_extensions
from ostler.app.harness import LIMITS, prepare_harness, settings_for
from ostler.app.options import RunOptions
from ostler.app.session_choice import enable_gc, open_for_run, require_free, store_model
from ostler.app.settings import Settings, working_directory
from ostler.app.stores import open_store
from ostler.core.harness import Harness
from ostler.core.lazy import lazy_module
from ostler.core.questions import OpenQuestion
from ostler.core.run_state import RunState
from ostler.core.state import SessionState
from ostler.core.store import Store
from ostler.permissions.rules import PROFILES
from ostler.schema.errors import UsageError
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.requests import Continue, Prompt
from ostler.schema.text import plural
from ostler.sessions.session import RunOutcome, Session

if TYPE_CHECKING:
    from ostler.cli import front_end, json_output, output
    from ostler.core import json_schema
    from ostler.extensions.host import ExtensionHost
    from ostler.sessions import run_tree, submit
else:
    front_end = lazy_module("ostler.cli.front_end")
    json_output = lazy_module("ostler.cli.json_output")
    json_schema = lazy_module("ostler.core.json_schema")
    output = lazy_module("ostler.cli.output")
    run_tree = lazy_module("ostler.sessions.run_tree")
    submit = lazy_module("ostler.sessions.submit")

TERMINATED = "terminated"
"""The reason of a run that SIGTERM cancelled."""

NOTHING_TO_CONTINUE = "there is nothing to continue: give a prompt after -p"

Start = Callable[[Session], Awaitable[RunOutcome]]
"""Starts or continues a run until it ends or waits; None if there is nothing to run."""


async def run_session(
    session: Session, start: Start, *, as_json: bool, runs_queue: Callable[[], bool] = lambda: True
) -> int:
    """Runs what `start` starts, then the queued prompts as long as each completes and `runs_queue()`. Prints
    what happens, closes the session and returns the exit code."""
    report = _JsonReport(session) if as_json else _Report(session)
    await report.begin()
    try:
        outcome = await start(session)
        await report.add(outcome)
        while _is_completed(outcome) and runs_queue() and (following := await session.advance()):
            outcome = following
            await report.add(outcome)
    except Exception:
        await report.abort()
        raise
    return await report.close(outcome)


class _Report:
    """Prints a run as text: the answer to standard output, everything else to standard error."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def begin(self) -> None:
        self._output = output.ConsoleOutput()
        self._session.subscribe(self._output.see)
        _on_signals(self._session.cancel)

    async def add(self, outcome: RunOutcome) -> None:
        """Prints how a run ended, and lets extensions finish what they do between runs."""
        if outcome is not None:
            self._print(outcome, await self._questions(outcome))
        await self._session.drain()

    def _print(self, outcome: RunEnded | RunWaiting, questions: list[OpenQuestion]) -> None:
        self._output.finish(outcome, self._session.id, questions, self._session.harness.cwd)

    async def abort(self) -> None:
        pass

    async def close(self, outcome: RunOutcome) -> int:
        await print_held(self._session.journal.store, self._session.state)
        await self._session.close()
        # The store stays open: closing it would delete a file that the next start has to create again.
        await self._session.journal.store.checkpoint()
        return _exit_code(outcome, self._session)

    async def _questions(self, outcome: RunOutcome) -> list[OpenQuestion]:
        if not isinstance(outcome, RunWaiting):
            return []
        return await run_tree.open_questions(self._session.journal.store, self._session.state)


class _JsonReport(_Report):
    """Prints every fact and delta as a line of JSON, and notices to standard error."""

    async def begin(self) -> None:
        self._lines = json_output.JsonOutput(self._session)
        self._notices = json_output.Notices()
        if (run := self._session.state.run) is not None:
            # The reader gets an open run from its beginning.
            facts = await self._session.journal.store.read(self._session.id)
            self._lines.see([fact for fact in facts if fact.run == run.id])
        self._session.subscribe(self._lines.see)
        self._session.subscribe(self._notices.see)
        _on_signals(self._cancel)

    def _cancel(self, reason: str) -> None:
        self._lines.hurry()
        self._session.cancel(reason)

    def _print(self, outcome: RunEnded | RunWaiting, questions: list[OpenQuestion]) -> None:
        pass  # only the last one, once all lines are written

    async def abort(self) -> None:
        await self._lines.finish()  # the reader is promised whole lines of everything before the error

    async def close(self, outcome: RunOutcome) -> int:
        questions = await self._questions(outcome)
        await self._session.close()
        code = _exit_code(outcome, self._session)
        is_complete = await self._lines.finish()
        if outcome is not None and not (_is_completed(outcome) and not outcome.reason):
            output.print_run_end(outcome, self._session.id, questions, self._session.harness.cwd)
        await print_held(self._session.journal.store, self._session.state)
        await self._session.journal.store.checkpoint()
        if is_complete:
            return code
        print_stderr("the reader of the output stopped reading; the remaining lines are lost")
        return code or exit_code(RunEnded("cancelled", TERMINATED))


def _is_completed(outcome: RunOutcome) -> bool:
    return isinstance(outcome, RunEnded) and outcome.status == "completed"


def exit_code(outcome: RunEnded | RunWaiting) -> int:
    """The first that applies of 130 and 143, 1, 5, 6, 4. (2 and 3 are errors before a run.)"""
    if isinstance(outcome, RunWaiting):
        return 6
    if outcome.status == "cancelled":
        return 143 if outcome.reason == TERMINATED else 130
    if outcome.status in ("failed", "interrupted"):
        return 1
    if outcome.status == "limit":
        return 5
    if outcome.status == "refused" or outcome.own.refused_calls or outcome.children.refused_calls:
        return 4
    return 0


def _exit_code(outcome: RunOutcome, session: Session) -> int:
    if outcome is None:
        return 0
    if _is_completed(outcome) and (problem := schema_problem(session)):
        print_stderr(problem)
        return 1
    return exit_code(outcome)


def _on_signals(cancel: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, cancel, "cancelled")
    loop.add_signal_handler(signal.SIGTERM, cancel, TERMINATED)
    loop.add_signal_handler(signal.SIGHUP, cancel, TERMINATED)


async def continue_session(session: Session) -> RunOutcome:
    """Continues an open run from its last fact, or one that failed from its messages; else runs the next
    prompt in the inbox."""
    state = session.state
    if state.run is None and state.last_status not in (None, "completed"):
        return await session.continue_()
    is_paused = state.run is not None and state.run.waiting and state.run.waiting.reason == "paused"
    outcome = await (session.resume() if is_paused else session.advance())
    if outcome is None:
        raise UsageError(NOTHING_TO_CONTINUE)
    return outcome


async def permit(session: Session) -> RunOutcome:
    """Grants every permission that the run and its children ask for, and continues the run."""
    store = session.journal.store
    outcome = None
    answered: set[str] = set()
    while questions := [
        question
        for question in await run_tree.open_questions(store, session.state)
        if question.asked.question.kind == "permission" and question.asked.id not in answered
    ]:
        answered.add(questions[0].asked.id)
        outcome = await submit.answer_question(session, questions[0], "yes", by="cli")
    return outcome


async def load_cli_extensions(
    options: RunOptions, settings: Settings, harness: Harness
) -> ExtensionHost | None:
    return await load_extensions(options, settings, harness, lambda: front_end.CliFrontEnd(harness))


async def resume_session(
    options: RunOptions, store: Store, state: SessionState, start: Start = continue_session
) -> int:
    """Opens the session in its own directory, with the limits of its open run, and runs `start`."""
    await require_free(store, state.id)
    cwd = _directory(options, state)
    settings = settings_for(options, cwd)
    if state.run is not None:
        settings = _settings_of_run(settings, state.run, options)
    settings, harness = prepare_harness(settings, cwd, state.settings.model, options)
    if settings.durability != "process":
        store = open_store(settings)
    await load_cli_extensions(options, settings, harness)
    session = await open_for_run(store, state.id, harness)
    enable_gc()
    store_model(options, session)
    return await run_session(session, start, as_json=options.json)


def _directory(options: RunOptions, state: SessionState) -> Path:
    if options.cwd is not None:
        return working_directory(options.cwd)
    folder = Path(state.cwd)
    if not folder.is_dir():
        raise UsageError(f"session {state.id} worked in {folder}, which is gone: name a directory with --cwd")
    if not folder.samefile("."):
        print_stderr(f"working in {folder}, the directory of the session")
    return working_directory(state.cwd)


def _settings_of_run(settings: Settings, run: RunState, options: RunOptions) -> Settings:
    """The settings with the limits of the run; it asks a person rather than refuse a call.

    The run's permissions are not taken from the log: an imported log could grant itself any.
    """
    changes: dict[str, Any] = {}
    for name in LIMITS:
        of_run, configured = getattr(run.started.limits, name.removeprefix("max_")), getattr(settings, name)
        if of_run is not None and getattr(options, name) is None:
            changes[name] = of_run if configured is None else min(of_run, configured)
    profile = run.started.permissions
    is_default = options.permissions is None and not options.yes
    if is_default and profile in PROFILES[PROFILES.index(settings.permissions) + 1 :]:
        print_stderr(f"the run started with --permissions {profile}; unless you repeat that, it asks")
        changes["permissions"] = max(settings.permissions, "ask", key=PROFILES.index)
        changes["on_question"] = "wait"
    is_imported = run.step is not None and any(call.must_be_judged for call in run.step.open_calls())
    if run.waiting or run.idle_ms or is_imported:
        changes["on_question"] = "wait"
    if options.on_question is not None:
        changes.pop("on_question", None)
    return msgspec.structs.replace(settings, **changes)


async def print_held(store: Store, state: SessionState) -> None:
    """Reports the prompts that are held because the run before them did not complete."""
    if not state.held:
        return
    held = [request for request in await store.pending(state.id) if isinstance(request, Prompt | Continue)]
    if held:
        print_stderr(
            f"{plural(len(held), 'prompt')} held, because the run did not complete; "
            f"`ostler release {state.id}` runs them, and with --drop deletes them"
        )


def read_schema(file: Path) -> dict[str, Any]:
    """The JSON Schema of `--schema`."""
    try:
        schema = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"the schema {file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is not a JSON Schema: {error}") from None
    if problem := json_schema.schema_problem(schema):
        raise UsageError(f"{file} is not a JSON Schema: {problem}")
    return schema


def schema_problem(session: Session) -> str:
    """Why the answer does not match `--schema`; empty if it does, or if there is no schema."""
    schema = session.harness.answer_schema
    if schema is None:
        return ""
    try:
        answer = msgspec.json.decode(session.state.transcript[-1].text)
    except msgspec.DecodeError as error:
        return f"the answer is not JSON ({error})"
    problem = json_schema.schema_error(answer, schema)
    return f"the answer does not match the schema: {problem}" if problem else ""
