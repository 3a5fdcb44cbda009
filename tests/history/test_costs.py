"""Sums of usage: unknown values stay unknown, and nothing is counted twice."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.core.journal import World
from ostler.core.processes import current_process
from ostler.history.costs import By, CostTotals, Group, dollars, grouped, root_of
from ostler.schema.events import UsageReported, UserMessage
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.schema.usage import UNKNOWN_USAGE, Usage
from ostler.store.fork import fork
from ostler.store.memory import MemoryStore
from ostler.store.portable import export_session, import_session
from tests.support.stored import facts_of, put

FREE = Usage(input_tokens=10, output_tokens=5, cost=0.0)
PRICED = Usage(input_tokens=10, output_tokens=5, cost=0.12)
UNPRICED = Usage(input_tokens=10, output_tokens=5)
ESTIMATED = Usage(input_tokens=10, cost=0.01, source="estimated")
ALONE: Mapping[str, str] = {"ses_one": ""}

_calls = iter(range(10**9))


def used(
    usage: Usage = PRICED,
    *,
    session: str = "ses_one",
    run: str = "run_1",
    model: str = "a/model",
    at: datetime = datetime(2026, 1, 31, 12, tzinfo=UTC),
) -> Fact:
    event = UsageReported(f"msg_{next(_calls)}", model, usage, usage)
    return Fact.of(event, seq=2, session=session, run=run, time_ms=int(at.timestamp() * 1000))


def totals_of(*usages: Usage) -> CostTotals:
    return sum(map(CostTotals.by, usages), start=CostTotals())


@pytest.mark.parametrize(
    ("usages", "words"),
    [
        ([PRICED, PRICED], "$0.24"),
        ([FREE, FREE], "no charge"),
        ([PRICED, FREE], "$0.12"),
        ([UNPRICED], "unknown"),
        ([UNPRICED, UNPRICED], "unknown"),
        ([PRICED, UNPRICED, UNPRICED, UNPRICED], "at least $0.12, 3 calls of unknown price"),
        ([Usage(1, 1, cost=0.00002), UNPRICED], "more than $0.00, 1 call of unknown price"),
        ([FREE, UNPRICED], "unknown"),
        ([UNKNOWN_USAGE], "unknown; tokens of 1 call unknown"),
        ([PRICED, UNKNOWN_USAGE], "at least $0.12, 1 call of unknown price; tokens of 1 call unknown"),
        ([ESTIMATED, ESTIMATED], "$0.02; tokens of 2 calls estimated"),
    ],
)
def test_a_sum_reports_its_missing_parts(usages: list[Usage], words: str) -> None:
    assert totals_of(*usages).in_words() == words


@given(st.lists(st.sampled_from([FREE, PRICED, UNPRICED, ESTIMATED, UNKNOWN_USAGE]), min_size=1))
def test_an_unknown_part_never_becomes_zero(usages: list[Usage]) -> None:
    together = totals_of(*usages)
    is_unknown = any(usage.cost is None for usage in usages)
    assert (together.usage.cost is None) == is_unknown == ("unknown" in together.in_words().split(";")[0])
    amounts = [usage.cost for usage in usages if usage.cost is not None]
    assert together.known_cost == (pytest.approx(sum(amounts)) if amounts else None)
    assert together.usage.input_tokens == sum(usage.input_tokens for usage in usages)
    assert together.calls == len(usages) == together.unpriced_calls + len(amounts)


def test_a_small_amount_is_not_shown_as_zero() -> None:
    texts = [dollars(amount) for amount in (0.5, 0.0123, 0.00012, 0.00004, 0.99999, 1.5, 1234.567)]
    assert texts == ["$0.50", "$0.0123", "$0.0001", "under $0.0001", "$1.00", "$1.50", "$1,234.57"]


def test_days_are_those_of_the_zone() -> None:
    evening = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
    facts = [used(at=evening - timedelta(hours=12)), used(at=evening)]
    assert [group.day for group in grouped(facts, ["day"], ALONE, UTC)] == ["2026-01-31"]
    east = timezone(timedelta(hours=1))
    assert [group.day for group in grouped(facts, ["day"], ALONE, east)] == ["2026-01-31", "2026-02-01"]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (
            ["day"],
            [
                Group(day="2026-01-30", own=totals_of(FREE)),
                Group(day="2026-01-31", own=totals_of(*[PRICED] * 3)),
            ],
        ),
        (
            ["model"],
            [
                Group(model="a/model", own=totals_of(PRICED)),
                Group(model="b/model", own=totals_of(FREE, PRICED, PRICED)),
            ],
        ),
        (
            ["session"],
            [
                Group(session="ses_two", own=totals_of(FREE, PRICED)),
                Group(session="ses_one", own=totals_of(PRICED, PRICED)),
            ],
        ),
        (
            ["run"],
            [
                Group(session="ses_two", run="run_1", own=totals_of(FREE)),
                Group(session="ses_one", run="run_2", own=totals_of(PRICED, PRICED)),
                Group(session="ses_two", own=totals_of(PRICED)),
            ],
        ),
        (
            ["day", "model"],
            [
                Group(day="2026-01-30", model="b/model", own=totals_of(FREE)),
                Group(day="2026-01-31", model="a/model", own=totals_of(PRICED)),
                Group(day="2026-01-31", model="b/model", own=totals_of(PRICED, PRICED)),
            ],
        ),
    ],
)
def test_calls_are_summed_by_the_chosen_groups(by: list[By], expected: list[Group]) -> None:
    facts = [
        used(FREE, session="ses_two", model="b/model", at=datetime(2026, 1, 30, tzinfo=UTC)),
        used(run="run_2", model="b/model"),
        used(run="run_2"),
        used(session="ses_two", run="", model="b/model"),
    ]
    assert grouped(facts, by, {"ses_one": "", "ses_two": ""}, UTC) == expected


def test_children_count_separately_for_their_root_session() -> None:
    parents = {"ses_one": "", "ses_child": "ses_one", "ses_grandchild": "ses_child", "ses_stray": "ses_gone"}
    facts = [used(FREE), *(used(session=one) for one in ("ses_child", "ses_grandchild", "ses_stray"))]
    one, stray = grouped(facts, ["session"], parents)
    assert one == Group(session="ses_one", own=totals_of(FREE), children=totals_of(PRICED, PRICED))
    assert stray == Group(session="ses_stray", own=totals_of(PRICED))
    (model,) = grouped(facts, ["model"], parents)
    assert (model.own.calls, model.children.calls) == (2, 2)
    runs = grouped(facts, ["run"], parents)
    assert [(run.session, run.own.calls, run.children.calls) for run in runs] == [
        ("ses_one", 1, 0),
        ("ses_child", 0, 1),
        ("ses_grandchild", 0, 1),
        ("ses_stray", 1, 0),
    ]
    assert root_of("ses_grandchild", parents) == "ses_one"


async def test_forks_and_imports_are_not_counted_twice() -> None:
    store = MemoryStore()
    usage = UsageReported("msg_1", "a/model", PRICED, PRICED)
    await put(store, facts_of(UserMessage(as_content("hello")), usage, UserMessage(as_content("and?"))))
    await fork(store, "ses_one", None, World())
    lines = [line async for line in export_session(store, "ses_one")]
    imported = (await import_session(store, lines, "/", World())).session

    async def total() -> list[Group]:
        return grouped(await store.usages(), ["model"], {one.id: "" for one in await store.sessions()})

    assert [fact.session for fact in await store.usages()] == ["ses_one", imported]
    assert await total() == [Group(model="a/model", own=totals_of(PRICED))]
    await store.delete("ses_one", current_process())
    assert await total() == [Group(model="a/model", own=totals_of(PRICED))]
