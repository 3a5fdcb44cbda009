"""A program in a pseudo-terminal: what it writes, when, and what it cost."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns

from bench.processes import BenchError

SECONDS = 60.0
_ANSWERS = {b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\", b"\x1b[6n": b"\x1b[1;1R"}
"""What terminals are asked, and answer at once: their background, and where the cursor is."""


class PseudoTerminal:
    """With 80 columns and 24 rows. Everything that is written is read at once, as a terminal does."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.started = perf_counter_ns()
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            cwd=cwd,
            start_new_session=True,
        )
        os.close(theirs)
        self._seen = bytearray()
        self.cpu_ms = 0.0

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._reap()
        os.close(self._ours)

    def type(self, text: str) -> int:
        """Returns when."""
        self._seen.clear()
        os.write(self._ours, text.encode())
        return perf_counter_ns()

    def wait_for(self, text: str, seconds: float = SECONDS) -> int:
        """When it was written, since something was typed last."""
        wanted, end = text.encode(), perf_counter_ns() + seconds * 1e9
        while wanted not in self._seen:
            if not self._read(end):
                shown = bytes(self._seen[-300:]).decode(errors="replace")
                raise BenchError(f"{text!r} was not seen within {seconds:g} s, but {shown!r}")
        return perf_counter_ns()

    def watch(self, seconds: float) -> None:
        """Reads for a while."""
        end = perf_counter_ns() + seconds * 1e9
        while perf_counter_ns() < end:
            self._read(end)

    def resident_mib(self) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise BenchError("the system does not say how much memory the program takes")

    def end(self) -> None:
        """Waits until it has ended by itself."""
        end = perf_counter_ns() + SECONDS * 1e9
        while self._read(end):
            pass
        self._reap()

    def _read(self, end: float) -> bool:
        """False when there is nothing more: the time is over, or the program."""
        left = (end - perf_counter_ns()) / 1e9
        if left <= 0 or not select.select([self._ours], [], [], left)[0]:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # how Linux says that nobody has the other end open
            return False
        for question, answer in _ANSWERS.items():
            if question in data:
                os.write(self._ours, answer)
        self._seen += data
        return bool(data)

    def _reap(self) -> None:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_ms = (usage.ru_utime + usage.ru_stime) * 1000
