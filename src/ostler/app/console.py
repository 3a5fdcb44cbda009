"""Standard input and output of commands: notices on stderr, questions, piped input, tables."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

import msgspec

from ostler.schema.errors import UsageError
from ostler.schema.text import cells, cut, one_line


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with aligned columns, two spaces apart; nothing if there are no rows."""
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def print_lines(lines: Iterable[str], *, fits: bool = False) -> None:
    """Prints lines to standard output; with `fits`, cut to the width of the terminal."""
    from shutil import get_terminal_size

    width = get_terminal_size().columns if fits and sys.stdout.isatty() else None
    for line in lines:
        print(line if width is None else cut(line, width))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table: for a terminal with headings and cut to its width, for a pipe whole."""
    if rows:
        print_lines(aligned([headings, *rows] if sys.stdout.isatty() else rows), fits=True)


def print_stderr(text: str) -> None:
    """Prints one line to standard error, without control characters."""
    print(f"ostler: {one_line(text)}", file=sys.stderr)


def print_json(*values: object) -> None:
    """Prints one JSON object per line."""
    for value in values:
        sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


_own: TextIO | None = None


def reserve_stdout() -> None:
    """Redirects what extensions and their processes write to standard output to standard error. Call it
    before any of their code runs."""
    global _own
    if _own is not None or sys.stdout is not sys.__stdout__:  # or an embedding program replaced it
        return
    theirs: TextIOWrapper = sys.stdout  # type: ignore[assignment]  # narrowed by the comparison
    theirs.flush()
    theirs.reconfigure(line_buffering=True)  # else it would appear only at the end
    ours = os.dup(theirs.fileno())  # child processes do not inherit it
    os.dup2(2, theirs.fileno())
    _own = os.fdopen(ours, "w", encoding=theirs.encoding, errors="replace")


def real_stdout() -> TextIO:
    """The stream for answers and the lines of `--json`."""
    return _own or sys.stdout


def print_to_stdout(text: str) -> None:
    out = real_stdout()
    print(text, file=out, flush=out is _own)  # the other one is flushed at the end


def has_terminal() -> bool:
    """Whether a person is at the terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


EARLY_SECONDS = 0.6
"""How long a question of consent is shown before it can be answered."""

typed_early: list[str] = []
"""What was typed in that time, for the input line of a terminal UI that opens afterwards."""


def ask_consent(question: str) -> bool:
    """Asks a person at the terminal whether to trust something.

    What was typed before the question, or in its first 600 ms, is no answer. The choices appear after that.
    """
    print(f"ostler: {question}", end="", file=sys.stderr, flush=True)
    with _typed_lines():
        return ask_person("")


@contextmanager
def _typed_lines() -> Iterator[None]:
    """Sets early keys aside; then the terminal sends lines and shows what is typed, whatever its mode was."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios
    import time

    descriptor = sys.stdin.fileno()
    before, keys, lines = (termios.tcgetattr(descriptor) for _ in range(3))
    keys[3] &= ~(termios.ICANON | termios.ECHO)
    lines[0] |= termios.ICRNL
    lines[3] |= termios.ICANON | termios.ECHO
    try:
        termios.tcsetattr(descriptor, termios.TCSANOW, keys)
        end, early = time.monotonic() + EARLY_SECONDS, b""
        while (left := end - time.monotonic()) > 0 and select.select([descriptor], [], [], left)[0]:
            if not (data := os.read(descriptor, 4096)):
                break
            early += data
        # Enter would send the text unread.
        typed_early.append(" ".join(early.decode(errors="replace").split()))
        termios.tcsetattr(descriptor, termios.TCSANOW, lines)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def ask_person(question: str) -> bool:
    """Asks until the answer is yes or no."""
    while True:
        print(f"ostler: {question} [yes/no] " if question else " [yes/no] ", end="", file=sys.stderr)
        sys.stderr.flush()
        reply = sys.stdin.readline()
        if not reply:
            raise UsageError("there was no answer, so nothing was done")
        if (word := reply.strip().lower()) in ("y", "yes", "n", "no"):
            return word.startswith("y")


PATIENCE = 1.0
"""Seconds to wait for the first byte of a pipe besides a prompt: many programs leave an idle pipe open."""

LARGEST = 16 * 1024 * 1024
"""Bytes of piped input. No model reads more, and endless output must not fill the memory."""


def prompt_from(words: list[str]) -> tuple[str, str]:
    """The prompt from words and piped input, and a notice if the input was ignored."""
    typed = " ".join(words).strip()
    if (descriptor := _descriptor()) is None or sys.stdin.isatty():
        return typed, ""
    if typed and not _has_data(descriptor):
        return typed, f"standard input had no data for {PATIENCE:g} s and is ignored"
    return "\n\n".join(part for part in (typed, _read_stdin()) if part), ""


def piped_in(waits: bool) -> str:
    """The piped input; unless it `waits`, only if it starts soon."""
    if (descriptor := _descriptor()) is None:
        return ""
    return _read_stdin() if waits or (not sys.stdin.isatty() and _has_data(descriptor)) else ""


def _descriptor() -> int | None:
    if sys.stdin is None or sys.stdin.closed:
        return None
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):
        return None


def _read_stdin() -> str:
    try:
        data = sys.stdin.buffer.read(LARGEST + 1)
    except OSError as error:
        if error.errno == errno.EBADF:  # `nohup` gives its command an unreadable input
            return ""
        raise UsageError(f"standard input cannot be read: {error.strerror}; use a file instead") from None
    if len(data) > LARGEST:
        raise UsageError(
            f"standard input has more than {LARGEST >> 20} MiB: save it to a file and mention that"
        )
    return data.decode(errors="replace").strip()


def _has_data(descriptor: int) -> bool:
    """Whether there are bytes to read, or the end."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return True
    return bool(select.select([descriptor], [], [], PATIENCE)[0])
