"""Sessions whose agent is another vendor's: no model of ours ever answers in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ostler.kernel.journal import Journal, World
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.vocabulary.errors import SessionBusy, UsageError
from ostler.vocabulary.requests import AnyRequest


async def submit_to_agent(
    store: Store,
    state: SessionState,
    request: AnyRequest,
    world: World,
    attend: Callable[[Journal], None] | None = None,
) -> bool:
    """Into its inbox, for whoever drives the agent. Where nobody does, its run is closed, and only what the
    log is enough for is taken up: the rest raises `SessionBusy`."""
    from ostler.runs.asking import ask
    from ostler.runs.cut_agents import end_cut_agent
    from ostler.runs.request_kinds import ALONE, OF_A_RUN

    needs_no_agent = isinstance(request, (*ALONE, *OF_A_RUN))
    if await store.holder(state.id) is not None:
        is_new = await store.submit(state.id, request)
        if not needs_no_agent or await store.holder(state.id) is not None:  # else it has just been given back
            return is_new
    if state.run is not None and await end_cut_agent(store, state.id, world) is None:
        return await store.submit(state.id, request)  # somebody has just taken it up
    if not needs_no_agent:
        raise SessionBusy(has_ended(state.id))
    with suppress(UsageError):  # it was refused, and that is a fact
        await ask(store, state.id, request, world, attend=attend)
    return True


def has_ended(session: str) -> str:
    return f"the agent of session {session} has ended: start it again"


def require_own_agent(session: str, driver: str) -> None:
    """Before a model is to answer in it, or a face for that is opened. Raises `UsageError`."""
    if driver not in ("agent", ""):
        raise UsageError(
            f"session {session} belongs to another vendor's agent, and no model answers in it: "
            "start its agent again, or talk to it with `ostler attach`"
        )
