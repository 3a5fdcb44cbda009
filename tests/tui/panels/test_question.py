"""Question panels: the whole call, the rules of each answer, and forms."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostler.app.question_queue import rule_text
from ostler.core.function_tool import tool
from ostler.core.hooks import Hooks
from ostler.models.scripted import Call
from ostler.permissions.guard import permission_hook, remember_answer
from ostler.schema.messages import text_of
from ostler.schema.outcomes import NeedUser, Question
from ostler.testkit.vendors import call, turn
from ostler.testkit.vendors.script import Answer
from ostler.tools import builtin_tool
from ostler.tools.files import file_digest, remember
from tests.support.command import Ostler
from tests.support.fixtures import Open, Serve
from tests.tui.in_process import RunningUI, run_ui

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "of the place", "minLength": 2},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535, "default": 80},
        "share": {"type": "number"},
        "size": {"enum": ["small", "large"]},
        "public": {"type": "boolean"},
        "days": {"type": "array", "items": {"enum": ["mon", "tue", "wed"]}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object"},
        "token": {"type": "string", "format": "password"},
    },
    "required": ["name", "size", "public"],
}

SHIFT_TAB = "\x1b[Z"
READING = "esc closes · ←→ other messages"


def asking_tool(*questions: Question) -> Any:
    waiting = iter(questions)

    @tool(kind="ask")
    async def inquire() -> NeedUser:
        """Asks a person."""
        return NeedUser(next(waiting))

    return inquire


def last_result(present: RunningUI) -> str:
    """The answer in the last request to the model."""
    model: Any = present.tui.conversation.harness.model
    (message,) = (one for one in model.requests[-1].transcript if one.role == "tool")
    return str(text_of(message.content[0].content))


async def begin(present: RunningUI) -> None:
    present.press("go", "enter")
    await present.see("╭─ ?")
    await present.until_asked()


def guarded(cwd: Path, *names: str) -> dict[str, Any]:
    """A harness that asks for every permission."""
    guard = permission_hook("ask", cwd, scopes=("session", "project", "user"))
    assert guard is not None
    tools = {name: builtin_tool(name) for name in names}
    return {"tools": tools, "hooks": Hooks([guard]), "cwd": cwd, "remember": remember_answer}


def rows_of(screen: str) -> set[str]:
    return {line.strip("│ ") for line in screen.splitlines()}


def changed(present: RunningUI, before: str) -> bool:
    """Whether the row that counts hidden rows has changed."""
    return any("more above" in row for row in rows_of(present.screen.text()) - rows_of(before))


# --- permission -----------------------------------------------------------------------------------------

HIDING = "echo safe \x1b[8m; rm -rf hidden\x1b[0m\r\u202e echo nothing else"


async def test_a_permission_shows_the_whole_command(tmp_path: Path) -> None:
    lines = "\n".join(f"echo line {number}" for number in range(60))
    right = f"echo {'a' * 300}; rm -rf far-to-the-right"
    calls = [
        Call("bash", {"command": f"{lines}\nrm -rf {right}", "timeout": 7}),
        Call("bash", {"command": HIDING}),
    ]
    async with run_ui(answers=[*calls, "ok"], rows=60, **guarded(tmp_path, "bash")) as at:
        await begin(at)
        screen = await at.see("May it run this command?", "timeout: 7", "echo line 0", "more below, pgdn")
        visible_rows = rows_of(screen)
        for _ in range(100):
            before = at.screen.text()
            at.press("\x1b[6~")
            await at.until(partial(changed, at, before))
            visible_rows |= rows_of(screen := at.screen.text())
            if "more below" not in screen:
                break
        assert visible_rows >= {f"echo line {number}" for number in range(60)}
        assert any("far-to-the-right" in row for row in visible_rows)
        assert "  1. yes, this once" in screen
        at.press("\x1b[H")
        await at.see("echo line 0\n")
        await at.answer("n")
        screen = await at.see("│ echo safe ⟨U+001B⟩[8m; rm -rf hidden⟨U+001B⟩[0m⟨U+000D⟩⟨U+202E⟩ echo")
        assert "! 4 hidden or misleading characters" in screen
        await at.until_asked()
        at.press("esc", "esc")
        await at.see("ok")


async def test_a_permission_to_edit_shows_a_diff(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("".join(f"x{number} = {number}\n" for number in range(60)))
    edits = [{"old_text": "x40 = 40", "new_text": "x40 = 41"}]
    calls = [
        Call("edit", {"path": "a.py", "edits": edits}),
        Call("write", {"path": "a.py", "content": "x0 = 0\n"}),
        Call("write", {"path": "new/b.py", "content": "y = 1\n"}),
    ]
    async with run_ui(answers=[*calls, "ok"], **guarded(tmp_path, "edit", "write"), rows=40) as at:
        remember(at.tui.conversation.session.memory, file, file_digest(file))
        await begin(at)
        await at.see("May it change a.py?", "41 - x40 = 40", "41 + x40 = 41")
        at.press("r", "enter")
        await at.see("yes, and for this session: any change")
        at.press("left")
        await at.answer("n")
        await at.see("May it write a.py?", "2 - x1 = 1")
        await at.answer("n")
        await at.see("May it write new/b.py? a new file", "1 y = 1")
        await at.answer("r")
        await at.see("yes, and for this session: any change below new/")
        assert "the whole existing file" not in at.screen.text()
        at.press("left")
        await at.answer("n")
        await at.see("ok")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("bash(git push)", "git push with any arguments"),
        ("bash(=rm -rf 'a[*]b')", "exactly: rm -rf 'a[*]b'"),
        ("edit(src/**)", "any change below src/"),
        ("edit(./a.py)", "any change of ./a.py"),
        ("fetch(example.com)", "anything from example.com"),
        ("search_the_web", "whatever search_the_web does"),
    ],
)
def test_the_rules_of_an_answer_are_described(rule: str, words: str) -> None:
    assert rule_text(rule) == words


async def test_every_scope_lists_the_rules_it_allows(tmp_path: Path) -> None:
    many = " && ".join(f"git {word} x" for word in ("add", "push", "commit", "tag", "fetch"))
    calls = [Call("bash", {"command": "git push x"}), Call("bash", {"command": many})]
    async with run_ui(answers=[*calls, "ok"], **guarded(tmp_path, "bash")) as at:
        await begin(at)
        assert "exactly: git push x" not in at.screen.text()
        at.press("r", "enter")
        for place, words in enumerate(("for this session", "for this project", "always"), 1):
            await at.see(f"{place}. yes, and {words}: exactly: git push x")
            await at.see(f"{place + 3}. yes, and {words}: git push x, also with more operands")
        at.press("left")
        await at.answer("n")
        await at.see("git add x")
        await at.answer("r")
        await at.see("the 5 rules above")
        at.press("\x1b[F")
        await at.see("git fetch x, also with more operands", "the 5 wider rules above")
        at.press("1", "enter")
        await at.see("ok")


def held_tool(question: Question) -> tuple[Any, asyncio.Event]:
    """A tool that asks as soon as the event is set."""
    release = asyncio.Event()

    @tool(kind="ask")
    async def inquire() -> NeedUser:
        """Asks a person."""
        await release.wait()
        return NeedUser(question)

    return inquire, release


async def test_while_the_line_holds_a_draft_enter_sends_it_and_shift_tab_leads_to_the_question() -> None:
    inquire, release = held_tool(Question("Which?", kind="choice", choices=("1st", "2nd")))
    async with run_ui(answers=[Call("inquire"), "ok", "ok"], tools={"inquire": inquire}) as at:
        at.press("go", "enter")
        await at.see("running inquire")
        at.press("next ")
        await at.see("> next")
        release.set()
        await at.see("Which?", "shift+tab answers this")
        at.press("1 and 2")
        await at.see("> next 1 and 2")
        at.press("enter")
        await at.see("queued: next 1 and 2", "Which?", "selects, then enter")
        at.press(SHIFT_TAB, "more")
        await at.see("> more", "shift+tab answers this")
        at.press(SHIFT_TAB)
        await at.answer("2")
        await at.see("Which? → 2nd", "> more")


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_in_the_first_600_ms_no_key_answers_and_no_letter_is_lost(tmp_path: Path) -> None:
    calls = [Call("bash", {"command": "touch one"}), Call("bash", {"command": "touch two"})]
    async with run_ui(answers=[*calls, "ok"], **guarded(tmp_path, "bash")) as at:
        clock = at.tui.clock = Clock()
        at.press("go", "enter")
        await at.see("touch one", "what you type now goes to the input line")
        clock.now += 0.59
        at.press("enter", "esc", "down", "y", "1")
        await at.see("> y1", "shift+tab answers this", "  1. yes, this once")
        at.press("backspace", "backspace")
        await at.see("what you type now goes to the input line")
        clock.now += 0.61
        at.tui.app.refresh()
        await at.see("selects, then enter", "  1. yes, this once")
        at.press("y", "enter")
        await at.see("touch two", "what you type now goes to the input line")
        at.press("\r", "\r", "\r")
        clock.now += 0.61
        at.tui.app.refresh()
        await at.see("selects, then enter", "  1. yes, this once", "touch two")
        at.press("enter", "enter", "y")
        await at.see("❯ 1. yes, this once")
        at.press("\x1b[200~yes\x1b[201~")
        await at.see("> yes", "  1. yes, this once", "shift+tab answers this")
        at.press("enter")
        await at.see("queued: yes", "  1. yes, this once")
        clock.now += 0.61
        at.press("enter", "enter")
        at.tui.app.refresh()
        await at.see("selects, then enter")
        assert (tmp_path / "one").exists() and not (tmp_path / "two").exists()


@pytest.mark.parametrize("typed", ["you must not", "yy", "1.", "never", "r2", "y "])
async def test_what_follows_a_letter_is_a_reason_which_the_model_reads(tmp_path: Path, typed: str) -> None:
    calls = [Call("bash", {"command": "touch made"})]
    async with run_ui(answers=[*calls, "ok"], **guarded(tmp_path, "bash")) as at:
        await begin(at)
        await at.answer(typed)
        await at.see("ok")
        assert last_result(at) == typed.strip()
    assert not (tmp_path / "made").exists()


async def test_an_answer_is_selected_with_an_arrow_a_number_or_a_letter_and_then_enter(
    tmp_path: Path,
) -> None:
    names = ("first", "second", "third", "fourth")
    calls = [Call("bash", {"command": f"touch {name}"}) for name in names]
    async with run_ui(answers=[*calls, "ok"], **guarded(tmp_path, "bash")) as at:
        await begin(at)
        for name, keys in zip(names, (("1",), ("y",), ("down",), ("down", "up", "up", "up")), strict=True):
            await at.see(f"touch {name}")
            await at.until_asked()
            at.press("enter")
            at.press(*keys)
            await at.see("❯ 1. yes, this once")
            assert not (tmp_path / name).exists()
            at.press("enter")
            await at.until((tmp_path / name).exists)
        await at.see("ok")


async def test_what_is_remembered_is_behind_another_key_and_can_be_left(tmp_path: Path) -> None:
    calls = [Call("bash", {"command": "make it"}), Call("bash", {"command": "make it"})]
    async with run_ui(answers=[*calls, "ok"], **guarded(tmp_path, "bash")) as at:
        await begin(at)
        at.press("s", "p", "u")
        await at.see("› spu", "enter declines")
        at.press("backspace", "backspace", "backspace", "r")
        await at.see("❯ 3. remember")
        at.press("enter")
        await at.see("1. yes, and for this session", "esc goes back")
        at.press("enter", "esc")
        await at.see("2. no", "selects, then enter")
        await at.answer("3")
        await at.see("1. yes, and for this session")
        at.press("s", "enter")
        await at.see("ok")
        assert len(at.tui.conversation.session.state.permissions) == 1


async def test_the_change_is_visible_behind_long_lines_of_context(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(f"{number} {'context ' * 90}\n" for number in range(1, 9)))
    edits = [{"old_text": "4 context", "new_text": "four"}]
    async with run_ui(
        answers=[Call("edit", {"path": "a.txt", "edits": edits}), "ok"], **guarded(tmp_path, "edit")
    ) as at:
        remember(at.tui.conversation.session.memory, file, file_digest(file))
        await begin(at)
        await at.see("4 - 4 context", "more above, pgup")
        await at.answer("n")
        await at.see("ok")


async def test_a_question_waits_while_another_panel_is_used() -> None:
    release = asyncio.Event()
    question = Question("May it?", kind="choice", choices=("yes", "no"))

    @tool(kind="ask")
    async def inquire() -> NeedUser:
        """Asks a person."""
        await release.wait()
        return NeedUser(question)

    answers = [Call("inquire"), Call("inquire"), "ok"]
    async with run_ui(answers=answers, tools={"inquire": inquire}, rows=30) as at:
        at.press("go", "enter")
        await at.see("running inquire", "esc stops")
        at.press("/theme", "enter")
        await at.see("theme · 1 of", "esc closes")
        at.press("d")
        await at.see("› d▏")
        release.set()
        await at.see("May it?")
        at.press("y", "n", "1", "backspace", "backspace", "backspace")
        release.clear()
        await at.answer("y")
        await at.see("May it? → yes", "› d▏")
        at.press("esc")
        await at.until_gone("› d▏")
        at.press("ctrl+o")
        await at.see(READING)
        at.press("g")
        release.set()
        await at.until(lambda: at.tui.questions.present)
        at.press("enter", "n")
        await at.answer("n")
        await at.see(READING)
        at.press("esc")
        await at.see("May it? → no", "ok")


async def test_other_keys_keep_their_meaning_beside_a_question() -> None:
    question = Question("Which?", kind="choice", choices=("1st", "2nd"))
    answers = [Call("inquire"), "ok"]
    async with run_ui(answers=answers, tools={"inquire": asking_tool(question)}, rows=30) as at:
        await begin(at)
        at.press("\x1by", "ctrl+c")  # with Alt nothing is declined
        await at.see("ctrl+c again to quit", "Which?")
        at.press("ctrl+o")
        await at.see(READING)
        at.press("\x1b[200~q\x1b[201~", "/", "x")
        await at.see("/x▏")
        at.press("ctrl+c")
        await at.see(READING)
        at.press("esc")
        await at.see("Which?", "> q", "shift+tab answers this", "esc stops")
        at.press("ctrl+c", "ctrl+c")
        await at.until(lambda: not at.tui.app.application.is_running)


# --- what is typed --------------------------------------------------------------------------------------


async def test_a_form_has_fields_of_all_kinds_and_reports_problems() -> None:
    question = Question("Where shall it be?", kind="form", form=FORM)
    async with run_ui(
        answers=[Call("inquire"), "ok"], tools={"inquire": asking_tool(question)}, rows=40
    ) as at:
        at.press("a draft", "ctrl+a", "ctrl+k")
        await begin(at)
        await at.see("❯ Name*", "of the place", "(•) small")
        at.press("x", "enter")
        await at.see("✗ Name: it is shorter than 2")
        at.press("y", "enter")
        await at.see("❯ port", "a whole number", "80")
        at.press("x", "enter")
        await at.see("✗ port: it is not an integer")
        at.press("ctrl+u", "99999", "enter")
        await at.see("✗ port: it is")
        at.press("ctrl+u", "8080", "enter")
        at.press("enter")  # a share is not needed
        await at.see("❯ size*")
        at.press("right", "enter")
        await at.see("(•) large")
        at.press("right", "enter")
        await at.see("❯ days")
        at.press(" ", "right", "right", " ", "enter")
        await at.see("[x] mon  [ ] tue  [x] wed")
        at.press("one, two", "enter", '{"a": 1}', "enter")
        await at.see("❯ token")
        at.press("hunter2")
        await at.see("•••••••")
        at.press("enter")
        await at.see("Where shall it be? →", '"token":"•••"', "completed")
        assert msgspec.json.decode(last_result(at)) == {
            "name": "xy",
            "port": 8080,
            "size": "large",
            "public": False,
            "days": ["mon", "wed"],
            "tags": ["one", "two"],
            "more": {"a": 1},
            "token": "hunter2",
        }


async def test_a_secret_is_hidden_while_it_is_typed_or_pasted() -> None:
    question = Question("The password?", secret=True)
    async with run_ui(answers=[Call("inquire"), "ok"], tools={"inquire": asking_tool(question)}) as at:
        await begin(at)
        at.press("\x1b[200~hunter2\x1b[201~", "3")
        await at.see("••••••••", "it is not shown")
        at.press("enter")
        screen = await at.see("The password? → answered", "ok")
        assert "hunter" not in screen


async def test_a_text_answer_keeps_the_draft_and_may_have_several_lines() -> None:
    question = Question("What was it?")
    async with run_ui(answers=[Call("inquire"), "ok"], tools={"inquire": asking_tool(question)}) as at:
        await begin(at)
        at.press("\x1b[200~one\ntwo\x1b[201~")
        await at.see("› one⏎two")
        at.press("enter")
        await at.see("ok")
        assert last_result(at) == "one\ntwo"


# --- children, and other processes ----------------------------------------------------------------------


def test_questions_of_children_name_the_child_and_close_when_answered_elsewhere(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    def by(request: dict[str, Any]) -> Answer:
        last = request["messages"][-1]
        last_content = str(last.get("content"))
        if last["role"] == "tool":
            return turn("done")
        for task in ("first task", "second task"):
            if task in last_content:
                return turn(call("bash", {"command": f"git push {task}"}))
        return turn(
            call("delegate", {"task": "the first task"}), call("delegate", {"task": "the second task"})
        )

    terminal = open_tui(serve(by=by), "--permissions", "ask", rows=40)
    terminal.wait_for("openai/fake")
    terminal.type("go")
    terminal.press("enter")
    screen = terminal.wait_for("1 more")
    terminal.wait_for("waiting for you")
    assert "permission · child the " in screen
    shown_first = "first" if "git push first task" in screen.rpartition("May it")[2] else "second"
    session = ostler("runs", "--json").lines[0]["session"]
    listed = ostler("answer", session, "yes").err  # which one, it asks
    question = re.search(rf"(\w+) \([^()]*git push {shown_first} task", listed)
    assert question, listed
    assert ostler("answer", session, "--question", question[1], "no").code == 0
    terminal.wait_for("1 more", gone=True)
    terminal.wait_for(f"git push {shown_first} task")
    assert "by cli" in terminal.everything()
    terminal.answer("n")
    terminal.wait_for("completed")


@pytest.mark.parametrize("size", [(40, 20), (44, 14), (80, 12)])
def test_on_small_terminals_all_answers_stay_visible_and_the_text_scrolls(
    open_tui: Open, serve: Serve, ostler: Ostler, size: tuple[int, int]
) -> None:
    command = "".join(f"show a rather long line of number {number} of the script\n" for number in range(9))
    terminal = open_tui(
        serve(turn(call("bash", {"command": command})), turn("as you wish")),
        "go",
        columns=size[0],
        rows=size[1],
    )
    screen = terminal.wait_for_question()
    assert all(f" {number}. " in screen for number in range(1, 4)), screen
    terminal.press("\x1b[6~")
    terminal.wait_for("more above")
    terminal.answer("2")
    terminal.wait_for_ever("as you wish")


def test_an_edit_that_cannot_be_applied_asks_no_permission(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    (ostler.work / "notes").write_text("one\n")

    def edit(old: str) -> Any:
        return call("edit", {"path": "notes", "edits": [{"old_text": old, "new_text": "two"}]})

    vendor = serve(
        turn(call("write", {"path": "notes", "content": "two\n"})),
        turn(call("read", {"path": "notes"})),
        turn(edit("three")),
        turn(edit("one")),
        turn("done"),
    )
    terminal = open_tui(vendor, "go", rows=50)
    screen = terminal.wait_for_question()
    assert "notes exists but was not read in this session: read it first" in screen
    assert screen.count("· failed") == 2 and screen.count("May it") == 1
    terminal.answer("y")
    terminal.wait_for("done")
    assert (ostler.work / "notes").read_text() == "two\n"
