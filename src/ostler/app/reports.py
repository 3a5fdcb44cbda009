"""Reports that commands and the terminal share: `ostler context`, `ostler cost`, agents, skills, prices."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from pathlib import Path

from ostler.app.console import aligned, print_json, print_lines, print_stderr
from ostler.app.options import Parser, add_json, add_session, at_least_one
from ostler.app.settings import short_path
from ostler.app.stores import NO_SESSIONS, find_session, opened_store, read_facts, require_store
from ostler.context.instructions import own_folder
from ostler.context.selection import Decision
from ostler.context.skills import FILE, SKILL_FOLDERS, Skills
from ostler.core.store import SessionSummary
from ostler.history.context_trace import (
    ContextDifference,
    ContextStep,
    context_steps,
    difference,
    numbered,
    used_tokens,
    with_compactions,
)
from ostler.history.costs import By, CostTotals, Group, cost_records, start_of_day
from ostler.models.catalogue import ModelInfo, Prices
from ostler.schema.errors import NotFound, UsageError
from ostler.schema.text import cells, cut, one_line, plural, short_ids
from ostler.sessions.agents import AGENT_FOLDERS, INHERIT, Agents
from ostler.store.paths import configuration_file, store_file

BAR = 50
"""Characters."""

_NUMBERS_OF = {
    "reported": "those of the vendor for the previous request, plus an estimate of what is new",
    "tokenizer": "counted with the model's own vocabulary",
    "calibrated": "estimated, and calibrated by what the vendor reported",
    "estimated": "estimated",
}


def context_command(arguments: list[str]) -> int:
    options = _context_parser().parse_args(arguments)
    facts = asyncio.run(read_facts(options.id))
    steps = context_steps(facts)
    if not steps:
        if options.step or options.diff:
            raise NotFound("no model was called in this session yet")
        print_stderr("no model was called in this session yet")
        return 0
    report: ContextStep | ContextDifference
    if options.diff:
        first, last = sorted(options.diff)
        report = difference(numbered(steps, first), numbered(steps, last), facts)
        lines = _difference_lines(report)
    else:
        report = with_compactions(numbered(steps, options.step or len(steps)), facts)
        lines = step_lines(report, len(steps))
    if options.json:
        print_json(report)
    else:
        print_lines(lines, fits=True)
    return 0


def _context_parser() -> Parser:
    parser = Parser(
        prog="ostler context",
        description="Shows the context of a step: what the model received, what was shortened or left out "
        "and by which rule, and how many tokens each part took. Steps are counted over the whole session.",
    )
    add_session(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--step", metavar="N", type=at_least_one, help="the step to show (default: the last)")
    which.add_argument(
        "--diff", metavar=("A", "B"), nargs=2, type=at_least_one, help="the difference between two steps"
    )
    add_json(parser, "print one JSON object")
    return parser


# --- one step ---------------------------------------------------------------------------------------


def step_lines(step: ContextStep, last: int) -> Iterator[str]:
    yield f"step {step.step} of {last}, #{step.seq}, {one_line(step.model)}"
    yield ""
    if not step.traced:
        yield f"the model received everything: {plural(step.messages[0], 'message')}; nothing was counted"
        return
    yield from aligned([("WHAT", "TOKENS", "WHICH", "RULE"), *_rows(step)])
    yield ""
    yield from _bar(step)
    source, confidence = map(one_line, step.counted)
    yield f"the numbers are {_NUMBERS_OF.get(source, source)}; confidence {confidence}"
    if step.step > 1:
        differs = f"the prefix differs from the step before: {step.changed}"
        yield differs if step.changed else "the prefix is the request of the step before"
    if step.policy:
        yield f"the policy: {', '.join(_differences(step))}"
    for one in step.compactions:
        files = f", {plural(len(one.files), 'file')}" if one.files else ""
        yield (
            f"compacted in #{one.seq} ({one_line(one.by)}): {plural(one.replaced, 'message')}{files}, "
            f"{one.tokens_before:,} → {one.tokens_after:,} tokens"
        )


def _rows(step: ContextStep) -> Iterator[tuple[str, str, str, str]]:
    tokens = step.tokens
    sent, total = step.messages
    # Context providers and notes add messages, too.
    which = f"all {total}" if sent >= total else f"{sent} of {total}"
    if "fixed" in tokens:
        yield "system and tools", f"{tokens['fixed']:,}", plural(len(step.tools), "tool"), ""
    if step.before_run:
        yield "  by a hook", "", plural(sum(step.before_run.values()), "character"), "before_run"
    if "fences" in tokens:
        yield "fences", f"{tokens['fences']:,}", plural(len(step.fences), "fence"), ""
    for fence in step.fences:
        yield f"  {fence.kind}", f"{fence.tokens:,}", "", "cut to its share" if fence.cut else ""
    for kind, lost in step.fences_left_out:
        yield f"  {kind} left out", f"{lost:,} → 0", "", "room"
    if "messages" in tokens:
        yield "messages", f"{tokens['messages']:,}", which, ""
    else:
        most = "at most " if "at_most" in tokens else ""
        size = used_tokens(tokens) - tokens.get("reminders", 0)
        yield "system, tools and messages", f"{most}{size:,}", which, ""
    for decisions in _grouped(step.decisions):
        yield _decided(decisions)
    for entry in step.kept:
        yield "  kept", f"{entry.tokens:,}", _entries(entry.first, entry.last), entry.rule
    if step.reminders:
        number = f"{tokens['reminders']:,}" if "reminders" in tokens else ""
        yield "reminders", number, "", one_line(", ".join(step.reminders))


def _grouped(decisions: Sequence[Decision]) -> Iterator[list[Decision]]:
    """Groups decisions of the same action and rule."""
    groups: dict[tuple[str, str], list[Decision]] = {}
    for one in decisions:
        groups.setdefault((one.action, one.rule), []).append(one)
    yield from groups.values()


def _decided(alike: Sequence[Decision]) -> tuple[str, str, str, str]:
    places = f"{len(alike)} places in " if len(alike) > 1 else ""
    entries = places + _entries(alike[0].first, alike[-1].last)
    tokens = f"{sum(one.before for one in alike):,} → {sum(one.after for one in alike):,}"
    return f"  {alike[0].action}", tokens, entries, alike[0].rule


def _entries(first: int, last: int) -> str:
    return f"#{first}" if first == last else f"#{first} to #{last}"


def _bar(step: ContextStep) -> Iterator[str]:
    window, reserve, taken = step.tokens["window"], step.tokens.get("reserve", 0), used_tokens(step.tokens)
    free = window - reserve - taken
    full = min(BAR, -(-taken * BAR // window))
    reserved = min(BAR - full, -(-reserve * BAR // window))
    yield f"[{'#' * full}{'.' * (BAR - full - reserved)}{'+' * reserved}]"
    parts = [f"# {taken:,} used", f". {max(0, free):,} free", f"+ {reserve:,} for the answer"]
    yield f"{', '.join(parts if reserve else parts[:2])}, of {window:,} tokens"
    if not step.fits:
        yield f"{-free:,} tokens too many" + ("; nothing was sent" if step.kept else "")


def _differences(step: ContextStep) -> Iterator[str]:
    for group, changes in step.policy.items():
        for name, value in changes.items():
            origin = step.origins.get(f"{group}.{name}", "")
            yield one_line(f"{group}.{name} = {value}" + (f" ({origin})" if origin else ""))


# --- two steps --------------------------------------------------------------------------------------


def _difference_lines(difference: ContextDifference) -> Iterator[str]:
    before, after = difference.before, difference.after
    yield f"step {before.step} (#{before.seq}) → step {after.step} (#{after.seq})"
    yield (
        f"{used_tokens(before.tokens):,} → {used_tokens(after.tokens):,} tokens, {before.messages[0]} → "
        + plural(after.messages[0], "message")
    )
    if difference.same_prefix:
        yield "the earlier request is a prefix of the later one"
    for change in difference.changes:
        yield f"the prefix changed in step {change.step}: {one_line(change.why)}"
    if rows := list(_difference_rows(difference)):
        yield ""
        yield from aligned(rows)


def _difference_rows(difference: ContextDifference) -> Iterator[tuple[str, str, str]]:
    for sign, entries in (("-", difference.removed), ("+", difference.added)):
        for entry in entries:
            yield sign, f"#{entry.seq} {entry.type}", cut(one_line(entry.text), 60)
    for sign, decisions in (("-", difference.decided), ("+", difference.withdrawn)):
        for alike in _grouped(decisions):
            action, tokens, places, rule = _decided(alike)
            undone = " no more" if sign == "+" else ""
            yield sign, f"{places} {action.strip()}{undone}", f"{tokens} tokens, by the rules of {rule}"
    fences = [[fence.kind for fence in step.fences] for step in (difference.before, difference.after)]
    yield from _changed_rows("fence", *fences)
    yield from _changed_rows("reminder", difference.before.reminders, difference.after.reminders)


def _changed_rows(what: str, before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    yield from (("+", what, one_line(one)) for one in after if one not in before)
    yield from (("-", what, one_line(one)) for one in before if one not in after)


_NARROWEST_TEXT = 12
_COST_WIDTH = len("at least $0.1234")
"""Reserved for the cost. A longer cost says what is missing, and may wrap."""

_HEADINGS: dict[By, tuple[str, ...]] = {
    "day": ("DAY",),
    "model": ("MODEL",),
    "session": ("SESSION", "TITLE"),
    "run": ("SESSION", "RUN"),
}
_NUMBERS = ("CALLS", "INPUT", "CACHED", "TO CACHE", "OUTPUT", "REASONING")


def cost_command(arguments: list[str]) -> int:
    options = _cost_parser().parse_args(arguments)
    if options.session is not None:
        require_store()
    if store_file().exists():
        asyncio.run(_print_costs(options))
    else:
        print_stderr(NO_SESSIONS)
    return 0


def _cost_parser() -> Parser:
    parser = Parser(
        prog="ostler cost",
        description="Shows the tokens that models used, and dollars where prices are known. Days are in "
        "local time.",
    )
    add = parser.add_argument
    add("--by", choices=tuple(_HEADINGS), help="one row per value (default: day and model)")
    about = "only since that day: 2026-01-31, today, or 7d for today and the six days before"
    add("--since", metavar="DAY", type=_start_of, default=0, help=about)
    add("--session", metavar="ID", help="only this session and its subagents (a unique prefix is enough)")
    add_json(parser)
    return parser


def _start_of(text: str) -> int:
    try:
        return start_of_day(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None


async def _print_costs(options: argparse.Namespace) -> None:
    by: tuple[By, ...] = (options.by,) if options.by else ("day", "model")
    async with opened_store() as store:
        session = "" if options.session is None else await find_session(store, options.session)
        groups, sessions = await cost_records(store, by, since=options.since, session=session)
    if options.json:
        print_json(*groups)
    elif groups:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print_lines(lines_of(groups, by, sessions, width))
    else:
        print_stderr("no model was called" + (" since then" if options.since else " yet"))


def lines_of(
    groups: Sequence[Group], by: Sequence[By], sessions: Sequence[SessionSummary], width: int | None
) -> Iterator[str]:
    """Rows for each group and for its children, and the total: cut to a terminal's `width`, or whole."""
    headings = [heading for one in by for heading in _HEADINGS[one]]
    rows: list[tuple[list[str], CostTotals]] = []
    for group, labels in zip(groups, _labels(groups, by, sessions, is_short=width is not None), strict=True):
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


