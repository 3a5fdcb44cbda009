"""Commands that ask something of one session: its run may be another process's, or nobody's."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from ostler.faces.cli.saying import print_json, say
from ostler.kernel.journal import Journal, World
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.runs.asking import MakeHarness, ask
from ostler.runs.home import store_file
from ostler.runs.run_list import Holder
from ostler.runs.run_tree import state_of
from ostler.runs.stores import find_session, open_store
from ostler.vocabulary.errors import NotFound, UsageError
from ostler.vocabulary.requests import AnyRequest

Command = Callable[[argparse.Namespace, Store, SessionState], Awaitable[int]]


class Requested(msgspec.Struct, frozen=True, omit_defaults=True):
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
        return await command(options, store, await state_of(store, await find_session(store, options.id)))
    finally:
        await store.close()


def new_request_id() -> str:
    return World().new_id("req")


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


async def ask_session(
    store: Store, session: str, request: AnyRequest, make_harness: MakeHarness | None = None
) -> bool:
    """`ask`; what is taken up here is audited as the settings of its directory say."""
    return await ask(store, session, request, World(), make_harness, _audit)


def _audit(journal: Journal) -> None:
    from ostler.runs.audit_sinks import audit_to, configured_sinks
    from ostler.runs.settings import load_settings

    audit_to(journal, configured_sinks(load_settings(Path(journal.state.cwd), {}).settings.audit), say)


async def ask_and_tell(
    options: argparse.Namespace, store: Store, session: str, request: AnyRequest, *, done: str, later: str
) -> int:
    """Asks, and says what came of it: `done`, or `later` when the session's holder has not got to it yet."""
    if await ask_session(store, session, request):
        tell(options, Requested(session, request.id, True), done)
    else:
        await tell_later(options, store, session, request, later)
    return 0


async def tell_later(
    options: argparse.Namespace, store: Store, session: str, request: AnyRequest, later: str
) -> None:
    process = await store.holder(session)
    holder = Holder(process.pid, process.host) if process else None
    who = f"process {holder.pid} on {holder.host} holds session {session}: " if holder else ""
    tell(options, Requested(session, request.id, False, holder), f"{who}{later}")


def tell(options: argparse.Namespace, outcome: Requested, words: str) -> None:
    if options.json:
        print_json(outcome)
    else:
        say(words)
