"""Where paths and URLs stand in a text: a row is not broken inside of one, or it could not be copied or
clicked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache

LONGEST = 4096
"""Characters: what is longer is no path, and breaks like any other text."""

_START = r"(?:~|\.{1,2})?/"
_QUOTED = "|".join(rf"{quote}{_START}[^{quote}\n]{{1,{LONGEST}}}{quote}" for quote in "'\"`")
_WIDE = "\u1100-\u115f\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_RUN = r"(?:\\ |[^\s\"'`<>{}|\u3000-\u303f\uff00-\uffef])+"
_SPANS = rf"(?<!\w)(?:{_QUOTED})|{_RUN}"
_URL = r"[A-Za-z][A-Za-z0-9+.-]*://"
_NAMED = r"\w\.[A-Za-z][A-Za-z0-9]{0,9}(?::\d+)*$"
"""The end of a file's name, maybe with a line and a column."""


def path_spans(text: str) -> Iterator[tuple[int, int]]:
    """From where to where: URLs, paths, names of files, and paths with blanks in quotes."""
    if "/" not in text and "." not in text:
        return
    for match in _compiled(_SPANS).finditer(text):
        start, end = match.span()
        if text[start] in "'\"`":
            yield start, end
        elif (begin := _begin(match[0])) is not None and end - start - begin <= LONGEST:
            yield start + begin, end


def is_path(text: str) -> bool:
    """Whether all of it is one, also with blanks in it."""
    return len(text) <= LONGEST and re.match(f"{_START}|{_URL}", text) is not None


def quoted(path: object) -> str:
    """A path as it is put into a sentence: in quotes where it has blanks, so that it is seen where it ends
    and can be given to a shell."""
    text = str(path)
    return shlex.quote(text) if any(map(str.isspace, text)) else text


def _begin(run: str) -> int | None:
    """Where a run of characters without blanks becomes a path; None if it is none."""
    if (url := _compiled(_URL).search(run)) is not None:
        return url.start()
    bare = run.lstrip("([=:")
    if _compiled(_START).match(bare):
        return len(run) - len(bare)
    if ("/" in bare or _compiled(_NAMED).search(bare)) and not _compiled(f"[{_WIDE}]").search(bare):
        return len(run) - len(bare)
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """When something is wrapped: that takes longer than to load this module."""
    return re.compile(pattern)
