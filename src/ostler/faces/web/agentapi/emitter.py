"""What subscribers are told of an agent: its state when they come, and each change from then on."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Literal

import msgspec

from ostler.faces.web.agentapi.frames import (
    Level,
    WireStatus,
    error_frame,
    message_frame,
    screen_frame,
    status_frame,
    wire_status,
)
from ostler.terminals.conversation import ScreenMessage
from ostler.terminals.tracker import Status

Kind = Literal["message_update", "status_change", "screen_update", "agent_error"]

EVERYTHING: frozenset[Kind] = frozenset({"message_update", "status_change", "screen_update", "agent_error"})
MOST_QUEUED = 1024
"""Events that one subscriber may be behind."""
MOST_ERRORS = 100


class _Message(msgspec.Struct):
    message: ScreenMessage
    frame: bytes | None = None
    """Made when the first subscriber wants it, and then the same for all."""


class Emitter:
    """Keeps the state, finds what changed, and hands it on. It never waits, so it needs no lock.

    - State and subscription are taken at once: nothing is missed, nothing comes twice.
    - A subscriber that is too far behind is dropped. What it has queued it can still read. No other notices.
    - A frame is made once, and only if somebody wants it.
    """

    def __init__(
        self, agent_type: str, *, now: Callable[[], float] = time.time, most_queued: int = MOST_QUEUED
    ) -> None:
        self.agent_type = agent_type
        self.closed = asyncio.Event()
        """Set when the server is about to end."""
        self._now = now
        self._most_queued = most_queued
        self._messages: list[_Message] = []
        self._status: WireStatus = "running"
        self._screen = ""
        self._errors: deque[bytes] = deque(maxlen=MOST_ERRORS)
        self._subscriptions: dict[int, Subscription] = {}
        self._next_id = 0

    # --- what happens ---------------------------------------------------------------------------------

    def emit_messages(self, messages: Sequence[ScreenMessage]) -> None:
        """Compared place by place. Of those that are gone nobody is told."""
        known, changed = self._messages, []
        self._messages = []
        for place, message in enumerate(messages):
            if place < len(known) and _is_same(known[place].message, message):
                self._messages.append(known[place])
                continue
            new = _Message(message)
            self._messages.append(new)
            changed.append(new)
        for new in changed:
            self._tell("message_update", partial(_frame_of, new))

    def emit_status(self, status: Status) -> None:
        shown = wire_status(status)
        if shown == self._status:
            return
        self._status = shown
        self._tell("status_change", self._status_frame)

    def emit_screen(self, text: str) -> None:
        if text == self._screen:
            return
        self._screen = text
        self._tell("screen_update", lambda: screen_frame(text))

    def emit_error(self, message: str, level: Level = "error") -> None:
        frame = error_frame(message, level, self._now())
        self._errors.append(frame)
        self._tell("agent_error", lambda: frame)

    def warn(self, message: str) -> None:
        self.emit_error(message, "warning")

    # --- who is told ----------------------------------------------------------------------------------

    def wants(self, kind: Kind) -> bool:
        return any(kind in one.kinds for one in self._subscriptions.values())

    def subscribe(self, kinds: Collection[Kind] = EVERYTHING) -> Subscription:
        subscription = Subscription(self._next_id, kinds, self._state(kinds), self._most_queued)
        self._next_id += 1
        self._subscriptions[subscription.id] = subscription
        if self.closed.is_set():
            self.unsubscribe(subscription.id)
        return subscription

    def unsubscribe(self, id: int) -> None:
        """Also of one that was dropped, or has left before."""
        if (subscription := self._subscriptions.pop(id, None)) is not None:
            subscription.close()

    def close_streams(self) -> None:
        """All of them end, and a message that is on its way is given up."""
        self.closed.set()
        for id in list(self._subscriptions):
            self.unsubscribe(id)

    def _state(self, kinds: Collection[Kind]) -> list[bytes]:
        frames: list[bytes] = []
        if "message_update" in kinds:
            frames += [_frame_of(one) for one in self._messages]
        if "status_change" in kinds:
            frames.append(self._status_frame())
        if "screen_update" in kinds:
            frames.append(screen_frame(self._screen))
        if "agent_error" in kinds:
            frames += self._errors
        return frames

    def _status_frame(self) -> bytes:
        return status_frame(self._status, self.agent_type)

    def _tell(self, kind: Kind, make: Callable[[], bytes]) -> None:
        told = [one for one in self._subscriptions.values() if kind in one.kinds]
        if not told:
            return
        frame = make()
        for subscription in told:
            if not subscription.put(frame):
                self.unsubscribe(subscription.id)


def _is_same(known: ScreenMessage, message: ScreenMessage) -> bool:
    return known is message or known == message  # nearly all are, each time


def _frame_of(one: _Message) -> bytes:
    if one.frame is None:
        one.frame = message_frame(one.message)
    return one.frame


class Subscription:
    """One who is told. `state` comes before what can be read with `next`."""

    def __init__(self, id: int, kinds: Collection[Kind], state: list[bytes], most: int) -> None:
        self.id = id
        self.kinds = kinds
        self.state = state
        self._most = most
        self._queue: deque[bytes] = deque()
        self._is_closed = False
        self._woken = asyncio.Event()

    def put(self, frame: bytes) -> bool:
        """False when there is no room."""
        if len(self._queue) >= self._most:
            return False
        self._queue.append(frame)
        self._woken.set()
        return True

    def close(self) -> None:
        self._is_closed = True
        self._woken.set()

    async def next(self) -> bytes | None:
        """The next event, when there is one; None at the end. One that is not waited for is not lost."""
        while not self._queue:
            if self._is_closed:
                return None
            self._woken.clear()
            await self._woken.wait()
        return self._queue.popleft()
