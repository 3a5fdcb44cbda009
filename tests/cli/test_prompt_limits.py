"""Limits of a run, from the command line and the settings."""

from __future__ import annotations

from typing import Any

import pytest

from ostler.schema.usage import Usage
from ostler.testkit.vendors import Answer, Turn, call, turn
from tests.support.command import Ostler, use
from tests.support.fixtures import InProcess, Serve
from tests.support.open_runs import SILENCE, facts, only_session

PRICED = """
[models."openai/fake"]
prices = { input = 1000000, output = 1000000 }
"""


def busy(request: dict[str, Any]) -> Turn:
    """Never done; each answer uses 15 tokens."""
    return turn(call("ls", {"path": "." + "/." * len(request["messages"])}))


def delegating(request: dict[str, Any]) -> Answer:
    """Hands everything on, as deep as it goes."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return turn("Done.")
    return turn(call("delegate", {"task": f"{last['content']}x"}))


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        (("--max-tokens", "40"), "the limit of 40 tokens was reached: 30 are used"),
        (("--max-cost", "40"), "the limit of $40 was reached: $30 is used"),
    ],
    ids=["tokens", "cost"],
)
def test_exit_code_5_for_a_used_up_budget(
    ostler: Ostler, serve: Serve, limit: tuple[str, ...], reason: str
) -> None:
    ostler.configure(PRICED)
    vendor = serve(by=busy)
    ran = ostler("-p", *use(vendor), *limit, "go")
    assert (ran.code, ran.out) == (5, "") and ran.err.endswith(f"ostler: limit: {reason}\n")
    assert len(vendor.requests) == 2


def test_a_near_limit_warns_once(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve(by=busy)), "--max-steps", "6", "go")
    assert ran.err == "ostler: 5 of 6 steps are used\nostler: limit: the limit of 6 steps was reached\n"


def test_exit_code_5_for_a_time_limit(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(SILENCE)
    ran = ostler("-p", *use(vendor), "--max-seconds", "0.2", "go")
    assert ran.code == 5 and "limit: the limit of 0.2 seconds was reached" in ran.err


def test_limits_apply_to_the_whole_tree(ostler: Ostler, serve: Serve) -> None:
    none = ostler("-p", "--json", *use(serve(by=delegating)), "--yes", "--max-children", "0", "go")
    (ended,) = none.all("child_ended")
    assert (ended["status"], ended["reason"]) == ("limit", "the limit of 0 children was reached")
    flat = ostler("-p", "--json", *use(serve(by=delegating)), "--yes", "--max-depth", "1", "go")
    deeper = [one["event"] for one in flat.all("child_event") if one["event"]["type"] == "tool_result"]
    assert "the limit of 1 levels of children was reached" in str(deeper)
    steps = ostler("-p", *use(serve(by=delegating)), "--yes", "--max-steps", "2", "go")
    assert steps.code == 5


def test_children_are_nested_at_most_three_deep_by_default(ostler: Ostler, serve: Serve) -> None:
    ostler("-p", *use(serve(by=delegating)), "--yes", "go")
    listed = ostler("runs", "--all", "--json").lines
    assert [(row.get("depth", 0), row["status"]) for row in listed] == [
        (0, "completed"),
        (1, "completed"),
        (2, "completed"),
        (3, "completed"),
        (4, "limit"),
    ]


def test_a_limit_comes_from_the_settings_and_is_logged(ostler: Ostler, serve: Serve) -> None:
    ostler.configure(f"max_tokens = 100000\nmax_cost = 0.5\nmax_seconds = 600\nmax_children = 4\n{PRICED}")
    vendor = serve(turn("ok", usage=Usage()))
    assert ostler("-p", *use(vendor), "--max-seconds", "60", "go", OSTLER_MAX_DEPTH="2").code == 0
    started = facts(ostler, only_session(ostler))[1]
    assert started["limits"] == {
        "tokens": 100000,
        "cost": 0.5,
        "seconds": 60.0,
        "depth": 2,
        "children": 4,
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--max-cost", "0"), "'0' is not a number above 0"),
        (("--max-cost", "nan"), "'nan' is not a number above 0"),
        (("--max-seconds", "inf"), "'inf' is not a number above 0"),
        (("--max-tokens", "many"), "'many' is not a whole number of at least 1"),
        (("--max-children", "-1"), "'-1' is not a whole number of at least 0"),
        (("--max-depth", "1.5"), "'1.5' is not a whole number of at least 0"),
    ],
)
def test_invalid_limits_are_refused(
    in_process: InProcess, arguments: tuple[str, ...], complaint: str
) -> None:
    code, out, err = in_process("-p", "--model", "demo", *arguments, "go")
    assert (code, out, err.count("\n")) == (2, "", 1) and complaint in err


def test_a_project_may_lower_a_limit_but_not_raise_it(ostler: Ostler, serve: Serve) -> None:
    ostler.configure("max_cost = 1.5\n")
    project = ostler.work / "ostler.toml"
    project.write_text("max_cost = 1.25\nmax_depth = 1\n")
    vendor = serve(turn("ok", usage=Usage()), turn("ok", usage=Usage()))
    first = ostler("-p", "--json", *use(vendor), "go")
    assert first.lines[0]["limits"] == {"cost": 1.25, "depth": 1} and "ignored" not in first.err
    project.write_text("max_cost = 1.75\nmax_depth = 9\n")
    second = ostler("-p", "--json", *use(vendor), "go")
    assert second.lines[0]["limits"] == {"cost": 1.5, "depth": 3}
    assert "sets max_cost, max_depth, which is ignored until" in second.err
