"""The usage of model calls by day, model, session or run, with that of children apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Literal

import msgspec

from ostler.core.store import SessionSummary, Store
from ostler.schema.errors import UsageError
from ostler.schema.events import UsageReported
from ostler.schema.facts import Fact
from ostler.schema.text import plural
from ostler.schema.usage import NOTHING_USED, Usage

By = Literal["day", "model", "session", "run"]

_DAYS = re.compile(r"([1-9]\d*)d")
_SMALLEST = 0.0001
"""The smallest amount that is shown as a number."""


class CostTotals(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sum of some model calls. `usage.cost` is None if the cost of one of them is unknown; `known_cost`
    is the sum of the others."""

    calls: int = 0
    usage: Usage = NOTHING_USED
    known_cost: float | None = None
    unpriced_calls: int = 0
    """Calls of unknown price."""
    estimated_calls: int = 0
    """Calls whose tokens were not counted by the vendor."""
    unreported_calls: int = 0
    """Calls whose tokens are unknown: they failed, or were cut."""

    @classmethod
    def by(cls, usage: Usage) -> CostTotals:
        """The totals of one call."""
        return cls(
            calls=1,
            usage=usage,
            known_cost=usage.cost,
            unpriced_calls=int(usage.cost is None),
            estimated_calls=int(usage.source == "estimated"),
            unreported_calls=int(usage.source == "unknown"),
        )

    def __add__(self, other: CostTotals) -> CostTotals:
        return CostTotals(
            calls=self.calls + other.calls,
            usage=self.usage + other.usage,
            known_cost=_sum_of_known(self.known_cost, other.known_cost),
            unpriced_calls=self.unpriced_calls + other.unpriced_calls,
            estimated_calls=self.estimated_calls + other.estimated_calls,
            unreported_calls=self.unreported_calls + other.unreported_calls,
        )

    def in_words(self) -> str:
        """The price, and which part of the numbers is estimated or missing."""
        words = [self._price()]
        if self.estimated_calls:
            words.append(f"tokens of {plural(self.estimated_calls, 'call')} estimated")
        if self.unreported_calls:
            words.append(f"tokens of {plural(self.unreported_calls, 'call')} unknown")
        return "; ".join(words)

    def _price(self) -> str:
        if not self.unpriced_calls:
            return dollars(self.known_cost) if self.known_cost else "no charge"
        if not self.known_cost:
            return "unknown"
        least = f"at least {dollars(self.known_cost)}" if self.known_cost >= _SMALLEST else "more than $0.00"
        return f"{least}, {plural(self.unpriced_calls, 'call')} of unknown price"


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """The calls with this day, model, session and run; the fields that the grouping omits are empty."""

    day: str = ""
    model: str = ""
    session: str = ""
    run: str = ""
    """Also empty for calls between runs."""
    own: CostTotals = CostTotals()
    children: CostTotals = CostTotals()


async def cost_records(
    store: Store, by: Sequence[By], *, since: int = 0, session: str = ""
) -> tuple[list[Group], list[SessionSummary]]:
    """The usage in groups, and all sessions; with `session`, the usage of that one and its children."""
    sessions = await store.sessions()
    parents = {one.id: one.child_of for one in sessions}
    if not session:
        usages = await store.usages(since_ms=since)
    else:
        parents[session] = ""
        family = [one for one in parents if root_of(one, parents) == session]
        usages = [fact for one in family for fact in await store.usages(since_ms=since, session=one)]
        usages.sort(key=lambda fact: fact.time_ms)
    return grouped(usages, by, parents), sessions


def start_of_day(text: str) -> int:
    """The start of `2026-01-31`, `today` or, for `7d`, the first of the last seven days, in milliseconds."""
    try:
        if days := _DAYS.fullmatch("1d" if text == "today" else text):
            day = date.today() - timedelta(days=int(days[1]) - 1)
        else:
            day = date.fromisoformat(text)
        return int(datetime.combine(day, time.min).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a day: use 2026-01-31, today, or 7d for the last 7 days") from None


def grouped(
    usages: Iterable[Fact], by: Sequence[By], parents: Mapping[str, str], zone: tzinfo | None = None
) -> list[Group]:
    """The sums of `usages`, sorted by day and model, then in the order of first use.

    `parents` maps every session to its parent, or to "". Children count for the session at their root; only
    by run do they count for themselves. Days are those of `zone`, or of this machine.
    """
    groups: dict[Group, Group] = {}
    for fact, event in _each_call_once(usages):
        root = root_of(fact.session, parents)
        names = Group(
            day=datetime.fromtimestamp(fact.time_ms / 1000, zone).date().isoformat() if "day" in by else "",
            model=event.model if "model" in by else "",
            session=fact.session if "run" in by else root if "session" in by else "",
            run=fact.run if "run" in by else "",
        )
        group, spent = groups.get(names, names), CostTotals.by(event.usage)
        total = {"own": group.own + spent} if fact.session == root else {"children": group.children + spent}
        groups[names] = msgspec.structs.replace(group, **total)
    return sorted(groups.values(), key=lambda group: (group.day, group.model))


def root_of(session: str, parents: Mapping[str, str]) -> str:
    """The topmost known ancestor of a session, or the session itself."""
    while (parent := parents.get(session, "")) in parents:
        session = parent
    return session


def dollars(amount: float) -> str:
    """With as many digits as a small amount needs: only zero is shown as zero."""
    if 0 < amount < _SMALLEST:
        return "under $0.0001"
    if amount >= 1:
        return f"${amount:,.2f}"
    whole, _, digits = f"{amount:.4f}".partition(".")
    return f"${whole}.{digits.rstrip('0'):0<2}"


def _each_call_once(usages: Iterable[Fact]) -> Iterator[tuple[Fact, UsageReported]]:
    """Skips the copies that an imported session has of its original's calls."""
    seen: set[tuple[str, int]] = set()
    for fact in usages:
        event = fact.event
        assert isinstance(event, UsageReported)
        if (event.call, fact.time_ms) not in seen:
            seen.add((event.call, fact.time_ms))
            yield fact, event


def _sum_of_known(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def priced(cost: float | None) -> str:
    return "cost unknown" if cost is None else dollars(cost) if cost else "no charge"
