"""How a path is written so that `context/mentions.py` reads it as a mention."""

from __future__ import annotations

import re
from pathlib import Path

_NEEDS_QUOTES = re.compile(r'[\s"\\]')
_CANNOT_BE_SAID = re.compile("[\0-\x1f\x7f`\ud800-\udfff]")
"""A backtick could make code of what follows; the others are not in any prompt."""


def can_be_mentioned(path: str) -> bool:
    return _CANNOT_BE_SAID.search(path) is None


def mention_of(path: str) -> str:
    """`@path`, with quotes where it needs them."""
    if not _NEEDS_QUOTES.search(path):
        return f"@{path}"
    return '@"' + re.sub(r'(["\\])', r"\\\1", path) + '"'


def name_below(folder: Path, name: str) -> str:
    """A path below the working directory, as it is mentioned: in full if it would be taken for a home."""
    return str(folder / name) if name.startswith("~") else name
