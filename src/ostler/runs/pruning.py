"""Deleting sessions that nobody has used for long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ostler.kernel.journal import World
from ostler.kernel.processes import current_process
from ostler.kernel.store import SessionSummary, Store
from ostler.runs.costs import root_of
from ostler.runs.orphans import end_processes
from ostler.vocabulary.errors import NotFound, SessionHeld

Family = Sequence[SessionSummary]
"""A session and its children: they are kept together, and they go together."""


def unused(
    sessions: Sequence[SessionSummary], *, unused_since_ms: int | None, keep: int, with_waiting: bool
) -> Iterator[Family]:
    """The families to delete, newest first: those that nobody used since then, but never the newest `keep`.

    A run that waits for an answer keeps its family, unless those are asked for as well.
    """
    parents = {one.id: one.child_of for one in sessions}
    families: dict[str, list[SessionSummary]] = {}
    for one in sessions:
        families.setdefault(root_of(one.id, parents), []).append(one)
    newest_first = sorted(families.values(), key=_last_use, reverse=True)
    for family in newest_first[keep:]:
        waits = any(one.status == "waiting" for one in family)
        is_old = unused_since_ms is None or _last_use(family) < unused_since_ms
        if is_old and (with_waiting or not waits):
            yield family


def _last_use(family: Family) -> int:
    return max(one.updated_ms for one in family)


async def delete_unused(store: Store, family: Family, world: World) -> str:
    """Deletes a family as it was when it was chosen; returns why not, if somebody came in between."""
    owner = current_process()
    leases = []
    try:
        for one in family:
            leases.append(await store.acquire(one.id, owner))
            await end_processes(store, one.id, world)
            if (await store.summary(one.id)).last_seq != one.last_seq:
                return f"session {one.id} was used meanwhile"
        for one in family:
            await store.delete(one.id, owner)
        return ""
    except (SessionHeld, NotFound) as error:
        return error.message
    finally:
        for lease in leases:
            await store.release(lease)
