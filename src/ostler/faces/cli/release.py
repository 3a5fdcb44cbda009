"""`ostler release`: run the prompts that wait in a session, or drop them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator

from ostler.faces.cli.arguments import driving_parser
from ostler.faces.cli.driving import Rest, run_queue
from ostler.faces.cli.going_on import drive_on
from ostler.faces.cli.requesting import (
    Requested,
    ask_and_tell,
    ask_session,
    new_request_id,
    tell,
    with_session,
)
from ostler.faces.cli.saying import counted
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.runs.session import Session
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.requests import Continue, Prompt, ReleasePrompts

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
    prompts = counted(len(waiting), "prompt")
    release = ReleasePrompts(id=new_request_id(), by="cli", drop=options.drop)
    if options.drop:
        done, later = f"{prompts} dropped", f"it will drop {prompts}"
        return await ask_and_tell(options, store, state.id, release, done=done, later=later)
    if state.run is not None or await store.holder(state.id) is not None:
        later = f"{prompts} will be run when the open run has ended"
        return await ask_and_tell(options, store, state.id, release, done=later, later=later)
    if not await ask_session(store, state.id, release):
        tell(options, Requested(state.id, release.id, False), f"{prompts} will be run by another process")
        return 0
    return await drive_on(options, store, state, _queue)


async def _queue(session: Session) -> AsyncIterator[Rest]:
    async for quiet in run_queue(session):
        yield quiet
