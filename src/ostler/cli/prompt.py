"""`ostler -p`: one prompt, from the command line to the last fact."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.app.console import print_stderr, prompt_from
from ostler.app.extension_setup import command_in, load_extensions
from ostler.app.harness import prepare_harness, settings_for
from ostler.app.prompt_expansion import expand_typed, record_read_files
from ostler.app.session_choice import (
    check_combination,
    enable_gc,
    open_for_run,
    store_model,
    stored_model,
)
from ostler.app.settings import Settings, working_directory
from ostler.app.stores import find_session, newest_session, open_store
from ostler.cli.session_runner import Rest, continue_session, permit, run_queue, run_session
from ostler.core.harness import Harness
from ostler.core.lazy import load
from ostler.core.store import Store
from ostler.schema.errors import UsageError
from ostler.schema.events import CommandRan, Event, RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.messages import PlainBlock, as_content
from ostler.schema.requests import Prompt, RunCommand
from ostler.sessions.session import Session, create_session

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost


Content = tuple[PlainBlock, ...]


def run_prompt(options: argparse.Namespace) -> int:
    cwd = working_directory(options.cwd)
    named = settings_for(options, cwd)
    check_combination(options)
    prompt, notice = prompt_from(options.words)
    if notice:
        print_stderr(notice)
    if not prompt and options.session is None and not options.continue_:
        raise UsageError("there is no prompt: say it after -p, or pipe it in")
    kept = ""
    if not named.model and (options.continue_ or options.session is not None):
        kept = asyncio.run(stored_model(options, named, cwd))
    settings, harness = prepare_harness(named, cwd, kept, options)
    if settings.model == "demo" and "demo" not in (named.model, kept):
        options.no_session = True  # nobody asked for the demo: it must not become somebody's conversation
    if options.schema is not None:
        from ostler.cli.session_runner import read_schema

        harness.answer_schema = read_schema(Path(options.schema))
    return asyncio.run(_run(options, settings, harness, prompt))


async def _run(options: argparse.Namespace, settings: Settings, harness: Harness, typed: str) -> int:
    host = await load_extensions(
        options, settings, harness, lambda: load("ostler.cli.front_end:CliFrontEnd")(harness)
    )
    command = None if options.no_expand else command_in(host, typed, harness)
    is_plain = options.no_expand or command is not None
    others = host.commands() if host else ()
    expansion = None if is_plain else expand_typed(options.words, typed, harness, others)
    prompt = expansion.blocks if expansion else as_content(typed)
    store = open_store(settings, in_memory=options.no_session)
    session = await _session(options, store, harness, prompt)
    if expansion is not None:
        record_read_files(session.memory, expansion)
    enable_gc()
    store_model(options, session)
    if prompt and _waiting(session) is None:
        await session.close_interrupted_run()

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
            async for quiet in continue_session(session):
                yield quiet

    if host is not None and command is not None:
        return await run_command(session, host, command, as_lines=options.json)
    return await run_session(session, work, as_lines=options.json)


def _waiting(session: Session) -> RunWaiting | None:
    return session.state.run.waiting if session.state.run else None


async def _put_in_inbox(session: Session, prompt: Content) -> None:
    request = Prompt(id=session.journal.world.new_id("req"), by="cli", content=prompt)
    await session.journal.store.submit(session.id, request)
    print_stderr(f"the prompt waits in session {session.id}: it is run when the run before it has ended")


async def _session(options: argparse.Namespace, store: Store, harness: Harness, prompt: Content) -> Session:
    if options.session is not None:
        return await open_for_run(store, await find_session(store, options.session), harness)
    if options.continue_:
        if newest := await newest_session(store, harness.cwd):
            return await open_for_run(store, newest, harness)
        if not prompt:
            raise UsageError(f"there is no session of {harness.cwd} to go on with: say what to do after -p")
        print_stderr(f"there is no session of {harness.cwd} yet: a new one begins")
    return await create_session(store, harness)


async def run_command(session: Session, host: ExtensionHost, command: RunCommand, *, as_lines: bool) -> int:
    """Runs it, and then the prompts that it sent. Returns the exit code."""
    failed: list[bool] = []

    def see(batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            if isinstance(one, Fact) and isinstance(one.event, CommandRan):
                failed.append(one.event.failed)

    async def work(session: Session) -> AsyncIterator[Rest]:
        request = msgspec.structs.replace(command, id=session.journal.world.new_id("req"))
        host.own_requests.add(request.id)
        await session.journal.store.submit(session.id, request)
        await session.read_inbox()
        if session.state.run is None:
            async for quiet in run_queue(session):
                yield quiet

    session.subscribe(see)
    code = await run_session(session, work, as_lines=as_lines)
    return code or int(any(failed))


async def run_sent(session: Session, host: ExtensionHost | None, ended: Rest) -> AsyncIterator[Rest]:
    """Runs the prompts that extensions have sent meanwhile."""
    if host is None or not host.own_requests:
        return
    async for quiet in run_queue(session, ended):
        yield quiet
