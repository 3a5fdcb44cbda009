"""`ostler cost`: what models used, by day, model, session or run."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

import msgspec

from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import aligned, cut, one_line, width_of
from ostler.faces.cli.session_rows import short_ids
from ostler.kernel.store import SessionSummary
from ostler.runs.costs import By, Group, Spent, spent, start_of_day
from ostler.runs.home import store_file
from ostler.runs.stores import find_session, open_store
from ostler.vocabulary.errors import NotFound, UsageError

_NARROWEST_TEXT = 12
_COST_WIDTH = len("at least $0.1234")
"""What is kept free for the cost. A longer one says what is missing, and may go on in the next line."""
_DAY_AND_MODEL: tuple[By, ...] = ("day", "model")
_HEADINGS: dict[By, tuple[str, ...]] = {
    "day": ("DAY",),
    "model": ("MODEL",),
    "session": ("SESSION", "TITLE"),
    "run": ("SESSION", "RUN"),
}
_NUMBERS = ("CALLS", "INPUT", "CACHED", "TO CACHE", "OUTPUT", "REASONING")


def cost_command(arguments: list[str]) -> int:
    options = _cost_parser().parse_args(arguments)
    if store_file().exists():
        asyncio.run(_run(options))
    elif options.session is None:
        _say("there are no sessions yet; `ostler -p PROMPT…` begins one")
    else:
        raise NotFound("there are no sessions yet; `ostler -p PROMPT…` begins one")
    return 0


def _cost_parser() -> Parser:
    parser = Parser(
        prog="ostler cost",
        description="What models used: tokens, and dollars where prices are known. Days are local ones.",
    )
    parser.add_argument("--by", choices=tuple(_HEADINGS), help="one row for each (default: day and model)")
    parser.add_argument(
        "--since",
        metavar="DAY",
        type=_start_of,
        default=0,
        help="only from that day on: 2026-01-31, today, or 7d for today and the six days before",
    )
    parser.add_argument(
        "--session", metavar="ID", help="only this one and its children (a unique beginning will do)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


def _start_of(text: str) -> int:
    try:
        return start_of_day(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None


async def _run(options: argparse.Namespace) -> None:
    by = (options.by,) if options.by else _DAY_AND_MODEL
    store = open_store()
    try:
        session = "" if options.session is None else await find_session(store, options.session)
        groups, known = await spent(store, by, since=options.since, session=session)
    finally:
        await store.close()
    if options.json:
        for group in groups:
            sys.stdout.buffer.write(msgspec.json.encode(group) + b"\n")
    elif groups:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in lines_of(groups, by, known, width):
            print(line)
    else:
        _say("no model was called" + (" since then" if options.since else " yet"))


def lines_of(
    groups: Sequence[Group], by: Sequence[By], known: Sequence[SessionSummary], width: int | None
) -> Iterator[str]:
    """A row for what each group used itself and one for its children, and the sum of all; for a terminal of
    that width, or whole for a pipe."""
    headings = [heading for one in by for heading in _HEADINGS[one]]
    rows: list[tuple[list[str], Spent]] = []
    for group, labels in zip(groups, _labels(groups, by, known, is_short=width is not None), strict=True):
        if group.own.calls:
            rows.append((labels, group.own))
        if group.children.calls:
            rows.append(([*labels[:-1], f"children: {labels[-1]}"], group.children))
    own = reduce(add, [group.own for group in groups])
    children = reduce(add, [group.children for group in groups])
    blank = [""] * (len(headings) - 1)
    if own.calls and children.calls:
        rows += [(["own", *blank], own), (["children", *blank], children)]
    rows.append((["total", *blank], own + children))
    texts = [headings, *(labels for labels, _ in rows)]
    numbers = _number_cells([spent for _, spent in rows], is_short=width is not None)
    costs = ["COST", *(spent.in_words() for _, spent in rows)]
    if width is not None:
        taken = sum(_width(column) + 2 for column in (*_columns(texts)[:-1], *_columns(numbers)))
        room = max(_NARROWEST_TEXT, width - taken - 2 - _COST_WIDTH)
        texts = [[*row[:-1], cut(row[-1], room)] for row in texts]
    yield from aligned([(*text, *row, cost) for text, row, cost in zip(texts, numbers, costs, strict=True)])


def _number_cells(rows: Sequence[Spent], *, is_short: bool) -> list[list[str]]:
    """Flush right, under their headings. A terminal has no room for columns that say nothing."""
    numbers = [_numbers(spent) for spent in rows]
    if is_short:
        shown = [at for at in range(len(_NUMBERS)) if any(row[at] for row in numbers)]
        cells = [[_NUMBERS[at] for at in shown], *([f"{row[at]:,}" for at in shown] for row in numbers)]
    else:
        cells = [list(_NUMBERS), *([str(number) for number in row] for row in numbers)]
    widths = [_width(column) for column in _columns(cells)]
    return [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]


def _columns(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return list(zip(*rows, strict=True))


def _width(column: Sequence[str]) -> int:
    return max(map(width_of, column))


def _labels(
    groups: Sequence[Group], by: Sequence[By], known: Sequence[SessionSummary], *, is_short: bool
) -> Iterator[list[str]]:
    titles = {one.id: one_line(one.title or one.preview) or "(no prompt)" for one in known}
    short: dict[str, str] = {}
    if is_short:
        short = short_ids([*titles, *(group.run for group in groups)])
    for group in groups:
        session, run_id = short.get(group.session, group.session), short.get(group.run, group.run)
        of: dict[By, list[str]] = {
            "day": [group.day],
            "model": [one_line(group.model)],
            "session": [session, titles.get(group.session, "")],
            "run": [session, run_id or "(none)"],
        }
        yield [label for one in by for label in of[one]]


def _numbers(spent: Spent) -> tuple[int, ...]:
    usage = spent.usage
    return (
        spent.calls,
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
    )


def _say(text: str) -> None:
    print(f"ostler: {text}", file=sys.stderr)
