"""`ostler -p`: one prompt, from the command line to the last fact."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ostler.faces.cli.columns import printable
from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.exit_codes import TERMINATED, exit_code
from ostler.faces.cli.person import ask_person, has_terminal
from ostler.faces.cli.stdin import prompt_from
from ostler.kernel.harness import Harness
from ostler.kernel.state import fold
from ostler.kernel.store import Store
from ostler.runs.assembly import make_harness
from ostler.runs.first_run import settled
from ostler.runs.home import store_file
from ostler.runs.session import Session, create_session, open_session
from ostler.runs.settings import Settings, load_settings
from ostler.runs.stores import find_session, open_store
from ostler.vocabulary import events
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import Event, RunEnded, RunWaiting
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import as_content, text_of


def run_prompt(options: argparse.Namespace) -> int:
    cwd = working_directory(options.cwd)
    loaded = load_settings(cwd, _overrides(options))
    for notice in loaded.notices:
        _say(notice)
    _check_combination(options)
    prompt, notice = prompt_from(options.words)
    if notice:
        _say(notice)
    if not prompt and options.session is None and not options.continue_:
        raise UsageError("there is no prompt: say it after -p, or pipe it in")
    named = loaded.settings
    if not named.model and (options.continue_ or options.session is not None):
        named = msgspec.structs.replace(named, model=asyncio.run(_kept_model(options, named, cwd)))
    settings = settled(named, ask=ask_person if has_terminal() else None, say=_say)
    if settings.model == "demo" and named.model != "demo":
        options.no_session = True  # nobody asked for the demo: it must not become somebody's conversation
    harness = make_harness(settings, cwd)
    if options.schema is not None:
        harness.answer_schema = _schema(Path(options.schema))
    return asyncio.run(_run(options, settings, harness, prompt))


async def _kept_model(options: argparse.Namespace, settings: Settings, cwd: Path) -> str:
    """The model that the session to go on with was given, if it was given one."""
    if not store_file().exists():
        return ""
    store = open_store(settings)
    try:
        if options.session is not None:
            session = await find_session(store, options.session)
        else:
            newest = await store.sessions(cwd=str(cwd), limit=1)
            if not newest:
                return ""
            session = newest[0].id
        return fold(await store.read_opening(session)).settings.model
    finally:
        await store.close()


def _schema(file: Path) -> dict[str, Any]:
    from ostler.kernel.json_schema import schema_problem

    try:
        schema = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"the schema {file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is not a JSON Schema: {error}") from None
    if problem := schema_problem(schema):
        raise UsageError(f"{file} is not a JSON Schema: {problem}")
    return schema


def _unfit(session: Session) -> str:
    """Why the answer is not what `--schema` asked for; empty when it is, or when nothing was asked for."""
    schema = session.harness.answer_schema
    if schema is None:
        return ""
    from ostler.kernel.json_schema import mismatch

    try:
        answer = msgspec.json.decode(session.state.transcript[-1].text)
    except msgspec.DecodeError as error:
        return f"the answer is not JSON ({error})"
    problem = mismatch(answer, schema)
    return f"the answer does not fit the schema: {problem}" if problem else ""


def _overrides(options: argparse.Namespace) -> dict[str, Any]:
    tools = None
    if options.tools is not None:
        tools = [name.strip() for name in options.tools.split(",") if name.strip()]
    return {
        "model": options.model,
        "base_url": options.base_url,
        "api_key": options.api_key,
        "reasoning": options.reasoning,
        "system": options.system,
        "append_system": options.append_system,
        "tools": [] if options.no_tools else tools,
        "max_steps": options.max_steps,
        "permissions": "full" if options.yes else options.permissions,
        "on_question": options.on_question,
    }


def _check_combination(options: argparse.Namespace) -> None:
    chosen = [
        flag
        for flag, given in (
            ("--session", options.session is not None),
            ("--continue", options.continue_),
            ("--no-session", options.no_session),
        )
        if given
    ]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} exclude each other")
    if options.no_tools and options.tools is not None:
        raise UsageError("--no-tools and --tools exclude each other")
    if options.yes and options.permissions not in (None, "full"):
        raise UsageError(f"--yes and --permissions {options.permissions} exclude each other")


async def _run(options: argparse.Namespace, settings: Settings, harness: Harness, prompt: str) -> int:
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness, prompt)
    # Nothing made so far is garbage: collecting is put off until here, and then leaves all of it alone.
    gc.freeze()
    gc.enable()
    _keep_model(options, session)
    if prompt and _waiting(session) is None:
        await session.close_broken_run()
    if options.json:
        return await _run_to_lines(session, settings, prompt)
    output = PlainOutput()
    session.observe(output.see)
    _on_signals(session.cancel)
    quiet = await _drive(session, settings, prompt)
    if quiet is None:
        _say_not_sent(session)
    else:
        output.finish(quiet, session)
    await _leave(session)
    return _code(quiet, session)


def _keep_model(options: argparse.Namespace, session: Session) -> None:
    """A session keeps the model that it was given, unless it was with the address of another server."""
    kept = session.state.settings.model
    if options.model is None and kept:
        session.harness.set_model(kept)
    elif options.model and not options.base_url and kept != session.harness.model.name:
        session.journal.record(events.SettingsChanged(model=session.harness.model.name, by="cli"))


def _code(quiet: RunEnded | RunWaiting | None, session: Session) -> int:
    code = exit_code(quiet or RunWaiting("question"))
    if code == 0 and (problem := _unfit(session)):
        _say(problem)
        return 1
    return code


async def _leave(session: Session) -> None:
    """Gives the session back. The store is not closed: that would cost the next start a file of its own."""
    await session.close()
    await session.journal.store.tidy()


async def _session(options: argparse.Namespace, store: Store, harness: Harness, prompt: str) -> Session:
    if options.session is not None:
        return await open_session(store, await find_session(store, options.session), harness)
    if options.continue_:
        newest = await store.sessions(cwd=str(harness.cwd), limit=1)
        if newest:
            return await open_session(store, newest[0].id, harness)
        if not prompt:
            raise UsageError(f"there is no session of {harness.cwd} to go on with: say what to do after -p")
        _say(f"there is no session of {harness.cwd} yet: a new one begins")
    return await create_session(store, harness)


async def _run_to_lines(session: Session, settings: Settings, prompt: str) -> int:
    from ostler.faces.cli.json_output import JsonOutput

    def end(reason: str) -> None:
        output.hurry()
        session.cancel(reason)

    output = JsonOutput(session)
    before = session.state.last_seq
    session.observe(output.see)
    _on_signals(end)
    quiet = await _drive(session, settings, prompt)
    if session.state.last_seq == before:
        output.see([await _fact_of_waiting(session)])
    await _leave(session)
    if quiet is None:
        _say_not_sent(session)
    code = _code(quiet, session)
    if await output.finish():
        return code
    _say("the output was not read to its end, and is not waited for any longer")
    return code or exit_code(RunEnded("cancelled", TERMINATED))


async def _drive(session: Session, settings: Settings, prompt: str) -> RunEnded | RunWaiting | None:
    """Runs the prompt, or goes on without one; None when a run before it still waits for somebody.

    A run that waits for permission is driven on first, if everything is permitted now.
    """
    quiet = await _permit(session) if settings.permissions == "full" else None
    if isinstance(quiet, RunEnded) and quiet.status == "cancelled":
        return quiet
    if _waiting(session):
        return None
    return await session.prompt(as_content(prompt)) if prompt else quiet or await _go_on(session)


async def _go_on(session: Session) -> RunEnded | RunWaiting | None:
    """Without a prompt: a run that was cut goes on from its last fact, one that failed from its messages."""
    if session.state.run is not None:
        return await session.advance()
    if session.state.last_status in (None, "completed"):
        raise UsageError("there is nothing to go on with: say what to do after -p")
    return await session.continue_()


def _waiting(session: Session) -> RunWaiting | None:
    return session.state.run.waiting if session.state.run else None


async def _permit(session: Session) -> RunEnded | RunWaiting | None:
    """Says yes to everything that the session's run wants to be permitted, and drives it on."""
    quiet = None
    answered: set[str] = set()
    while asked := [
        question.id
        for question in session.state.questions.values()
        if question.question.kind == "permission" and question.id not in answered
    ]:
        answered.add(asked[0])
        quiet = await session.answer(asked[0], "yes")
    return quiet


