"""Child processes: one that runs to its end, one in a pseudo-terminal, one that takes commands on stdin."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter, perf_counter_ns, process_time
from typing import Any, NamedTuple

TIME_LIMIT_S = 120
SCREEN_TIMEOUT_S = 60.0


class BenchError(Exception):
    """A measurement failed; the message says why."""


def resident_mib(pid: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise BenchError("the system does not report the memory of a process")


# --- to its end -------------------------------------------------------------------------------------


class Finished(NamedTuple):
    """A child that exited with 0. Times are nanoseconds of the monotonic clock, which all processes share."""

    started: int
    ended: int
    cpu_ms: float
    peak_mib: float
    output: bytes

    @property
    def wall_ms(self) -> float:
        return (self.ended - self.started) / 1e6


def measure(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, *, keep_output: bool = False
) -> Finished:
    """Runs a command to its end and returns what it cost, as the kernel accounts for it.

    `peak_mib` is at least the peak of this process, which the child inherits at fork. So this process loads
    neither an HTTP library nor Ostler before the measures that read it.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = perf_counter_ns()
        process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output if keep_output else subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        timer = threading.Timer(TIME_LIMIT_S, os.killpg, [process.pid, signal.SIGKILL])
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            ended = perf_counter_ns()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            reason = f"exited with status {process.returncode}"
            if ended - started >= TIME_LIMIT_S * 1e9:
                reason = f"did not exit within {TIME_LIMIT_S} s"
            raise BenchError(_failure(command, reason, errors.read()))
        output.seek(0)
        return Finished(
            started=started,
            ended=ended,
            cpu_ms=(usage.ru_utime + usage.ru_stime) * 1000,
            peak_mib=usage.ru_maxrss / 1024,
            output=output.read(),
        )


def _failure(command: Sequence[str], reason: str, errors: bytes) -> str:
    name = " ".join(Path(word).name if "/" in word else word for word in command[:3])
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["nothing on stderr"]
    return f"{name} {reason}: {last[0]}"


# --- in a pseudo-terminal ---------------------------------------------------------------------------

_TERMINAL_REPLIES = {b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\", b"\x1b[6n": b"\x1b[1;1R"}
"""Queries that a terminal replies to at once: its background colour, and the cursor position."""


class PseudoTerminal:
    """A program in a terminal of 80 columns and 24 rows, which reads all output at once. Use it in `with`."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._controller, program = pty.openpty()
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.started = perf_counter_ns()
        self._process = subprocess.Popen(
            command,
            stdin=program,
            stdout=program,
            stderr=program,
            env={**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            cwd=cwd,
            start_new_session=True,
        )
        os.close(program)
        self._output = bytearray()
        self.cpu_ms = 0.0

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._reap()
        os.close(self._controller)

    def type(self, text: str) -> int:
        """Sends keys and returns the time."""
        self._output.clear()
        os.write(self._controller, text.encode())
        return perf_counter_ns()

    def wait_for(self, text: str) -> int:
        """Waits until the program has written the text since the last keys, and returns the time."""
        expected, deadline = text.encode(), perf_counter_ns() + SCREEN_TIMEOUT_S * 1e9
        while expected not in self._output:
            if not self._read(deadline):
                tail = bytes(self._output[-300:]).decode(errors="replace")
                raise BenchError(f"{text!r} did not appear within {SCREEN_TIMEOUT_S:g} s, but {tail!r}")
        return perf_counter_ns()

    def read_for(self, seconds: float) -> None:
        deadline = perf_counter_ns() + seconds * 1e9
        while perf_counter_ns() < deadline:
            self._read(deadline)

    def resident_mib(self) -> float:
        return resident_mib(self._process.pid)

    def wait(self) -> None:
        """Waits until the program exits."""
        deadline = perf_counter_ns() + SCREEN_TIMEOUT_S * 1e9
        while self._read(deadline):
            pass
        self._reap()

    def _read(self, deadline: float) -> bool:
        """False after the deadline or the end of the program."""
        left = (deadline - perf_counter_ns()) / 1e9
        if left <= 0 or not select.select([self._controller], [], [], left)[0]:
            return False
        try:
            data = os.read(self._controller, 65536)
        except OSError:  # on Linux: the other end is closed
            return False
        for query, reply in _TERMINAL_REPLIES.items():
            if query in data:
                os.write(self._controller, reply)
        self._output += data
        return bool(data)

    def _reap(self) -> None:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_ms = (usage.ru_utime + usage.ru_stime) * 1000


# --- with commands on stdin -------------------------------------------------------------------------

Handler = Callable[[dict[str, Any]], Awaitable[Any]]


class Child:
    """A program that calls `serve_commands`. Use it in `with`. `ready` is the first line that it prints."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._process = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.ready: Any = self._reply()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def ask(self, command: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        return self._reply()

    def _reply(self) -> Any:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], TIME_LIMIT_S)[0] or not (line := stdout.readline()):
            raise BenchError(f"a child did not reply (exit status: {self._process.poll()})")
        return json.loads(line)

    def resident_mib(self) -> float:
        return resident_mib(self._process.pid)

    def terminate(self) -> float:
        """Seconds from SIGTERM to the end of the process."""
        begin = perf_counter()
        self._process.terminate()
        self._process.wait(TIME_LIMIT_S)
        return perf_counter() - begin


async def serve_commands(handle: Handler) -> None:
    """In the child: handles each line of JSON on stdin until it closes, and prints the result as a line.

    The command `cpu` replies with the CPU seconds of the process.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command = json.loads(line)
        result = process_time() if command["command"] == "cpu" else await handle(command)
        print(json.dumps(result), flush=True)
