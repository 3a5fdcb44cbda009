"""Searching in Python for a pattern that may take for ever, in a process of its own.

Python's engine tries every way to match, and everything else in its process waits meanwhile: the lease,
Ctrl-C, the other calls. A child can be ended. It prints what it finds as ripgrep would.
"""

from __future__ import annotations

import asyncio
import sys

import msgspec

from ostler.kernel.tool import ToolContext
from ostler.tools.search_python import compiled
from ostler.tools.search_request import SearchRequest, SearchResult
from ostler.tools.search_ripgrep import search_with
from ostler.vocabulary.errors import ToolFailed

TIME_LIMIT = 60.0
_REPEATS = frozenset("*+?{")


def may_take_long(request: SearchRequest) -> bool:
    """Without a repetition there is little to try at each place."""
    return not request.literal and not _REPEATS.isdisjoint(request.pattern)


async def search_in_child(
    request: SearchRequest, context: ToolContext, time_limit: float = TIME_LIMIT
) -> SearchResult:
    compiled(request)  # a mistake in the pattern is told in the words of the engine
    asked = {name: getattr(request, name) for name in request.__struct_fields__ if name != "root"}
    # With `-P` the directory that is searched, which may be anybody's, is no place to import from.
    python = [sys.executable, "-P", "-m", "ostler.tools.search_python"]
    command = [*python, str(request.root), msgspec.json.encode(asked).decode()]
    try:
        async with asyncio.timeout(time_limit):
            return await search_with(command, request, context)
    except TimeoutError:
        raise ToolFailed(
            f"the search took longer than {time_limit:g} s: take a simpler pattern, without repetitions in "
            "repetitions, or search fewer files"
        ) from None
