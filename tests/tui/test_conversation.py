"""A conversation in a real terminal: keys in, screen out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.app.stores import open_store
from ostler.core.harness import Harness
from ostler.models.scripted import ScriptedModel
from ostler.schema.messages import Text
from ostler.sessions.session import create_session
from ostler.testkit.vendors import call, turn
from ostler.tui.conversation import Conversation, print_resume_hint
from tests.support.command import Ostler
from tests.support.fixtures import Open, Serve
from tests.tui.commands.test_registry import sessions_of


def test_a_prompt_is_answered_and_the_answer_stays(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn("# Hello\n\nIt is a **fine** day.\n\n- one\n- two\n"))
    terminal = open_tui(vendor)
    terminal.wait_for(">")
    terminal.type("hello")
    terminal.press("enter")
    screen = terminal.wait_for("completed")
    assert "▌ hello" in screen
    assert "It is a fine day." in screen
    assert "• one" in screen or "- one" in screen
    terminal.press("ctrl+c", "ctrl+c")
    assert terminal.wait_for_end() == 0
    text = terminal.everything()
    assert "It is a fine day." in text
    (summary,) = sessions_of(ostler)
    assert text.splitlines()[-1] == f"to resume this session: ostler --session {summary['id']}"


async def test_the_resume_command_is_printed_for_stored_sessions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for store, is_told in ((open_store(home=tmp_path), True), (open_store(in_memory=True), False)):
        session = await create_session(store, Harness(ScriptedModel(["done"])))
        conversation = Conversation(session, None, lambda batch: None)
        print_resume_hint(conversation)
        assert capsys.readouterr().out == "", "the session has no messages yet"
        await session.prompt((Text("begin"),))
        print_resume_hint(conversation, "a folder")
        summary = f"to resume this session: ostler --cwd 'a folder' --session {session.id}\n"
        assert capsys.readouterr().out == (summary if is_told else "")
        await session.close()
        await store.close()


def test_the_empty_line_has_a_hint_until_something_is_typed(open_tui: Open, serve: Serve) -> None:
    terminal = open_tui(serve(turn("done")), columns=34)
    terminal.wait_for("> type a prompt, / for commands\n")
    terminal.type("h")
    assert "type a prompt" not in terminal.wait_for("> h")
    terminal.press("backspace")
    assert "type a prompt" not in terminal.wait_for("> h", gone=True)


def test_a_prompt_on_the_command_line_is_submitted_at_once(open_tui: Open, serve: Serve) -> None:
    terminal = open_tui(serve(turn("done")), "what", "now?")
    screen = terminal.wait_for("completed")
    assert "▌ what now?" in screen


def test_a_file_is_shown_while_it_is_written_and_permission_is_asked(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    content = "".join(f"value_{number} = {number}\n" for number in range(8))
    vendor = serve(turn(call("write", {"path": "values.py", "content": content})), turn("done"))
    terminal = open_tui(vendor, "--permissions", "ask")
    terminal.wait_for(">")
    terminal.type("write it")
    terminal.press("enter")
    question = terminal.wait_for_question()
    assert "values.py" in question
    terminal.answer("y")
    screen = terminal.wait_for("completed")
    assert "value_7 = 7" in screen
    assert (ostler.work / "values.py").read_text() == content


def test_declining_a_question_refuses_the_call(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn(call("bash", {"command": "touch made"})), turn("as you wish"))
    terminal = open_tui(vendor, "--permissions", "ask")
    terminal.wait_for(">")
    terminal.type("go")
    terminal.press("enter")
    assert "touch made" in terminal.wait_for_question()
    terminal.answer("down", "down")
    terminal.wait_for("as you wish")
    assert not (ostler.work / "made").exists()


def test_escape_stops_the_run_and_the_next_prompt_starts_another(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn(call("bash", {"command": "sleep 60"})), turn("again"))
    terminal = open_tui(vendor, "--yes")
    terminal.wait_for(">")
    terminal.type("wait")
    terminal.press("enter")
    terminal.wait_for("running bash")
    terminal.press("esc")
    terminal.wait_for("cancelled")
    terminal.type("and now?")
    terminal.press("enter")
    terminal.wait_for("again")


def test_prompts_typed_during_a_run_are_queued(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn(call("bash", {"command": "sleep 1"})), turn("first"), turn("second"))
    terminal = open_tui(vendor, "--yes")
    terminal.wait_for(">")
    terminal.type("one")
    terminal.press("enter")
    terminal.wait_for("running bash")
    terminal.type("two")
    terminal.press("enter")
    screen = terminal.wait_for("second")
    assert screen.index("first") < screen.index("▌ two") < screen.index("second")


def test_the_ui_works_in_forty_columns_and_without_colours(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn("A sentence that is longer than the terminal is wide, by far."))
    terminal = open_tui(vendor, columns=40, NO_COLOR="1")
    terminal.wait_for(">")
    terminal.type("go")
    terminal.press("enter")
    screen = terminal.wait_for("completed")
    assert "A sentence that is longer than the" in screen
    assert all(len(line) <= 40 for line in screen.splitlines())


def test_the_screen_is_correct_after_a_resize(open_tui: Open, serve: Serve) -> None:
    terminal = open_tui(serve(turn("one"), turn("two")))
    terminal.wait_for(">")
    terminal.type("first")
    terminal.press("enter")
    terminal.wait_for("one")
    terminal.resize(50, 16)
    terminal.type("second")
    terminal.press("enter")
    screen = terminal.wait_for("two")
    assert screen.count("▌ first") <= 1
    assert screen.count("▌ second") == 1
    assert terminal.everything().count("▌ first") == 1
