"""The person at the terminal, if there is one."""

from __future__ import annotations

import sys

from ostler.vocabulary.errors import UsageError


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
