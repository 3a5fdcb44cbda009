"""`ostler audit`: the decisions in a session and their reasons."""

from __future__ import annotations

import json
import re

import pytest

from ostler.testkit.vendors import call, turn
from tests.support.command import Ostler, use
from tests.support.fixtures import Serve
from tests.support.open_runs import parent_and_child


@pytest.fixture
def session(ostler: Ostler, serve: Serve) -> str:
    """One in which a file was looked at, and a command refused."""
    vendor = serve(
        turn("I look, then I remove it.", call("ls", {"path": "."}), call("bash", {"command": "rm -r ."})),
        turn("I may not."),
    )
    ran = ostler("-p", "--json", "clean up", *use(vendor))
    assert ran.code == 4
    return str(ran.facts[0]["session"])


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in text.splitlines()]


def test_decisions_are_listed_with_their_reasons(ostler: Ostler, session: str) -> None:
    ran = ostler("audit", session)
    assert (ran.code, ran.err) == (0, "")
    heading, *listed = rows(ran.out)
    assert heading == ["#", "TIME", "ACTION", "WHAT", "WHY"]
    actions = [row[2] for row in listed]
    assert actions[:2] == ["session.start", "run.start"] and actions[-1] == "run.end"
    assert {"model.select", "tool.allow", "tool.deny", "call.finish"} <= {*actions}
    (denied,) = [row for row in listed if row[2] == "tool.deny"]
    assert denied[3] == "bash rm -r ."
    assert denied[4].startswith("permissions are read-only: tools that run commands are refused")


def test_json_has_one_entry_per_line(ostler: Ostler, session: str) -> None:
    ran = ostler("audit", session[:12], "--json")
    assert {line["session"] for line in ran.lines} == {session}
    assert [line["actor"] for line in ran.lines if line["action"] == "tool.deny"] == ["system"]


def test_why_shows_what_led_to_one_call(ostler: Ostler, session: str) -> None:
    (denied,) = [line for line in ostler("audit", session, "--json").lines if line["action"] == "tool.deny"]
    by_id = ostler("audit", session, "--why", denied["call"])
    assert by_id.out.splitlines()[:2] == ["bash: rm -r .", "the model said: I look, then I remove it."]
    _, _, _, _, *listed = rows(by_id.out)
    assert [row[2] for row in listed] == ["run.start", "model.select", "tool.deny"]
    assert ostler("audit", session, "--why", f"#{denied['seq']}").out == by_id.out
    output = ostler("sessions", "show", session).out
    (number,) = re.findall(r"(?m)^(#\d+) bash: rm", output)
    assert ostler("audit", session, "--why", number).out == by_id.out
    lines = ostler("audit", session, "--why", number, "--json").lines
    assert [line["action"] for line in lines] == ["run.start", "model.select", "tool.deny"]


def test_a_terminal_gets_lines_that_fit(ostler: Ostler, session: str) -> None:
    ran = ostler.on_terminal("audit", session, columns=72)
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 72


def test_a_missing_item_is_reported_in_one_line(ostler: Ostler, session: str) -> None:
    for arguments, complaint in (
        (("ses_nobody",), "ses_nobody"),
        ((session, "--why", "999"), "the session has no call 999"),
    ):
        ran = ostler("audit", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert complaint in ran.err and ran.err.count("\n") == 1


def test_without_a_store_nothing_is_listed_and_none_is_created(ostler: Ostler) -> None:
    ran = ostler("audit", "ses_x")
    assert (ran.code, ran.err) == (2, "ostler: there are no sessions yet; `ostler -p PROMPT…` starts one\n")
    assert not ostler.home.exists()


def test_the_setting_writes_a_file_for_all_sessions(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("one"), turn("two"))
    for _ in range(2):
        assert ostler("-p", "hello", *use(vendor), OSTLER_AUDIT="~/audit.jsonl").code == 0
    lines = [json.loads(line) for line in (ostler.home / "audit.jsonl").read_text().splitlines()]
    assert [line["action"] for line in lines if line["action"].startswith("run.")] == [
        "run.start",
        "run.end",
        "run.start",
        "run.end",
    ]
    assert len({line["session"] for line in lines}) == 2


def test_an_unwritable_audit_is_reported_and_stops_nothing(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("one"), turn("two"))
    ran = ostler("-p", "hello", *use(vendor), OSTLER_AUDIT=str(ostler.work))
    assert (ran.code, ran.out) == (0, "one\n")
    assert ran.err == (
        f"ostler: the audit file {ostler.work} cannot be written (Is a directory): it gets no more entries\n"
    )
    ran = ostler("-p", "hello", *use(vendor), OSTLER_AUDIT="audit.jsonl")
    assert ran.code == 2 and "audit must be a whole path" in ran.err
    ran = ostler("-p", "hello", *use(vendor), OSTLER_AUDIT="log")
    assert "ostler: audit: run.end: completed\n" in ran.err


def test_answers_and_cancels_of_other_commands_are_audited(ostler: Ostler, serve: Serve) -> None:
    _, parent, child = parent_and_child(ostler, serve)
    ostler.configure(f'audit = "{ostler.work}/audit.jsonl"')
    ostler("answer", parent, "yes", "--record-only")
    ostler("cancel", parent)
    lines = (ostler.work / "audit.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    decided = [(entry["session"], entry["action"]) for entry in entries]
    assert len({(entry["session"], entry["seq"]) for entry in entries}) == len(entries)
    assert decided[0] == (child, "permission.answer")
    assert {(parent, "run.cancel"), (child, "run.cancel")} <= {*decided}
