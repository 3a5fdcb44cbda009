"""`ostler -p`: one prompt, from the command line to the last fact."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.driving import Rest, collect_garbage_from_here, drive, go_on, keep_model, opened, permit
from ostler.faces.cli.equipping import equipped, settings_from
from ostler.faces.cli.expanding import expanded
from ostler.faces.cli.extending import command_in, extended, run_command, run_sent
from ostler.faces.cli.saying import say
from ostler.faces.cli.stdin import prompt_from
from ostler.kernel.harness import Harness
from ostler.kernel.state import fold
from ostler.kernel.store import Store
from ostler.runs.home import store_file
from ostler.runs.other_agents import require_own_agent
from ostler.runs.session import Session, create_session
from ostler.runs.settings import Settings
from ostler.runs.stores import find_session, newest_session, open_store
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import RunEnded, RunWaiting
from ostler.vocabulary.messages import PlainBlock, as_content
from ostler.vocabulary.requests import Prompt

Content = tuple[PlainBlock, ...]


def run_prompt(options: argparse.Namespace) -> int:
    cwd = working_directory(options.cwd)
    named = settings_from(options, cwd)
    check_combination(options)
    prompt, notice = prompt_from(options.words)
    if notice:
        say(notice)
    if not prompt and options.session is None and not options.continue_:
        raise UsageError("there is no prompt: say it after -p, or pipe it in")
    kept = ""
    if not named.model and (options.continue_ or options.session is not None):
        kept = asyncio.run(kept_model(options, named, cwd))
    settings, harness = equipped(named, cwd, kept, options)
    if settings.model == "demo" and "demo" not in (named.model, kept):
        options.no_session = True  # nobody asked for the demo: it must not become somebody's conversation
    if options.schema is not None:
        from ostler.faces.cli.answer_schema import read_schema

        harness.answer_schema = read_schema(Path(options.schema))
    return asyncio.run(_run(options, settings, harness, prompt))


async def kept_model(options: argparse.Namespace, settings: Settings, cwd: Path) -> str:
    """The model that the session to go on with was given, if it was given one. It must be one of ours."""
    if not store_file().exists():
        return ""
    store = open_store(settings)
    try:
        if options.session is not None:
            session = await find_session(store, options.session)
        else:
            session = await newest_session(store, cwd)
        if not session:
            return ""
        require_own_agent(session, (await store.summary(session)).driver)
        # Nothing else is folded: the session is opened right after this, and may be long.
        facts = await store.read_opening(session)
        return fold([fact for fact in facts if fact.type == "settings_changed"]).settings.model
    finally:
        await store.close()


def check_combination(options: argparse.Namespace) -> None:
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


async def _run(options: argparse.Namespace, settings: Settings, harness: Harness, typed: str) -> int:
    host = await extended(options, settings, harness)
    command = None if options.no_expand else command_in(host, typed, harness)
    is_plain = options.no_expand or command is not None
    others = host.commands() if host else ()
    prompt = as_content(typed) if is_plain else expanded(options.words, typed, harness, others)
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness, prompt)
    collect_garbage_from_here()
    keep_model(options, session)
    if prompt and _waiting(session) is None:
        await session.close_broken_run()

    async def work(session: Session) -> AsyncIterator[Rest]:
        """Runs the prompt, or goes on without one. A run that waits for permission is driven on first, if
        everything is permitted now."""
        quiet = await permit(session) if settings.permissions == "full" else None
        if isinstance(quiet, RunEnded) and quiet.status == "cancelled":
            yield quiet
        elif prompt and (waiting := _waiting(session)):
            await _put_in_inbox(session, prompt)
            yield waiting
        elif prompt:
            ended = await session.prompt(prompt)
            yield ended
            async for quiet in run_sent(session, host, ended):
                yield quiet
        elif quiet is not None:
            yield quiet
        else:
            async for quiet in go_on(session):
                yield quiet

    if host is not None and command is not None:
        return await run_command(session, host, command, as_lines=options.json)
    return await drive(session, work, as_lines=options.json)


def _waiting(session: Session) -> RunWaiting | None:
    return session.state.run.waiting if session.state.run else None


async def _put_in_inbox(session: Session, prompt: Content) -> None:
    request = Prompt(id=session.journal.world.new_id("req"), by="cli", content=prompt)
    await session.journal.store.submit(session.id, request)
    say(f"the prompt waits in session {session.id}: it is run when the run before it has ended")


async def _session(options: argparse.Namespace, store: Store, harness: Harness, prompt: Content) -> Session:
    if options.session is not None:
        return await opened(store, await find_session(store, options.session), harness)
    if options.continue_:
        if newest := await newest_session(store, harness.cwd):
            return await opened(store, newest, harness)
        if not prompt:
            raise UsageError(f"there is no session of {harness.cwd} to go on with: say what to do after -p")
        say(f"there is no session of {harness.cwd} yet: a new one begins")
    return await create_session(store, harness)
