"""`ExtensionSession`: one open session with its extensions, and the lifecycle events that it delivers."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core.harness import OpenSession
from ostler.core.hooks import TIME_LIMIT
from ostler.core.lazy import lazy_module
from ostler.extensions.event_channel import EventChannel
from ostler.extensions.executor import ExtensionError, LoopBridge
from ostler.extensions.extension import Extension
from ostler.extensions.extension_context import ExtensionContext
from ostler.schema import events
from ostler.schema.errors import StoreError
from ostler.schema.events import Event
from ostler.schema.facts import Fact

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.ui import renderer as renderer_module
else:
    renderer_module = lazy_module("ostler.extensions.ui.renderer")


class LifecycleEvent(msgspec.Struct, frozen=True):
    """Something that just happened around a session."""


class SessionOpened(LifecycleEvent, frozen=True):
    """An extension starts in a session: the session was opened, or the extension was reloaded."""

    session: str
    reason: Literal["open", "reload"] = "open"


class SessionLeft(LifecycleEvent, frozen=True):
    """The session is about to close, or the extension is about to be replaced or removed."""

    session: str
    reason: Literal["close", "reload"] = "close"


class ModelChanged(LifecycleEvent, frozen=True):
    """The session uses another model from the next step on."""

    model: str
    previous: str
    by: str = "user"


class ReasoningChanged(LifecycleEvent, frozen=True):
    """The reasoning level is another one from the next step on."""

    level: str
    previous: str
    by: str = "user"


class StateChanged(LifecycleEvent, frozen=True):
    """The session started working or became idle: its run ended or waits."""

    state: Literal["working", "idle"]
    previous: Literal["working", "idle"]


class ReasoningStarted(LifecycleEvent, frozen=True):
    """The model starts a reasoning block."""

    message: str
    block: int


class TerminalResized(LifecycleEvent, frozen=True):
    """The size of the front end's terminal changed."""

    width: int
    height: int


LIFECYCLE_EVENTS = tuple(LifecycleEvent.__subclasses__())

BATCH_SECONDS = 0.2
"""How long deltas are buffered before delivery. A fact is delivered at once, with the deltas before it."""
_MAX_EMIT_DEPTH = 20
"""How deep events between extensions may trigger one another."""


