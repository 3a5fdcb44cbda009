"""A conversation in plain lines, for screen readers and the simplest terminals."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from ostler.extensions.ui.types import InputDialog, MultiSelectDialog, SelectDialog, as_data
from ostler.history.items import PrintedItem, RunEndItem, UserItem
from ostler.schema.errors import CallRefused
from ostler.schema.events import Printed, QuestionAsked
from ostler.schema.messages import File, Text
from ostler.schema.outcomes import Question
from ostler.schema.usage import Totals, Usage
from ostler.testkit.vendors import call, turn
from ostler.tui.plain.items import item_lines
from ostler.tui.plain.panels import PlainQuestions
from ostler.tui.render.items import notice
from tests.support.command import Ostler
from tests.support.fixtures import Open, Serve
from tests.tui.rows import call_item
from tests.tui.terminal import Terminal

ASKS = """
from ostler.extensions import Content, Widget

def setup(ostler):
    @ostler.command("garden")
    async def garden(arguments, context):
        context.ui.set_widget(Widget("todo", Content(render=lambda width: "\x1b[1mkept in sight")))
        context.ui.set_status("weather", "rain")
        chosen = await context.ui.multi_select("What is done?", ["sow", "weed"], selected=[])
        context.print_info(f"done: {', '.join(chosen.values)}")
        return "that is all"
