"""`ostler context`: what the model was told in a step, and by which rule."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence

from ostler.context.planning import Decision
from ostler.faces.cli.arguments import Parser, at_least_one
from ostler.faces.cli.columns import aligned, cut, one_line
from ostler.faces.cli.saying import counted, print_json, say
from ostler.runs.home import store_file
from ostler.runs.stores import find_session, open_store
from ostler.runs.told_steps import (
    ToldDifference,
    ToldStep,
    difference,
    numbered,
    told_steps,
    used,
    with_compactions,
)
from ostler.vocabulary.errors import NotFound
from ostler.vocabulary.facts import Fact

BAR = 50
"""Characters."""
_NUMBERS_OF = {
    "reported": "the vendor's of the request before, and an estimate of what is new",
    "tokenizer": "by the model's own vocabulary",
    "calibrated": "estimated, and corrected by what the vendor reported",
    "estimated": "estimated",
}


def context_command(arguments: list[str]) -> int:
    options = _context_parser().parse_args(arguments)
    if not store_file().exists():
        raise NotFound("there are no sessions yet; `ostler -p PROMPT…` begins one")
    facts = asyncio.run(_facts(options.id))
    steps = told_steps(facts)
    if not steps:
        if options.step or options.diff:
            raise NotFound("no model was asked in this session yet")
        say("no model was asked in this session yet")
        return 0
    shown: ToldStep | ToldDifference
    if options.diff:
        first, last = sorted(options.diff)
        shown = difference(numbered(steps, first), numbered(steps, last), facts)
        lines = _difference_lines(shown)
    else:
        shown = with_compactions(numbered(steps, options.step or len(steps)), facts)
        lines = step_lines(shown, len(steps))
    if options.json:
        print_json(shown)
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in lines:
        print(line if width is None else cut(line, width))
    return 0


def _context_parser() -> Parser:
    parser = Parser(
        prog="ostler context",
        description="What the model was told in a step and by which rule: what was cut or left out, how many "
        "tokens it took of the window, and where the numbers come from. Steps are counted over the session.",
    )
    parser.add_argument("id", metavar="SESSION", help="its id; a unique beginning will do")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--step", metavar="N", type=at_least_one, help="that step (default: the last)")
    which.add_argument(
        "--diff", metavar=("A", "B"), nargs=2, type=at_least_one, help="what is different between two steps"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


async def _facts(session: str) -> list[Fact]:
    store = open_store()
    try:
        return await store.read(await find_session(store, session))
    finally:
        await store.close()


# --- one step ---------------------------------------------------------------------------------------


def step_lines(step: ToldStep, last: int) -> Iterator[str]:
    yield f"step {step.step} of {last}, #{step.seq}, {one_line(step.model)}"
    yield ""
    if not step.traced:
        yield f"everything was told: {counted(step.messages[0], 'message')}; nothing was counted"
        return
    yield from aligned([("WHAT", "TOKENS", "WHICH", "RULE"), *_rows(step)])
    yield ""
    yield from _bar(step)
    yield f"the numbers are {_source(step)}"
    if step.step > 1:
        yield (
            f"the beginning is not that of the step before: {step.changed}"
            if step.changed
            else ("it begins with what was told in the step before")
        )
    if step.policy:
        yield f"the policy: {', '.join(_differences(step))}"
    for one in step.compactions:
        files = f", {counted(len(one.files), 'file')}" if one.files else ""
        yield (
            f"compacted in #{one.seq} ({one_line(one.by)}): {counted(one.replaced, 'message')}{files}, "
            f"{one.tokens_before:,} → {one.tokens_after:,} tokens"
        )


def _rows(step: ToldStep) -> Iterator[tuple[str, str, str, str]]:
    tokens = step.tokens
    told, there = step.messages
    is_whole = told >= there  # what fences and notes add are messages, too
    which = f"all {there}" if is_whole else f"{told} of {there}"
    if "fixed" in tokens:
        yield "system and tools", f"{tokens['fixed']:,}", counted(len(step.tools), "tool"), ""
    if step.before_run:
        yield "  by a hook", "", counted(sum(step.before_run.values()), "character"), "before_run"
    if "fences" in tokens:
        yield "fences", f"{tokens['fences']:,}", counted(len(step.fences), "fence"), ""
    for fence in step.fences:
        yield f"  {fence.kind}", f"{fence.tokens:,}", "", "cut to its share" if fence.cut else ""
    for kind, lost in step.fences_left_out:
        yield f"  {kind} left out", f"{lost:,} → 0", "", "room"
    if "messages" in tokens:
        yield "messages", f"{tokens['messages']:,}", which, ""
    else:
        most = "at most " if "at_most" in tokens else ""
        rest = used(tokens) - tokens.get("reminders", 0)
        yield "system, tools and messages", f"{most}{rest:,}", which, ""
    for decisions in _grouped(step.decisions):
        yield _decided(decisions)
    for kept in step.kept:
        yield "  kept", f"{kept.tokens:,}", _entries(kept.first, kept.last), kept.rule
    if step.reminders:
        size = f"{tokens['reminders']:,}" if "reminders" in tokens else ""
        yield "reminders", size, "", one_line(", ".join(step.reminders))


def _grouped(decisions: Sequence[Decision]) -> Iterator[list[Decision]]:
    """Those of one kind together."""
    groups: dict[tuple[str, str], list[Decision]] = {}
    for one in decisions:
        groups.setdefault((one.action, one.rule), []).append(one)
    yield from groups.values()


def _decided(alike: Sequence[Decision]) -> tuple[str, str, str, str]:
    first, last = alike[0].first, alike[-1].last
    times = f"{len(alike)} places in " if len(alike) > 1 else ""
    entries = times + _entries(first, last)
    tokens = f"{sum(one.before for one in alike):,} → {sum(one.after for one in alike):,}"
    return f"  {alike[0].action}", tokens, entries, alike[0].rule


def _entries(first: int, last: int) -> str:
    return f"#{first}" if first == last else f"#{first} to #{last}"


def _bar(step: ToldStep) -> Iterator[str]:
    window, reserve, taken = step.tokens["window"], step.tokens.get("reserve", 0), used(step.tokens)
    free = window - reserve - taken
    full = min(BAR, -(-taken * BAR // window))
    kept = min(BAR - full, -(-reserve * BAR // window))
    yield f"[{'#' * full}{'.' * (BAR - full - kept)}{'+' * kept}]"
    parts = [f"# {taken:,} used", f". {max(0, free):,} free", f"+ {reserve:,} for the answer"]
    yield f"{', '.join(parts if reserve else parts[:2])}, of {window:,} tokens"
    if not step.fits:
        yield f"it is {-free:,} tokens over" + ("; nothing was sent" if step.kept else "")


def _source(step: ToldStep) -> str:
    source, confidence = step.counted
    return f"{_NUMBERS_OF.get(source, one_line(source))}; confidence {one_line(confidence)}"


def _differences(step: ToldStep) -> Iterator[str]:
    for group, changes in step.policy.items():
        for name, value in changes.items():
            origin = step.origins.get(f"{group}.{name}", "")
            yield one_line(f"{group}.{name} = {value}" + (f" ({origin})" if origin else ""))


# --- two steps --------------------------------------------------------------------------------------


def _difference_lines(found: ToldDifference) -> Iterator[str]:
    before, after = found.before, found.after
    yield f"step {before.step} (#{before.seq}) → step {after.step} (#{after.seq})"
    yield f"{used(before.tokens):,} → {used(after.tokens):,} tokens, {before.messages[0]} → " + counted(
        after.messages[0], "message"
    )
    if found.same_prefix:
        yield "the later one begins with what the earlier one said"
    for change in found.changes:
        yield f"the beginning changed in step {change.step}: {one_line(change.why)}"
    rows = [*_difference_rows(found)]
    if rows:
        yield ""
        yield from aligned(rows)


def _difference_rows(found: ToldDifference) -> Iterator[tuple[str, str, str]]:
    for sign, entries in (("-", found.removed), ("+", found.added)):
        for entry in entries:
            yield sign, f"#{entry.seq} {entry.type}", cut(one_line(entry.text), 60)
    for sign, decisions in (("-", found.decided), ("+", found.withdrawn)):
        for alike in _grouped(decisions):
            action, tokens, places, rule = _decided(alike)
            undone = " no more" if sign == "+" else ""
            yield sign, f"{places} {action.strip()}{undone}", f"{tokens} tokens, by the rules of {rule}"
    yield from _appeared("fence", _kinds(found.before), _kinds(found.after))
    yield from _appeared("reminder", found.before.reminders, found.after.reminders)


def _kinds(step: ToldStep) -> list[str]:
    return [fence.kind for fence in step.fences]


def _appeared(what: str, before: Iterable[str], after: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    before, after = list(before), list(after)
    yield from (("+", what, one_line(one)) for one in after if one not in before)
    yield from (("-", what, one_line(one)) for one in before if one not in after)
