"""Searching in Python, where there is no ripgrep."""

from __future__ import annotations

import io
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ostler.tools.search_request import Collector, FoundLine, SearchRequest, SearchResult
from ostler.tools.threads import Stop
from ostler.tools.walking import in_path_order, walk
from ostler.vocabulary.errors import ToolFailed

_MAX_SEARCHED = 1 << 20
"""Bytes of one line; the rest of a longer one is not searched, so that memory stays bounded."""
_HEAD = 64 * 1024
_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


def search_with_python(request: SearchRequest, stop: Stop) -> SearchResult:
    """The same lines that ripgrep finds, for patterns that mean the same in both."""
    try:
        pattern = re.compile(
            re.escape(request.pattern) if request.literal else request.pattern,
            re.IGNORECASE if request.ignore_case else 0,
        )
    except re.error as error:
        raise ToolFailed(
            f"invalid regular expression: {error}; set literal to search for the text itself"
        ) from None
    collector = Collector(request)
    for path, name in _files(request, stop):
        for line in _search_file(path, name, pattern, request.context, stop):
            if not collector.add(line):
                return collector.result()
    return collector.result()


def _files(request: SearchRequest, stop: Stop) -> list[tuple[Path, str]]:
    if request.root.is_file():
        return [(request.root, "")]
    paths = [
        (path, str(path.relative_to(request.root)))
        for path in walk(request.root, stop, hidden=False, glob=request.glob)
    ]
    return sorted(paths, key=lambda pair: in_path_order(pair[1]))


def _search_file(
    path: Path, name: str, pattern: re.Pattern[str], context: int, stop: Stop
) -> Iterator[FoundLine]:
    before: deque[FoundLine] = deque(maxlen=context)
    after = 0
    for number, text in enumerate(_lines(path), 1):
        if number % 1000 == 0 and stop():
            return
        if pattern.search(text):
            yield from before
            before.clear()
            yield FoundLine(name, number, text)
            after = context
        elif after:
            after -= 1
            yield FoundLine(name, number, text, matches=False)
        elif context:
            before.append(FoundLine(name, number, text, matches=False))


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file; none of a binary one, or from the first NUL on."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return
        with path.open("rb") as file:
            yield from _decoded_lines(file)
    except OSError:
        return  # it went away, or may not be read: ripgrep is silent about it too


def _decoded_lines(file: BinaryIO) -> Iterator[str]:
    head = file.read(_HEAD)
    encoding = next((encoding for mark, encoding in _BOMS if head.startswith(mark)), "utf-8")
    file.seek(0)
    if encoding == "utf-16":
        with io.TextIOWrapper(file, encoding, "replace", newline="\n") as text:
            for decoded in text:
                yield decoded.rstrip("\r\n")
        return
    if b"\0" in head:
        return
    file.seek(3 if encoding == "utf-8-sig" else 0)
    while raw := file.readline(_MAX_SEARCHED):
        if b"\0" in raw:
            return
        line = raw
        while not raw.endswith(b"\n") and (raw := file.readline(_MAX_SEARCHED)):
            continue
        yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
        if not raw:
            return
