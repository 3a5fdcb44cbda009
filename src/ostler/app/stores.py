"""Opening the user's store, and finding sessions in it."""
# MERGED: One open store for all agents of an event loop that keep their sessions in the same file.
# MERGED: Deleting sessions that nobody has used for long.

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ostler.app.settings import Settings
from ostler.core.journal import World
from ostler.core.lazy import lazy_module
from ostler.core.processes import current_process
from ostler.core.store import SessionSummary, Store
from ostler.history.costs import root_of
from ostler.schema.errors import NotFound, SessionHeld, UsageError
from ostler.sessions.lease import kill_session_processes
from ostler.store.paths import store_file

if TYPE_CHECKING:
    from ostler.store import memory, sqlite
    from ostler.store.sqlite import SqliteStore
else:
    memory = lazy_module("ostler.store.memory")
    sqlite = lazy_module("ostler.store.sqlite")


def open_store(
    settings: Settings | None = None, *, in_memory: bool = False, home: Path | None = None
) -> Store:
    """The user's store, or that of another home; in memory it is gone with the process."""
    if in_memory:
        return memory.MemoryStore()
    return sqlite.SqliteStore(store_file(home), durability=(settings or Settings()).durability)


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


class SharedStores:
    """Opens a file once, however many share it: they would wake and lock each other as other processes do."""

    def __init__(self) -> None:
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, SqliteStore]] = (
            WeakKeyDictionary()
        )
        self._users: WeakKeyDictionary[SqliteStore, int] = WeakKeyDictionary()

    def borrow(self, path: Path) -> sqlite.SqliteStore:
        """The store in that file, opened if need be."""
        here = self._open.setdefault(asyncio.get_running_loop(), {})
        file = path.resolve()
        if file not in here:
            here[file] = sqlite.SqliteStore(path)
        store = here[file]
        self._users[store] = self._users.get(store, 0) + 1
        return store

    async def give_back(self, store: SqliteStore) -> None:
        """Closes the store if nobody else uses it."""
        self._users[store] -= 1
        if self._users[store]:
            return
        for stores in self._open.values():
            for file in [file for file, one in stores.items() if one is store]:
                del stores[file]
        await store.close()


SHARED_STORES = SharedStores()


Family = Sequence[SessionSummary]
"""A session and its children: they are kept together, and they go together."""


def unused_sessions(
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
            await kill_session_processes(store, one.id, world)
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
