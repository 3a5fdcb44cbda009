"""A program in a pseudo-terminal of its own, read and written through the event loop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ostler.core.processes import (
    ProcessId,
    kill_processes_of,
    on_exit,
    process_environment,
    signal_group,
    start_time,
)
from ostler.schema.errors import SessionBusy, UsageError

OWNED_AS = "terminal"
"""Stands where the processes of tools name their call."""

MOST_UNWRITTEN = 1024 * 1024
"""Bytes that a program may leave unread before it is sent nothing more."""

_READS_IN_A_TURN = 4  # of four kilobytes, as the kernel hands them out: all else waits half a millisecond

_READ_SIZE = 64 * 1024

_READS_AT_THE_END = 1024

_KILL_WAIT = 2.0

_STRAY_INTERVAL = 0.02

_ASKED_TO_END = ((signal.SIGINT, 2.0), (signal.SIGHUP, 1.0))

# What tells of another terminal: the one that we were started in.
_NOT_INHERITED = {
    *("LINES", "COLUMNS", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID"),
    *("TMUX", "TMUX_PANE", "STY", "ZELLIJ", "ZELLIJ_SESSION_NAME", "ZELLIJ_PANE_ID", "WINDOWID"),
    *("VTE_VERSION", "KITTY_WINDOW_ID", "KITTY_PID", "WEZTERM_PANE", "ITERM_SESSION_ID", "LC_TERMINAL"),
    *("ALACRITTY_WINDOW_ID", "KONSOLE_VERSION", "GHOSTTY_RESOURCES_DIR", "WT_SESSION"),
}

_DEFAULT_SIGNALS = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
)

_OWNER_PIPE = 3

# `posix_spawn` opens the terminal after it has made the new session, so that it becomes the controlling one,
# and runs no Python in the child; but it knows no directory.
_IN_DIRECTORY = 'cd -- "$0" && exec "$@"'

_ON_TERMINAL = f'exec 0<>"$1" 1>&0 2>&0; shift; {_IN_DIRECTORY}'

_SESSION_WAIT = 1.0


class PtyProcess:
    """One program and whatever it starts, in a session and process group of their own.

    - `on_output` gets what it prints, in order, at most some 64 KB in a turn of the loop.
    - `ended` is done when the program has ended and its last output was given out: its exit status, negative
      for a signal. What it left of its group is killed.
    - It does not outlive us: however we end, the terminal hangs up, and on Linux the kernel kills the group.
      Those that left the group carry the session's name in their environment.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        session: str,
        cwd: Path,
        columns: int,
        rows: int,
        on_output: Callable[[bytes], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_output = on_output
        self._session = session
        self._unwritten = bytearray()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self._terminal, terminal = os.openpty()
        try:
            self.resize(columns, rows)
            self._pid, self._owner = _spawn(command, os.ttyname(terminal), cwd, session, environment or {})
        except BaseException:
            os.close(self._terminal)
            raise
        finally:
            os.close(terminal)
        self.id = ProcessId.of(self._pid)
        self._hang_up_last()
        os.set_blocking(self._terminal, False)
        self._loop.add_reader(self._terminal, self._read)
        on_exit(self._pid, self._reap)

    @property
    def unwritten(self) -> int:
        """Bytes that it has not taken yet."""
        return len(self._unwritten)

    def write(self, data: bytes) -> None:
        """In order, as fast as it reads. Raises `SessionBusy` when it has left too much unread."""
        if self._terminal < 0 or not data:
            return
        if len(self._unwritten) > MOST_UNWRITTEN:
            raise SessionBusy("the agent does not read what it is sent")
        self._unwritten += data
        if len(self._unwritten) == len(data):
            self._write()

    def resize(self, columns: int, rows: int) -> None:
        if self._terminal >= 0:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def stop(self) -> None:
        """Asks it to end, as a person at the keyboard and then a terminal that is closed would, and then does
        not ask. Afterwards nothing of it is left, wherever it went. A cancellation only hurries it."""
        try:
            for number, patience in _ASKED_TO_END:
                if self.ended.done():
                    break
                self._signal(number)
                await asyncio.wait([self.ended], timeout=patience)
        finally:
            self.kill()
            await kill_strays(self._session)
            await asyncio.wait([self.ended], timeout=_KILL_WAIT)
            self._close_terminal()

    def kill(self) -> None:
        """Ends its group at once."""
        self._signal(signal.SIGKILL)

    # --- its life -------------------------------------------------------------------------------------

    def _hang_up_last(self) -> None:
        """Of our descriptors the one with the highest number closes first. If the terminal hung up before,
        the program could leave at once, and nobody would be left to tell the rest of its group by."""
        if self._owner >= 0:
            first, self._owner = (
                self._owner,
                fcntl.fcntl(self._owner, fcntl.F_DUPFD_CLOEXEC, self._terminal + 1),
            )
            os.close(first)

    def _reap(self) -> None:
        self._signal(signal.SIGKILL)  # before it is reaped: until then its number is nobody else's
        _, status = os.waitpid(self._pid, 0)
        for _ in range(_READS_AT_THE_END):
            if self._terminal < 0 or not self._read():
                break
        self._close_terminal()
        if self._owner >= 0:
            os.close(self._owner)
            self._owner = -1
        if not self.ended.done():
            self.ended.set_result(os.waitstatus_to_exitcode(status))

    def _signal(self, number: signal.Signals) -> None:
        present = start_time(self._pid)
        if not present or present == self.id.started:  # else the number is somebody else's by now
            signal_group(self._pid, number)

    # --- what it prints and is sent -------------------------------------------------------------------

    def _read(self) -> bool:
        pieces = []
        for _ in range(_READS_IN_A_TURN):
            try:
                piece = os.read(self._terminal, _READ_SIZE)
            except BlockingIOError:
                break
            except OSError:  # nobody has the terminal open any more
                piece = b""
            if not piece:
                self._loop.remove_reader(self._terminal)
                break
            pieces.append(piece)
        if pieces:
            self._on_output(b"".join(pieces))
        return bool(pieces)

    def _write(self) -> None:
        try:
            written = os.write(self._terminal, self._unwritten[:_READ_SIZE])
        except BlockingIOError:
            written = 0
        except OSError:  # nobody will read it any more
            written = len(self._unwritten)
        del self._unwritten[:written]
        if self._unwritten:
            self._loop.add_writer(self._terminal, self._write)
        else:
            self._loop.remove_writer(self._terminal)

    def _close_terminal(self) -> None:
        if self._terminal >= 0:
            self._loop.remove_reader(self._terminal)
            self._loop.remove_writer(self._terminal)
            os.close(self._terminal)
            self._terminal = -1
            self._unwritten.clear()


def _spawn(
    command: Sequence[str], terminal: str, cwd: Path, session: str, environment: Mapping[str, str]
) -> tuple[int, int]:
    """The new process, and the descriptor that it dies with."""
    variables = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    variables |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
    variables |= process_environment(session, OWNED_AS)
    program = _found(command, cwd, variables)
    owned, owner = os.pipe()  # the writing end is ours: it closes when we end
    file_actions = [
        (os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
        *[(os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()],
        (os.POSIX_SPAWN_DUP2, owned, _OWNER_PIPE),
    ]

    def spawn(path: str, arguments: list[str], *, setsid: bool) -> int:
        return os.posix_spawn(
            path,
            arguments,
            variables,
            file_actions=file_actions,
            setsid=setsid,
            setsigmask=[],
            setsigdef=_DEFAULT_SIGNALS,
        )

    words = [program, *command[1:]]
    try:
        try:
            pid = spawn("/bin/sh", ["sh", "-c", _IN_DIRECTORY, str(cwd), *words], setsid=True)
        except NotImplementedError:  # a Python that was built for every Linux, as uv's are
            in_shell = ["setsid", "/bin/sh", "-c", _ON_TERMINAL, str(cwd), terminal, *words]
            pid = spawn(_setsid(), in_shell, setsid=False)
            _wait_for_session(pid)
        die_together(owned, pid)
    except OSError as error:
        os.close(owner)
        raise UsageError(f"cannot start {command[0]}: {error.strerror}") from None
    except ValueError:
        os.close(owner)
        raise UsageError("the command contains a NUL character") from None
    except BaseException:
        os.close(owner)
        raise
    finally:
        os.close(owned)
    return pid, owner


def _setsid() -> str:
    found = shutil.which("setsid")
    if found is None:
        raise UsageError("to start agents this Python needs the program setsid: install util-linux")
    return found


def _wait_for_session(pid: int) -> None:
    """Signals go to its group, which is there once its session is: within a millisecond or two."""
    limit = time.monotonic() + _SESSION_WAIT
    while os.getsid(pid) != pid and time.monotonic() < limit:
        time.sleep(0.0005)


def _inheritable() -> list[int]:
    """Descriptors that we were given and did not ask for; our own are closed by themselves."""
    found = []
    for number in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
        with suppress(OSError):  # the one that was listed with
            if number > 2 and os.get_inheritable(number):
                found.append(number)
    return found


def _found(command: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> str:
    if not cwd.is_dir():
        raise UsageError(f"the working directory {cwd} does not exist")
    if not command or not command[0]:
        raise UsageError("no command was given: name the agent's program")
    name = command[0]
    if "/" in name:
        path = cwd / name
        if not path.is_file():
            raise UsageError(f"cannot start {name}: there is no such program")
        if not os.access(path, os.X_OK):
            raise UsageError(f"cannot start {name}: it may not be executed; `chmod +x` allows it")
        return str(path)
    found = shutil.which(name, path=variables.get("PATH"))
    if found is None:
        raise UsageError(f"cannot start {name}: there is no such program on PATH")
    return str(Path(found).absolute())


async def kill_strays(session: str) -> None:
    """Those of an agent that left its group, until none is found: one may have started another meanwhile."""
    now = asyncio.get_running_loop().time
    until = now() + _KILL_WAIT
    while await asyncio.to_thread(kill_processes_of, session, OWNED_AS):
        if now() >= until:
            break
        await asyncio.sleep(_STRAY_INTERVAL)


def die_together(owned: int, pid: int) -> None:
    """Linux sends a deadly signal to the group when our end of the pipe closes, also after `kill -9`.

    Elsewhere the terminal hangs up, which ends all but those who do not listen.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox that does not know it
            fcntl.fcntl(owned, fcntl.F_SETOWN, -pid)
            fcntl.fcntl(owned, fcntl.F_SETSIG, signal.SIGKILL)
            flags = fcntl.fcntl(owned, fcntl.F_GETFL)
            fcntl.fcntl(owned, fcntl.F_SETFL, flags | os.O_ASYNC)