def _say_not_sent(session: Session) -> None:
    for asked in session.state.questions.values():
        _say(f"the run before this one waits for an answer: {asked.question.text}")
    _say(f"the prompt was not sent to session {session.id}; {_ways_on(session)}")


def _ways_on(session: Session) -> str:
    kinds = {asked.question.kind for asked in session.state.questions.values()}
    permit = "permit it with --yes, " if "permission" in kinds else ""
    return f"{permit}work in a copy (`ostler sessions fork {session.id}`), or begin a new session"


async def _fact_of_waiting(session: Session) -> Fact:
    facts = await session.journal.store.read(session.id)
    return next(fact for fact in reversed(facts) if isinstance(fact.event, RunWaiting))


def _on_signals(end: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    for number, reason in (
        (signal.SIGINT, "cancelled"),
        (signal.SIGTERM, TERMINATED),
        (signal.SIGHUP, TERMINATED),
    ):
        loop.add_signal_handler(number, end, reason)


class PlainOutput:
    """The last answer on standard output; what a person should know on standard error."""

    def __init__(self) -> None:
        self._answer = ""
        self._for_people = sys.stderr.isatty()

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for fact in batch:
            if isinstance(fact, Fact):
                self._see_fact(fact)

    def _see_fact(self, fact: Fact) -> None:
        match fact.event:
            case events.AssistantMessage(suppressed=False) as message:
                text = text_of(message.content if message.shown is None else message.shown)
                self._answer = text or self._answer
            case events.ToolCalled(name=name, arguments=arguments) if self._for_people:
                from ostler.tools.permissions import preview

                _say(f"{name}: {preview(name, arguments)}")
            case events.ToolResultFact(failed="call_refused", name=name, content=content):
                _say(f"refused: {name}: {text_of(content)}")
            case events.ModelFailed(failure=failure, rescue=rescue) if rescue:
                _say(f"{failure.message}; going on with {rescue}")
            case events.ModelFailed(failure=failure, retry_in=float(delay)):
                _say(f"{failure.message}; trying again in {delay:g} s")
            case events.Warned(text=text):
                _say(text)

    def finish(self, quiet: RunEnded | RunWaiting, session: Session) -> None:
        if isinstance(quiet, RunWaiting):
            for question in session.state.questions.values():
                _say(f"waiting for an answer: {question.question.text}")
            _say(f"the run waits in session {session.id}")
            return
        if self._answer and quiet.status != "failed":
            # A terminal would obey what it is told; a file gets every byte.
            print(printable(self._answer) if sys.stdout.isatty() else self._answer)
        if quiet.status != "completed":
            has_reason = quiet.reason not in ("", quiet.status)
            _say(f"{quiet.status}: {quiet.reason}" if has_reason else quiet.status)
        elif quiet.reason:
            _say(quiet.reason)
        elif not self._answer:
            _say("the model's answer is empty")


def _say(text: str) -> None:
    print(f"ostler: {' '.join(text.split())}", file=sys.stderr)
