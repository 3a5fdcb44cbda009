"""Standard output, which is ours alone: what extensions write there goes to standard error."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TextIO

_own: TextIO | None = None


def keep_output() -> None:
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


def own_output() -> TextIO:
    """Where answers and the lines of `--json` go."""
    return _own or sys.stdout


def print_own(text: str) -> None:
    out = own_output()
    print(text, file=out, flush=out is _own)  # the other one is flushed at the end
