"""The journal of a session: its live state, and the only way to add facts to its log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from ostler.core.lazy import Lazy, load
from ostler.core.processes import ProcessId, current_process, kill_processes_of, mark_children
from ostler.core.secrets import mask_bytes
from ostler.core.state import SessionState, fold
from ostler.core.store import Lease, Store
from ostler.schema.errors import StoreError, failure_of
from ostler.schema.events import (
    Entry,
    Event,
    LeafMoved,
    PermissionRemembered,
    QuestionAnswered,
    StoreFailed,
    Warned,
)
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.ids import NewId, new_id

if TYPE_CHECKING:
    from random import Random

    from ostler.core.context import RequestPrefix


class World(msgspec.Struct, frozen=True):
    """The clock, randomness and processes. The simulator replaces them."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_id: NewId = new_id
    random: Random = cast(Any, Lazy(lambda: load("random:Random")()))
    kill_processes_of: Callable[[str], int] = kill_processes_of
    process: Callable[[], ProcessId] = current_process


EventHandler = Callable[[Sequence[Fact | Event]], None]
"""Sees committed facts and live events, in order, in batches. It must not block."""

Handler = TypeVar("Handler")


class Publisher(Generic[Handler]):
    """Delivers to handlers in the order they subscribed. An exception of a handler goes to `on_error`, if
    there is one, and ends the handler's subscription; otherwise it goes to the publisher."""

    def __init__(self, on_error: Callable[[Exception], None] | None = None) -> None:
        self._handlers: list[Handler] = []
        self._on_error = on_error

    def __len__(self) -> int:
        return len(self._handlers)

    def subscribe(self, handler: Handler) -> Callable[[], None]:
        """Returns the function that ends the subscription."""
        self._handlers.append(handler)

        def stop() -> None:
            if handler in self._handlers:
                self._handlers.remove(handler)

        return stop

    def publish(self, deliver: Callable[[Handler], None]) -> None:
        for handler in tuple(self._handlers):
            try:
                deliver(handler)
            except Exception as error:
                if self._on_error is None:
                    raise
                self._handlers.remove(handler)
                self._on_error(error)


