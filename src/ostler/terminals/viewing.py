"""Showing a live terminal to others: the screen as it is, and then the bytes as they come."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

MOST_UNSEEN = 1024 * 1024
"""Bytes that a viewer may leave unread: beyond, it gets the screen anew."""
_LONGEST_SEQUENCE = 64 * 1024
_START_OVER = b"\x1bc"
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[PX\]^_][^\x07\x18\x1a\x1b]*|[ -/]*)\Z")
_STRING = re.compile(rb"\x1b[PX\]^_][^\x07\x18\x1a\x1b]*\x1b\Z")  # half of what ends it is there
_CHARACTER = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")


def unfinished(data: bytes) -> bytes:
    """The beginning of an escape sequence or a character at the end of what was printed so far."""
    data = data[-_LONGEST_SEQUENCE:]
    last = data.rfind(b"\x1b")
    before = data.rfind(b"\x1b", 0, last) if last == len(data) - 1 else -1
    found = (
        (before >= 0 and _STRING.match(data, before))
        or (last >= 0 and _SEQUENCE.match(data, last))
        or _CHARACTER.search(data, max(len(data) - 3, 0))
    )
    return found.group() if found else b""


class Viewer:
    """Gives bytes for a terminal of the screen's size. Whoever has it must `leave`, also if it never read."""

    def __init__(self, snapshot: Callable[[], bytes], leave: Callable[[Viewer], None]) -> None:
        self._snapshot = snapshot
        self._leave = leave
        self._unseen: list[bytes] = [snapshot()]
        self._size = 0
        self._is_behind = False
        self._is_closed = False
        self._woken = asyncio.Event()
        self._woken.set()

    def put(self, data: bytes) -> None:
        self._woken.set()
        if self._is_behind:
            return
        self._unseen.append(data)
        self._size += len(data)
        if self._size > MOST_UNSEEN:
            self.start_over()

    def start_over(self) -> None:
        """What it has not seen is replaced by the screen as it is when it reads next."""
        self._unseen, self._is_behind = [], True
        self._woken.set()

    def close(self) -> None:
        self._is_closed = True
        self._woken.set()

    def leave(self) -> None:
        self.close()
        self._leave(self)

    async def next(self) -> bytes | None:
        """All that there is; None at the end."""
        while not self._is_closed or self._unseen or self._is_behind:
            if self._unseen or self._is_behind:
                seen = _START_OVER + self._snapshot() if self._is_behind else b"".join(self._unseen)
                self._unseen, self._size, self._is_behind = [], 0, False
                return seen
            self._woken.clear()
            await self._woken.wait()
        return None
