"""`ostler cost`: the usage of models, from the facts of all sessions."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest

from ostler import main
from ostler.schema.events import Record, SessionRenamed, SessionStarted, UsageReported
from ostler.schema.facts import Fact
from ostler.schema.usage import Usage
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import Refusal, turn
from tests.support.command import KEY, Ostler, Ran, use
from tests.support.fixtures import Serve

PRICED = Usage(1000, 200, cache_read_tokens=30, cache_write_tokens=4, reasoning_tokens=5, cost=0.12)
UNPRICED = Usage(100, 20)
PARENT, CHILD = "ses_parent000000", "ses_child0000000"


def rows(ran: Ran) -> list[list[str]]:
    assert (ran.code, ran.err) == (0, "")
    return [re.split(r" {2,}", line) for line in ran.out.splitlines()]


def words(ran: Ran) -> list[str]:
    return [" ".join(row) for row in rows(ran)]


def put(ostler: Ostler, session: str, *used: tuple[datetime, Usage], child_of: str = "") -> None:
    """A session with a call for each of these times."""
    began = used[0][0]
    recorded: list[tuple[datetime, Record]] = [
        (began, SessionStarted("/", "0", child_of=child_of)),
        (began, SessionRenamed(f"The title of {session}")),
    ]
    recorded += [
        (at, UsageReported(f"msg_{session}_{number}", "a/model", usage, usage))
        for number, (at, usage) in enumerate(used)
    ]
    facts = [
        Fact.of(event, seq=seq, session=session, run="run_1", time_ms=int(at.timestamp() * 1000))
        for seq, (at, event) in enumerate(recorded, 1)
    ]

    async def write() -> None:
        ostler.home.mkdir(exist_ok=True)
        store = SqliteStore(ostler.store)
        await store.import_session(facts)
        await store.close()

    asyncio.run(write())


@pytest.fixture
def family(ostler: Ostler) -> None:
    """A session with two calls, and its child with one."""
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    put(ostler, PARENT, (at, PRICED), (at, UNPRICED))
    put(ostler, CHILD, (at, PRICED), child_of=PARENT)


def test_without_a_store_nothing_is_listed_and_none_is_created(ostler: Ostler) -> None:
    ran = ostler("cost")
    assert (ran.code, ran.out, ran.err) == (
        0,
        "",
        "ostler: there are no sessions yet; `ostler -p PROMPT…` starts one\n",
    )
    assert ostler("cost", "--session", "x").code == 2
    assert not ostler.home.exists()


def test_an_unknown_price_is_unknown_and_a_local_server_is_free(ostler: Ostler, serve: Serve) -> None:
    used = Usage(300, 40, cache_read_tokens=20, cache_write_tokens=10, reasoning_tokens=7)
    vendor = serve(turn("one", usage=used), turn("two", usage=used), Refusal(400, "not today"))
    own = ("--model", "ollama/llama", "--base-url", vendor.chat_url)
    ostler("-p", *own, "hello")
    assert words(ostler("cost", "--by", "model"))[-1] == "total 1 300 20 10 40 7 no charge"
    ostler("-p", *use(vendor), "hello")
    ostler("-p", *use(vendor), "hello")
    ran = ostler("cost", "--by", "model")
    assert words(ran) == [
        "MODEL CALLS INPUT CACHED TO CACHE OUTPUT REASONING COST",
        "ollama/llama 1 300 20 10 40 7 no charge",
        "openai/fake 2 300 20 10 40 7 unknown",
        "total 3 600 40 20 80 14 unknown",
    ]
    assert KEY not in ran.out


def test_by_default_there_is_a_row_for_each_day_and_model(ostler: Ostler) -> None:
    evening = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
    put(ostler, "ses_1", (evening - timedelta(hours=12), PRICED), (evening, UNPRICED))
    at_home = rows(ostler("cost", TZ="UTC"))
    assert [(row[0], row[-1]) for row in at_home] == [
        ("DAY", "COST"),
        ("2026-01-31", "at least $0.12, 1 call of unknown price"),
        ("total", "at least $0.12, 1 call of unknown price"),
    ]
    east = rows(ostler("cost", TZ="EAST-1"))
    assert [row[:3] for row in east[1:3]] == [["2026-01-31", "a/model", "1"], ["2026-02-01", "a/model", "1"]]
    assert [row[-1] for row in east[1:]] == ["$0.12", "unknown", at_home[-1][-1]]


def test_since_begins_at_the_start_of_a_local_day(ostler: Ostler) -> None:
    now = datetime.now(UTC)
    noon = f"NOON{now.hour - 12}"  # a zone where it is noon, so that no midnight comes in between
    put(ostler, "ses_1", *[(now - timedelta(days=days), UNPRICED) for days in (9, 2, 1, 0)])

    def calls(since: str) -> str:
        return rows(ostler("cost", "--by", "day", "--since", since, TZ=noon))[-1][1]

    local = now - timedelta(hours=now.hour - 12)
    assert [calls(since) for since in ("today", "1d", "2d", "7d", "10d")] == ["1", "1", "2", "3", "4"]
    assert calls((local - timedelta(days=2)).date().isoformat()) == "3"
    later = ostler("cost", "--since", (local + timedelta(days=1)).date().isoformat(), TZ=noon)
    assert (later.code, later.out, later.err) == (0, "", "ostler: no model was called since then\n")


@pytest.mark.parametrize(
    "since", ["", "soon", "0d", "-1d", "d", "7 d", "2026-02-30", "99999999999d", "0001-01-01"]
)
def test_an_invalid_day_is_refused_in_one_line(since: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["cost", f"--since={since}"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"{since!r} is not a day: use 2026-01-31, today, or 7d" in err


@pytest.mark.usefixtures("family")
def test_the_usage_of_children_has_its_own_rows(ostler: Ostler) -> None:
    assert [(*row[:-7], row[-7], row[-1]) for row in rows(ostler("cost", "--by", "session"))[1:]] == [
        (PARENT, f"The title of {PARENT}", "2", "at least $0.12, 1 call of unknown price"),
        (PARENT, f"children: The title of {PARENT}", "1", "$0.12"),
        ("own", "2", "at least $0.12, 1 call of unknown price"),
        ("children", "1", "$0.12"),
        ("total", "3", "at least $0.24, 1 call of unknown price"),
    ]
    by_run = rows(ostler("cost", "--by", "run"))
    assert [row[:3] for row in by_run[1:3]] == [[PARENT, "run_1", "2"], [CHILD, "children: run_1", "1"]]


@pytest.mark.usefixtures("family")
def test_one_session_is_listed_with_its_children(ostler: Ostler) -> None:
    put(ostler, "ses_other0000000", (datetime(2026, 1, 31, tzinfo=UTC), PRICED))
    of_parent, of_child = (
        rows(ostler("cost", "--by", "model", "--session", one[:8])) for one in (PARENT, CHILD)
    )
    assert [(row[0], row[1]) for row in of_parent[1:]] == [
        ("a/model", "2"),
        ("children: a/model", "1"),
        ("own", "2"),
        ("children", "1"),
        ("total", "3"),
    ]
    assert [(row[0], row[1]) for row in of_child[1:]] == [("a/model", "1"), ("total", "1")]
    nowhere = ostler("cost", "--session", "ses_x")
    assert (nowhere.code, nowhere.err.count("\n")) == (2, 1)


@pytest.mark.usefixtures("family")
def test_json_has_no_number_for_an_unknown_cost(ostler: Ostler) -> None:
    (group,) = ostler("cost", "--json", TZ="UTC").lines
    assert (group["day"], group["model"]) == ("2026-01-31", "a/model")
    assert group["own"] == {
        "calls": 2,
        "usage": {
            "input_tokens": 1100,
            "output_tokens": 220,
            "cache_read_tokens": 30,
            "cache_write_tokens": 4,
            "reasoning_tokens": 5,
        },
        "known_cost": 0.12,
        "unpriced_calls": 1,
    }
    assert group["children"]["usage"]["cost"] == group["children"]["known_cost"] == 0.12
    (group,) = ostler("cost", "--json", "--by", "session").lines
    assert group["session"] == PARENT and "model" not in group


def test_the_totals_equal_those_of_the_runs(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("one"), turn("two"), turn("three"))
    ran = [
        ostler("-p", "--json", "--model", "ollama/llama", "--base-url", vendor.chat_url, *more, "hello")
        for more in ((), ("--continue",), ())
    ]
    ended = [one.all("run_ended")[0] for one in ran]
    by_run = ostler("cost", "--json", "--by", "run").lines
    assert [(one["run"], one["own"]["usage"]) for one in by_run] == [
        (one["run"], one["own"]["usage"]) for one in ended
    ]
    by_session = ostler("cost", "--json", "--by", "session").lines
    assert [(one["session"], one["own"]["usage"]) for one in by_session] == [
        (one["session"], one["cumulative"]) for one in ended[1:]
    ]


@pytest.mark.usefixtures("family")
def test_a_terminal_gets_rows_of_its_width_without_empty_columns(
    ostler: Ostler,
) -> None:
    table = ostler.on_terminal("cost", "--by", "session", columns=90).out.splitlines()
    assert "The title o…" in table[1] and PARENT not in table[1] and table[1].startswith(PARENT[:8])
    assert re.search(r" 1,100 +30 +4 +220 +5  at least \$0.12, 1 call of unknown price$", table[1])
    put(ostler, "ses_other0000000", (datetime(2026, 2, 1, tzinfo=UTC), UNPRICED))
    day = ostler.on_terminal("cost", "--by", "day", "--since", "2026-02-01", columns=90).out.splitlines()
    assert day[0].split() == ["DAY", "CALLS", "INPUT", "OUTPUT", "COST"]
