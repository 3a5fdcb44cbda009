"""Going along with one session: what happens in it reaches each extension, in order."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_origin, get_type_hints

from ostler.extensions.calling import CodeFailed, LoopCalls, call_within, described, is_async, takes
from ostler.extensions.context import ExtensionContext
from ostler.extensions.extension import Extension
from ostler.extensions.moments import (
    ModelChanged,
    Moment,
    ReasoningChanged,
    ReasoningStarted,
    SessionLeft,
    SessionOpened,
    StateChanged,
)
from ostler.extensions.registrations import Observer
from ostler.kernel.harness import Attended
from ostler.kernel.hooks import TIME_LIMIT
from ostler.vocabulary import events
from ostler.vocabulary.errors import StoreError
from ostler.vocabulary.events import Event
from ostler.vocabulary.facts import Fact

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost

BATCH_SECONDS = 0.02
"""How long deltas are gathered before they are handed on. A fact is handed on at once, with those before."""

CATCH_UP_SECONDS = 5.0
"""How long a hook waits for its own extension to have seen what came before."""

_EMITTED_WITHIN = 20
"""How deep events between extensions may cause one another."""


class Channel:
    """What one extension sees of one session: one event after the other, and never two at a time."""

    def __init__(self, extension: Extension, context: ExtensionContext, attending: Attending) -> None:
        self.extension = extension
        self.context = context
        self._attending = attending
        self._waiting: list[Any] = []
        self._put = 0
        self._handled = 0
        self._news: asyncio.Event = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    def put(self, happened: Iterable[Any]) -> None:
        wanted = self.extension.registered.observers
        new = [one for one in happened if type(one) in wanted]
        if not new:
            return
        self._waiting += new
        self._put += len(new)
        if self._work is None:
            self._work = asyncio.ensure_future(self._handle_waiting())

    async def catch_up(self) -> None:
        """Waits until all that has been put so far was seen; not for long, should a handler wait for us."""
        target = self._put
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                while self._handled < target:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return

    async def _handle_waiting(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._hand_on(batch)
                self._handled += len(batch)
                self._news.set()
        finally:
            self._work = None

    async def _hand_on(self, batch: Sequence[Any]) -> None:
        """Each handler sees each event once; what they recorded is committed before the next ones."""
        observers = self.extension.registered.observers
        seen: dict[int, tuple[Observer, list[Any]]] = {}
        order: list[tuple[Observer, Any]] = []
        for event in batch:
            guarded = own_copy(event)
            for observer in observers.get(type(event), ()):
                if not observer.batch:
                    order.append((observer, guarded))
                elif id(observer) in seen:
                    seen[id(observer)][1].append(guarded)
                else:
                    seen[id(observer)] = (observer, gathered := [guarded])
                    order.append((observer, gathered))
        plain = [one for one in order if not is_async(one[0].function)]
        if len(plain) == len(order):
            await self._call_plain(order)
        else:
            for observer, subject in order:
                await self._call(observer.function, subject)
        await self._attending.commit()

    async def _call_plain(self, order: Sequence[tuple[Observer, Any]]) -> None:
        """All in one visit to the extension's thread."""
        problems: list[tuple[Any, BaseException]] = []

        def run() -> None:
            for observer, subject in order:
                try:
                    observer.function(*self._arguments(observer.function, subject))
                except BaseException as error:
                    problems.append((observer.function, error))

        try:
            await call_within(TIME_LIMIT, self.extension.worker, run)
        except CodeFailed as failure:
            self.extension.worker.give_up()
            self._attending.report(self.extension, type(order[0][1]).__name__, str(failure))
        for function, error in problems:
            self._attending.report(self.extension, f"{function.__name__}", described(error, function))

    async def _call(self, function: Any, subject: Any) -> None:
        try:
            await call_within(
                TIME_LIMIT, self.extension.worker, function, *self._arguments(function, subject)
            )
        except CodeFailed as failure:
            self._attending.report(self.extension, function.__name__, str(failure))

    def _arguments(self, function: Any, subject: Any) -> tuple[Any, ...]:
        return (subject, self.context)[: takes(function)]


