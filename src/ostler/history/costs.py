"""What model calls used, summed up by day, model, session or run; the children's part apart."""

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
from ostler.schema.usage import NOTHING_USED, Usage

By = Literal["day", "model", "session", "run"]

_DAYS = re.compile(r"([1-9]\d*)d")

_SMALLEST = 0.0001
"""The least that is shown as an amount."""


class CostTotals(msgspec.Struct, frozen=True, omit_defaults=True):
    """What some model calls used together.

    `usage.cost` is unknown as soon as that of one call is; `known_cost` is what the others cost, if there
    are others.
    """

    calls: int = 0
    usage: Usage = NOTHING_USED
    known_cost: float | None = None
    unpriced_calls: int = 0
    """Calls of unknown price."""
    estimated_calls: int = 0
    """Calls whose tokens were not counted by the vendor."""
    unreported_calls: int = 0
    """Calls whose tokens nobody knows: they failed, or were cut."""

    @classmethod
    def by(cls, usage: Usage) -> CostTotals:
        """By one call."""
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
        """The price, and which part of the numbers is missing or a guess."""
        words = [self._price()]
        if self.estimated_calls:
            words.append(f"tokens of {_calls(self.estimated_calls)} estimated")
        if self.unreported_calls:
            words.append(f"tokens of {_calls(self.unreported_calls)} unknown")
        return "; ".join(words)

    def _price(self) -> str:
        if not self.unpriced_calls:
            return dollars(self.known_cost) if self.known_cost else "no charge"
        if not self.known_cost:
            return "unknown"
        known = f"at least {dollars(self.known_cost)}" if self.known_cost >= _SMALLEST else "more than $0.00"
        return f"{known}, {_calls(self.unpriced_calls)} of unknown price"


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """The calls that have these names in common. Names that were not asked for are empty."""

    day: str = ""
    model: str = ""
    session: str = ""
    run: str = ""
    """Also empty for calls that were made between runs."""
    own: CostTotals = CostTotals()
    children: CostTotals = CostTotals()


async def cost_records(
    store: Store, by: Sequence[By], *, since: int = 0, session: str = ""
) -> tuple[list[Group], list[SessionSummary]]:
    """What was used, in groups, and all sessions; with `session`, by that one and its children."""
    known = await store.sessions()
    parents = {one.id: one.child_of for one in known}
    if not session:
        usages = await store.usages(since_ms=since)
    else:
        parents[session] = ""
        family = [one for one in parents if root_of(one, parents) == session]
        found = [await store.usages(since_ms=since, session=one) for one in family]
        usages = sorted([fact for facts in found for fact in facts], key=lambda fact: fact.time_ms)
    return grouped(usages, by, parents), known


def start_of_day(text: str) -> int:
    """The first moment of the day that was meant, in milliseconds."""
    try:
        if days := _DAYS.fullmatch("1d" if text == "today" else text):
            day = date.today() - timedelta(days=int(days[1]) - 1)
        else:
            day = date.fromisoformat(text)
        return int(datetime.combine(day, time.min).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no day: say 2026-01-31, today, or 7d for the last seven days"
        ) from None


def grouped(
    usages: Iterable[Fact], by: Sequence[By], parents: Mapping[str, str], zone: tzinfo | None = None
) -> list[Group]:
    """What `usages` add up to: by day and model in order, sessions and runs as they were first used.

    `parents` maps every session to the one whose child it is, or to "". Children count for the session
    at their root; only a child's run stands for itself. Days are those of `zone`, or of this machine.
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
        if fact.session == root:
            groups[names] = msgspec.structs.replace(group, own=group.own + spent)
        else:
            groups[names] = msgspec.structs.replace(group, children=group.children + spent)
    return sorted(groups.values(), key=lambda group: (group.day, group.model))


def root_of(session: str, parents: Mapping[str, str]) -> str:
    """The session whose child's child … this is: itself, where its parent is not known."""
    while (parent := parents.get(session, "")) in parents:
        session = parent
    return session


def dollars(amount: float) -> str:
    """With as many digits as small amounts need: what cost something is never shown as nothing."""
    if 0 < amount < _SMALLEST:
        return "under $0.0001"
    if amount >= 1:
        return f"${amount:,.2f}"
    whole, _, digits = f"{amount:.4f}".partition(".")
    return f"${whole}.{digits.rstrip('0'):0<2}"


def _each_call_once(usages: Iterable[Fact]) -> Iterator[tuple[Fact, UsageReported]]:
    """A session that was exported and imported again tells of the same calls as before."""
    seen: set[tuple[str, int]] = set()
    for fact in usages:
        event = fact.event
        assert isinstance(event, UsageReported)
        if (event.call, fact.time_ms) not in seen:
            seen.add((event.call, fact.time_ms))
            yield fact, event


def _calls(number: int) -> str:
    return "1 call" if number == 1 else f"{number} calls"


def _sum_of_known(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def priced(cost: float | None) -> str:

    return "cost unknown" if cost is None else dollars(cost) if cost else "no charge"
