"""The agent's state and its changes as server-sent events, in JSON exactly as Go's encoder writes it.

No event is larger than agentapi's own clients can read.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Literal

import msgspec

from ostler.drivers.driver import AgentMessage, Status
from ostler.drivers.screen import ASCII_WHITESPACE
from ostler.drivers.screen_stream import Throttle
from ostler.drivers.session import AgentSession
from ostler.server.streams import EventStreamResponse
from ostler.sessions.streams import Subscriber

_LINE_SEPARATORS = (("\u2028".encode(), rb"\u2028"), ("\u2029".encode(), rb"\u2029"))
_OF_HTML = ((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026"))


def to_json(value: Any) -> bytes:
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair, from a client's JSON
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()
    return _replaced(encoded, _LINE_SEPARATORS)


def for_html(encoded: bytes) -> bytes:
    """Escapes markup, too: in events, but not in other responses."""
    return _replaced(encoded, _OF_HTML)


def _replaced(encoded: bytes, replacements: tuple[tuple[bytes, bytes], ...]) -> bytes:
    for plain, escaped in replacements:  # none of them can be outside of a string
        encoded = encoded.replace(plain, escaped)
    return encoded


def timestamp(seconds: float) -> str:
    """RFC 3339 in the local zone, with as many digits as it takes."""
    at = datetime.fromtimestamp(round(seconds * 1e6) / 1e6).astimezone()
    text = at.isoformat(timespec="microseconds")
    moment, zone = text[:26].rstrip("0").rstrip("."), text[26:]
    return moment + ("Z" if zone == "+00:00" else zone)


Level = Literal["warning", "error"]
WireStatus = Literal["stable", "running"]

MOST_EVENT = 127 * 1024
"""Bytes of an event: the Go client fails at 128 KiB."""

MOST_SCREEN = 255 * 1024
"""Bytes of a screen: `agentapi attach` fails at 256 KiB."""

LEFT_OUT = "\n\n[… the middle of this message is left out here; GET /messages has all of it …]\n\n"


class MessageUpdate(msgspec.Struct, frozen=True):
    id: int
    role: str
    message: str
    time: str


class StatusChange(msgspec.Struct, frozen=True):
    status: WireStatus
    agent_type: str


class AgentError(msgspec.Struct, frozen=True):
    message: str
    level: Level
    time: str


class ScreenUpdate(msgspec.Struct, frozen=True):
    screen: str


def message_frame(message: AgentMessage) -> bytes:
    """Of a text that is too long, the start and the end."""
    text = message.text
    frame = _frame_of_message(message, text)
    length = len(text)
    while len(frame) > MOST_EVENT:
        length = max(0, length * MOST_EVENT // len(frame) - len(LEFT_OUT))
        half = length // 2
        frame = _frame_of_message(message, text[:half] + LEFT_OUT + text[len(text) - half :])
    return frame


def _frame_of_message(message: AgentMessage, text: str) -> bytes:
    update = MessageUpdate(message.id, message.role, text, timestamp(message.time))
    return _frame(b"message_update", update)


def wire_status(status: Status) -> WireStatus:
    """agentapi has only these two."""
    return "stable" if status == "stable" else "running"


def screen_frame(text: str) -> bytes:
    """Of a screen that is too large, the last rows."""
    rows = text.rstrip(ASCII_WHITESPACE).split("\n")
    frame = _frame(b"screen", ScreenUpdate("\n".join(rows)))
    while len(frame) > MOST_SCREEN:
        rows = rows[len(rows) - len(rows) * MOST_SCREEN // len(frame) + 1 :]
        frame = _frame(b"screen", ScreenUpdate("\n".join(rows)))
    return frame


def _frame(name: bytes, data: msgspec.Struct) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, for_html(to_json(data)))


Kind = Literal["message_update", "status_change", "screen_update", "agent_error"]
EVERYTHING: frozenset[Kind] = frozenset({"message_update", "status_change", "screen_update", "agent_error"})

MOST_QUEUED = 1024
"""Events that a subscriber may have unread."""

MOST_ERRORS = 100

KEEP_ALIVE = 15.0
"""Seconds without an event until a comment is sent, because proxies close silent connections."""

WRITE_TIMEOUT = 5.0
"""Seconds that a subscriber may leave a write unread."""

WRITE_SIZE = 64 * 1024
"""The state is written in pieces of about this size."""

STREAM_HEADERS = [
    (b"cache-control", b"no-cache, no-store, must-revalidate"),
    (b"connection", b"keep-alive"),
    (b"content-type", b"text/event-stream"),
    (b"expires", b"0"),
    (b"pragma", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"x-proxy-buffering", b"no"),
]


class _Message(msgspec.Struct):
    message: AgentMessage
    frame: bytes | None = None
    """Made for the first subscriber, and shared by all."""


class Emitter:
    """Holds the state, finds what changed, and publishes it. It never waits, so it needs no lock.

    - A subscriber gets the state and then each change, without gap or repetition.
    - A subscriber that is too far behind is dropped after what it has queued.
    - A frame is made once, and only if there is a subscriber for it.
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
        self._subscriptions: set[Subscription] = set()

    # --- what happens ---------------------------------------------------------------------------------

    def emit_messages(self, messages: Sequence[AgentMessage]) -> None:
        """Publishes the messages that differ from the one at the same place; removed ones are ignored."""
        before, changed = self._messages, []
        self._messages = []
        for place, message in enumerate(messages):
            if place < len(before) and before[place].message == message:
                self._messages.append(before[place])
                continue
            new = _Message(message)
            self._messages.append(new)
            changed.append(new)
        for new in changed:
            self._publish("message_update", partial(_frame_of, new))

    def emit_status(self, status: Status) -> None:
        if (new := wire_status(status)) != self._status:
            self._status = new
            self._publish("status_change", self._status_frame)

    def emit_screen(self, text: str) -> None:
        if text != self._screen:
            self._screen = text
            self._publish("screen_update", lambda: screen_frame(text))

    def emit_error(self, message: str, level: Level = "error") -> None:
        frame = _frame(b"agent_error", AgentError(message, level, timestamp(self._now())))
        self._errors.append(frame)
        self._publish("agent_error", lambda: frame)

    def warn(self, message: str) -> None:
        self.emit_error(message, "warning")

    # --- subscriptions ----------------------------------------------------------------------------------

    def wants(self, kind: Kind) -> bool:
        return any(kind in subscription.kinds for subscription in self._subscriptions)

    def subscribe(self, kinds: Collection[Kind] = EVERYTHING) -> Subscription:
        subscription = Subscription(kinds, self._state(kinds), self._most_queued)
        if self.closed.is_set():
            subscription.finish()
        else:
            self._subscriptions.add(subscription)
            subscription.on_unsubscribe.append(self._subscriptions.discard)
        return subscription

    def close_streams(self) -> None:
        """Ends all streams; a message that is being sent is abandoned."""
        self.closed.set()
        while self._subscriptions:
            self._subscriptions.pop().finish()

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
        return _frame(b"status_change", StatusChange(self._status, self.agent_type))

    def _publish(self, kind: Kind, make: Callable[[], bytes]) -> None:
        if subscriptions := [one for one in self._subscriptions if kind in one.kinds]:
            frame = make()
            for subscription in subscriptions:
                subscription.put(frame)


