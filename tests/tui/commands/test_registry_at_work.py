"""Commands that change something: files, the context, permissions, keys, extensions, the clipboard."""

from __future__ import annotations

import shlex
import sys
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from textwrap import dedent

import pytest

from ostler.schema.events import AssistantMessage, UserMessage
from ostler.testkit.vendors import call, turn
from tests.support.command import Ostler, wait_until
from tests.support.fixtures import Open, Serve
from tests.tui.commands.test_registry import facts_of, request_text, say, sessions_of
from tests.tui.in_process import run_ui

LONG = "word " * 1000


def editor(folder: Path) -> str:
    """An editor that writes a line into its file."""
    file = folder / "editor.py"
    file.write_text("import sys\nwith open(sys.argv[1], 'a') as file:\n    file.write('edited\\n')\n")
    return shlex.join([sys.executable, str(file)])


def test_edit_compact_and_yolo_work_in_the_terminal(
    open_tui: Open, serve: Serve, ostler: Ostler, tmp_path: Path
) -> None:
    vendor = serve(
        turn(f"long ago: {LONG}"),
        turn("the newest"),
        turn("They spoke of words."),
        turn(call("bash", {"command": "touch made"})),
        turn("all done"),
    )
    terminal = open_tui(vendor, "--permissions", "ask", columns=200, rows=40, EDITOR=editor(tmp_path))
    terminal.wait_for(">")
    file = ostler.work / "a file.txt"
    file.touch()
    say(terminal, "/edit a file.txt")
    wait_until(lambda: file.read_text() == "edited\n")
    terminal.type("/edit .")  # perhaps before the terminal is ours again
    terminal.wait_for("> /edit .")
    terminal.press("enter")
    terminal.wait_for("is a folder")
    for prompt, answer in (("one", "long ago"), ("two", "the newest")):
        say(terminal, prompt)
        terminal.wait_for_ever(answer)
    terminal.wait_for("completed")
    say(terminal, "/compact keep the words")
    terminal.wait_for("the context was compacted")
    terminal.wait_for("compacting ·", gone=True)
    assert "Pay attention to this: keep the words" in request_text(vendor, 2)
    say(terminal, "/yolo")
    terminal.wait_for("the profile of this terminal is now full")
    terminal.wait_for("  asks nothing")
    say(terminal, "three")
    terminal.wait_for_answer("all done")
    assert (ostler.work / "made").exists()
    assert "They spoke of words." in request_text(vendor, 3) and "word word" not in request_text(vendor, 3)
    say(terminal, "/yolo")
    terminal.wait_for("the profile of this terminal is now ask")
    terminal.wait_for("  asks nothing", gone=True)
    say(terminal, "/permissions sometimes")
    terminal.wait_for("use /permissions, /permissions read-only|ask|edit|full")
    say(terminal, "/tools please")
    terminal.wait_for("/tools takes no arguments; //tools please sends it to the model")
    terminal.wait_for("> /tools please")
    facts = facts_of(ostler, sessions_of(ostler)[0]["id"])
    assert [fact["permissions"] for fact in facts if fact["type"] == "run_started"] == ["ask", "ask", "full"]
    assert ostler("sessions", "check").code == 0


