"""Lines of a screen: split at line feeds only, and blank when they are nothing but white space."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_GAP = re.compile(r"\n(?:[ \t]*\n){20,}")
ASCII_WHITESPACE = " \t\n\r\f\v"


def without_blank_ends(lines: Sequence[str]) -> Sequence[str]:
    """The lines from the first to the last that is not blank; padding within them is kept."""
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return lines[start:end]


def without_gaps(text: str) -> str:
    """Where a program leaves most of a tall screen empty, one blank line."""
    return _GAP.sub("\n\n", text)


def trim_blank_lines(text: str) -> str:
    return "\n".join(without_blank_ends(text.split("\n")))


@lru_cache(maxsize=8192)
def cell_width(text: str) -> int:
    """How many columns a line takes on a screen."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    width: int = wcswidth(text)
    return width if width >= 0 else len(text)


def pad(text: str, columns: int) -> str:
    """Each line filled up with blanks to the width of the screen, as the agentapi wire shows them."""
    return "\n".join(line + " " * (columns - cell_width(line)) for line in text.split("\n"))
