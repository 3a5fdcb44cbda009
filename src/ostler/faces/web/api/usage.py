"""What models used, and what that cost."""

from __future__ import annotations

from functools import reduce
from operator import add

import msgspec

from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.runs.costs import By, Group, Spent, spent, start_of_day

usage_operations = Operations("usage")


class UsageQuery(msgspec.Struct, frozen=True):
    by: By = "day"
    since: str = ""
    """Only from that day on: 2026-01-31, today, or 7d for today and the six days before."""


class SessionUsageQuery(UsageQuery, frozen=True):
    by: By = "model"


class Used(msgspec.Struct, frozen=True):
    """What children used stands apart, in each group and in the sum. A cost that is not known is null."""

    groups: list[Group]
    own: Spent
    children: Spent


@usage_operations.add("GET", "/usage")
async def show_usage(server: Server, query: UsageQuery) -> Used:
    """Tokens and dollars of all sessions, by day, model, session or run"""
    return await _used(server, query)


@usage_operations.add("GET", "/sessions/{session}/usage")
async def show_session_usage(server: Server, session: str, query: SessionUsageQuery) -> Used:
    """Tokens and dollars of a session and its children"""
    await server.store.summary(session)
    return await _used(server, query, session)


async def _used(server: Server, query: UsageQuery, session: str = "") -> Used:
    since = start_of_day(query.since) if query.since else 0
    groups, _ = await spent(server.store, (query.by,), since=since, session=session)
    own = reduce(add, [group.own for group in groups], Spent())
    return Used(groups, own, reduce(add, [group.children for group in groups], Spent()))
