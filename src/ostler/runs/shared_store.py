"""One open store for all agents of an event loop that keep their sessions in the same file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from weakref import WeakKeyDictionary

from ostler.log.sqlite import SqliteStore


class SharedStores:
    """Opens a file once, however many share it: they would wake and lock each other as other processes do."""

    def __init__(self) -> None:
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, SqliteStore]] = (
            WeakKeyDictionary()
        )
        self._users: WeakKeyDictionary[SqliteStore, int] = WeakKeyDictionary()

    def borrow(self, path: Path) -> SqliteStore:
        """The store in that file, opened if need be."""
        here = self._open.setdefault(asyncio.get_running_loop(), {})
        file = path.resolve()
        if file not in here:
            here[file] = SqliteStore(path)
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
