"""Opening the user's store, and finding sessions in it."""

from __future__ import annotations

from pathlib import Path

from ostler.kernel.store import Store
from ostler.runs.home import store_file
from ostler.runs.settings import Settings
from ostler.vocabulary.errors import UsageError


def open_store(
    settings: Settings | None = None, *, in_memory: bool = False, home: Path | None = None
) -> Store:
    """The user's store, or that of another home; in memory it is gone with the process."""
    if in_memory:
        from ostler.log.memory import MemoryStore

        return MemoryStore()
    from ostler.log.sqlite import SqliteStore

    return SqliteStore(store_file(home), durability=(settings or Settings()).durability)


async def find_session(store: Store, beginning: str) -> str:
    """The id of the one session that begins so."""
    if not beginning:
        raise UsageError("the id of the session is empty; `ostler sessions` lists those there are")
    found = await store.sessions(prefix=beginning, limit=2)
    if len(found) > 1 and found[0].id != beginning:
        raise UsageError(f"several sessions begin with {beginning!r}; say more of the id")
    return found[0].id if found else (await store.summary(beginning)).id


async def newest_session(store: Store, cwd: Path) -> str:
    """The session of that directory which was used last, of a model and no child's: its id, or nothing."""
    limit = 4
    while True:
        found = await store.sessions(cwd=str(cwd), limit=limit)
        own = [one.id for one in found if not one.child_of and one.driver == "agent"]
        if own or len(found) < limit:
            return own[0] if own else ""
        limit *= 8
