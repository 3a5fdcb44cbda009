"""Commits to the SQLite file: on the spot, or together with others in a thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ostler.log.sqlite_connection import PATIENCE, Durability, connect, connect_again
from ostler.log.sqlite_errors import in_our_words
from ostler.vocabulary.errors import StoreBusy, StoreError

COMMITS_BETWEEN_LOOKS = 200
LARGE_WAL = 4 * 1024 * 1024
LONG_WAL = 1024 * 1024
PAUSE = 0.002
_NOT_NOW = object()

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]


class _Order(NamedTuple):
    """Work that waits for the thread, and the future of whoever waits for the work."""

    work: Work[Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Writer:
    """A lone transaction is committed at once, on the spot; what arrives while another commit is under way
    is committed together by a thread.

    Nothing of it belongs to an event loop but the orders that wait, so it serves one loop after the other,
    also when the loop before was dropped in the middle.
    """

    def __init__(self, path: Path, durability: Durability, patience: float = PATIENCE) -> None:
        self.commits = 0
        self.checkpoints = 0
        self._path = path
        self._patience = patience
        self._inline = durability == "process"
        self._connection = connect(path, durability, patience=patience)
        self._connection.execute("pragma busy_timeout = 0")  # it would stop the event loop; the thread waits
        self._connection.execute(f"pragma journal_size_limit = {4 * LARGE_WAL}")
        self._in_use = threading.Lock()
        self._queue: list[_Order] = []
        self._queue_lock = threading.Lock()
        self._flushing = False
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="ostler-log")
        self._checkpoint: Future[None] | None = None
        self._wal = Path(f"{path}-wal")
        self._others = 0
        self._closed = False

    async def run(self, work: Work[Result], *, lengthy: bool = False) -> Result:
        """Runs `work` in a transaction, and returns when it is committed.

        Once it has begun it is finished: when the caller is cancelled meanwhile, it learns so afterwards.
        Work that takes long is not done on the spot.
        """
        outcome: Any = _NOT_NOW if lengthy else self._on_the_spot(work)
        if outcome is _NOT_NOW:
            outcome = await self._enqueue(work)
        if isinstance(outcome, BaseException):
            raise outcome
        result: Result = outcome
        return result

    def run_now(self, work: Work[None]) -> bool:
        """Runs `work` on the spot, if nothing has to be waited for; else nothing happens, and it is False."""
        outcome = self._on_the_spot(work)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome is not _NOT_NOW

    def _on_the_spot(self, work: Work[Any]) -> Any:
        """What came of it; `_NOT_NOW` while another commit is under way, here or in another process."""
        if self._closed:
            raise StoreError(f"{self._path} has been closed")
        if not self._inline or self._flushing or not self._in_use.acquire(blocking=False):
            return _NOT_NOW
        try:
            return self._transact([work])[0]
        except StoreBusy:
            return _NOT_NOW
        finally:
            self._in_use.release()

    def version_of_others(self) -> int:
        """Changes when somebody else has committed, and not when we have."""
        with in_our_words(self._path):
            if self._in_use.acquire(blocking=False):
                try:
                    self._look_at_others()
                finally:
                    self._in_use.release()
        return self._others

    def has_long_wal(self) -> bool:
        """Whoever opens the database next would have to read all of it first."""
        try:
            return self._wal.stat().st_size >= LONG_WAL
        except OSError:
            return False

    async def close(self) -> None:
        """What was begun is finished first."""
        self._closed = True
        if self._flushing or (self._checkpoint and not self._checkpoint.done()):
            await asyncio.to_thread(self._threads.shutdown)
        self.close_at_once()

    def close_at_once(self) -> None:
        self._closed = True
        self._threads.shutdown()
        self._connection.close()

    # --- in the thread ------------------------------------------------------------------------------

    async def _enqueue(self, work: Work[Any]) -> Any:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        with self._queue_lock:
            self._queue.append(_Order(work, loop, done))
            if not self._flushing:
                self._flushing = True
                self._threads.submit(self._flush)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            if not done.done():
                await asyncio.wait({done})
            raise

    def _flush(self) -> None:
        while batch := self._next_batch():
            try:
                with self._in_use:
                    outcomes = self._transact_patiently([order.work for order in batch])
                    self._look_at_others()
            except BaseException as error:
                outcomes = [error] * len(batch)
            for loop in {order.loop for order in batch}:
                settled = [
                    (order.done, outcome)
                    for order, outcome in zip(batch, outcomes, strict=True)
                    if order.loop is loop
                ]
                with suppress(RuntimeError):  # that loop was closed: nobody waits there any more
                    loop.call_soon_threadsafe(_settle, settled)

    def _next_batch(self) -> list[_Order]:
        with self._queue_lock:
            batch, self._queue = self._queue, []
            self._flushing = bool(batch)
        return batch

    def _transact_patiently(self, batch: list[Work[Any]]) -> list[Any]:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._transact(batch)
            except StoreBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)

    # --- transactions -------------------------------------------------------------------------------

    def _transact(self, batch: list[Work[Any]]) -> list[Any]:
        """Each work's result or its own error; if the commit fails, none of it has happened."""
        connection = self._connection
        with in_our_words(self._path):
            connection.execute("begin immediate")
            try:
                if len(batch) == 1:
                    outcomes = [batch[0](connection)]
                else:
                    outcomes = [self._one_of_many(work) for work in batch]
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        self.commits += 1
        if self.commits % COMMITS_BETWEEN_LOOKS == 1:
            self._checkpoint_if_large()
        return outcomes

    def _one_of_many(self, work: Work[Any]) -> Any:
        connection = self._connection
        connection.execute("savepoint one")
        try:
            with in_our_words(self._path):
                outcome = work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise  # SQLite has given up all of it
            connection.execute("rollback to one")
            outcome = error
        connection.execute("release one")
        return outcome

    def _look_at_others(self) -> None:
        self._others = self._connection.execute("pragma data_version").fetchone()[0]

    def _checkpoint_if_large(self) -> None:
        """Moves the write-ahead log into the database beside the work, not in the middle of a commit."""
        if self._closed or (self._checkpoint is not None and not self._checkpoint.done()):
            return
        try:
            size = self._wal.stat().st_size
        except OSError:
            return  # there is none yet
        if size >= LARGE_WAL:
            self._checkpoint = self._threads.submit(self._checkpoint_now)

    def _checkpoint_now(self) -> None:
        """If it fails, the log only stays long and a later one does the work.

        Most of it is moved beside the work. Only when the last of it is moved does the log begin anew, and
        to that end nobody may add to it: appends wait for this moment.
        """
        connection = connect_again(self._path)
        try:
            connection.execute("pragma busy_timeout = 0")
            connection.execute("pragma wal_checkpoint(passive)")
        finally:
            connection.close()
        with self._in_use:
            self._connection.execute("pragma wal_checkpoint(passive)")
        self.checkpoints += 1


def _settle(settled: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for done, outcome in settled:
        if not done.done():
            done.set_result(outcome)
