"""`ostler runs`: which runs are open, who works on them, and what they wait for."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Iterator, Sequence

from ostler.faces.cli.arguments import Parser, at_least_one
from ostler.faces.cli.columns import aligned, cut, one_line
from ostler.faces.cli.question_words import in_words
from ostler.faces.cli.saying import counted, priced, print_json, say
from ostler.faces.cli.session_rows import age, moment, short_ids
from ostler.runs.home import store_file
from ostler.runs.run_list import RunRow, list_runs
from ostler.runs.stores import open_store

LIMIT = 20
_ABOUT_WIDTH = 28


def runs_command(arguments: list[str]) -> int:
    options = _runs_parser().parse_args(arguments)
    if not store_file().exists():
        say("there are no sessions yet; `ostler -p PROMPT…` begins one")
        return 0
    return asyncio.run(_run(options))


def _runs_parser() -> Parser:
    parser = Parser(
        prog="ostler runs",
        description="Open runs of all sessions, newest first, children below their parents: running, and by "
        "which process; waiting, and for what; cut, when their process is gone.",
    )
    parser.add_argument("--all", action="store_true", help="also those that have ended")
    parser.add_argument("--limit", metavar="N", type=at_least_one, help=f"at most so many (default: {LIMIT})")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


async def _run(options: argparse.Namespace) -> int:
    limit = options.limit or LIMIT
    store = open_store()
    try:
        rows = await list_runs(store, ended=options.all, limit=limit + 1)
        known = [one.id for one in await store.sessions()] if sys.stdout.isatty() else []
    finally:
        await store.close()
    if options.json:
        for row in rows[:limit]:
            print_json(row)
        return 0
    for line in _lines(rows[:limit], short_ids(known)):
        print(line)
    if not rows:
        say("nothing was run yet" if options.all else "no run is open; --all shows those that have ended")
    elif len(rows) > limit:
        say("there are more; --limit shows them")
    return 0


def _lines(rows: Sequence[RunRow], short: dict[str, str]) -> Iterator[str]:
    """Session, beginning, status, what it is about, and what there is to know."""
    if not rows:
        return
    if not short:
        yield from aligned([_cells(row, row.session, moment(row.started_ms), _about(row)) for row in rows])
        return
    now, width = time.time(), shutil.get_terminal_size().columns
    table = [
        _cells(row, short[row.session], age(now - row.started_ms / 1000), cut(_about(row), _ABOUT_WIDTH))
        for row in rows
    ]
    for line in aligned([("SESSION", "AGE", "STATUS", "ABOUT", "RUN"), *table]):
        yield cut(line, width)


def _cells(row: RunRow, session: str, began: str, about: str) -> tuple[str, ...]:
    return ("  " * row.depth + session, began, row.status, about, detail(row))


def _about(row: RunRow) -> str:
    return one_line(f"{row.agent}: {row.title}" if row.agent else row.title) or "(no prompt)"


def detail(row: RunRow) -> str:
    """What a person wants to know of it, in a few words."""
    if row.status == "running" and row.holder:
        return f"process {row.holder.pid} on {row.holder.host}, {counted(row.steps, 'step')}"
    if row.status == "cut":
        return "nobody works on it"
    if row.status == "waiting":
        return one_line("; ".join(_awaited(row)))
    why = f": {one_line(row.reason)}" if row.reason not in ("", row.status) else ""
    return f"{counted(row.steps, 'step')}, {priced(row.cost)}{why}"


def _awaited(row: RunRow) -> Iterator[str]:
    if row.waits == "paused":
        yield "paused"
    for question in row.questions:
        yield f"asks: {in_words(question)}"
    for call in row.calls:
        children = ", ".join(call.children)
        yield f"waits for {children or call.note or 'a call that finishes later'} ({call.tool})"
