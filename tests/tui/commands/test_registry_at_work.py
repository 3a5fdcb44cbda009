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
from tests.tui.commands.test_registry import facts_of, said_to, say, sessions_of
from tests.tui.in_process import shown

LONG = "word " * 1000


def editor(folder: Path) -> str:
    """One that writes a line into the file it is given."""
    file = folder / "editor.py"
    file.write_text("import sys\nwith open(sys.argv[1], 'a') as file:\n    file.write('edited\\n')\n")
    return shlex.join([sys.executable, str(file)])


def test_a_file_is_edited_the_context_compacted_and_everything_allowed_for_a_while(
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
    assert "Pay attention to this: keep the words" in said_to(vendor, 2)
    say(terminal, "/yolo")
    terminal.wait_for("the profile of this terminal is now full")
    terminal.wait_for("  asks nothing")
    say(terminal, "three")
    terminal.wait_for_answer("all done")
    assert (ostler.work / "made").exists()
    assert "They spoke of words." in said_to(vendor, 3) and "word word" not in said_to(vendor, 3)
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


def test_during_a_run_nothing_is_cleared_and_the_context_is_compacted_between_two_steps(
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
    assert "called bash" in said_to(vendor, 2) and "tool_calls" not in said_to(vendor, 2)
    terminal.press("esc")
    terminal.wait_for("─ btw", gone=True)
    say(terminal, "/compact")
    terminal.wait_for("older messages will be summarised before the next step")
    (ostler.work / "go").touch()
    terminal.wait_for("it came")
    terminal.wait_for("completed · 1 call")
    told = said_to(vendor, 4)
    assert "They spoke of words." in told and "word word" not in told and "wait for it" in told
    assert "You wait" not in told
    say(terminal, "/context")
    terminal.wait_for("step 3 of 3")
    assert len(sessions_of(ostler)) == 1
    assert ostler("sessions", "check").code == 0


def test_a_key_is_kept_and_forgotten_and_extensions_are_loaded_anew(
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


def test_a_page_to_share_is_whole_and_runs_nothing(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
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


async def test_the_last_answer_goes_to_the_clipboard_through_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    async with shown(answers=["Grüße, **you**."]) as terminal:
        written: list[str] = []
        write = terminal.screen.write

        def kept(text: str) -> int:
            written.append(text)
            return write(text)

        monkeypatch.setattr(terminal.screen, "write", kept)
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
        await terminal.until(lambda: terminal.tui.conversation.session.state.prompts)
        prompt = max(terminal.tui.conversation.session.state.prompts)
        conversation = terminal.tui.conversation
        fact = (await conversation.store.read(conversation.session.id, prompt - 1, 1))[0]
        assert isinstance(fact.event, UserMessage) and "over two lines" in str(fact.event.content)


async def test_a_session_that_is_not_there_points_to_where_they_are_listed() -> None:
    async with shown() as at:
        await at.tui.submit("/resume nope")
        await at.see("no session 'nope'; /sessions lists all sessions")
