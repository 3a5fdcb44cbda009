"""`EventChannel`: ordered delivery of a session's events to one extension, one at a time."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_origin, get_type_hints

from ostler.core.cancellation import CLOCK_SLACK, Stopwatch, running_stopwatch
from ostler.core.hooks import TIME_LIMIT, ContextDraft
from ostler.extensions.executor import ExtensionError, Handler, described
from ostler.extensions.extension import Extension, Observer
from ostler.extensions.extension_context import ExtensionContext

if TYPE_CHECKING:
    from ostler.extensions.extension_session import ExtensionSession

CATCH_UP_SECONDS = 5.0
"""How long a hook waits until its extension has handled earlier events."""
Batch = tuple[Any, ...]
"""Events, shared by all channels that get them: immutable."""
Order = Sequence[tuple[Observer, Any]]
"""Observers and their subjects, in call order."""


class EventChannel:
    """Delivers events to the observers of one extension."""

    def __init__(
        self, extension: Extension, context: ExtensionContext, extension_session: ExtensionSession
    ) -> None:
        self.extension = extension
        self.context = context
        self.kinds = frozenset(extension.registered.observers)
        self._extension_session = extension_session
        self._queue: list[Batch] = []
        self._put = 0
        self._handled = 0
        self._progress = asyncio.Event()
        self._is_busy = False
        self._is_abandoned = False
        self._task: asyncio.Task[None] | None = None

    def put(self, batch: Batch) -> None:
        """Queues events, all of observed types."""
        if batch:
            self._queue.append(batch)
            self._put += 1
            if not self._is_busy:
                self._deliver()

    async def drain(self) -> None:
        """Waits until queued events are handled; not for long, since a handler may wait for the caller."""
        await self._catch_up_with(self._put, CATCH_UP_SECONDS)

    async def drain_all(self) -> None:
        """Like `drain`, but waits for a handler's full time, and as long as it asks a user."""
        target = self._put
        was_asking = True
        while was_asking:
            was_asking = self.context.is_asking
            if await self._catch_up_with(target, TIME_LIMIT):
                return
            was_asking = was_asking or self.context.is_asking
        self.abandon()

    def abandon(self) -> None:
        """Stops waiting for the running handler, which hangs or waits for the session to close."""
        self._is_abandoned = True
        self._progress.set()

    async def _catch_up_with(self, target: int, seconds: float) -> bool:
        """Returns False on a timeout."""
        if self._handled >= target:
            return True
        try:
            async with asyncio.timeout(seconds):
                while self._handled < target and not self._is_abandoned:
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    def _deliver(self) -> None:
        """Calls each handler once per event; commits what they recorded before the next batch."""
        self._is_busy = True
        batches, self._queue = self._queue, []
        order = self._order(batches[0] if len(batches) == 1 else sum(batches, ()))
        if any(observer.handler.is_async for observer, _ in order):
            self._task = asyncio.ensure_future(self._call_each(order, len(batches)))
        else:
            # Without a task: this happens for each batch of deltas, in each extension.
            _ThreadDelivery(self, order, len(batches))

    async def _call_each(self, order: Order, batches: int) -> None:
        for observer, subject in order:
            handler = observer.handler
            try:
                await handler.call(self.extension.worker, subject, self.context, seconds=TIME_LIMIT)
            except ExtensionError as failure:
                self.report(handler, str(failure))
        await self._extension_session.commit()
        self._end(batches)

    def delivered(self, batches: int) -> None:
        """All handlers in the thread have returned."""
        if self._extension_session.session.journal.has_recorded:
            self._task = asyncio.ensure_future(self._call_each((), batches))
        else:
            self._end(batches)

    def _end(self, batches: int) -> None:
        self._is_busy = self._is_abandoned = False
        self._handled += batches
        self._progress.set()
        if self._queue:
            self._deliver()

    def report(self, handler: Handler, problem: str) -> None:
        self._extension_session.report(self.extension, handler.name, problem)

    def _order(self, batch: Batch) -> Order:
        observers = self.extension.registered.observers
        order: list[tuple[Observer, Any]] = []
        kinds = set(map(type, batch))
        called = {id(observer): observer for kind in kinds for observer in observers[kind]}
        collected: dict[int, list[Any]] = {key: [] for key, observer in called.items() if observer.batch}
        if len(called) == len(collected) == 1:
            (only,) = called.values()
            return [(only, tuple(map(own_copy, batch)) if any(map(_is_mutable, kinds)) else batch)]
        for event in batch:
            copied = own_copy(event)
            for observer in observers[type(event)]:
                if not observer.batch:
                    order.append((observer, copied))
                    continue
                events = collected[id(observer)]
                if not events:
                    order.append((observer, events))
                events.append(copied)
        return [(one, tuple(subject) if one.batch else subject) for one, subject in order]


class _ThreadDelivery:
    """Calls plain handlers one after the other as one job of the extension's thread. If one of them hangs,
    its thread is abandoned, and another delivery calls the remaining handlers."""

    def __init__(self, channel: EventChannel, order: Order, batches: int) -> None:
        self._channel = channel
        self._order = order
        self._batches = batches
        self._index = 0
        self._is_over = False
        self._problems: list[tuple[Handler, str]] = []
        self._watch = Stopwatch()
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._timer = self._loop.call_later(TIME_LIMIT, self._check_time)
        channel.extension.worker.post(self._call)

    def _call(self) -> None:
        running_stopwatch.set(self._watch)
        for index, (observer, subject) in enumerate(self._order):
            self._index, handler = index, observer.handler
            try:
                handler.function(*handler.take(subject, self._channel.context))
            except BaseException as error:
                self._problems.append((handler, described(error, handler.function)))
            if self._is_over:
                return
        self._channel.context.calls.post(self._end)

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._timer.cancel()
        self._report()
        self._channel.delivered(self._batches)

    def _check_time(self) -> None:
        """The time limit has passed, unless the handler waited for a user meanwhile."""
        left = self._began + TIME_LIMIT + self._watch.paused() - self._loop.time()
        if left > CLOCK_SLACK:
            self._timer = self._loop.call_later(left, self._check_time)
            return
        self._is_over = True
        channel, hanging = self._channel, self._order[self._index][0].handler
        channel.extension.worker.abandon()
        self._report()
        channel.report(hanging, f"took longer than {TIME_LIMIT:g} s{hanging.location}")
        if remaining := self._order[self._index + 1 :]:
            _ThreadDelivery(channel, remaining, self._batches)
        else:
            channel.delivered(self._batches)

    def _report(self) -> None:
        for handler, problem in self._problems:
            self._channel.report(handler, problem)


def own_copy(event: Any) -> Any:
    """The event, or a copy if a handler could mutate what others see."""
    kind: Any = type(event)  # mypy takes no `type` for a hashable value
    if kind is ContextDraft:
        return event  # its messages are immutable, and may be many
    if not _is_mutable(kind):
        return event
    model = getattr(event, "model", None)
    return copy.deepcopy(event, {id(model): model})  # a model is not data


@cache
def _is_mutable(kind: Any) -> bool:
    """Whether values of this type can contain mutable data."""
    hints = get_type_hints(kind)
    plain = (str, int, float, bool, type(None))
    return any(hint not in plain and get_origin(hint) is not Literal for hint in hints.values())
