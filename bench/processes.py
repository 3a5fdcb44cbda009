"""Child processes of the harness: what each cost, by the kernel's own account."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

TIME_LIMIT_S = 120


class BenchError(Exception):
    """A measurement that could not be made; the message says why."""


class Finished(NamedTuple):
    """A child that ended well. Times are nanoseconds of the monotonic clock, which all processes share."""

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
    """Runs a command to its end. `peak_mib` is at least the harness's own peak, which it inherits at fork.

    The harness therefore stays small: it imports neither an HTTP library nor Ostler.
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
        overtime = threading.Timer(TIME_LIMIT_S, os.killpg, [process.pid, signal.SIGKILL])
        overtime.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            ended = perf_counter_ns()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            overtime.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            how = f"ended with status {process.returncode}"
            if ended - started >= TIME_LIMIT_S * 1e9:
                how = f"did not end within {TIME_LIMIT_S} s"
            raise BenchError(_complaint(command, how, errors.read()))
        output.seek(0)
        return Finished(
            started=started,
            ended=ended,
            cpu_ms=(usage.ru_utime + usage.ru_stime) * 1000,
            peak_mib=usage.ru_maxrss / 1024,
            output=output.read(),
        )


def _complaint(command: Sequence[str], how: str, errors: bytes) -> str:
    shown = " ".join(Path(word).name if "/" in word else word for word in command[:3])
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it wrote nothing to stderr"]
    return f"{shown} {how}: {last[0]}"
