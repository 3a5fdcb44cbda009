"""A file that says which process it is, and keeps a second one from starting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ostler.vocabulary.errors import UsageError


@contextmanager
def pid_file(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Names us as long as this lasts. Raises `UsageError` when it names another that lives."""
    own = f"{os.getpid()}\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _give_way(path, say)
        _write(path, own)
    except OSError as error:
        raise UsageError(f"the pid file {path} cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # somebody else's by now, or gone
            if path.read_text(encoding="utf-8") == own:
                path.unlink()


def _give_way(path: Path, say: Callable[[str], None]) -> None:
    """To whoever lives; what the dead have left is removed."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return
    number = found.strip().decode(errors="replace")
    if number.isdecimal() and number.isascii() and int(number) > 0:
        pid = int(number)
        if pid != os.getpid() and _lives(pid):  # in a container everybody has the same number
            raise UsageError(f"another instance is already running with PID {pid} (PID file: {path})")
        say(f"the pid file {path} was left by process {pid}, which has ended")
    path.unlink()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _write(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"another instance is starting at this moment (PID file: {path})") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
