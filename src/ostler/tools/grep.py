"""The grep tool: searches the files of a tree for a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ostler.core.function_tool import validate_arguments
from ostler.core.json_schema import schema_of
from ostler.core.lazy import lazy_module
from ostler.core.tool import ToolContext, ToolSpec
from ostler.schema.errors import ToolFailed
from ostler.schema.outcomes import Ok, ok
from ostler.tools.files import display_path, file_errors, resolve_existing, run_cancellable

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
        root = resolve_existing(arguments.path, context.cwd)
        with file_errors(arguments.path):
            if not root.is_dir() and not root.is_file():
                raise ToolFailed(f"{arguments.path} is a pipe, socket or device, not a file")
        fields = msgspec.structs.asdict(arguments)
        del fields["path"]
        request = grep_engines.SearchRequest(root=root, **fields)
        program = self._find_ripgrep()
        result = await _searched(program, request, context)
        return _outcome(result, request, context, "ripgrep" if program else "python")


grep = GrepTool()


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
    details = {
        "path": display_path(request.root, context.cwd),
        "matches": matches,
        "files": len({line.path for line in result.lines if line.matches}),
        "truncated": result.has_more or not all_fit,
        "engine": engine,
    }
    summary = f"{matches}{'+' if result.has_more else ''} match{'' if matches == 1 else 'es'}"
    return ok("\n".join(rows) or "(no matches)", details=details, summary=summary)
