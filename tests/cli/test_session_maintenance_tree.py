"""`ostler sessions tree|navigate|label|collapse`: branches in one session."""

from __future__ import annotations

import re

from ostler.testkit.vendors import FakeVendor, Refusal, call, turn
from tests.support.command import KEY, Ostler, use
from tests.support.fixtures import Serve


def branched(ostler: Ostler, vendor: FakeVendor) -> tuple[str, int]:
    """A session with two runs, led back to the end of the first; its id, and the end of the branch left."""
    (ostler.work / "a.txt").write_text("text\n")
    ostler("-p", *use(vendor), "look")
    ostler("-p", *use(vendor), "--continue", "one way")
    (session,) = [one["id"] for one in ostler("sessions", "--json").lines]
    entries = ostler("sessions", "tree", session, "--json").lines
    first_answer = [one["seq"] for one in entries if one["type"] == "assistant_message"][1]
    assert entries[-1]["leaf"]
    ran = ostler("sessions", "navigate", session, f"#{first_answer}")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    return session, entries[-1]["seq"]


ANSWERS = (turn("I look.", call("read", {"path": "a.txt"})), turn("seen"), turn("a dead end"))


def test_navigating_back_and_prompting_makes_a_branch(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(*ANSWERS, turn("better"))
    session, _ = branched(ostler, vendor)
    assert ostler("-p", *use(vendor), "--session", session, "another way").out == "better\n"
    messages = [one["content"] for one in vendor.requests[-1].json["messages"] if one["role"] == "user"]
    assert messages == ["look", "another way"]
    rows = ostler("sessions", "tree", session).out.splitlines()
    assert [line.split(" ", 1)[1] for line in rows[:3]] == [
        "you: look",
        "assistant: I look.",
        "assistant: seen",
    ]
    assert [re.sub(r"#\d+", "#", line) for line in rows[3:]] == [
        "├─ # you: one way",
        "│  # assistant: a dead end",
        "└─ # you: another way",
        "   # assistant: better  ← leaf",
    ]
    assert "a dead end" not in ostler("sessions", "show", session).out
    assert ostler("sessions", "check").code == 0


def test_entries_can_be_labelled_and_unlabelled(ostler: Ostler, serve: Serve) -> None:
    session, _ = branched(ostler, serve(*ANSWERS))
    results = [
        one["seq"]
        for one in ostler("sessions", "tree", session, "--json").lines
        if one["type"] == "tool_result"
    ]
    assert " result: " not in ostler("sessions", "tree", session).out
    ostler("sessions", "label", session, str(results[0]), "what", "was", "read")
    assert f"#{results[0]} result: read  [what was read]\n" in ostler("sessions", "tree", session).out
    ostler("sessions", "label", session, str(results[0]))
    assert " result: " not in ostler("sessions", "tree", session).out


def test_a_missing_entry_is_refused(ostler: Ostler, serve: Serve) -> None:
    session, _ = branched(ostler, serve(*ANSWERS))
    for command, wrong in (("navigate", "1"), ("label", "999"), ("label", "0"), ("collapse", "1")):
        ran = ostler("sessions", command, session, wrong, OPENAI_API_KEY=KEY)
        assert (ran.code, ran.out, ran.err) == (2, "", f"ostler: there is no entry {wrong}\n")
    assert ostler("sessions", "navigate", session, "x").code == 2
    assert ostler("sessions", "check").code == 0


def test_navigating_before_the_first_entry_starts_anew(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(*ANSWERS, turn("fresh"))
    session, _ = branched(ostler, vendor)
    ostler("sessions", "navigate", session, "0")
    assert ostler("sessions", "tree", session).err == "ostler: the current entry is before the first one\n"
    ostler("-p", *use(vendor), "--session", session, "hello")
    assert [one["role"] for one in vendor.requests[-1].json["messages"]].count("user") == 1
    assert [line[0] for line in ostler("sessions", "tree", session).out.splitlines()].count("├") == 1


def test_an_abandoned_branch_is_summarised(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(*ANSWERS, turn("It led nowhere."), turn("then I know"))
    session, end = branched(ostler, vendor)
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": vendor.chat_url}
    ran = ostler(
        "sessions", "collapse", "--model", "openai/fake", session, str(end), "mind", "the", "cost", **keys
    )
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    asked = vendor.requests[-1].json["messages"][-1]["content"]
    assert (
        "user: one way\n\nassistant: a dead end" in asked and "mind the cost" in asked and "seen" not in asked
    )
    assert "branch_collapsed: It led nowhere.  ← leaf" in ostler("sessions", "tree", session).out
    facts = ostler("sessions", "show", session, "--json").lines
    assert [fact["type"] for fact in facts[-3:]] == ["model_called", "usage", "branch_collapsed"]
    assert [fact["purpose"] for fact in facts[-3:-1]] == ["summary", "summary"]
    ostler("-p", *use(vendor), "--session", session, "go on")
    messages = [one["content"] for one in vendor.requests[-1].json["messages"] if one["role"] == "user"]
    assert messages[0] == "look" and messages[1].endswith("\n\nIt led nowhere.") and messages[2] == "go on"
    assert ostler("sessions", "check").code == 0
    calls = sum(one["own"]["calls"] for one in ostler("cost", "--by", "session", "--json").lines)
    assert calls == 5


def test_a_summary_that_cannot_be_written_changes_nothing(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(*ANSWERS, Refusal(400, "not today"))
    session, end = branched(ostler, vendor)
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": vendor.chat_url}
    ran = ostler("sessions", "collapse", "--model", "openai/fake", session, str(end), **keys)
    assert ran.code == 2 and "the summary could not be written" in ran.err and ran.err.count("\n") == 1
    on_path = next(
        one["seq"] for one in ostler("sessions", "tree", session, "--json").lines if one.get("leaf")
    )
    here = ostler("sessions", "collapse", "--model", "openai/fake", session, str(on_path), **keys)
    assert "there is no branch to collapse" in here.err
    assert ostler("sessions", "check").code == 0
