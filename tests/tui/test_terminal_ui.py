"""The terminal UI at work: resumed sessions, permissions, mentioned files, a full disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ostler.context.mentions import with_mentions
from ostler.core.tool import default_summary
from ostler.schema.errors import StoreFull
from ostler.schema.events import RequestRefused, ToolCalled, ToolResultFact, UserMessage
from ostler.schema.facts import Fact, encode_event
from ostler.schema.messages import Image, Text, as_content
from ostler.testkit.vendors import call, turn
from ostler.tui.render.items import ItemRenderer
from ostler.tui.transcript import TranscriptView, visible_facts
from tests.support.command import Ostler, use
from tests.support.fixtures import Open, Serve
from tests.tui.in_process import run_ui
from tests.tui.rows import call_item, plain


def test_a_resumed_conversation_is_on_the_screen(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    lines = [f"line {number}" for number in range(60)]
    vendor = serve(turn("\n\n".join(lines)))
    assert ostler("-p", "count", *use(vendor)).code == 0
    terminal = open_tui(vendor, "--continue")
    terminal.type("and now")
    screen = terminal.wait_for("> and now")
    assert all(line in screen for line in lines[-6:])


def test_the_terminal_asks_for_permission_unless_a_profile_is_set(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    writes = call("write", {"path": "made", "content": "x"})
    vendor = serve(turn(writes), turn("as you wish"), turn(writes), turn("what a pity"))
    terminal = open_tui(vendor, "go")
    assert "esc declines" in terminal.wait_for_question()
    terminal.answer("n")
    screen = terminal.wait_for("as you wish")
    assert "write made · refused" in screen
    assert screen.count("The user declined this call.") == 1
    ostler.configure("permissions = 'read-only'")
    assert "permissions are read-only" in open_tui(vendor, "go").wait_for("what a pity")
    assert not (ostler.work / "made").exists()


def test_a_mentioned_file_is_named_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "long.py").write_text("value = 1\n" * 300)
    mentions = with_mentions("see @src/long.py and @src/", tmp_path)
    picture = Image("image/png", b"")
    content = as_content((mentions.text, picture, *mentions.blocks, "plan.png (image/png, 3 B)", picture))
    (block,) = TranscriptView().take([UserMessage(content)])
    rows = plain(ItemRenderer().closed(block, 80))
    assert [row for row in rows if row] == [
        "▌ see @src/long.py and @src/",
        "▌ [image · image/png]",
        "▌ [src/long.py · 300 lines]",
        "▌ [src/ · 1 line]",
        "▌ [plan.png (image/png, 3 B)]",
    ]


@pytest.mark.parametrize("reason", ["The person declined.", "The file is not there. " * 12])
def test_the_reason_of_a_refused_call_is_printed_once(reason: str) -> None:
    summary = default_summary([Text(reason)])
    block = call_item("bash", "refused", {"command": "make"}, result=reason, summary=summary)
    _, heading, *rows, _ = plain(ItemRenderer().closed(block, 80))
    assert heading == "╭─ bash make · refused"
    assert " ".join(row.removeprefix("│ ") for row in rows).split() == reason.split()


def test_a_stopped_call_is_not_shown_as_failed() -> None:
    ended = ToolResultFact("c1", "bash", (Text("half of it\n\nCancelled."),), failed="tool_cancelled")
    (block,) = TranscriptView().take([ToolCalled("c1", "bash", {"command": "make"}, 1), ended])
    assert plain(ItemRenderer().closed(block, 80))[1].startswith("╭─ bash make · stopped")


def test_refused_requests_are_not_repeated_when_a_session_is_reopened() -> None:
    refused = Fact(7, "ses_1", "", 0, encode_event(RequestRefused("req_1", "no run is open")))
    assert visible_facts([refused], 6) == []


async def test_a_prompt_that_cannot_be_stored_returns_to_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run_ui(answers=["Now it is."]) as one:

        async def full(*_: Any) -> None:
            raise StoreFull("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(one.tui.conversation.store, "submit", full)
            one.press("keep this", "enter")
            await one.see("the disk is full", "> keep this")
        one.press("enter")
        await one.see("▌ keep this", "Now it is.")


async def test_a_prompt_to_a_broken_session_returns_to_the_line() -> None:
    async with run_ui() as one:
        one.tui.conversation.problem = StoreFull("the disk was full")
        one.press("hear me", "enter")
        await one.see("the disk was full", "> hear me")
