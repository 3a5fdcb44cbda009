"""Commits to the SQLite file: immediately, or together with others, on the event loop or in a thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from ostler.schema.errors import StoreBusy, StoreError
from ostler.store.sqlite_connection import (
    PATIENCE,
    Durability,
    Transaction,
    connect,
    connect_again,
    translate_errors,
)

WRITES_BETWEEN_CHECKS = 200
LARGE_WAL = 4 * 1024 * 1024
LARGEST_WAL = 4 * LARGE_WAL
LONG_WAL = 1024 * 1024
PAUSE = 0.002

_NOT_NOW = object()

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]


class _QueuedWork(NamedTuple):
    """Queued work, a callback after it, and the future for both."""

    work: Work[Any]
    then: Callable[[], None] | None
    lengthy: bool
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Writer:
    """A single transaction is committed immediately. The transactions of several sessions in one turn of the
    event loop are committed together at its end; those that arrive during another commit, by a thread.

    Only queued work belongs to an event loop, so one writer serves one loop after the other, even if the
    previous loop was abandoned.
    """

    def __init__(self, path: Path, durability: Durability, patience: float = PATIENCE) -> None:
        self.commits = 0
        self.checkpoints = 0
        self._writes_since_check = WRITES_BETWEEN_CHECKS
        self._path = path
        self._patience = patience
        self._inline = durability == "process"
        self._connection = connect(path, durability, patience=patience)
        # Waiting would block the event loop; the thread waits.
        self._connection.execute("pragma busy_timeout = 0")
        self._connection.execute(f"pragma journal_size_limit = {LARGEST_WAL}")
        self._in_use = threading.Lock()
        self._queue: list[_QueuedWork] = []
        self._queue_lock = threading.Lock()
        self._flushing = False
        self._gathering_loop: asyncio.AbstractEventLoop | None = None
        self._latest = ""
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="ostler-log")
        self._checkpoint: Future[None] | None = None
        self.wal = Path(f"{path}-wal")
        self._wal_size = 0
        self._others = 0
        self._closed = False

    async def run(self, work: Work[Result], *, lengthy: bool = False) -> Result:
        """Runs `work` in a transaction, and returns when it is committed.

        Work that has started is finished, even if the caller is cancelled. `lengthy` work runs in the thread.
        """
        outcome: Any = _NOT_NOW if lengthy else self._run_now(work)
        if outcome is not _NOT_NOW:
            result: Result = outcome
            return result
        done = self._enqueue(work, lengthy=lengthy)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            if not done.done():
                await asyncio.wait({done})
            raise

    def run_soon(
        self, work: Work[None], session: str, then: Callable[[], None]
    ) -> Literal[True] | asyncio.Future[None]:
        """Runs `work` and `then` immediately and returns True, or as soon as possible and returns a future.

        If several sessions write in the same turn of the event loop, one commit at its end serves them all.
        """
        if not self._is_gathering(session) and self._run_now(work) is not _NOT_NOW:
            then()
            return True
        return self._enqueue(work, then)

    def _run_now(self, work: Work[Any]) -> Any:
        """The result; `_NOT_NOW` during another commit, here or in another process."""
        if self._closed:
            raise StoreError(f"{self._path} has been closed")
        if not self._inline or self._queue or self._flushing or not self._in_use.acquire(blocking=False):
            return _NOT_NOW
        try:
            return self._transact([work])[0]
        except StoreBusy:
            return _NOT_NOW
        finally:
            self._in_use.release()

    def version_of_others(self) -> int:
        """Changes when another process commits, but not when this one does."""
        with translate_errors(self._path):
            if self._in_use.acquire(blocking=False):
                try:
                    self._read_version_of_others()
                finally:
                    self._in_use.release()
        return self._others

    def has_long_wal(self) -> bool:
        """The next process to open the database would have to read all of it first."""
        return self._size_of_wal() >= LONG_WAL

    def _size_of_wal(self) -> int:
        try:
            return self.wal.stat().st_size
        except OSError:
            return 0  # there is none

    async def close(self) -> None:
        """Finishes what was started."""
        self._closed = True
        self._flush_in_thread()
        try:
            if self._flushing or (self._checkpoint and not self._checkpoint.done()):
                await asyncio.to_thread(self._threads.shutdown)
        finally:
            self.close_at_once()

    def close_at_once(self) -> None:
        self._closed = True
        self._threads.shutdown()
        self._connection.close()

    # --- together with others -----------------------------------------------------------------------

    def _enqueue(
        self, work: Work[Any], then: Callable[[], None] | None = None, *, lengthy: bool = False
    ) -> asyncio.Future[Any]:
        if self._closed:
            raise StoreError(f"{self._path} has been closed")
        loop = asyncio.get_running_loop()
        item = _QueuedWork(work, then, lengthy, loop, loop.create_future())
        with self._queue_lock:
            self._queue.append(item)
        if lengthy or self._gathering_loop is not loop:
            self._flush_in_thread()
        return item.done

    def _is_gathering(self, session: str) -> bool:
        """Whether other sessions wrote in this turn of the event loop, or many did in the turn before."""
        loop = asyncio.get_running_loop()
        if self._gathering_loop is loop:
            return True
        if self._inline and session != self._latest:
            self._latest, self._gathering_loop = session, loop
            loop.call_soon(self._end_turn, loop)
        return False

    def _resume(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._gathering_loop is not loop:
            self._gathering_loop = loop
            self._end_turn(loop)

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commits what was gathered; while there is something, the next turn gathers as well."""
        ours = all(item.loop is loop and not item.lengthy for item in self._queue)
        if not self._queue or not ours or self._flushing or not self._in_use.acquire(blocking=False):
            self._gathering_loop = None
            self._flush_in_thread()
            return
        loop.call_soon(self._end_turn, loop)
        with self._queue_lock:
            batch, self._queue = self._queue, []
        try:
            outcomes = self._transact([item.work for item in batch])
        except StoreBusy:
            with self._queue_lock:
                self._queue = batch + self._queue
            self._flush_in_thread()
            return
        except Exception as error:
            outcomes = [error] * len(batch)
        finally:
            self._in_use.release()
        _settle(zip(batch, outcomes, strict=True))

    # --- in the thread ------------------------------------------------------------------------------

    def _flush_in_thread(self) -> None:
        """Leaves queued work to the thread."""
        with self._queue_lock:
            if self._queue and not self._flushing:
                self._flushing = True
                self._threads.submit(self._flush)

    def _flush(self) -> None:
        while batch := self._next_batch():
            try:
                with self._in_use:
                    outcomes = self._transact_with_retry([item.work for item in batch])
                    self._read_version_of_others()
            except BaseException as error:
                outcomes = [error] * len(batch)
            for loop in {item.loop for item in batch}:
                settled = [pair for pair in zip(batch, outcomes, strict=True) if pair[0].loop is loop]
                with suppress(RuntimeError):  # that loop was closed, so nothing waits there
                    loop.call_soon_threadsafe(_settle, settled)
            if self._return_to_loop():
                return

    def _return_to_loop(self) -> bool:
        """Leaves new work to the event loop, because a commit in parallel with it takes much longer."""
        with self._queue_lock:
            short = self._inline and not any(item.lengthy for item in self._queue)
            if not self._queue or not short or self._closed:
                return False
            loop = self._queue[0].loop
            try:
                loop.call_soon_threadsafe(self._resume, loop)
            except RuntimeError:  # it was closed
                return False
            self._flushing = False
        return True

    def _next_batch(self) -> list[_QueuedWork]:
        with self._queue_lock:
            batch, self._queue = self._queue, []
            self._flushing = bool(batch)
        return batch

    def _transact_with_retry(self, batch: list[Work[Any]]) -> list[Any]:
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
        """Each work's result or its own error. If the commit fails, nothing has happened."""
        with translate_errors(self._path):
            try:
                outcomes = self._commit(batch, lambda work: work(self._connection))
            except Exception:
                if len(batch) == 1:
                    raise
                # Usually one of them failed: run each in its own savepoint.
                outcomes = self._commit(batch, self._in_savepoint)
        self.commits += 1
        self._writes_since_check += len(batch)
        if self._writes_since_check > WRITES_BETWEEN_CHECKS:
            self._writes_since_check = 0
            self._checkpoint_if_large()
        return outcomes

    def _commit(self, batch: list[Work[Any]], run: Callable[[Work[Any]], Any]) -> list[Any]:
        with Transaction(self._connection):
            return [run(work) for work in batch]

    def _in_savepoint(self, work: Work[Any]) -> Any:
        connection = self._connection
        connection.execute("savepoint item")
        try:
            with translate_errors(self._path):
                outcome = work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise  # SQLite has rolled back everything
            connection.execute("rollback to item")
            outcome = error
        connection.execute("release item")
        return outcome

    def _read_version_of_others(self) -> None:
        self._others = self._connection.execute("pragma data_version").fetchone()[0]

    def _checkpoint_if_large(self) -> None:
        """Moves the write-ahead log into the database in the background, not during a commit.

        The log's file does not shrink when SQLite restarts it, so if it grows, as much was written again.
        """
        if self._closed or (self._checkpoint is not None and not self._checkpoint.done()):
            return
        if self._size_of_wal() > max(LARGE_WAL, min(self._wal_size, LARGEST_WAL)):
            self._checkpoint = self._threads.submit(self._checkpoint_now)

    def _checkpoint_now(self) -> None:
        """If it fails, the log stays long until a later checkpoint.

        Most pages are moved in the background. SQLite restarts the log only when the last page is moved, and
        nothing may be appended at that moment, so appends wait for it.
        """
        with closing(connect_again(self._path)) as connection:
            connection.execute("pragma busy_timeout = 0")
            connection.execute("pragma wal_checkpoint(passive)")
        with self._in_use:
            self._connection.execute("pragma wal_checkpoint(passive)")
            self._wal_size = self.wal.stat().st_size
        self.checkpoints += 1


def _settle(settled: Iterable[tuple[_QueuedWork, Any]]) -> None:
    for item, outcome in settled:
        if item.then:
            item.then()
        if item.done.done():
            continue
        if isinstance(outcome, BaseException):
            item.done.set_exception(outcome)
        else:
            item.done.set_result(outcome)
