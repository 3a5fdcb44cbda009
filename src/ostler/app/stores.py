"""Opens the user's store, finds sessions in it, and deletes unused ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ostler.app.settings import Settings
from ostler.core.journal import World
from ostler.core.lazy import lazy_module
from ostler.core.processes import current_process
from ostler.core.store import SessionSummary, Store
from ostler.schema.errors import NotFound, SessionHeld, UsageError
from ostler.schema.facts import Fact
from ostler.sessions.lease import kill_session_processes
from ostler.store.paths import note_store, store_file

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from ostler.history import costs
    from ostler.store import memory, sqlite
    from ostler.store.sqlite import SqliteStore
else:
    costs = lazy_module("ostler.history.costs")
    memory = lazy_module("ostler.store.memory")
    sqlite = lazy_module("ostler.store.sqlite")


NO_SESSIONS = "there are no sessions yet; `ostler -p PROMPT…` starts one"


def open_store(
    settings: Settings | None = None, *, in_memory: bool = False, home: Path | None = None
) -> Store:
    """Opens the user's store, the one of another home, or one in memory."""
    if in_memory:
        return memory.MemoryStore()
    note_store(store_file(home))
    return sqlite.SqliteStore(store_file(home), durability=(settings or Settings()).durability)


@asynccontextmanager
async def opened_store(settings: Settings | None = None, *, home: Path | None = None) -> AsyncIterator[Store]:
    """Opens the user's store, or the one of another home, and closes it at the end."""
    store = open_store(settings, home=home)
    try:
        yield store
    finally:
        await store.close()


def require_store() -> None:
    if not store_file().exists():
        raise NotFound(NO_SESSIONS)


async def read_facts(prefix: str) -> list[Fact]:
    """The facts of the session whose id has that prefix."""
    require_store()
    async with opened_store() as store:
        return await store.read(await find_session(store, prefix))


async def find_session(store: Store, prefix: str) -> str:
    """The id of the only session with that prefix."""
    if not prefix:
        raise UsageError("the session id is empty; see `ostler sessions list`")
    matches = await store.sessions(prefix=prefix, limit=2)
    if len(matches) > 1 and matches[0].id != prefix:
        raise UsageError(f"several sessions start with {prefix!r}; give more of the id")
    return matches[0].id if matches else (await store.summary(prefix)).id


async def newest_session(store: Store, cwd: Path) -> str:
    """The id of the directory's most recently used session of our own agent, no child; or an empty string."""
    limit = 4
    while True:
        newest = await store.sessions(cwd=str(cwd), limit=limit)
        own = [one.id for one in newest if not one.child_of and one.driver == "agent"]
        if own or len(newest) < limit:
            return own[0] if own else ""
        limit *= 8


class SharedStores:
    """Opens each file once per event loop: two stores on a file would wake and lock each other."""

    def __init__(self) -> None:
        self._open: WeakKeyDictionary[AbstractEventLoop, dict[Path, SqliteStore]] = WeakKeyDictionary()
        self._users: WeakKeyDictionary[SqliteStore, int] = WeakKeyDictionary()

    def borrow(self, path: Path) -> sqlite.SqliteStore:
        """The store of that file; `give_back` releases it."""
        here = self._open.setdefault(asyncio.get_running_loop(), {})
        file = path.resolve()
        if file not in here:
            here[file] = sqlite.SqliteStore(path)
            note_store(file)
        store = here[file]
        self._users[store] = self._users.get(store, 0) + 1
        return store

    async def give_back(self, store: SqliteStore) -> None:
        """Closes the store if it has no other user."""
        self._users[store] -= 1
        if self._users[store]:
            return
        for stores in self._open.values():
            for file in [file for file, one in stores.items() if one is store]:
                del stores[file]
        await store.close()


SHARED_STORES = SharedStores()

Family = Sequence[SessionSummary]
"""A session and its children, which are deleted together."""


def unused_sessions(
    sessions: Sequence[SessionSummary], *, unused_since_ms: int | None, keep: int, with_waiting: bool
) -> Iterator[Family]:
    """The families to delete, newest first: those not used since then, but never the newest `keep`.

    A family with a waiting run is only deleted `with_waiting`.
    """
    parents = {one.id: one.child_of for one in sessions}
    families: dict[str, list[SessionSummary]] = {}
    for one in sessions:
        families.setdefault(costs.root_of(one.id, parents), []).append(one)
    for family in sorted(families.values(), key=_last_use, reverse=True)[keep:]:
        waits = any(one.status == "waiting" for one in family)
        is_old = unused_since_ms is None or _last_use(family) < unused_since_ms
        if is_old and (with_waiting or not waits):
            yield family


def _last_use(family: Family) -> int:
    return max(one.updated_ms for one in family)


async def delete_unused(store: Store, family: Family, world: World) -> str:
    """Deletes a family, unless it was used since it was chosen; returns why not, or an empty string."""
    owner = current_process()
    leases = []
    try:
        for one in family:
            leases.append(await store.acquire(one.id, owner))
            await kill_session_processes(store, one.id, world)
            if (await store.summary(one.id)).last_seq != one.last_seq:
                return f"session {one.id} was used in the meantime"
        for one in family:
            await store.delete(one.id, owner)
        return ""
    except (SessionHeld, NotFound) as error:
        return error.message
    finally:
        for lease in leases:
            await store.release(lease)