class ExtensionSession:
    """An open session, with a channel for each extension."""

    def __init__(self, host: ExtensionHost, session: OpenSession) -> None:
        self.host = host
        self.session = session
        self.calls = LoopBridge()
        self.channels: dict[str, EventChannel] = {}
        self._buffer: list[Any] = []
        self._commits: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._depth = 0
        self._state: Literal["working", "idle"] = "idle"
        self._model = session.harness.model.name
        self._reasoning: str = session.harness.reasoning or ""
        self._unsubscribe: Callable[[], None] | None = None
        self.observe(host.is_observing)

    @cached_property
    def live_values(self) -> renderer_module.LiveValues:
        """The live values of all extensions."""
        return renderer_module.LiveValues(self.session.journal.publish)

    @cached_property
    def renderer(self) -> renderer_module.Renderer:
        return renderer_module.Renderer(self)

    def add(self, extension: Extension, reason: Literal["open", "reload"] = "open") -> None:
        context = ExtensionContext(extension, self)
        channel = self.channels[extension.name] = EventChannel(extension, context, self)
        self._put(channel, SessionOpened(self.session.id, reason))

    def add_all(self, extensions: Sequence[Extension]) -> None:
        """Adds the extensions that are missing, and keeps them all in this order."""
        for extension in extensions:
            if extension.name not in self.channels:
                self.add(extension, "reload")
        self.channels = {one.name: self.channels[one.name] for one in extensions}

    async def remove(self, name: str, reason: Literal["close", "reload"] = "close") -> None:
        channel = self.channels.pop(name, None)
        if channel is not None:
            if (ui := vars(channel.context).get("ui")) is not None:
                await ui.withdraw()  # a handler that waits for a user would block the removal
            self._put(channel, SessionLeft(self.session.id, reason))
            await (channel.drain_all() if reason == "close" else channel.drain())
            if (ui := vars(channel.context).get("ui")) is not None:
                await ui.forget()

    def _put(self, channel: EventChannel, event: LifecycleEvent) -> None:
        if type(event) in channel.kinds:
            channel.put((event,))

    def observe(self, wanted: bool) -> None:
        """Subscribes to the journal while any extension observes events."""
        if wanted and self._unsubscribe is None:
            self._unsubscribe = self.session.journal.subscribe(self._receive)
        elif not wanted and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    async def close(self) -> None:
        self.flush()
        await asyncio.gather(*map(self.remove, tuple(self.channels)))
        if "live_values" in vars(self):
            self.live_values.stop()
        await self.commit()
        self.observe(False)

    def _receive(self, batch: Sequence[Fact | Event]) -> None:
        is_urgent = False
        for item in batch:
            if isinstance(item, Fact):
                is_urgent = True
                self._buffer += (item.event, *self._lifecycle_events(item.event))
            else:
                self._buffer.append(item)
                if type(item) is events.ReasoningDelta and item.offset == 0:
                    self._buffer.append(ReasoningStarted(item.message, item.block))
        if is_urgent:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self.flush)

    def notify(self, *events: LifecycleEvent) -> None:
        """Delivers lifecycle events, which are not in the journal."""
        self._buffer += events
        self.flush()

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._buffer = self._buffer, []
        if not batch:
            return
        shared: dict[frozenset[type], tuple[Any, ...]] = {}
        for channel in tuple(self.channels.values()):
            kinds = channel.kinds
            if kinds not in shared:
                shared[kinds] = tuple([event for event in batch if type(event) in kinds])
            channel.put(shared[kinds])

    def _lifecycle_events(self, event: Any) -> list[LifecycleEvent]:
        match event:
            case events.SettingsChanged(model=model, reasoning=reasoning, by=by):
                changed: list[LifecycleEvent] = []
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

    async def drain(self, *, patient: bool = False) -> None:
        """Waits until all extensions have handled events so far, and publishes live values."""
        self.flush()
        for channel in tuple(self.channels.values()):
            await (channel.drain_all() if patient else channel.drain())
        if "live_values" in vars(self):
            self.live_values.flush()

    async def emit(self, name: str, data: Any) -> None:
        """Emits an event between extensions: all handlers have run when this returns."""
        if self._depth >= _MAX_EMIT_DEPTH:
            raise RuntimeError(f"handlers of {name!r} emit it again, {_MAX_EMIT_DEPTH} deep")
        self._depth += 1
        try:
            for channel in tuple(self.channels.values()):
                extension = channel.extension
                for handler in extension.registered.custom.get(name, ()):
                    subject = copy.deepcopy(data)
                    try:
                        await handler.call(extension.worker, subject, channel.context, seconds=TIME_LIMIT)
                    except ExtensionError as failure:
                        self.report(extension, name, str(failure))
                    await self.commit()
        finally:
            self._depth -= 1

    async def commit(self) -> None:
        journal = self.session.journal
        if not journal.has_recorded or journal.failed:
            return
        try:
            await journal.commit()
        except StoreError as error:
            journal.fail(error)

    def warn(self, text: str) -> None:
        """Records a warning about extensions."""
        self.session.journal.record(events.Warned(text, about="extension"))
        task = asyncio.ensure_future(self.commit())
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    def report(self, extension: Extension, what: str, problem: str) -> None:
        """Records a failure in an extension's code."""
        text = f"the extension {extension.name} failed in {what}: {problem}"
        journal = self.session.journal
        if journal.failed:
            self.host.warn_once([text])
            return
        details = {"extension": extension.name, "in": what}
        journal.record(events.Warned(text, about="extension", details=details))
