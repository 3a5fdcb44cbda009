"""`ostler -p`: runs one prompt, or one command of an extension."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.app.console import print_stderr, prompt_from
from ostler.app.extension_setup import command_in
from ostler.app.harness import prepare_harness, settings_for
from ostler.app.options import RunOptions
from ostler.app.session_choice import (
    check_combination,
    enable_gc,
    open_for_run,
    store_model,
    stored_model,
)
from ostler.app.settings import Settings, working_directory
from ostler.app.stores import find_session, newest_session, open_store
from ostler.cli.session_runner import continue_session, load_cli_extensions, permit, read_schema, run_session
from ostler.core.harness import Harness
from ostler.core.lazy import lazy_module
from ostler.core.store import Store
from ostler.models.factory import LazyModel
from ostler.models.transport import preload_ssl_context
from ostler.schema.errors import UsageError
from ostler.schema.events import CommandRan, Event, RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.messages import PlainBlock, as_content
from ostler.schema.requests import Prompt, RunCommand
from ostler.sessions.session import RunOutcome, Session, create_session

if TYPE_CHECKING:
    from ostler.app import prompt_expansion
    from ostler.app.prompt_expansion import Expansion
    from ostler.extensions.host import ExtensionHost
else:
    prompt_expansion = lazy_module("ostler.app.prompt_expansion")


Content = tuple[PlainBlock, ...]


def run_prompt(options: RunOptions) -> int:
    cwd = working_directory(options.cwd)
    configured = settings_for(options, cwd)
    check_combination(options)
    prompt, notice = prompt_from(options.words)
    if notice:
        print_stderr(notice)
    continues = options.session is not None or options.continue_
    if not prompt and not continues:
        raise UsageError("there is no prompt: give one after -p, or pipe it in")
    stored = ""
    if not configured.model and continues:
        stored = asyncio.run(stored_model(options, configured, cwd))
    settings, harness = prepare_harness(configured, cwd, stored, options)
    if settings.model == "demo" and "demo" not in (configured.model, stored):
        options.no_session = True  # the demo is a fallback here: its answers do not belong into a session
    if options.schema is not None:
        harness.answer_schema = read_schema(Path(options.schema))
    if isinstance(harness.model, LazyModel) and harness.model.address.lower().startswith("https:"):
        preload_ssl_context()
    return asyncio.run(_run(options, settings, harness, prompt))


async def _run(options: RunOptions, settings: Settings, harness: Harness, text: str) -> int:
    host = await load_cli_extensions(options, settings, harness)
    command = None if options.no_expand else command_in(host, text, harness)
    expansion = None if command else _expansion(options, host, harness, text)
    prompt = expansion.blocks if expansion else as_content(text)
    store = open_store(settings, in_memory=options.no_session)
    session = await _open(options, store, harness, prompt)
    if expansion is not None:
        prompt_expansion.record_read_files(session.memory, expansion)
    enable_gc()
    store_model(options, session)
    if prompt and _waiting(session) is None:
        await session.close_interrupted_run()
    if host is not None and command is not None:
        return await _run_command(session, host, command, as_json=options.json)
    is_permitted = False

    async def start(session: Session) -> RunOutcome:
        """Runs the prompt, or continues the session without one. With `--yes`, a run that waits for a
        permission gets it first."""
        nonlocal is_permitted
        outcome = await permit(session) if settings.permissions == "full" else None
        is_permitted = outcome is not None
        if isinstance(outcome, RunEnded) and outcome.status == "cancelled":
            return outcome
        if not prompt:
            return outcome or await continue_session(session)
        if waiting := _waiting(session):
            await _queue(session, prompt)
            return waiting
        return await session.prompt(prompt)

    def runs_queue() -> bool:
        """After a prompt only what extensions have sent meanwhile, else everything in the inbox."""
        return bool(host and host.own_requests) if prompt else not is_permitted

    return await run_session(session, start, as_json=options.json, runs_queue=runs_queue)


def _expansion(
    options: RunOptions, host: ExtensionHost | None, harness: Harness, text: str
) -> Expansion | None:
    typed = " ".join(options.words).strip()
    if options.no_expand or not ("@" in typed or typed.startswith("/")):
        return None
    commands = host.commands() if host else ()
    return prompt_expansion.expand_at_console(options.words, harness, commands, piped=text[len(typed) :])


def _waiting(session: Session) -> RunWaiting | None:
    return session.state.run.waiting if session.state.run else None


async def _queue(session: Session, prompt: Content) -> None:
    request = Prompt(id=session.journal.world.new_id("req"), by="cli", content=prompt)
    await session.journal.store.submit(session.id, request)
    print_stderr(f"the prompt is queued in session {session.id} and runs after the run that waits")


async def _open(options: RunOptions, store: Store, harness: Harness, prompt: Content) -> Session:
    if options.session is not None:
        return await open_for_run(store, await find_session(store, options.session), harness)
    if options.continue_:
        if newest := await newest_session(store, harness.cwd):
            return await open_for_run(store, newest, harness)
        if not prompt:
            raise UsageError(f"{harness.cwd} has no session to continue: give a prompt after -p")
        print_stderr(f"{harness.cwd} has no session yet: starting a new one")
    return await create_session(store, harness)


async def _run_command(session: Session, host: ExtensionHost, command: RunCommand, *, as_json: bool) -> int:
    """Runs the command, then the prompts that it sent. Returns the exit code."""
    failed: list[bool] = []

    def see(batch: Sequence[Fact | Event]) -> None:
        failed.extend(
            item.event.failed
            for item in batch
            if isinstance(item, Fact) and isinstance(item.event, CommandRan)
        )

    async def start(session: Session) -> RunOutcome:
        request = msgspec.structs.replace(command, id=session.journal.world.new_id("req"))
        host.own_requests.add(request.id)
        await session.journal.store.submit(session.id, request)
        await session.read_inbox()
        return await session.advance() if session.state.run is None else None

    session.subscribe(see)
    code = await run_session(session, start, as_json=as_json)
    return code or int(any(failed))