def _number_cells(rows: Sequence[CostTotals], *, is_short: bool) -> list[list[str]]:
    """Right-aligned numbers. A terminal has no room for empty columns."""
    numbers = [_numbers(spent) for spent in rows]
    if is_short:
        used = [at for at in range(len(_NUMBERS)) if any(row[at] for row in numbers)]
        cells = [[_NUMBERS[at] for at in used], *([f"{row[at]:,}" for at in used] for row in numbers)]
    else:
        cells = [list(_NUMBERS), *([str(number) for number in row] for row in numbers)]
    widths = [_width(column) for column in _columns(cells)]
    return [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]


def _columns(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return list(zip(*rows, strict=True))


def _width(column: Sequence[str]) -> int:
    return max(map(cells, column))


def _labels(
    groups: Sequence[Group], by: Sequence[By], sessions: Sequence[SessionSummary], *, is_short: bool
) -> Iterator[list[str]]:
    titles = {one.id: one_line(one.title or one.preview) or "(no prompt)" for one in sessions}
    short = short_ids([*titles, *(group.run for group in groups)]) if is_short else {}
    for group in groups:
        session, run_id = short.get(group.session, group.session), short.get(group.run, group.run)
        of: dict[By, list[str]] = {
            "day": [group.day],
            "model": [one_line(group.model)],
            "session": [session, titles.get(group.session, "")],
            "run": [session, run_id or "(none)"],
        }
        yield [label for one in by for label in of[one]]


def _numbers(spent: CostTotals) -> tuple[int, ...]:
    usage = spent.usage
    return (
        spent.calls,
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
    )


AGENT_HEADINGS = ("NAME", "MODEL", "TOOLS", "FROM", "DESCRIPTION")


def agent_rows(agents: Agents, cwd: Path) -> list[tuple[str, ...]]:
    return [
        (
            agent.name,
            one_line(agent.model) or INHERIT,
            "all" if agent.tools is None else ",".join(agent.tools) or "none",
            one_line(short_path(Path(agent.source), cwd)),
            one_line(agent.description),
        )
        for _, agent in sorted(agents.by_name.items())
    ]


def agent_notices(agents: Agents) -> list[str]:
    """Problems, or where to put agents if there are none."""
    if agents.by_name or agents.problems:
        return [one_line(problem) for problem in agents.problems]
    own = configuration_file().parent / "agents"
    return [f"there are no agents; create {AGENT_FOLDERS[0]}/NAME.md here, or {own}/NAME.md"]


UNKNOWN = "unknown"


def window_and_prices(model: ModelInfo) -> tuple[str, str, str]:
    """The context window, and the prices of a million tokens: input and output."""
    prices = model.prices
    return size_text(model.context_window), price_range(prices, "input"), price_range(prices, "output")


def size_text(tokens: int | None) -> str:
    if tokens is None:
        return UNKNOWN
    return f"{tokens / 1_000_000:.3g}M" if tokens >= 1_000_000 else f"{tokens / 1000:.3g}k"


def price_range(prices: Prices | None, kind: str) -> str:
    """The lowest and the highest price, if it depends on the size of a call or the hour."""
    if prices is None or getattr(prices, kind) is None:
        return UNKNOWN
    rates = [
        rate for one in (prices, *prices.tiers, *prices.hours) if (rate := getattr(one, kind)) is not None
    ]
    return "–".join(f"{rate:.6g}" for rate in dict.fromkeys((min(rates), max(rates))))


SKILL_HEADINGS = ("NAME", "BY", "FROM", "DESCRIPTION")


def skill_rows(skills: Skills, cwd: Path) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for _, skill in sorted(skills.by_name.items()):
        source = one_line(short_path(Path(skill.source), cwd))
        rows.append(
            (skill.name, "model, you" if skill.for_model else "you", source, one_line(skill.description))
        )
    return rows


def skill_notices(skills: Skills) -> list[str]:
    """Problems, or where to put skills if there are none."""
    if skills.by_name or skills.notices:
        return [one_line(notice) for notice in skills.notices]
    own = own_folder() / "skills"
    return [f"there are no skills; create {SKILL_FOLDERS[0]}/NAME/{FILE} here, or {own}/NAME/{FILE}"]
