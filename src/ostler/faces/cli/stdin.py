"""Piped input, added to the prompt."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys

from ostler.vocabulary.errors import UsageError

PATIENCE = 1.0
"""Seconds to wait for the first byte of a pipe when there is a prompt already: many programs leave a
silent pipe open, and a run must not wait for those."""

LARGEST = 16 * 1024 * 1024
"""No model reads more, and a program that prints for ever must not fill the memory."""


def prompt_from(words: list[str]) -> tuple[str, str]:
    """The prompt, from words and piped input, and a notice if input was not waited for."""
    typed = " ".join(words).strip()
    if (descriptor := _descriptor()) is None or sys.stdin.isatty():
        return typed, ""
    if typed and not _has_begun(descriptor):
        return typed, f"standard input was silent for {PATIENCE:g} s and is not waited for"
    return "\n\n".join(part for part in (typed, _all_of_it()) if part), ""


def piped_in(waits: bool) -> str:
    """What is piped in; unless it `waits`, only if that has begun, or begins soon."""
    if (descriptor := _descriptor()) is None:
        return ""
    has_some = waits or (not sys.stdin.isatty() and _has_begun(descriptor))
    return _all_of_it() if has_some else ""


def _descriptor() -> int | None:
    if sys.stdin is None or sys.stdin.closed:
        return None
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):
        return None


def _all_of_it() -> str:
    try:
        data = sys.stdin.buffer.read(LARGEST + 1)
    except OSError as error:
        if error.errno == errno.EBADF:  # `nohup` gives its command an input that cannot be read
            return ""
        raise UsageError(f"standard input cannot be read: {error.strerror}; name a file instead") from None
    if len(data) > LARGEST:
        raise UsageError(f"standard input has more than {LARGEST >> 20} MiB: save it to a file and name that")
    return data.decode(errors="replace").strip()


def _has_begun(descriptor: int) -> bool:
    """Whether there is something to read, or the end."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return True
    readable, _, _ = select.select([descriptor], [], [], PATIENCE)
    return bool(readable)
