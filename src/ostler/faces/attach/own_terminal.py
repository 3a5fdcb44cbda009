"""The terminal that this process runs in: its own screen in it, and all as it was at the end."""

from __future__ import annotations

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ostler.vocabulary.errors import UsageError

_ENTER = b"\x1b[?1049h\x1b[H\x1b[2J\x1b[?25l"
_LEAVE = b"\x1b[?2026l\x1b[?2004l\x1b[?1l\x1b[0m\x1b[?25h\x1b[?1049l"


class OwnTerminal:
    def __init__(self, keys: int, screen: int) -> None:
        self.keys = keys
        self._screen = screen

    @property
    def size(self) -> os.terminal_size:
        return os.get_terminal_size(self._screen)

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._screen, data) :]

    def read(self) -> bytes:
        return os.read(self.keys, 65536)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Keys come as they are pressed, all of them; what is drawn is gone at the end."""
        before = termios.tcgetattr(self.keys)
        try:
            tty.setraw(self.keys)
            self.write(_ENTER)
            yield
        finally:
            with suppress(OSError):  # the terminal itself may be gone
                self.write(_LEAVE)
            with suppress(termios.error):
                termios.tcsetattr(self.keys, termios.TCSAFLUSH, before)


def own_terminal() -> OwnTerminal:
    """Raises `UsageError` where there is none."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError("attach needs a terminal to show it in; `ostler follow` prints a run without one")
    return OwnTerminal(sys.stdin.fileno(), sys.stdout.fileno())
