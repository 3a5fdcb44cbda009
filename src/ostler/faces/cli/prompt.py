"""`ostler -p`: one prompt, from the command line to the last fact."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Sequence
from typing import Any

from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.exit_codes import TERMINATED, exit_code
from ostler.faces.cli.stdin import prompt_from
from ostler.kernel.harness import Harness
from ostler.kernel.store import Store
from ostler.runs.assembly import make_harness
from ostler.runs.session import Session, create_session, open_session
from ostler.runs.settings import Settings, load_settings
from ostler.runs.stores import find_session, open_store
from ostler.vocabulary import events
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import Event, RunEnded, RunWaiting
from ostler.vocabulary.facts import Fact, encode_lines
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
    if not prompt:
        raise UsageError("there is no prompt: say it after -p, or pipe it in")
    harness = make_harness(loaded.settings, cwd)
    return asyncio.run(_run(options, loaded.settings, harness, prompt))


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


async def _run(options: argparse.Namespace, settings: Settings, harness: Harness, prompt: str) -> int:
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness)
    # Nothing made so far is garbage: collecting is put off until here, and then leaves all of it alone.
    gc.freeze()
    gc.enable()
    waiting = session.state.run.waiting if session.state.run else None
    if waiting is not None:
        return await _queue_behind(session, waiting, prompt)
    await session.close_broken_run()
    output = JsonOutput(session) if options.json else PlainOutput()
    session.observe(output.see)
    _cancel_on_signals(session)
    quiet = await session.prompt(as_content(prompt))
    await session.close()
    output.finish(quiet, session)
    return exit_code(quiet)


async def _session(options: argparse.Namespace, store: Store, harness: Harness) -> Session:
    if options.session is not None:
        return await open_session(store, await find_session(store, options.session), harness)
    if options.continue_:
        newest = await store.sessions(cwd=str(harness.cwd), limit=1)
        if newest:
            return await open_session(store, newest[0].id, harness)
        _say(f"there is no session of {harness.cwd} yet: a new one begins")
    return await create_session(store, harness)


async def _queue_behind(session: Session, waiting: RunWaiting, prompt: str) -> int:
    """A run that waits for a person still occupies its session: the prompt takes its turn after it."""
    from ostler.vocabulary.requests import Prompt

    request = Prompt(id=session.journal.world.new_id("req"), content=as_content(prompt), by="cli")
    await session.journal.store.submit(session.id, request)
    await session.close()
    for question in session.state.questions.values():
        _say(f"the run before this one waits for an answer: {question.question.text}")
    _say(f"the prompt was put behind it in session {session.id}")
    return exit_code(waiting)


def _cancel_on_signals(session: Session) -> None:
    loop = asyncio.get_running_loop()
    for number, reason in (
        (signal.SIGINT, "cancelled"),
        (signal.SIGTERM, TERMINATED),
        (signal.SIGHUP, TERMINATED),
    ):
        loop.add_signal_handler(number, session.cancel, reason)


class JsonOutput:
    """Every fact and delta of the run, one object a line, written as they come."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._out = sys.stdout.buffer
        self._failure: OSError | None = None

    def see(self, batch: Sequence[Fact | Event]) -> None:
        try:
            if isinstance(batch[0], Fact):
                self._out.write(b"".join([fact.line() + b"\n" for fact in batch if isinstance(fact, Fact)]))
            else:
                self._out.write(encode_lines(batch))  # type: ignore[arg-type]
            self._out.flush()
        except OSError as error:
            self._failure = error
            self._session.cancel("nobody reads the output, or it cannot be written")
            raise

    def finish(self, quiet: RunEnded | RunWaiting, session: Session) -> None:
        if self._failure:
            raise self._failure


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
            print(self._answer)
        if quiet.status != "completed":
            has_reason = quiet.reason not in ("", quiet.status)
            _say(f"{quiet.status}: {quiet.reason}" if has_reason else quiet.status)
        elif quiet.reason:
            _say(quiet.reason)


def _say(text: str) -> None:
    print(f"ostler: {' '.join(text.split())}", file=sys.stderr)
