"""Chapters that the model closes itself: its summary is context_of in place of what came before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ostler.app.harness import build_harness
from ostler.app.settings import Settings
from ostler.context.compaction import ChapterTool
from ostler.models.scripted import Call, Turn
from ostler.schema import events
from ostler.schema.errors import Overloaded
from tests.context.test_session_context import UNCOUNTED, context, context_of, count, steps
from tests.support.running import Ran, run

SUMMARY = "Task: count. Done: four. Next: the fifth."


def close(summary: str = SUMMARY, *beside: Call) -> Turn:
    return Turn(calls=(*beside, Call("close_chapter", {"summary": summary})), usage=UNCOUNTED)


async def closing(script: list[Any], **rules: Any) -> Ran:
    checkpoints = {"offered": True, **rules}
    return await run(script, tools=[count, ChapterTool(50)], context=context(4000, checkpoints=checkpoints))


@pytest.mark.parametrize("keep", [0, 1, 2])
async def test_the_summary_is_sent_from_the_next_step_on(keep: int) -> None:
    ran = await closing([*steps(4), close(), *steps(1), "done"], keep_calls=keep)
    assert ran.status == "completed"
    (compacted,) = ran.all(events.Compacted)
    assert compacted.by == "checkpoint" and compacted.summary.startswith(SUMMARY)
    assert compacted.summary.endswith("\ngo")
    assert compacted.tokens_after < compacted.tokens_before
    assert len(context_of(ran, 4)) == 9
    after = ran.model.requests[5].transcript
    assert SUMMARY in after[0].text and len(after) == 1 + 2 * keep + 2
    calls = [call.name for message in after for call in message.calls]
    assert calls == ["count"] * keep + ["close_chapter"]
    assert SUMMARY in ran.model.requests[6].transcript[0].text
    assert not [called for called in ran.all(events.ModelCalled) if called.purpose != "step"]


async def test_a_chapter_with_nothing_before_it_changes_nothing() -> None:
    ran = await closing([close(), *steps(1), close(), "done"])
    assert ran.status == "completed"
    assert not ran.all(events.Compacted) and not ran.all(events.Warned)
    assert len(ran.model.requests[-1].transcript) == 7


async def test_one_chapter_after_the_other_builds_on_the_summary_before() -> None:
    ran = await closing([*steps(4), close("first"), *steps(4), close("second"), "done"], keep_calls=1)
    assert [one.summary.split()[0] for one in ran.all(events.Compacted)] == ["first", "second"]
    assert "first" not in ran.model.requests[-1].transcript[0].text


@pytest.mark.parametrize(
    ("summary", "why"), [("  \n", "the summary is empty"), ("word " * 60, "the limit is 50: make it shorter")]
)
async def test_an_empty_or_too_long_summary_is_refused(summary: str, why: str) -> None:
    ran = await closing([*steps(4), close(summary), "done"])
    assert not ran.all(events.Compacted)
    assert why in ran.results()[-1]


async def test_a_failure_right_after_it_does_not_close_it_twice() -> None:
    ran = await closing(
        [*steps(4), close(), Overloaded("busy", status=503, retry_after=0.0), "done"], keep_calls=1
    )
    assert ran.status == "completed" and len(ran.all(events.Compacted)) == 1


async def test_without_the_offer_such_a_call_means_nothing() -> None:
    ran = await closing([*steps(4), close(), "done"], offered=False)
    assert not ran.all(events.Compacted)


def test_the_tool_is_there_when_the_policy_offers_it(tmp_path: Path) -> None:
    def tools(**settings: Any) -> set[str]:
        return set(build_harness(Settings(model="demo", **settings), tmp_path).tools)

    offered = {"checkpoints": {"offered": True}}
    assert "close_chapter" not in tools() | tools(context={"checkpoints": {"keep_calls": 1}})
    assert "close_chapter" in tools(context=offered)
    assert not tools(context=offered, tools=())
