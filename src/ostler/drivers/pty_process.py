"""A program in a pseudo-terminal, read and written through the event loop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ostler.core.process_tree import reap_orphans, spawning
from ostler.core.processes import OwnerPipe, ProcessId, kill_processes_of, on_exit, process_environment
from ostler.schema.errors import SessionBusy, UsageError

OWNED_AS = "terminal"
"""The call that an agent's processes name in their environment."""

NO_COMMAND = "no command was given: name the agent's program"

MOST_UNWRITTEN = 1024 * 1024
"""Bytes that a program may leave unread before it gets no more."""

_READS_IN_A_TURN = 4  # of 4 KB each, as the kernel returns them: the loop waits half a millisecond
_READ_SIZE = 64 * 1024
_READS_AT_THE_END = 1024
_READS_NOW = 4
_KILL_WAIT = 2.0
_STRAY_INTERVAL = 0.02
_STOP_SIGNALS = ((signal.SIGINT, 2.0), (signal.SIGHUP, 1.0))

# These describe another terminal: the one that we were started in.
_NOT_INHERITED = {
    *("LINES", "COLUMNS", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID"),
    *("TMUX", "TMUX_PANE", "STY", "ZELLIJ", "ZELLIJ_SESSION_NAME", "ZELLIJ_PANE_ID", "WINDOWID"),
    *("VTE_VERSION", "KITTY_WINDOW_ID", "KITTY_PID", "WEZTERM_PANE", "ITERM_SESSION_ID", "LC_TERMINAL"),
    *("ALACRITTY_WINDOW_ID", "KONSOLE_VERSION", "GHOSTTY_RESOURCES_DIR", "WT_SESSION"),
}

_DEFAULT_SIGNALS = [getattr(signal, f"SIG{name}") for name in ("PIPE", "XFSZ", "HUP", "INT", "QUIT", "TERM")]
_OWNER_PIPE = 3

# `posix_spawn` opens the terminal after it has made the new session, so that it becomes the controlling one,
# and runs no Python in the child; but it cannot change the directory.
_IN_DIRECTORY = 'cd -- "$0" && exec "$@"'
_ON_TERMINAL = f'exec 0<>"$1" 1>&0 2>&0; shift; {_IN_DIRECTORY}'
_SESSION_WAIT = 1.0


class PtyProcess:
    """One program and everything it starts, in a session and process group of its own.

    - `on_output` gets its output in order, at most some 64 KB per turn of the loop.
    - `ended` is its exit status, negative for a signal, set once its last output was read. What is left of
      its group is killed.
    - It does not outlive us: the terminal hangs up, and on Linux the kernel kills the group. Processes that
      left the group carry the session's name in their environment.
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
        self._owner.attach(self._pid, self._terminal)
        self.id = ProcessId.of(self._pid)
        os.set_blocking(self._terminal, False)
        self._loop.add_reader(self._terminal, self._read)
        on_exit(self._pid, self._reap)

    @property
    def unwritten(self) -> int:
        """The number of bytes that it has not read yet."""
        return len(self._unwritten)

    def write(self, data: bytes) -> None:
        """Writes in order, as fast as it reads. Raises `SessionBusy` when it has left too much unread."""
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

    def read_now(self) -> None:
        """Reads the output that is there, without waiting for the loop's next turn."""
        for _ in range(_READS_NOW):
            if self._terminal < 0 or not self._read():
                break

    async def stop(self) -> None:
        """Interrupts it, then hangs up, then kills it, and also the processes that left its group. A
        cancellation skips the waiting."""
        try:
            for number, seconds in _STOP_SIGNALS:
                if self.ended.done():
                    break
                self.id.signal_group(number)
                await asyncio.wait([self.ended], timeout=seconds)
        finally:
            self.kill()
            await kill_strays(self._session)
            await asyncio.wait([self.ended], timeout=_KILL_WAIT)
            self._close_terminal()

    def kill(self) -> None:
        self.id.kill_group()

    def _reap(self) -> None:
        self.id.kill_group()  # before it is reaped: until then no other process can get its pid
        _, status = os.waitpid(self._pid, 0)
        for _ in range(_READS_AT_THE_END):
            if self._terminal < 0 or not self._read():
                break
        self._close_terminal()
        self._owner.close()
        reap_orphans()
        if not self.ended.done():
            self.ended.set_result(os.waitstatus_to_exitcode(status))

    # --- the terminal ---------------------------------------------------------------------------------

    def _read(self) -> bool:
        pieces = []
        for _ in range(_READS_IN_A_TURN):
            try:
                piece = os.read(self._terminal, _READ_SIZE)
            except BlockingIOError:
                break
            except OSError:  # no process has the terminal open any more
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
        except OSError:  # no process will read it any more
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
) -> tuple[int, OwnerPipe]:
    """The new process, and the pipe that kills its group when we die."""
    variables = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    variables |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
    variables |= process_environment(session, OWNED_AS)
    program = _find(command, cwd, variables)
    owner = OwnerPipe()
    file_actions = [
        (os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
        *[(os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()],
        (os.POSIX_SPAWN_DUP2, owner.child_end, _OWNER_PIPE),
    ]

    def spawn(path: str, arguments: list[str], *, setsid: bool) -> int:
        with spawning(adopts=True) as pids:
            pids.append(
                os.posix_spawn(
                    path,
                    arguments,
                    variables,
                    file_actions=file_actions,
                    setsid=setsid,
                    setsigmask=[],
                    setsigdef=_DEFAULT_SIGNALS,
                )
            )
        return pids[0]

    words = [program, *command[1:]]
    try:
        try:
            pid = spawn("/bin/sh", ["sh", "-c", _IN_DIRECTORY, str(cwd), *words], setsid=True)
        except NotImplementedError:  # a portable build of Python, such as uv's
            in_shell = ["setsid", "/bin/sh", "-c", _ON_TERMINAL, str(cwd), terminal, *words]
            pid = spawn(_find_setsid(), in_shell, setsid=False)
            _wait_for_session(pid)
    except BaseException as error:
        owner.close()
        if isinstance(error, OSError):
            raise UsageError(f"cannot start {command[0]}: {error.strerror}") from None
        if isinstance(error, ValueError):
            raise UsageError("the command contains a NUL character") from None
        raise
    return pid, owner


def _find_setsid() -> str:
    path = shutil.which("setsid")
    if path is None:
        raise UsageError("this Python needs the program setsid to start agents: install util-linux")
    return path


def _wait_for_session(pid: int) -> None:
    """Waits for the process group that signals go to: it exists once the session does, within 1 or 2 ms."""
    limit = time.monotonic() + _SESSION_WAIT
    while os.getsid(pid) != pid and time.monotonic() < limit:
        time.sleep(0.0005)


def _inheritable() -> list[int]:
    """Descriptors that we inherited ourselves; those we opened are closed automatically."""
    descriptors = []
    for number in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
        with suppress(OSError):  # the descriptor that listed the folder
            if number > 2 and os.get_inheritable(number):
                descriptors.append(number)
    return descriptors


def _find(command: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> str:
    if not cwd.is_dir():
        raise UsageError(f"the working directory {cwd} does not exist")
    if not command or not command[0]:
        raise UsageError(NO_COMMAND)
    name = command[0]
    if "/" in name:
        path = cwd / name
        if not path.is_file():
            raise UsageError(f"cannot start {name}: there is no such program")
        if not os.access(path, os.X_OK):
            raise UsageError(f"cannot start {name}: it is not executable; run `chmod +x` on it")
        return str(path)
    program = shutil.which(name, path=variables.get("PATH"))
    if program is None:
        raise UsageError(f"cannot start {name}: there is no such program on PATH")
    return str(Path(program).absolute())


async def kill_strays(session: str) -> None:
    """Kills the processes of an agent that left its group, until none is found: one may start another."""
    now = asyncio.get_running_loop().time
    deadline = now() + _KILL_WAIT
    while await asyncio.to_thread(kill_processes_of, session, OWNED_AS):
        if now() >= deadline:
            break
        await asyncio.sleep(_STRAY_INTERVAL)
