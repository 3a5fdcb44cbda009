"""A terminal that a program runs in: a real pseudo-terminal, and an emulator that shows what it drew."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from pyghostty import Terminal as Emulator
from rich.cells import split_graphemes


class Cell(NamedTuple):
    """A character, with its width and its style."""

    text: str
    width: int
    style: dict[str, Any]


KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "tab": "\t",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "alt+enter": "\x1b\r",
    **{f"ctrl+{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"},
}
PATIENCE = 60


class Terminal:
    """Runs a program until the end of the block."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str],
        cwd: Path,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self.columns = columns
        self.written = b""
        """The whole output of the program."""
        self.emulator = Emulator(columns, rows)
        self.emulator.on_reply(self._reply)
        self.descriptor, theirs = pty.openpty()
        self._set_size(columns, rows)
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"TERM": "xterm-256color", **environment},
            cwd=cwd,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.descriptor)

    # --- what a person does -------------------------------------------------------------------------

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def press(self, *keys: str) -> None:
        for key in keys:
            self.type(KEYS.get(key, key))

    def wait_for_question(self) -> str:
        """The screen, once it shows a question that keys can answer."""
        return self.wait_for("selects, then enter")

    def answer(self, *keys: str) -> None:
        """Selects an answer with these keys, and gives it."""
        self.wait_for_question()
        self.press(*keys, "enter")

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.emulator.resize(columns, rows)
        self._set_size(columns, rows)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    # --- what is seen -------------------------------------------------------------------------------

    def screen(self) -> str:
        """What is visible now, without blanks at the end of rows; not in the middle of a frame."""
        self._finish_frame()
        return _trimmed(self.emulator.text())

    def everything(self) -> str:
        """The screen and the scrollback; not in the middle of a frame."""
        self._finish_frame()
        return _trimmed(self.emulator.contents())

    def _finish_frame(self) -> None:
        self._read(0)
        limit = time.monotonic() + 1
        while self.emulator.mode(2026) and time.monotonic() < limit:
            self._read(0.02)

    def cells(self) -> list[list[Cell]]:
        """What is visible now, row by row; not in the middle of a frame."""
        self._wait(lambda: not self._read(0) and not self.emulator.mode(2026), "the end of a frame")
        rows = []
        for number, line in enumerate(self.emulator.text().splitlines()):
            row, column = [], 0
            for start, end, width in split_graphemes(line)[0]:
                row.append(Cell(line[start:end], width, self.emulator.style(column, number)))
                column += width
            rows.append(row)
        return rows

    def wait_for(self, text: str, *, gone: bool = False) -> str:
        """The screen, once it shows this text; or, with `gone`, once it does not any more."""
        screens = [""]

        def is_so() -> bool:
            screens[0] = self.screen()
            return (text in screens[0]) is not gone

        self._wait(is_so, f"{text!r}{' to go' if gone else ''}")
        return screens[0]

    def wait_for_ever(self, text: str) -> str:
        """Waits until the screen or the scrollback has the text."""
        return self._wait(lambda: text in self.everything(), repr(text))

    def wait_for_answer(self, text: str) -> str:
        """Waits for this answer and the end of its run, which some commands need."""

        def has_ended() -> bool:
            _, answer, after = self.everything().rpartition(text)
            return bool(answer) and "completed" in after

        return self._wait(has_ended, f"the end of the run that answers {text!r}")

    def wait_for_end(self) -> int:
        self._wait(lambda: self.process.poll() is not None, "the program to end")
        return self.process.wait()

    def _wait(self, is_so: object, what: str) -> str:
        assert callable(is_so)
        limit = time.monotonic() + PATIENCE
        while not is_so():
            left = limit - time.monotonic()
            if left <= 0 or (self.process.poll() is not None and not self._read(0) and not is_so()):
                raise AssertionError(f"waited for {what}; the terminal shows:\n{self.everything()}")
            self._read(min(left, 0.05))
        return self.screen()

    def _read(self, seconds: float) -> bool:
        has_read = False
        while select.select([self.descriptor], [], [], seconds)[0]:
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:  # the program has ended
                return has_read
            if not data:
                return has_read
            self.written += data
            self.emulator.feed(data)
            has_read, seconds = True, 0
        return has_read

    def _reply(self, data: bytes) -> None:
        os.write(self.descriptor, data)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()
