"""`ostler resume`: drive a run on that was cut, paused, or has got what it waited for."""

from __future__ import annotations

import argparse
import asyncio

from ostler.faces.cli.arguments import driving_parser
from ostler.faces.cli.driving import NOTHING_TO_GO_ON_WITH, go_on
from ostler.faces.cli.exit_codes import exit_code
from ostler.faces.cli.going_on import drive_on
from ostler.faces.cli.plain_output import say_waiting
from ostler.faces.cli.requesting import ask_and_tell, ask_session, new_request_id, with_session
from ostler.faces.cli.saying import say
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.runs.other_agents import require_own_agent
from ostler.runs.run_tree import is_stuck, open_questions, root_of
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.requests import Continue, Prompt, Resume

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
        return await ask_and_tell(
            options, store, state.id, resume, done="the run goes on", later="it will go on with the run"
        )
    root = await root_of(store, state)
    require_own_agent(root.id, root.driver)
    if root.id != state.id:
        say(f"session {state.id} works for session {root.id}: that one goes on")
        if is_paused:
            await ask_session(store, state.id, Resume(id=new_request_id(), by="cli"))
    if root.run and root.run.waiting and not _is_paused(root) and await is_stuck(store, root):
        return await show_waiting(options, store, root)
    if root.run is None and not await _can_begin(store, root):
        raise UsageError(NOTHING_TO_GO_ON_WITH)
    return await drive_on(options, store, root, go_on)


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
    say_waiting(state.run.waiting, state.id, await open_questions(store, state))
    return exit_code(state.run.waiting)