def _frame_of(one: _Message) -> bytes:
    if one.frame is None:
        one.frame = message_frame(one.message)
    return one.frame


class Subscription(Subscriber[bytes]):
    """Gives the state, then each change."""

    def __init__(self, kinds: Collection[Kind], state: Iterable[bytes], limit: int) -> None:
        super().__init__()
        self.kinds = kinds
        self.state = list(_join(state))
        self.limit = limit

    def _size_of(self, item: bytes) -> int:
        return 1

    def _take(self) -> bytes:
        if self.state:
            return self.state.pop(0)
        if not self._queue:
            return b""
        self._size -= 1
        return self._queue.pop(0)

    def _fall_behind(self) -> None:
        self._queue.pop()
        self.finish()
        self._leave()


def _join(frames: Iterable[bytes]) -> Iterator[bytes]:
    piece = b""
    for frame in frames:
        piece += frame
        if len(piece) >= WRITE_SIZE:
            yield piece
            piece = b""
    if piece:
        yield piece


def event_stream(subscription: Subscription) -> EventStreamResponse:
    return EventStreamResponse(subscription, STREAM_HEADERS, KEEP_ALIVE, WRITE_TIMEOUT)


SCREEN_INTERVAL = 0.025
"""Seconds between two screens."""


class EmitterFeed:
    """Passes changes of an agent to an emitter: first the status, then messages, then the screen.

    The screen is read only while it has subscribers, at most once per `SCREEN_INTERVAL`.
    """

    def __init__(self, agent: AgentSession, emitter: Emitter) -> None:
        self._agent = agent
        self._emitter = emitter
        self.screen = Throttle(SCREEN_INTERVAL, lambda: emitter.emit_screen(agent.screen_text))
        self._stop = agent.subscribe(self.changed)
        agent.on_warning = emitter.warn
        self.changed()

    def changed(self) -> None:
        self._emitter.emit_status(self._agent.status)
        self._emitter.emit_messages(self._agent.messages)
        if self._emitter.wants("screen_update"):
            self.screen.soon()

    def close(self) -> None:
        self.screen.cancel()
        self._stop()
