"""Prompts that a run left behind which did not complete: whoever queued them is told."""

from __future__ import annotations

from ostler.faces.cli.saying import counted, say
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.vocabulary.requests import Continue, Prompt


async def say_held(store: Store, state: SessionState) -> None:
    if not state.held:
        return
    held = [one for one in await store.pending(state.id) if isinstance(one, Prompt | Continue)]
    if held:
        prompts, release = counted(len(held), "prompt"), f"ostler release {state.id}"
        say(f"{prompts} held, because the run did not complete; `{release}` goes on, or with --drop forgets")
