"""What others write to standard output and error while the terminal is drawn: told of, not on the screen."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ostler.faces.cli.own_output import own_output

BEAT_SECONDS = 0.05
AT_ONCE = 100
"""Lines that are told in a beat; of the others, how many there were."""

_LONGEST = 2000
"""Characters of a line that are told."""
_READ = 1 << 16
_LAST_SECONDS = 0.2
"""How long the last lines are waited for. A process that goes on writing is not."""


class StrayOutput:
    """Takes lines from both streams, whoever writes: extensions, their processes, libraries.

    A thread reads them: whoever writes on the event loop itself would wait for ever for a reader there. It
    never waits for the loop, either, and keeps no more than is told.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self._streams = (2,) if own_output() is sys.stdout else (1, 2)
        self._terminal = -1
        self._pipe = -1
        self._lock = threading.Lock()
        self._lines: list[bytes] = []
        self._left_out = 0
        self._beat: asyncio.TimerHandle | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A standard error that leads to a file stays where it is."""
        if not os.isatty(2):
            yield
            return
        reading, self._pipe = os.pipe()
        self._terminal = os.dup(2)
        loop = asyncio.get_running_loop()
        reader = threading.Thread(target=self._read, args=(reading, loop), daemon=True, name="stray-output")
        reader.start()
        try:
            self._lead_to(self._pipe)
            yield
        finally:
            self._lead_to(self._terminal)
            os.close(self._pipe)
            os.close(self._terminal)
            self._pipe = self._terminal = -1
            reader.join(_LAST_SECONDS)
            self.tell = _say_again
            self._tell()

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Inside, both are the terminal's."""
        if self._pipe == -1:
            yield
            return
        self._lead_to(self._terminal)
        try:
            yield
        finally:
            self._lead_to(self._pipe)

    def _lead_to(self, descriptor: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:  # an extension may have done that
                stream.flush()
        for number in self._streams:
            os.dup2(descriptor, number)

    # --- in the thread --------------------------------------------------------------------------------

    def _read(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        rest = b""
        while data := os.read(descriptor, _READ):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _READ:
                lines, rest = [*lines, rest], b""
            self._keep(lines, loop)
        self._keep([rest], loop)
        os.close(descriptor)

    def _keep(self, lines: list[bytes], loop: asyncio.AbstractEventLoop) -> None:
        lines = [line for line in lines if line.strip()]
        with self._lock:
            is_first = not self._lines
            room = AT_ONCE - len(self._lines)
            self._lines += lines[:room]
            self._left_out += len(lines[room:])
        if is_first and lines:
            with suppress(RuntimeError):  # the loop is closed: there is nobody to tell any more
                loop.call_soon_threadsafe(self._tell_soon)

    # --- on the loop ----------------------------------------------------------------------------------

    def _tell_soon(self) -> None:
        if self._beat is None:
            self._beat = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._tell)

    def _tell(self) -> None:
        self._beat = None
        with self._lock:
            lines, self._lines = self._lines, []
            left_out, self._left_out = self._left_out, 0
        for line in lines:
            self.tell(line.decode(errors="replace").rstrip()[:_LONGEST])
        if left_out:
            self.tell(f"{left_out} more lines were written")


def _say_again(text: str) -> None:
    """What comes when the terminal is nobody's any more."""
    print(text, file=sys.stderr)
