"""The live state of a terminal agent (screen, status, current message), and its bytes for viewers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from ostler.core.journal import Journal
from ostler.drivers.driver import Status
from ostler.drivers.screen import Screen
from ostler.schema.events import LiveValue
from ostler.sessions.streams import Subscriber

SCREEN, STATUS, MESSAGE = "terminal:screen", "terminal:status", "terminal:message"

_INTERVAL = 0.1
"""Seconds between two screens while the terminal changes: faster updates are not readable."""


class Throttle:
    """Calls a function at most once in an interval."""

    def __init__(self, interval: float, call: Callable[[], None]) -> None:
        self._interval = interval
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """In the next turn of the loop, or when the interval since the last call is over."""
        if self._timer is None:
            self._timer = self._loop.call_at(self._next, self.now)

    def now(self) -> None:
        self.cancel()
        self._next = self._loop.time() + self._interval
        self._call()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LiveValues:
    """Publishes only what has changed."""

    def __init__(self, journal: Journal, agent_type: str, screen: Screen | None) -> None:
        self._journal = journal
        self._agent_type = agent_type
        self._screen = screen
        self._published: dict[str, Any] = {}
        self._message: dict[str, Any] | None = None
        self._throttle = Throttle(_INTERVAL, self._publish_screen)

    def show_status(self, status: Status) -> None:
        self._publish(STATUS, {"status": status, "agent_type": self._agent_type})

    def show_message(self, message: tuple[int, str] | None) -> None:
        """None once the message is a fact."""
        self._message = {"id": message[0], "text": message[1]} if message else None
        if message is None:
            self._publish(MESSAGE, None)
        else:
            self._throttle.soon()

    def show_screen(self) -> None:
        self._throttle.soon()

    def clear(self) -> None:
        """Called when the agent has ended."""
        self._throttle.cancel()
        for name in list(self._published):
            self._publish(name, None)

    def _publish_screen(self) -> None:
        screen = self._screen
        assert screen is not None
        cursor = screen.cursor()
        self._publish(
            SCREEN,
            {
                "columns": screen.columns,
                "rows": screen.rows,
                "text": "\n".join(screen.lines()).rstrip("\n"),
                "cursor": {"column": cursor.column, "row": cursor.row, "visible": cursor.visible},
            },
        )
        if self._message is not None:
            self._publish(MESSAGE, self._message)

    def _publish(self, name: str, value: Any) -> None:
        if self._published.get(name) == value:
            return
        if value is None:
            del self._published[name]
        else:
            self._published[name] = value
        self._journal.publish([LiveValue(name, value)])


MAX_UNSEEN = 1024 * 1024
"""A viewer that leaves more bytes unread gets the screen again instead."""

_LONGEST_SEQUENCE = 64 * 1024
_START_OVER = b"\x1bc"
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[PX\]^_][^\x07\x18\x1a\x1b]*|[ -/]*)\Z")
_STRING = re.compile(rb"\x1b[PX\]^_][^\x07\x18\x1a\x1b]*\x1b\Z")  # the first half of its terminator
_CHARACTER = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")


def unfinished(data: bytes) -> bytes:
    """The incomplete escape sequence or character at the end of the output so far."""
    data = data[-_LONGEST_SEQUENCE:]
    last = data.rfind(b"\x1b")
    before = data.rfind(b"\x1b", 0, last) if last == len(data) - 1 else -1
    match = (
        (before >= 0 and _STRING.match(data, before))
        or (last >= 0 and _SEQUENCE.match(data, last))
        or _CHARACTER.search(data, max(len(data) - 3, 0))
    )
    return match.group() if match else b""


class ScreenSubscription(Subscriber[bytes]):
    """Gives bytes for a terminal of the screen's size: first the screen, then what the program prints. A slow
    reader gets the screen again."""

    limit = MAX_UNSEEN

    def __init__(self, snapshot: Callable[[], bytes]) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._queue.append(snapshot())

    def start_over(self) -> None:
        """Replaces what is unread with the screen as it is at the next read."""
        self._fall_behind()

    def _size_of(self, item: bytes) -> int:
        return len(item)

    def _take(self) -> bytes:
        return b"".join(self._drain())

    async def _catch_up(self) -> bytes:
        self._is_behind = False
        return _START_OVER + self._snapshot()
