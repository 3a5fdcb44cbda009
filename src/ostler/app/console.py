"""Text in columns of a terminal: how wide it is, how it is cut, how rows are aligned."""
# MERGED: How commands speak: results on standard output, everything else on standard error.
# MERGED: Standard output, which is ours alone: what extensions write there goes to standard error.
# MERGED: The person at the terminal, if there is one.
# MERGED: Piped input, added to the prompt.

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from typing import TextIO

import msgspec

from ostler.schema.errors import UsageError
from ostler.schema.text import cells, cut, one_line


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows whose columns begin at the same place, two spaces apart."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line each: for a terminal with headings and cut to its width, or whole for a pipe."""
    if not rows:
        return
    if not sys.stdout.isatty():
        yield from aligned(rows)
        return
    from shutil import get_terminal_size

    width = get_terminal_size().columns
    for line in aligned([headings, *rows]):
        yield cut(line, width)


def print_stderr(text: str) -> None:
    """One line, whatever is said, and nothing in it that a terminal would obey."""
    print(f"ostler: {one_line(text)}", file=sys.stderr)


def print_json(value: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


_own: TextIO | None = None


def reserve_stdout() -> None:
    """Before any code of an extension runs: what it writes to standard output, or a process that it starts,
    goes to standard error from now on."""
    global _own
    if _own is not None or sys.stdout is not sys.__stdout__:  # or a program that embeds us has taken it
        return
    theirs: TextIOWrapper = sys.stdout  # type: ignore[assignment]  # narrowed by the comparison
    theirs.flush()
    theirs.reconfigure(line_buffering=True)  # or it would be seen when all is over
    ours = os.dup(theirs.fileno())  # which children do not inherit
    os.dup2(2, theirs.fileno())
    _own = os.fdopen(ours, "w", encoding=theirs.encoding, errors="replace")


def real_stdout() -> TextIO:
    """Where answers and the lines of `--json` go."""
    return _own or sys.stdout


def print_to_stdout(text: str) -> None:
    out = real_stdout()
    print(text, file=out, flush=out is _own)  # the other one is flushed at the end


def has_terminal() -> bool:
    """Whether somebody reads what we print, and can type."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def ask_person(question: str) -> bool:
    """Asks until the answer is yes or no."""
    while True:
        print(f"ostler: {question} [yes/no] ", end="", file=sys.stderr, flush=True)
        reply = sys.stdin.readline()
        if not reply:
            raise UsageError("nobody answered, so nothing was done")
        if reply.strip().lower() in ("y", "yes"):
            return True
        if reply.strip().lower() in ("n", "no"):
            return False


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
