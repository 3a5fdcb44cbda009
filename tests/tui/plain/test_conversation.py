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
from tests.support.command import Ostler, wait_until
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


SECRET = """
def setup(ostler):
    @ostler.command("vault")
    async def vault(arguments, context):
        given = await context.ui.input("The word?", secret=True)
        context.print_info(f"it has {len(given.value)} letters")
"""


@pytest.mark.parametrize("arguments", [("--plain",), ()])
def test_a_secret_is_not_shown_while_it_is_typed(
    open_tui: Open, serve: Serve, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    extension = tmp_path / "vault.py"
    extension.write_text(SECRET)
    terminal = open_tui(serve(), *arguments, "-e", str(extension))
    terminal.wait_for(">")
    terminal.type("/vault")
    terminal.wait_for("/vault")
    terminal.press("enter")
    terminal.wait_for("The word?")
    terminal.wait_for("answer:" if arguments else "enter answers")
    _say(terminal, "hunter2")
    terminal.wait_for("it has 7 letters")
    assert b"hunter" not in terminal.written
    _say(terminal, "visible again")
    terminal.wait_for("visible again")


def test_only_a_listed_number_or_word_allows_and_any_other_line_is_the_reason(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    touch = turn(call("bash", {"command": "touch made"}))
    vendor = serve(touch, turn("no harm"), touch, turn("it was run"))
    terminal = open_tui(vendor, "--plain", "--permissions", "ask")
    terminal.wait_for(">")
    _say(terminal, "go")
    terminal.wait_for("answer:")
    _say(terminal, "yes, but later")
    terminal.wait_for("no harm")
    assert "yes, but later" in str(vendor.requests[1].body)
    assert not (ostler.work / "made").exists()
    terminal.wait_for("completed")
    _say(terminal, "again")
    wait_until(lambda: terminal.screen().count("to decline\nanswer:") == 2)
    _say(terminal, "yes")
    terminal.wait_for("it was run")
    assert (ostler.work / "made").exists()


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
    assert "3. r, remember: yes, and the like from now on…" in printed
    assert not any("git push" in line for line in printed)
    questions.take("3")
    assert "1. s, session: yes, and for this session: git push with any arguments" in printed
    questions.take("1")
    assert await asking == "session"


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


async def test_a_line_of_the_first_600_ms_answers_nothing() -> None:
    clock, printed = Clock(), list[str]()
    questions = PlainQuestions(lambda *lines: printed.extend(lines), clock)
    question = Question("?", "permission", ("yes", "no"))
    asking = [asyncio.ensure_future(questions.ask(QuestionAsked(name, question))) for name in ("q1", "q2")]
    await asyncio.sleep(0)
    assert not questions.is_answerable and "answer:" not in printed
    clock.now += 0.61
    assert questions.is_answerable
    questions.take("y")
    assert await asking[0] == "yes"
    await asyncio.sleep(0)
    assert questions.present is not None and not questions.is_answerable, "the second one has its own 600 ms"
    questions.take("/cancel")
    with pytest.raises(CallRefused):
        await asking[1]


async def test_the_first_hunk_of_a_long_diff_is_printed_and_the_others_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(f"line {number}\n" for number in range(1, 99)))
    edits = [{"old_text": f"line {at}\n", "new_text": f"row {at}\n"} for at in (20, 50, 80)]
    printed: list[str] = []
    questions = PlainQuestions(lambda *lines: printed.extend(lines))
    questions.cwd = tmp_path
    details = {"tool": "edit", "arguments": {"path": "a.txt", "edits": edits}}
    asked = QuestionAsked("q1", Question("?", "permission", ("yes", "no"), details=details))
    asking = asyncio.ensure_future(questions.ask(asked))
    await asyncio.sleep(0)
    assert {"@@ -17,7 +17,7 @@", "-line 20", "+row 20"} <= set(printed)
    assert "2 more hunks and 18 more lines below: + prints them" in printed
    assert len(printed) < 22 and "-line 80" not in printed
    questions.take("+")
    assert {"-line 50", "-line 80"} <= set(printed) and not asking.done()
    questions.take("no, rather not")
    with pytest.raises(CallRefused, match="no, rather not"):
        await asking