class Attending:
    """A session that is open here, with a channel for each extension."""

    def __init__(self, host: ExtensionHost, session: Attended) -> None:
        self.host = host
        self.session = session
        self.calls = LoopCalls()
        self.channels: dict[str, Channel] = {}
        self._gathered: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None
        self._depth = 0
        self._state: Literal["working", "idle"] = "idle"
        self._model = session.harness.model.name
        self._reasoning: str = session.harness.reasoning or ""
        self._stop = session.journal.observe(self._see)

    # --- extensions come and go -----------------------------------------------------------------------

    def admit(self, extension: Extension, reason: Literal["open", "reload"] = "open") -> None:
        context = ExtensionContext(extension, self)
        channel = self.channels[extension.name] = Channel(extension, context, self)
        channel.put([SessionOpened(self.session.id, reason)])

    async def dismiss(self, name: str, reason: Literal["close", "reload"] = "close") -> None:
        channel = self.channels.pop(name, None)
        if channel is not None:
            channel.put([SessionLeft(self.session.id, reason)])
            await channel.catch_up()

    async def leave(self) -> None:
        self.hand_on()
        for name in tuple(self.channels):
            await self.dismiss(name)
        self._stop()

    # --- events ---------------------------------------------------------------------------------------

    def _see(self, batch: Sequence[Fact | Event]) -> None:
        if not self.channels or not self.host.is_observing:
            return
        is_urgent = False
        for item in batch:
            if isinstance(item, Fact):
                is_urgent = True
                self._gathered.append(item.event)
                self._gathered += self._moments_of(item.event)
            else:
                self._gathered.append(item)
                if type(item) is events.ReasoningDelta and item.offset == 0:
                    self._gathered.append(ReasoningStarted(item.message, item.block))
        if is_urgent:
            self.hand_on()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self.hand_on)

    def tell(self, *moments: Moment) -> None:
        """Something happened that the journal does not know of."""
        self._gathered += moments
        self.hand_on()

    def hand_on(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gathered, self._gathered = self._gathered, []
        if gathered:
            for channel in tuple(self.channels.values()):
                channel.put(gathered)

    def _moments_of(self, event: Any) -> list[Moment]:
        match event:
            case events.SettingsChanged(model=model, reasoning=reasoning, by=by):
                changed: list[Moment] = []
                if model and model != self._model:
                    changed.append(ModelChanged(model, self._model, by))
                    self._model = model
                if reasoning and reasoning != self._reasoning:
                    changed.append(ReasoningChanged(reasoning, self._reasoning or "off", by))
                    self._reasoning = reasoning
                return changed
            case events.RunStarted() | events.RunResumed() if self._state == "idle":
                self._state = "working"
                return [StateChanged("working", "idle")]
            case events.RunEnded() | events.RunWaiting() if self._state == "working":
                self._state = "idle"
                return [StateChanged("idle", "working")]
        return []

    async def catch_up(self) -> None:
        """All extensions have seen what has happened so far."""
        self.hand_on()
        for channel in tuple(self.channels.values()):
            await channel.catch_up()

    async def emit(self, name: str, data: Any) -> None:
        """An event between extensions: every handler has seen it when this returns."""
        if self._depth >= _EMITTED_WITHIN:
            raise RuntimeError(f"{name!r} was emitted by its own handlers, {_EMITTED_WITHIN} deep")
        self._depth += 1
        try:
            for channel in tuple(self.channels.values()):
                extension = channel.extension
                for function in extension.registered.custom.get(name, ()):
                    arguments = (copy.deepcopy(data), channel.context)[: takes(function)]
                    try:
                        await call_within(TIME_LIMIT, extension.worker, function, *arguments)
                    except CodeFailed as failure:
                        self.report(extension, name, str(failure))
        finally:
            self._depth -= 1

    # --- the log --------------------------------------------------------------------------------------

    async def commit(self) -> None:
        journal = self.session.journal
        if not journal.has_recorded or journal.failed:
            return
        try:
            await journal.commit()
        except StoreError as error:
            journal.fail(error)

    def report(self, extension: Extension, what: str, problem: str) -> None:
        """Makes a fact of a failure in an extension's code."""
        text = f"the extension {extension.name} failed in {what}: {problem}"
        journal = self.session.journal
        if journal.failed:
            self.host.say(text)
            return
        journal.record(
            events.Warned(text, about="extension", details={"extension": extension.name, "in": what})
        )


def own_copy(event: Any) -> Any:
    """The event, or a copy where a handler could change what others see of it."""
    kind = type(event)
    if kind not in _COPIED:
        _COPIED[kind] = _holds_more(kind)
    if not _COPIED[kind]:
        return event
    model = getattr(event, "model", None)
    return copy.deepcopy(event, {id(model): model})  # a model is no data


_COPIED: dict[type, bool] = {}


def _holds_more(kind: type) -> bool:
    """Whether a value of this type holds dicts, lists or values of any kind."""
    hints = get_type_hints(kind)
    plain = (str, int, float, bool, type(None))
    return any(hint not in plain and get_origin(hint) is not Literal for hint in hints.values())
