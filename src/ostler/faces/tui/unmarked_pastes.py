"""Pastes in a terminal that does not mark them: many letters at once, or an Enter with more behind it."""

from __future__ import annotations

import re
import select
from collections.abc import Callable

QUIET_SECONDS = 0.01
"""After which nothing more of it comes."""
MANY = 256
"""Letters that nobody types before the first of them has been read."""
_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_TEXT = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*")
_LINES = re.compile(r"[^\r\n]*[\r\n]+[^\r\n]")


def marked(text: str, read: Callable[[], str], descriptor: int) -> str:
    """What was read, with the rest of it, as a terminal that marks pastes would have sent it; as it is, if it
    is none. No line of it is sent by itself; an Enter behind a single one is the key."""
    begun = _text(text)
    if len(begun) < MANY and not _LINES.match(begun):
        return text
    while select.select([descriptor], [], [], QUIET_SECONDS)[0] and (more := read()):
        text += more
    pasted = _text(text)
    if not _LINES.match(pasted):
        pasted = pasted.rstrip("\r\n")
    return f"{_BEGIN}{pasted}{_END}{text[len(pasted) :]}"


def _text(text: str) -> str:
    found = _TEXT.match(text)
    assert found is not None
    return found[0]
