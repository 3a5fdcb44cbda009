"""Routes for usage and cost, and for the context of a step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Annotated

import msgspec

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
from ostler.schema.errors import NotFound
from ostler.schema.facts import Fact
from ostler.server.operations import Operations
from ostler.server.state import ServerState

usage_operations = Operations("usage")


class UsageQuery(msgspec.Struct, frozen=True):
    by: By = "day"
    since: str = ""
    """Only since that day: 2026-01-31, today, or 7d for today and the six days before."""


class SessionUsageQuery(UsageQuery, frozen=True):
    by: By = "model"


class Used(msgspec.Struct, frozen=True):
    """Children are counted apart, in each group and in the total. An unknown cost is null."""

    groups: list[Group]
    own: CostTotals
    children: CostTotals


@usage_operations.add("GET", "/usage")
async def show_usage(server: ServerState, query: UsageQuery) -> Used:
    """Tokens and dollars of all sessions, by day, model, session or run"""
    return await _used(server, query)


@usage_operations.add("GET", "/sessions/{session}/usage")
async def show_session_usage(server: ServerState, session: str, query: SessionUsageQuery) -> Used:
    """Tokens and dollars of a session and its children"""
    await server.store.summary(session)
    return await _used(server, query, session)


async def _used(server: ServerState, query: UsageQuery, session: str = "") -> Used:
    since = start_of_day(query.since) if query.since else 0
    groups, _ = await cost_records(server.store, (query.by,), since=since, session=session)
    own = reduce(add, [group.own for group in groups], CostTotals())
    return Used(groups, own, reduce(add, [group.children for group in groups], CostTotals()))


context_operations = Operations("context")
PARTS = ("fixed", "fences", "messages", "reminders")


class Part(msgspec.Struct, frozen=True):
    name: str
    """`fixed` is the system prompt and the tools, `told` what was counted in one, `reserve` is for the
    answer."""
    tokens: int


class StepReport(ContextStep, frozen=True, omit_defaults=True, kw_only=True):
    """A step, and its context meter."""

    last: int
    """The number of the last step."""
    used: int
    window: int
    """0 if nothing was counted."""
    parts: tuple[Part, ...]
    """Parts that add up to the window."""


class StepQuery(msgspec.Struct, frozen=True):
    step: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Counted over the whole session; default: the last one."""


@context_operations.add("GET", "/sessions/{session}/context")
async def show_context(server: ServerState, session: str, query: StepQuery) -> StepReport:
    """What the model got in a step, and which rule put it there"""
    return await asyncio.to_thread(_step, await server.store.read(session), query.step)


def _step(facts: Sequence[Fact], number: int) -> StepReport:
    steps = _steps(facts)
    step = with_compactions(numbered(steps, number or len(steps)), facts)
    window = step.tokens.get("window", 0)
    return StepReport(
        **{name: getattr(step, name) for name in step.__struct_fields__},
        last=len(steps),
        used=used_tokens(step.tokens),
        window=window,
        parts=_parts(step, window),
    )


def _steps(facts: Sequence[Fact]) -> list[ContextStep]:
    steps = context_steps(facts)
    if not steps:
        raise NotFound("no model was called in this session yet")
    return steps


def _parts(step: ContextStep, window: int) -> tuple[Part, ...]:
    if not window:
        return ()
    tokens = step.tokens
    parts = [Part(name, tokens[name]) for name in PARTS if tokens.get(name)]
    rest = used_tokens(tokens) - sum(part.tokens for part in parts)
    if rest > 0:
        parts.append(Part("told", rest))
    if reserve := tokens.get("reserve", 0):
        parts.append(Part("reserve", reserve))
    return (*parts, Part("free", max(0, window - sum(part.tokens for part in parts))))


class DifferenceQuery(msgspec.Struct, frozen=True):
    before: Annotated[int, msgspec.Meta(ge=1)]
    after: Annotated[int, msgspec.Meta(ge=1)]


@context_operations.add("GET", "/sessions/{session}/context/difference")
async def show_context_difference(
    server: ServerState, session: str, query: DifferenceQuery
) -> ContextDifference:
    """The difference between what the model got in two steps"""
    facts = await server.store.read(session)
    first, last = sorted((query.before, query.after))

    def compare() -> ContextDifference:
        steps = _steps(facts)
        return difference(numbered(steps, first), numbered(steps, last), facts)

    return await asyncio.to_thread(compare)
