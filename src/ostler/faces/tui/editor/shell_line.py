"""`!command` is run by the shell and told to the model; `!!command` is run and not told.

`\\!` at the beginning is only a `!`.
"""

from __future__ import annotations

import msgspec


class ShellLine(msgspec.Struct, frozen=True):
    command: str
    """Empty as long as nothing is typed behind the mark."""
    is_told: bool
    """Whether the model is told the command and its output."""


def shell_line(typed: str) -> ShellLine | None:
    """None if it is a prompt."""
    text = typed.strip()
    if text.startswith("!!"):
        return ShellLine(text[2:].lstrip(), is_told=False)
    if text.startswith("!"):
        return ShellLine(text[1:].lstrip(), is_told=True)
    return None


def without_escape(typed: str) -> str:
    """A prompt that begins with `!`."""
    return typed.replace("\\!", "!", 1) if typed.lstrip().startswith("\\!") else typed
