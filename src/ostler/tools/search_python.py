"""Searching in Python, where there is no ripgrep. As a program, it prints what it finds as ripgrep would."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from ostler.tools.search_request import MAX_LINE, Collector, FoundLine, SearchRequest, SearchResult
from ostler.tools.walking import in_path_order, walk
from ostler.vocabulary.errors import ToolFailed

if TYPE_CHECKING:
    from ostler.tools.threads import Stop

_MAX_SEARCHED = 1 << 20
"""Bytes of one line; the rest of a longer one is not searched, so that memory stays bounded."""
_HEAD = 64 * 1024
_LEADING_ANYTHING = re.compile(r"^(?:\.\*)+(?![?+*{])")
_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


def search_with_python(request: SearchRequest, stop: Stop) -> SearchResult:
    """The same lines that ripgrep finds, for patterns that mean the same in both."""
    pattern = compiled(request)
    collector = Collector(request)
    for path, name in _files(request, stop):
        for line in _search_file(path, name, pattern, request.context, stop):
            if not collector.add(line):
                return collector.result()
    return collector.result()


def compiled(request: SearchRequest) -> re.Pattern[str]:
    # What a line begins with does not matter, and on a long one Python would try every way to skip it.
    text = re.escape(request.pattern) if request.literal else _LEADING_ANYTHING.sub("", request.pattern)
    try:
        return re.compile(text, re.IGNORECASE if request.ignore_case else 0)
    except re.error as error:
        raise ToolFailed(
            f"invalid regular expression: {error}; set literal to search for the text itself"
        ) from None


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


def main(root: str, asked: str) -> None:
    request = SearchRequest(root=Path(root), **msgspec.json.decode(asked))
    # One match more than is wanted: whoever reads is to know that there are more.
    wanted = msgspec.structs.replace(request, limit=request.limit + 1)
    for line in search_with_python(wanted, lambda: False).lines:
        path = os.fsencode(line.path)
        sign = b":" if line.matches else b"-"
        text = line.text[: MAX_LINE + 1].encode("utf-8", "replace")
        sys.stdout.buffer.write(b"%b\0%d%b%b\n" % (path, line.number, sign, text))


if __name__ == "__main__":
    main(*sys.argv[1:])