"""


def _say(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.press("enter")


def test_a_conversation_in_plain_lines(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    written = {"path": "made.txt", "content": "one\n"}
    vendor = serve(turn("# Hello\n\nIt is **fine**."), turn(call("write", written)), turn("done so"))
    terminal = open_tui(vendor, "--plain", "--permissions", "ask")
    terminal.wait_for("/help lists commands.")
    _say(terminal, "hello")
    screen = terminal.wait_for("completed")
    assert "It is **fine**." in screen
    assert "You: hello" not in screen
    _say(terminal, "write it")
    asked_screen = terminal.wait_for("answer:")
    assert "calling write: made.txt" in asked_screen
    assert "1. y, yes: yes, this once" in asked_screen
    _say(terminal, "")
    terminal.wait_for("error: type a number from 1 to")
    _say(terminal, "y")
    screen = terminal.wait_for("done so")
    assert (ostler.work / "made.txt").read_text() == "one\n"
    assert not set("╭│╰▌⠋❯") & set(screen)
    terminal.press("ctrl+d")
    assert terminal.wait_for_end() == 0


def test_a_stopped_session_is_resumed(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn(call("bash", {"command": "sleep 60"})), turn("in its turn"), turn("again"))
    terminal = open_tui(vendor, "--yes", TERM="dumb")
    terminal.wait_for(">")
    _say(terminal, "wait")
    terminal.wait_for("calling bash: sleep 60")
    _say(terminal, "and later")
    terminal.wait_for("queued; /steer TEXT")
    _say(terminal, "/queue")
    terminal.wait_for("choose: ")
    _say(terminal, "/cancel")
    terminal.process.send_signal(signal.SIGINT)  # as ctrl+c does in the terminal of a person
    terminal.wait_for("cancelled")
    terminal.wait_for("held: and later\nan empty line sends held prompts")
    _say(terminal, "/quit")
    assert terminal.wait_for_end() == 0

    ostler.configure("screen_reader = true")
    terminal = open_tui(vendor, "--yes", "--continue")
    earlier = terminal.wait_for("held: and later")
    assert "You: wait" in earlier
    terminal.press("enter")
    terminal.wait_for("in its turn")
    terminal.wait_for("completed")
    _say(terminal, "and now?")
    terminal.wait_for("again")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.wait_for_end() == 0


def test_an_extension_asks_and_prints_in_plain_lines(open_tui: Open, serve: Serve, tmp_path: Path) -> None:
    extension = tmp_path / "garden.py"
    extension.write_text(ASKS)
    terminal = open_tui(serve(), "--plain", "-e", str(extension))
    terminal.wait_for(">")
    _say(terminal, "/garden")
    asked_screen = terminal.wait_for("answer:")
    assert "2. weed, not selected" in asked_screen
    _say(terminal, "2")
    screen = terminal.wait_for("that is all")
    assert "garden: done: weed" in screen
    assert "kept in sight" not in screen
    _say(terminal, "/shown")
    terminal.wait_for("garden, widget: kept in sight")
    terminal.wait_for("garden, status: rain")


# --- without a terminal -----------------------------------------------------------------------------


def test_items_are_printed_as_plain_lines() -> None:
    written = call_item("bash", "failed", {"command": "make"}, "execute", result="\x1b[31mbad\x1b[0m\n" * 30)
    words = item_lines(written)
    assert words[:2] == ["result of bash failed", "bad"]
    assert words[-1] == "and 10 more lines"
    read = call_item("read", "done", {"path": "a"}, "read", result="content", summary="3 lines")
    assert item_lines(read) == ["result of read: 3 lines"]
    assert item_lines(notice("look out", "warning")) == ["warning: look out"]
    assert item_lines(UserItem("", content=(Text("hi"), File("image/png", name="a.png")))) == [
        "You: hi",
        "attached: a.png",
    ]
    assert item_lines(PrintedItem("", printed=Printed("x\x07", "error", "demo"))) == ["demo: error: x\ufffd"]
    own = Totals(tool_calls=2, usage=Usage(input_tokens=1500, cost=0.5), duration_ms=65_000)
    assert item_lines(RunEndItem("", status="limit", reason="max steps", own=own)) == [
        "limit, max steps, 2 calls, 1.5k tokens, $0.50, 1:05"
    ]


@pytest.mark.parametrize(
    ("question", "typed", "answer"),
    [
        (Question("?", "choice", ("red", "blue"), details=as_data(SelectDialog())), "2", "blue"),
        (Question("?", "choice", ("red", "blue")), "RED", "red"),
        (Question("?", "text", details=as_data(InputDialog("such", "usual"))), "", "usual"),
        (Question("?", "text"), "mine", "mine"),
        (
            Question(
                "?",
                "form",
                form={"type": "array"},
                details=as_data(MultiSelectDialog(("a", "b", "c"), (0, 1))),
            ),
            "3, 1",
            ["a", "c"],
        ),
        (
            Question(
                "?", "form", form={"type": "array"}, details=as_data(MultiSelectDialog(("a", "b"), (1,)))
            ),
            "",
            ["b"],
        ),
    ],
)
async def test_a_question_is_answered_with_a_line(question: Question, typed: str, answer: object) -> None:
    printed: list[str] = []
    questions = PlainQuestions(lambda *lines: printed.extend(lines))
    asking = asyncio.ensure_future(questions.ask(QuestionAsked("q1", question, asked_by="extension")))
    await asyncio.sleep(0)
    assert printed[0] == "question: ?"
    questions.take("99 luftballons" if question.kind != "text" else typed)
    questions.take(typed)
    assert await asking == answer


async def test_cancel_declines_a_question() -> None:
    questions = PlainQuestions(lambda *lines: None)
    asking = asyncio.ensure_future(questions.ask(QuestionAsked("q1", Question("?", "text"), asked_by="tool")))
    await asyncio.sleep(0)
    questions.take("/cancel")
    with pytest.raises(CallRefused):
        await asking


async def test_a_permission_prints_the_whole_call_and_the_rules_of_each_answer() -> None:
    printed: list[str] = []
    questions = PlainQuestions(lambda *lines: printed.extend(lines))
    command = "echo " + "a" * 200 + "; rm -rf last"
    details = {
        "tool": "bash",
        "arguments": {"command": command, "timeout": 5},
        "remember": {"session": ["bash(git push)"]},
    }
    question = Question("Allow bash […]", "permission", ("yes", "session", "no"), details=details)
    asking = asyncio.ensure_future(questions.ask(QuestionAsked("q1", question)))
    await asyncio.sleep(0)
    assert f"command: {command}" in printed
    assert "timeout: 5" in printed
    assert "3. r, remember: remember: yes, and the like from now on…" in printed
    assert not any("git push" in line for line in printed)
    questions.take("3")
    assert "1. s, session: yes, and for this session: git push with any arguments" in printed
    questions.take("1")
    assert await asking == "session"
