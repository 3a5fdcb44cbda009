"""Commits to the SQLite file: on the spot, or together with others, here or in a thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from ostler.schema.errors import StoreBusy, StoreError
from ostler.store.sqlite_connection import PATIENCE, Durability, connect, connect_again, translate_errors

WRITES_BETWEEN_LOOKS = 200

LARGE_WAL = 4 * 1024 * 1024

LARGEST_WAL = 4 * LARGE_WAL

LONG_WAL = 1024 * 1024

PAUSE = 0.002

_NOT_NOW = object()


Result = TypeVar("Result")

Work = Callable[[sqlite3.Connection], Result]


class _Order(NamedTuple):
    """Work that waits, what follows it, and the future of whoever waits for both."""

    work: Work[Any]
    then: Callable[[], None] | None
    lengthy: bool
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Writer:
    """A lone transaction is committed at once, on the spot. What several sessions bring in one turn of the
    event loop is committed together at its end; what arrives while another commit is under way, by a thread.

    Nothing of it belongs to an event loop but the orders that wait, so it serves one loop after the other,
    also when the loop before was dropped in the middle.
    """

    def __init__(self, path: Path, durability: Durability, patience: float = PATIENCE) -> None:
        self.commits = 0
        self.checkpoints = 0
        self._writes_since_look = WRITES_BETWEEN_LOOKS
        self._path = path
        self._patience = patience
        self._inline = durability == "process"
        self._connection = connect(path, durability, patience=patience)
        self._connection.execute("pragma busy_timeout = 0")  # it would stop the event loop; the thread waits
        self._connection.execute(f"pragma journal_size_limit = {LARGEST_WAL}")
        self._in_use = threading.Lock()
        self._queue: list[_Order] = []
        self._queue_lock = threading.Lock()
        self._flushing = False
        self._gathers_in: asyncio.AbstractEventLoop | None = None
        self._latest = ""
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="ostler-log")
        self._checkpoint: Future[None] | None = None
        self.wal = Path(f"{path}-wal")
        self._wal_size = 0
        self._others = 0
        self._closed = False

    async def run(self, work: Work[Result], *, lengthy: bool = False) -> Result:
        """Runs `work` in a transaction, and returns when it is committed.

        Once it has begun it is finished: when the caller is cancelled meanwhile, it learns so afterwards.
        Work that takes long is not done on the spot.
        """
        outcome: Any = _NOT_NOW if lengthy else self._on_the_spot(work)
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
        self, work: Work[None], whose: str, then: Callable[[], None]
    ) -> Literal[True] | asyncio.Future[None]:
        """Runs `work` and `then`: on the spot, or else as soon as possible; the future says when.

        While several write in the same turn of the event loop, one commit at its end serves all of them.
        """
        if not self._is_gathering(whose) and self._on_the_spot(work) is not _NOT_NOW:
            then()
            return True
        return self._enqueue(work, then)

    def _on_the_spot(self, work: Work[Any]) -> Any:
        """What came of it; `_NOT_NOW` while another commit is under way, here or in another process."""
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
        """Changes when somebody else has committed, and not when we have."""
        with translate_errors(self._path):
            if self._in_use.acquire(blocking=False):
                try:
                    self._look_at_others()
                finally:
                    self._in_use.release()
        return self._others

    def has_long_wal(self) -> bool:
        """Whoever opens the database next would have to read all of it first."""
        try:
            return self.wal.stat().st_size >= LONG_WAL
        except OSError:
            return False

    async def close(self) -> None:
        """What was begun is finished first."""
        self._closed = True
        self._hand_over()
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
        order = _Order(work, then, lengthy, loop, loop.create_future())
        with self._queue_lock:
            self._queue.append(order)
        if lengthy or self._gathers_in is not loop:
            self._hand_over()
        return order.done

    def _is_gathering(self, whose: str) -> bool:
        """Whether others have written in this turn of the event loop, or many did in the turn before."""
        loop = asyncio.get_running_loop()
        if self._gathers_in is loop:
            return True
        if self._inline and whose != self._latest:
            self._latest, self._gathers_in = whose, loop
            loop.call_soon(self._end_turn, loop)
        return False

    def _resume(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._gathers_in is not loop:
            self._gathers_in = loop
            self._end_turn(loop)

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commits what was gathered; as long as there is something, the next turn is gathered, too."""
        ours = all(order.loop is loop and not order.lengthy for order in self._queue)
        if not self._queue or not ours or self._flushing or not self._in_use.acquire(blocking=False):
            self._gathers_in = None
            self._hand_over()
            return
        loop.call_soon(self._end_turn, loop)
        with self._queue_lock:
            batch, self._queue = self._queue, []
        try:
            outcomes = self._transact([order.work for order in batch])
        except StoreBusy:
            with self._queue_lock:
                self._queue = batch + self._queue
            self._hand_over()
            return
        except Exception as error:
            outcomes = [error] * len(batch)
        finally:
            self._in_use.release()
        _settle(zip(batch, outcomes, strict=True))

    # --- in the thread ------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """What waits is left to the thread."""
        with self._queue_lock:
            if self._queue and not self._flushing:
                self._flushing = True
                self._threads.submit(self._flush)

    def _flush(self) -> None:
        while batch := self._next_batch():
            try:
                with self._in_use:
                    outcomes = self._transact_patiently([order.work for order in batch])
                    self._look_at_others()
            except BaseException as error:
                outcomes = [error] * len(batch)
            for loop in {order.loop for order in batch}:
                settled = [pair for pair in zip(batch, outcomes, strict=True) if pair[0].loop is loop]
                with suppress(RuntimeError):  # that loop was closed: nobody waits there any more
                    loop.call_soon_threadsafe(_settle, settled)
            if self._give_back():
                return

    def _give_back(self) -> bool:
        """Leaves what has come meanwhile to the event loop: beside its work a commit takes much longer."""
        with self._queue_lock:
            short = self._inline and not any(order.lengthy for order in self._queue)
            if not self._queue or not short or self._closed:
                return False
            loop = self._queue[0].loop
            try:
                loop.call_soon_threadsafe(self._resume, loop)
            except RuntimeError:  # it was closed
                return False
            self._flushing = False
        return True

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
        with translate_errors(self._path):
            try:
                outcomes = self._committed(batch, self._work)
            except Exception:
                if len(batch) == 1:
                    raise
                # One of them failed, as a rule: what each has done must be told apart.
                outcomes = self._committed(batch, self._one_of_many)
        self.commits += 1
        self._writes_since_look += len(batch)
        if self._writes_since_look > WRITES_BETWEEN_LOOKS:
            self._writes_since_look = 0
            self._checkpoint_if_large()
        return outcomes

    def _committed(self, batch: list[Work[Any]], run: Callable[[Work[Any]], Any]) -> list[Any]:
        connection = self._connection
        connection.execute("begin immediate")
        try:
            outcomes = [run(work) for work in batch]
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise
        return outcomes

    def _work(self, work: Work[Any]) -> Any:
        return work(self._connection)

    def _one_of_many(self, work: Work[Any]) -> Any:
        connection = self._connection
        connection.execute("savepoint one")
        try:
            with translate_errors(self._path):
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
        """Moves the write-ahead log into the database beside the work, not in the middle of a commit.

        Its file keeps its size when it begins anew: only once it grows has as much been written again.
        """
        if self._closed or (self._checkpoint is not None and not self._checkpoint.done()):
            return
        try:
            size = self.wal.stat().st_size
        except OSError:
            return  # there is none yet
        if size > max(LARGE_WAL, min(self._wal_size, LARGEST_WAL)):
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
            self._wal_size = self.wal.stat().st_size
        self.checkpoints += 1


def _settle(settled: Iterable[tuple[_Order, Any]]) -> None:
    for order, outcome in settled:
        if order.then:
            order.then()
        if order.done.done():
            continue
        if isinstance(outcome, BaseException):
            order.done.set_exception(outcome)
        else:
            order.done.set_result(outcome)
