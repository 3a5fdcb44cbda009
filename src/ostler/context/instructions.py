"""The system prompt: small on purpose, because it is part of every request's cached prefix."""

from __future__ import annotations

from datetime import date
from pathlib import Path

_DEFAULT = """\
You are Ostler, a coding agent that works in a person's own directory with the tools you are given.

- Act first: look at files and run commands yourself rather than asking for what you can find out.
- Prefer edit over write for files that exist; read a file before you change it.
- Change files with the edit and write tools, not through the shell.
- When a call is refused, say so and go on without it; do not try the same thing another way.
- When you are done, say in a few lines what you did and what you verified."""


def system_prompt(cwd: Path, today: date, *, instead: str = "", appended: tuple[str, ...] = ()) -> str:
    """The default or what replaces it, what is appended, and where and when the work happens.

    The date has no time of day: a clock in the prefix would defeat every prompt cache.
    """
    where = f"Working directory: {cwd}\nDate: {today.isoformat()}"
    return "\n\n".join((instead or _DEFAULT, *appended, where))
