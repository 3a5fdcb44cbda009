"""The grep tool: searches the files of a tree for a pattern."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ostler.core.function_tool import validate_arguments
from ostler.core.json_schema import schema_of
from ostler.core.lazy import lazy_module
from ostler.core.tool import ToolContext, ToolSpec
from ostler.schema.errors import ToolFailed
from ostler.schema.outcomes import Ok, ok
from ostler.tools.files import (
    Stop,
    display_path,
    file_errors,
    hidden_below,
    is_folder,
    judged_folder_or_file,
    require_same,
    run_cancellable,
    skipped_note,
    walk,
)

if TYPE_CHECKING:
    from ostler.tools import grep_engines
    from ostler.tools.grep_engines import SearchRequest, SearchResult
else:
    grep_engines = lazy_module("ostler.tools.grep_engines")

_DESCRIPTION = (
    "Searches files for a regular expression and returns matching lines as path:line:text. Skips binary "
    "files, hidden files and files that .gitignore excludes; to search a hidden directory, pass it as path. "
    "Returns at most 100 matches unless limit is set, 500 characters per line and 50 KiB in all."
)
_PARAMETERS = {
    "pattern": "the regular expression, matched line by line",
    "path": "the directory or file to search; default: the working directory",
    "glob": "only files that match this glob, such as *.py or src/**/*.ts, relative to path",
    "ignore_case": "ignore case",
    "literal": "treat pattern as plain text",
    "context": "the number of lines to show before and after each match",
    "limit": "the maximum number of matches",
}


class GrepArguments(msgspec.Struct, frozen=True):
    pattern: Annotated[str, msgspec.Meta(min_length=1)]
    path: str = "."
    glob: str = ""
    ignore_case: bool = False
    literal: bool = False
    context: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1)] = 100


def _ripgrep() -> str | None:
    return grep_engines.ripgrep()


class GrepTool:
    """Searches with the ripgrep that `find_ripgrep` returns, or in Python if there is none."""

    def __init__(self, find_ripgrep: Callable[[], str | None] = _ripgrep) -> None:
        self._find_ripgrep = find_ripgrep
        self.spec = ToolSpec(
            source="built-in",
            name="grep",
            description=_DESCRIPTION,
            schema=schema_of(GrepArguments, _PARAMETERS),
            kind="search",
            parallel=True,
        )

    def validate(self, arguments: dict[str, Any]) -> GrepArguments:
        return validate_arguments(arguments, GrepArguments, self.spec.name)

    async def run(self, arguments: GrepArguments, context: ToolContext) -> Ok:
        if "\n" in arguments.pattern or "\0" in arguments.pattern:
            raise ToolFailed("pattern is matched line by line: it cannot contain a newline or NUL character")
        root, status = judged_folder_or_file(arguments.path, context)
        is_tree = S_ISDIR(status.st_mode)
        if not is_tree and not S_ISREG(status.st_mode):
            raise ToolFailed(f"{arguments.path} is a pipe, socket or device, not a file")
        fields = msgspec.structs.asdict(arguments)
        del fields["path"]
        skipped: tuple[str, ...] = ()
        hides = hidden_below(root, context)
        if is_tree and context.file_rules:
            skipped = await run_cancellable(lambda stop: _hidden(root, arguments.glob, hides, stop))
        request = grep_engines.SearchRequest(root=root, is_folder=is_tree, skipped=skipped, **fields)
        program = self._find_ripgrep()
        with file_errors(arguments.path):
            result = await _searched(program, request, context)
            require_same(root, status)
        return _outcome(result, request, context, "ripgrep" if program else "python")


grep = GrepTool()


def _hidden(root: Path, glob: str, hides: Callable[[Path], bool], stop: Stop) -> tuple[str, ...]:
    """The files below the root that are not searched. They are found by their names: whether one of them
    matches the pattern must not show."""
    found = (path for path in walk(root, stop, hidden=False, glob=glob) if hides(path))
    return tuple(str(path.relative_to(root)) for path in found if not is_folder(path))


async def _searched(program: str | None, request: SearchRequest, context: ToolContext) -> SearchResult:
    if program:
        return await grep_engines.search_with_ripgrep(program, request, context)
    if grep_engines.may_take_long(request):
        return await grep_engines.search_in_child(request, context)
    return await run_cancellable(lambda stop: grep_engines.search_with_python(request, stop))


def _outcome(result: SearchResult, request: SearchRequest, context: ToolContext, engine: str) -> Ok:
    prefix = "" if request.root == context.cwd.resolve() else display_path(request.root, context.cwd)
    rows, all_fit = grep_engines.as_rows(result.lines, prefix, grouped=request.context > 0)
    matches = sum(line.matches for line in result.lines)
    if not all_fit:
        rows.append("[cut at 50 KiB: narrow pattern, path or glob]")
    elif result.has_more:
        rows.append(f"[the first {matches} matches of more: narrow pattern, path or glob, or raise limit]")
    if request.skipped:
        rows.append(skipped_note(len(request.skipped)))
    details = {
        "path": display_path(request.root, context.cwd),
        "matches": matches,
        "files": len({line.path for line in result.lines if line.matches}),
        "truncated": result.has_more or not all_fit,
        "engine": engine,
    }
    if request.skipped:
        details["skipped"] = len(request.skipped)
    summary = f"{matches}{'+' if result.has_more else ''} match{'' if matches == 1 else 'es'}"
    return ok("\n".join(rows) or "(no matches)", details=details, summary=summary)
