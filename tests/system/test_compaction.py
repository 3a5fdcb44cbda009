"""Compaction in real processes: by itself in a run, from outside, after an overflow, by an extension."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ostler.testkit.vendors import FakeVendor, Refusal, call, turn
from tests.cli.test_prompt_extensions import write
from tests.support.command import KEY, Ostler, finish, use, wait_until
from tests.support.fixtures import Serve
from tests.support.open_runs import GATED, facts, gated_run

SMALL = ("--context", "window.tokens=12000", "--context", "window.reserve=1000")
SUMMARY = "Task: look. Done: some."
OVERFLOW = Refusal(400, "Your input exceeds the context window of this model", "context_length_exceeded")


class Looking:
    """A vendor that looks at a file so often, and writes a summary when it is asked for one."""

    def __init__(self, looks: int, before: Callable[[int], Any] = lambda number: None) -> None:
        self._looks = looks
        self._before = before
        self.asked = 0
        self.summaries = 0

    def __call__(self, request: dict[str, Any]) -> Any:
        if "You write a summary" in json.dumps(request):
            self.summaries += 1
            return turn(SUMMARY)
        self.asked += 1
        if instead := self._before(self.asked):
            return instead
        look = call("read", {"path": "herbs.txt", "offset": self.asked})
        return turn("done") if self.asked > self._looks else turn(f"Look {self.asked}.", look, usage=None)


@pytest.fixture(autouse=True)
def herbs(ostler: Ostler) -> None:
    (ostler.work / "herbs.txt").write_text("thyme and sage and rosemary\n" * 300)
    (ostler.work / "AGENTS.md").write_text("Never plant mint.\n")


def last_request(vendor: FakeVendor) -> list[str]:
    """The texts of the last request, the system prompt first."""
    return [str(one["content"]) for one in vendor.requests[-1].json["messages"]]


def test_the_context_is_compacted_during_a_run_before_it_overflows(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(by=Looking(12))
    ran = ostler("-p", "--json", *SMALL, *use(vendor), "look at the sage")
    assert (ran.code, ran.err) == (0, "")
    compactions = ran.all("compacted")
    assert len(compactions) >= 2 and len(ran.all("run_started")) == 1
    assert all(one["tokens_after"] < one["tokens_before"] for one in compactions)
    assert all(one["files"] == ["herbs.txt"] for one in compactions)
    purposes = [one.get("purpose", "step") for one in ran.all("model_called")]
    assert purposes.count("compaction") == len(compactions)
    assert all(one["trace"]["tokens"]["all"] <= 11_000 for one in ran.all("model_called"))
    system, summary, *_ = last_request(vendor)
    assert "Never plant mint." in system and "mint" not in summary
    assert SUMMARY in summary and summary.endswith("word for word:\nlook at the sage")
    session = str(ran.facts[0]["session"])
    assert "the context was compacted" in ostler("context", session, "--diff", "1", "13").out
    assert ostler("sessions", "check").code == 0


def started(ostler: Ostler, session: str) -> list[dict[str, Any]]:
    return [one for one in facts(ostler, session) if one["type"] == "tool_started"]


def test_another_process_can_compact_during_a_run(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(by=Looking(5, lambda asked: turn("Wait.", GATED, usage=None) if asked == 4 else None))
    with gated_run(ostler, vendor, "--json") as gated:
        wait_until(lambda: any(one.get("name") == "bash" for one in started(ostler, gated.session)))
        asked = ostler("sessions", "compact", gated.session, "mind", "the", "sage")
        gated.open()
        ran = finish(gated.process)
    assert (ran.code, asked.code) == (0, 0), ran.err + asked.err
    (compacted,) = ran.all("compacted")
    assert compacted["by"] == "user" and compacted["request"]
    assert any("mind the sage" in str(request.json) for request in vendor.requests)
    assert SUMMARY in last_request(vendor)[1]


def test_a_context_overflow_is_compacted_and_retried_once(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(by=Looking(4, lambda asked: OVERFLOW if asked == 4 else None))
    ran = ostler("-p", "--json", *use(vendor), "look")
    assert ran.code == 0, ran.err
    (compacted,) = ran.all("compacted")
    assert compacted["by"] == "overflow" and SUMMARY in last_request(vendor)[1]
    script = Looking(4, lambda asked: OVERFLOW if asked >= 4 else None)
    ran = ostler("-p", "--json", *use(serve(by=script)), "look")
    assert ran.code == 1 and "begin a new session, or send less" in ran.err
    assert (script.asked, script.summaries) == (5, 1)


@pytest.mark.parametrize(
    ("decides", "summary"),
    [('Refuse("not in this garden")', ""), ('Summary("By hand: the herbs were seen.")', "By hand:")],
)
def test_an_extension_refuses_a_compaction_or_writes_it(
    ostler: Ostler, serve: Serve, decides: str, summary: str
) -> None:
    hook = f"""
        from ostler.extensions import Refuse, Summary

        def setup(ostler):
            @ostler.before_compact
            def decide(planned):
                return {decides}
        """
    write(ostler.home / "extensions" / "mine.py", hook)
    script = Looking(8)
    vendor = serve(by=script)
    ran = ostler("-p", "--json", *SMALL, *use(vendor), "look")
    assert ran.code == 0 and script.summaries == 0
    assert bool(ran.all("compacted")) == bool(summary)
    session = str(ran.facts[0]["session"])
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": vendor.chat_url}
    asked = ostler("sessions", "compact", "--model", "openai/fake", session, cwd=ostler.home, **keys)
    assert script.summaries == 0, "nor is the model called for a compaction between two runs"
    if summary:
        assert summary in last_request(vendor)[1] and asked.code == 0
        assert [one.get("by") for one in facts(ostler, session) if one["type"] == "compacted"][-1] == "user"
    else:
        assert (asked.code, asked.err) == (2, "ostler: not in this garden\n")
        assert any("not in this garden" in one["text"] for one in ran.all("warned"))
        assert "characters are omitted" in str(last_request(vendor))


def test_a_compaction_without_a_model_leaves_no_request_behind(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(by=Looking(3))
    session = str(ostler("-p", "--json", *use(vendor), "look").facts[0]["session"])
    ran = ostler("sessions", "compact", session)
    assert ran.code == 3 and "no model can answer" in ran.err
    assert ostler("-p", "--json", *use(vendor), "--session", session, "go on").code == 0
    assert "compacted" not in {one["type"] for one in facts(ostler, session)}


def test_a_changed_system_prompt_of_another_process_is_in_the_trace(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("a"), turn("b"), turn("c"))
    session = str(ostler("-p", "--json", *use(vendor), "one").facts[0]["session"])
    ostler("-p", *use(vendor), "--session", session, "two")
    (ostler.work / "AGENTS.md").write_text("Never plant mint, nor parsley.\n")
    ostler("-p", *use(vendor), "--session", session, "three")
    same = "the earlier request is a prefix of the later one"
    assert same in ostler("context", session, "--diff", "1", "2").out
    assert (
        "changed in step 3: the system prompt is another one"
        in ostler("context", session, "--diff", "2", "3").out
    )
    assert "step before: the system prompt is another one" in ostler("context", session).out