def test_during_a_run_clear_is_refused_and_compact_waits_for_the_next_step(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    wait = {"command": "while [ ! -e go ]; do sleep 0.05; done"}
    vendor = serve(
        turn(f"long ago: {LONG}"),
        turn("I wait.", call("bash", wait)),
        turn("You wait for a file, I think."),
        turn("They spoke of words."),
        turn("it came"),
    )
    terminal = open_tui(vendor, "--yes", rows=40)
    terminal.wait_for(">")
    say(terminal, "one")
    terminal.wait_for("completed")
    say(terminal, "wait for it")
    terminal.wait_for("running bash")
    say(terminal, "/clear")
    terminal.wait_for("/clear must wait")
    terminal.wait_for("> /clear")
    terminal.press("ctrl+c")
    terminal.wait_for("> /clear", gone=True)
    say(terminal, "/btw what is it doing?")
    terminal.wait_for("You wait for a file, I think.")
    assert "called bash" in request_text(vendor, 2) and "tool_calls" not in request_text(vendor, 2)
    terminal.press("esc")
    terminal.wait_for("─ btw", gone=True)
    say(terminal, "/compact")
    terminal.wait_for("older messages will be summarised before the next step")
    (ostler.work / "go").touch()
    terminal.wait_for("it came")
    terminal.wait_for("completed · 1 call")
    sent_text = request_text(vendor, 4)
    assert "They spoke of words." in sent_text and "word word" not in sent_text and "wait for it" in sent_text
    assert "You wait" not in sent_text
    say(terminal, "/context")
    terminal.wait_for("step 3 of 3")
    assert len(sessions_of(ostler)) == 1
    assert ostler("sessions", "check").code == 0


def test_a_key_is_stored_and_removed_and_extensions_are_reloaded(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    extension = ostler.work / "signs.py"

    def write(sign: str) -> None:
        extension.write_text(
            dedent(f"""
                def setup(ostler):
                    @ostler.command("sign", description="says it")
                    async def sign(arguments, context):
                        return "{sign} " + arguments
            """)
        )

    write("the old")
    terminal = open_tui(serve(), "-e", str(extension), rows=40)
    terminal.wait_for(">")
    say(terminal, "/sign here")
    terminal.wait_for("the old here")
    write("the new")
    say(terminal, "/reload")
    terminal.wait_for("loaded: signs")
    say(terminal, "/sign there")
    terminal.wait_for("the new there")
    say(terminal, "/login")
    terminal.wait_for("which provider?")
    terminal.type("mistral")
    terminal.wait_for("❯ mistral")
    terminal.press("enter")
    terminal.wait_for("╭─ key for mistral")
    terminal.type("mk-canary-01234567")
    terminal.press("enter")
    terminal.wait_for("the key for mistral is stored in")
    assert "mistral" in ostler("key", "list").out
    say(terminal, "/logout")
    terminal.wait_for("❯ mistral")
    terminal.press("enter")
    terminal.wait_for("the key for mistral is removed")
    say(terminal, "/login mistral mk-canary-01234567")
    terminal.wait_for("name only the provider")
    assert "canary" not in terminal.everything()


def test_a_shared_page_is_complete_and_has_no_scripts(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    hostile = "<script>alert(1)</script> <img src=x onerror=alert(1)>"
    terminal = open_tui(serve(turn(f"Look: {hostile}\n\n```\n</pre>{hostile}\n```\n")))
    terminal.wait_for(">")
    say(terminal, f"say {hostile}")
    terminal.wait_for("completed")
    say(terminal, "/session export page.html")
    terminal.wait_for_ever(f" {ostler.work / 'page.html'}\n")

    class Page(HTMLParser):
        is_empty = frozenset({"meta", "br", "hr", "img", "link"})

        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.text = ""

        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "img", "iframe", "link")
            assert not any(name.startswith("on") for name, _ in attributes)
            if tag not in self.is_empty:
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

        def handle_data(self, data: str) -> None:
            self.text += data

    page = Page()
    page.feed((ostler.work / "page.html").read_text())
    page.close()
    assert page.open == [] and page.text.count(hostile) == 5  # title and heading, too


async def test_copy_sends_the_last_answer_to_the_clipboard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    async with run_ui(answers=["Grüße, **you**."]) as terminal:
        written: list[str] = []
        write = terminal.screen.write

        def record(text: str) -> int:
            written.append(text)
            return write(text)

        monkeypatch.setattr(terminal.screen, "write", record)
        terminal.press("hello", "enter")
        await terminal.see("Grüße, you.")
        terminal.press("/copy", "enter")
        await terminal.see("15 characters, if the terminal")
        sent = "".join(written).partition("\x1b]52;c;")[2].partition("\x07")[0]
        assert b64decode(sent).decode() == "Grüße, **you**."
        terminal.press("/new\x0aover two lines", "enter")
        await terminal.see("started a new session")
        facts = await terminal.tui.conversation.session.journal.history()
        assert not any(isinstance(fact.event, AssistantMessage) for fact in facts)
        await terminal.until(lambda: terminal.tui.conversation.session.state.builder.prompts)
        prompt = max(terminal.tui.conversation.session.state.builder.prompts)
        conversation = terminal.tui.conversation
        fact = (await conversation.store.read(conversation.session.id, prompt - 1, 1))[0]
        assert isinstance(fact.event, UserMessage) and "over two lines" in str(fact.event.content)


async def test_an_unknown_session_points_to_the_session_list() -> None:
    async with run_ui() as at:
        await at.tui.submit("/resume nope")
        await at.see("no session 'nope'; /sessions lists all sessions")
