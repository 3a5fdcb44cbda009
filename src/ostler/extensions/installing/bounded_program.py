"""Running another program for a while: it ends in time, with its whole group, and before we do."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL

import msgspec

from ostler.vocabulary.errors import OstlerError, UsageError


class Finished(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str


class OwnGroup:
    """A process with a group of its own, which is gone when the block is left.

    On Linux the kernel ends the group also when we are killed: our end of a pipe closes then.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        stdin: int = subprocess.DEVNULL,
        stderr: int = subprocess.PIPE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        owned, self._owner = os.pipe()
        try:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(owned,),
            )
            if sys.platform == "linux":
                _kill_when_closed(owned, self.process.pid)
        except OSError as error:
            os.close(self._owner)
            raise UsageError(f"{command[0]} cannot be run: {error.strerror}") from None
        finally:
            os.close(owned)

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self.process

    def __exit__(self, *error: object) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group that is gone
            os.killpg(self.process.pid, SIGKILL)
        self.process.wait()
        os.close(self._owner)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def run_program(
    command: Sequence[str], *, cwd: Path, seconds: float, environment: Mapping[str, str] | None = None
) -> Finished:
    """What it printed, and how it ended. Raises `OstlerError` when it takes too long."""
    with OwnGroup(command, cwd=cwd, environment=environment) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise OstlerError(f"{Path(command[0]).name} took longer than {seconds:g} seconds") from None
    return Finished(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def _kill_when_closed(pipe: int, group: int) -> None:
    with suppress(OSError):  # a sandbox that does not know it
        fcntl.fcntl(pipe, fcntl.F_SETOWN, -group)
        fcntl.fcntl(pipe, fcntl.F_SETSIG, SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
