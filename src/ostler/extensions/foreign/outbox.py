"""What waits to be written to an extension: bounded, and never out of order."""

from __future__ import annotations

from collections import deque

from ostler.extensions.foreign.frames import Gap, line_of

LIVE_FRAMES, LIVE_BYTES = 1_000, 1024 * 1024
"""With this much waiting, deltas and live values are left out."""
MAX_FRAMES, MAX_BYTES = 10_000, 32 * 1024 * 1024
"""With this much waiting, the extension does not read any more."""


class FellBehind(Exception):
    """More waits than an extension that reads would ever let wait."""


class Outbox:
    """Lines in their order. Live ones give way first; where some are missing, a `gap` says so."""

    def __init__(self) -> None:
        self._lines: deque[tuple[bytes, bool]] = deque()
        self._bytes = 0
        self._lost = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def facts(self) -> int:
        return sum(not live for _, live in self._lines)

    def put(self, line: bytes, *, live: bool = False) -> None:
        """Raises `FellBehind` when there is no room for what may not be lost."""
        if live and (len(self._lines) >= LIVE_FRAMES or self._bytes + len(line) > LIVE_BYTES):
            self._lost += 1
            return
        if self._lost:
            self._append(line_of(Gap("live", self._lost)), False)
            self._lost = 0
        self._append(line, live)
        if len(self._lines) > MAX_FRAMES or self._bytes > MAX_BYTES:
            self._leave_out_live()
            if len(self._lines) > MAX_FRAMES or self._bytes > MAX_BYTES:
                raise FellBehind

    def take(self) -> bytes:
        line, _ = self._lines.popleft()
        self._bytes -= len(line)
        return line

    def _append(self, line: bytes, live: bool) -> None:
        self._lines.append((line, live))
        self._bytes += len(line)

    def _leave_out_live(self) -> None:
        waiting, self._lines, self._bytes = self._lines, deque(), 0
        missing = 0
        for line, live in waiting:
            if live:
                missing += 1
                continue
            if missing:
                self._append(line_of(Gap("live", missing)), False)
                missing = 0
            self._append(line, False)
        self._lost += missing
