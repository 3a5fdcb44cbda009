"""What is typed before the line is there: kept for it, and not shown where it does not belong."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from types import FrameType

    from ostler.faces.tui.themes.asking import TerminalInput

_CLEAR_ROW = "\r\x1b[K"


@contextmanager
def keeping_typed(stdin: TextIO) -> Iterator[None]:
    """The terminal shows nothing of it and leaves Enter as it is; Ctrl+C still ends us. At the end all is as
    it was, also when we are told to end before anybody listens."""
    if sys.platform == "win32" or not stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(stdin)
    kept = termios.tcgetattr(stdin)
    kept[0] &= ~termios.ICRNL
    kept[3] &= ~termios.ECHO
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        termios.tcsetattr(stdin, termios.TCSANOW, kept)
        yield
    finally:
        with suppress(termios.error):  # the terminal itself may be gone
            termios.tcsetattr(stdin, termios.TCSANOW, before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def take_typed(reader: TerminalInput, writer: TextIO) -> None:
    """For the application that will read from this input. In raw mode."""
    from prompt_toolkit.input.typeahead import store_typeahead

    if typed := reader.read_early():
        store_typeahead(reader, typed)
        writer.write(_CLEAR_ROW)
        writer.flush()