class Journal:
    """Facts are *recorded* (they change the state at once) and then *committed* (they are in the log).

    - Facts of the same moment are committed together, in one append.
    - Subscribers see a fact after it is committed; nothing is done before its intent is committed.
    - After a failed append nothing more can be recorded: the log would not say what happens.
    """

    def __init__(self, store: Store, lease: Lease, state: SessionState, world: World) -> None:
        mark_children(store)
        self.store = store
        self.lease = lease
        self.state = state
        self.world = world
        self.failed: StoreError | None = None
        self.on_failure: Callable[[StoreError], None] = lambda error: None
        self.on_close: list[Callable[[], None]] = []
        self.has_processes = False
        """A tool has started processes since the session was opened."""
        self.is_moved = False
        """The leaf was moved, and the state is not reloaded yet."""
        self.side_calls: set[str] = set()
        """Model calls outside of steps that run in this process: recovery ignores them."""
        self.secret_answers: dict[str, Any] = {}
        """By request. The inbox is a file, so the requests in it do not contain them."""
        self.last_prefix: RequestPrefix | None = None
        self._publisher = Publisher[EventHandler](self._warn_of_handler)
        self._staged: list[Fact] = []
        self._appending: list[Fact] = []
        self._settled: dict[str, int] = {}
        self.is_detached = False
        """Another process has the session: events recorded meanwhile become facts when it is ours again."""
        self._postponed: list[tuple[Event, str, str]] = []
        """Those events, each with its run and the request that it settles."""
        self._waiters: list[asyncio.Future[None]] | None = None
        """The waiters for the running append; None while there is none."""
        self._next_waiters: list[asyncio.Future[None]] = []
        """The waiters for the append after that one."""

    @property
    def session(self) -> str:
        return self.lease.session

    @property
    def has_recorded(self) -> bool:
        """Facts that are not committed yet."""
        return bool(self._staged)

    async def history(self, after: int = 0) -> list[Fact]:
        """The session's facts up to this moment, also those that are not committed yet."""
        committed = await self.store.read(self.session, after)
        last = committed[-1].seq if committed else after
        return committed + [fact for fact in (*self._appending, *self._staged) if fact.seq > last]

    def record(self, event: Event, *, run: str | None = None, settles: str = "") -> Fact:
        """Adds a fact to the next append. `settles` is the request that it completes."""
        if self.failed:
            raise self.failed
        fact = self._next_fact(event, run)
        if self.is_detached:
            self._postponed.append((event, run or "", settles))
            return fact
        self.state.apply(fact)
        self.is_moved = self.is_moved or isinstance(event, LeafMoved)
        self._staged.append(fact)
        if settles:
            self._settled[settles] = fact.seq
        return fact

    def _next_fact(self, event: Event, run: str | None) -> Fact:
        """The event with its envelope. Consent is bound to this store, and known keys are masked."""
        if isinstance(event, QuestionAnswered | PermissionRemembered) and not event.store:
            event = msgspec.structs.replace(event, store=self.store.id)
        state, time_ms = self.state, self.world.now_ms()
        run_id = (state.run.id if state.run else "") if run is None else run
        seq, parent = state.last_seq + 1, state.leaf if isinstance(event, Entry) else None
        fact = Fact.of(event, seq=seq, session=self.session, run=run_id, time_ms=time_ms, parent=parent)
        body = mask_bytes(fact.body)
        return fact if body is fact.body else msgspec.structs.replace(fact, body=body, _event=None)

    async def commit(self) -> None:
        """Appends the recorded facts, all or nothing, and publishes them."""
        waiting = self._waiters
        if waiting is None:
            if not self._staged or self._append():
                return
            waiting = self._waiters = []
        elif self._staged:
            waiting = self._next_waiters
        # The waiter may be cancelled, but not a running append: its outcome would be unknown.
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(done)
        await done

    def _append(self) -> bool:
        """Starts to append the recorded facts; True if that is done already."""
        facts, settled = self._staged, self._settled
        try:
            appended = self.store.append_now(self.lease, facts, settled)
        except StoreError as error:
            self.fail(error)
            raise
        self._staged, self._settled = [], {}
        self._appending = facts
        if appended is True:
            self.publish(facts)
            return True
        append = appended or asyncio.ensure_future(self.store.append(self.lease, facts, settled))
        append.add_done_callback(partial(self._conclude, facts))
        return False

    def _conclude(self, facts: list[Fact], append: asyncio.Future[None]) -> None:
        """Ends the running append, and starts the next one if there are waiters for it."""
        waiting, self._waiters = self._waiters or [], None
        error = asyncio.CancelledError() if append.cancelled() else append.exception()
        if error is None:
            self.publish(facts)
        elif isinstance(error, StoreError):
            self.fail(error)
        _wake(waiting, error)
        if not self._next_waiters:
            return
        waiting, self._next_waiters = self._next_waiters, []
        try:
            if self._append():
                _wake(waiting)
            else:
                self._waiters = waiting
        except Exception as error:
            _wake(waiting, error)

    def close(self) -> None:
        """Calls `on_close`: this process writes nothing more."""
        for callback in self.on_close:
            callback()

    def fail(self, error: StoreError) -> None:
        """The log cannot be written: publishes that, and stops the run; recovery records its end later."""
        if self.failed is None:
            self.failed = error
            self.publish([StoreFailed(failure_of(error))])
            self.on_failure(error)

    def publish(self, events: Sequence[Fact | Event]) -> None:
        """Delivers events to all subscribers. One that raises is removed, and the others get a warning."""
        if events:
            self._publisher.publish(lambda handler: handler(events))

    def subscribe(self, handler: EventHandler) -> Callable[[], None]:
        return self._publisher.subscribe(handler)

    def _warn_of_handler(self, error: Exception) -> None:
        text = f"a subscriber failed and was removed: {type(error).__name__}: {error}"
        self.publish([Warned(text, about="hook")])

    @property
    def committed_seq(self) -> int:
        """The last fact that is in the log, as far as this process knows."""
        return self._staged[0].seq - 1 if self._staged else self.state.last_seq

    async def detach(self) -> None:
        """Another process has the session now. Uncommitted facts are recorded again when it is ours."""
        self.is_detached = True
        if not self._staged:
            return
        settles = {seq: request for request, seq in self._settled.items()}
        for fact in self._staged:
            if not isinstance(fact.event, UnknownEvent):
                self._postponed.append((fact.event, fact.run, settles.get(fact.seq, "")))
        self._staged, self._settled = [], {}
        await self.reload()

    async def reattach(self, lease: Lease) -> None:
        """The session is ours again."""
        await self.detach()
        self.lease = lease
        await self.reload()
        self.is_detached = False
        postponed, self._postponed = self._postponed, []
        for event, run, settles in postponed:
            self.record(event, run=run, settles=settles)

    async def reload(self) -> None:
        """Folds the log again, after the leaf was moved; and once more if facts were recorded meanwhile."""
        while True:
            await self.commit()
            last = self.state.last_seq
            state = fold(await self.store.read_opening(self.session), self.store.id)
            if self.state.last_seq == last:
                self.state = state
                self.is_moved = False
                return


def _wake(waiting: list[asyncio.Future[None]], error: BaseException | None = None) -> None:
    for waiter in [waiter for waiter in waiting if not waiter.done()]:
        if error is None:
            waiter.set_result(None)
        elif isinstance(error, asyncio.CancelledError):
            waiter.cancel()
        else:
            waiter.set_exception(error)


async def open_journal(store: Store, lease: Lease, world: World) -> Journal:
    return Journal(store, lease, fold(await store.read_opening(lease.session), store.id), world)
