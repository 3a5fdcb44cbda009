"""Slash commands in a real terminal."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from socket import socket
from textwrap import dedent
from typing import Any

import pytest

from ostler.core.harness import Harness
from ostler.core.model import ModelEvent, ModelRequest
from ostler.models.credentials import fingerprint
from ostler.models.scripted import ScriptedModel, Turn
from ostler.schema.errors import Failure, UsageError
from ostler.schema.events import Event, ModelFailed, RequestRefused, RunEnded
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content, text_of
from ostler.schema.requests import Navigate, Prompt
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from ostler.testkit.vendors import FakeVendor, Refusal, call, turn
from ostler.tui.commands.registry import Commands
from ostler.tui.conversation import Conversation
from tests.support.command import KEY, Ostler
from tests.support.fixtures import Configure, Open, Serve
from tests.tui.in_process import run_ui
from tests.tui.terminal import Terminal

KITS = {
    *(
        "help",
        "h",
        "?",
        "tools",
        "t",
        "clear",
        "c",
        "cls",
        "usage",
        "u",
        "clear-queue",
        "cq",
        "compact",
        "co",
    ),
    *(
        "model",
        "m",
        "thinking",
        "think",
        "theme",
        "shortcuts",
        "reload-ext",
        "re",
        "quit",
        "q",
        "exit",
        "tree",
    ),
    *("fork", "new", "n", "name", "resume", "r", "copy", "cp", "retry", "rt", "undo", "un", "edit", "ed"),
    *("export", "share", "import", "session"),
}
OWN = {
    *(
        "sessions",
        "jump",
        "rename",
        "permissions",
        "cost",
        "context",
        "agents",
        "skills",
        "extensions",
        "reload",
    ),
    *("settings", "key", "doctor", "btw", "queue", "login", "logout", "yolo"),
}


def say(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.press("enter")


def close(terminal: Terminal, title: str) -> None:
    """A letter right after Escape would be another key."""
    terminal.press("esc")
    terminal.wait_for(f"╭─ {title}", gone=True)


def request_text(vendor: FakeVendor, number: int) -> str:
    """The messages of a request, without the system prompt."""
    return json.dumps(vendor.requests[number].json["messages"][1:])


def facts_of(ostler: Ostler, session: str) -> list[dict[str, Any]]:
    return ostler("sessions", "show", "--json", session).lines


def sessions_of(ostler: Ostler) -> list[dict[str, Any]]:
    return ostler("sessions", "--json").lines


def test_command_names_are_unique_and_complete() -> None:
    own = Commands(None).own  # type: ignore[arg-type]  # which a list of them does not look at
    names = [name for one in own for name in (one.name, *one.aliases)]
    assert len(names) == len(set(names))
    assert set(names) >= KITS | OWN
    assert all(one.about for one in own)


def test_sessions_are_switched_in_the_same_terminal(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn("It is blue."), turn("It is seven."), turn("Blue, as I said."))
    terminal = open_tui(vendor, rows=30)
    terminal.wait_for(">")
    say(terminal, "which colour?")
    terminal.wait_for("completed")
    say(terminal, "/rename the colour")
    terminal.wait_for("is now called 'the colour'")
    say(terminal, "/new which number?")
    terminal.wait_for_answer("It is seven.")
    assert "colour" not in request_text(vendor, 1)
    say(terminal, "/resume")
    terminal.wait_for("sessions here")
    terminal.type("colour")
    terminal.wait_for("❯ the colour")
    terminal.press("enter")
    terminal.wait_for("sessions here", gone=True)
    terminal.wait_for("the colour")
    say(terminal, "and again?")
    terminal.wait_for("Blue, as I said.")
    assert "It is blue." in request_text(vendor, 2) and "seven" not in request_text(vendor, 2)
    assert terminal.everything().count("It is seven.") == 1
    terminal.press("ctrl+c", "ctrl+c")
    assert terminal.wait_for_end() == 0
    assert [one.get("title", "") for one in sessions_of(ostler)] == ["the colour", ""]


def test_undo_and_fork_branch_the_session(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(
        turn("first answer"), turn("second answer"), turn("third answer"), turn("anew"), turn("forked")
    )
    terminal = open_tui(vendor, rows=30)
    terminal.wait_for(">")
    say(terminal, "one")
    terminal.wait_for("first answer")
    say(terminal, "two")
    terminal.wait_for_answer("second answer")
    say(terminal, "/undo")
    terminal.wait_for("files do not change")
    terminal.wait_for("> two")
    terminal.type(", three")
    terminal.press("enter")
    terminal.wait_for_answer("third answer")
    assert "second answer" not in request_text(vendor, 2) and "first answer" in request_text(vendor, 2)
    say(terminal, "/retry")
    terminal.wait_for_answer("anew")
    assert "third answer" not in request_text(vendor, 3)
    assert "two, three" in request_text(vendor, 3)
    say(terminal, "/tree")
    terminal.wait_for("╭─ tree")
    terminal.wait_for("├─")
    close(terminal, "tree")
    say(terminal, "/fork")
    terminal.wait_for("╭─ fork")
    terminal.press("down", "enter")
    terminal.wait_for("> two, three")
    terminal.press("ctrl+c")
    say(terminal, "four")
    terminal.wait_for_answer("forked")
    assert "one" in request_text(vendor, 4) and "three" not in request_text(vendor, 4)
    assert len([one for one in sessions_of(ostler) if one.get("forked_from")]) == 1
    say(terminal, "/quit")
    assert terminal.wait_for_end() == 0
    assert ostler("sessions", "check").code == 0


def test_a_side_question_is_answered_in_a_panel_and_only_its_usage_is_recorded(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(turn("It is blue."), turn("You asked about a **colour**."), turn("Gladly."))
    terminal = open_tui(vendor, rows=30)
    terminal.wait_for(">")
    say(terminal, "which colour?")
    terminal.wait_for("completed")
    say(terminal, "/btw what did I ask?")
    terminal.wait_for("You asked about a colour.")
    assert "It is blue." in request_text(vendor, 1)
    close(terminal, "btw")
    assert "You asked" not in terminal.everything()
    say(terminal, "thanks")
    terminal.wait_for("Gladly.")
    assert "You asked" not in request_text(vendor, 2) and "what did I ask" not in request_text(vendor, 2)
    facts = facts_of(ostler, sessions_of(ostler)[0]["id"])
    purposes = [fact.get("purpose", "step") for fact in facts if fact["type"] == "usage"]
    assert purposes == ["step", "aside", "step"]
    terminal.press("ctrl+c", "ctrl+c")
    assert terminal.wait_for_end() == 0
    assert ostler("sessions", "check").code == 0


def test_a_command_refused_during_a_run_is_reported(open_tui: Open, serve: Serve) -> None:
    vendor = serve(
        turn(call("bash", {"command": "while [ ! -e go ]; do sleep 0.05; done"})), turn("it is done")
    )
    terminal = open_tui(vendor, "--yes", rows=30)
    terminal.wait_for(">")
    say(terminal, "work")
    terminal.wait_for("running bash")
    say(terminal, "/new")
    terminal.wait_for("/new must wait")
    terminal.wait_for("> /new")
    terminal.press("ctrl+c")
    say(terminal, "/cost")
    terminal.wait_for("MODEL")
    terminal.type("!touch go")
    terminal.press("enter")
    terminal.wait_for("it is done")


def test_another_model_continues_after_a_failure(
    open_tui: Open, serve: Serve, ostler: Ostler, configure: Configure
) -> None:
    vendor = serve(turn(call("bash", {"command": "echo x >> done"})), Refusal(401, "that key is no good"))
    other = serve(turn("I went on."))
    configure(
        f"[providers.spare]\nbase_url = '{other.chat_url}'\napi_key = 'sk-spare'\ndefault_model = 'best'\n"
    )
    terminal = open_tui(vendor, "--yes", rows=30)
    terminal.wait_for(">")
    say(terminal, "work")
    terminal.wait_for("continue with another model")
    terminal.wait_for("❯ spare/best")
    terminal.press("enter")
    terminal.wait_for("I went on.")
    terminal.wait_for("completed")
    assert (ostler.work / "done").read_text() == "x\n"
    sent_text = other.requests[-1].json["messages"]
    assert [one["role"] for one in sent_text] == ["system", "user", "assistant", "tool"]
    assert KEY not in terminal.everything() and "sk-spare" not in terminal.everything()


def test_the_failed_model_can_be_called_again_and_escape_cancels(
    open_tui: Open, serve: Serve, ostler: Ostler, configure: Configure
) -> None:
    vendor = serve(
        turn(call("bash", {"command": "echo x >> done"})),
        Refusal(404, "no such model", code="model_not_found"),
        Refusal(404, "no such model", code="model_not_found"),
        turn("It is there now."),
    )
    configure()
    terminal = open_tui(vendor, "--yes", rows=30)
    terminal.wait_for(">")
    say(terminal, "work")
    terminal.wait_for("❯ openai/fake again")
    terminal.press("esc")
    terminal.wait_for("openai/fake again", gone=True)
    sent_text = "".join(terminal.screen().split())
    assert "checkthemodel'snameandthebaseURL" in sent_text, "what to do is not cut off"
    say(terminal, "/retry")
    terminal.wait_for("❯ openai/fake again")
    terminal.press("enter")
    terminal.wait_for("It is there now.")
    terminal.wait_for("completed")
    assert (ostler.work / "done").read_text() == "x\n"
    assert len([one for one in vendor.requests if one.json]) == 4


def test_without_a_model_the_first_run_offers_ways_to_set_one_up(
    open_tui: Open, serve: Serve, ostler: Ostler, configure: Configure
) -> None:
    vendor = serve(turn("OK"), turn("At last."), api_key="sk-right-canary-012345")
    configure(f"[providers.anthropic]\nbase_url = '{vendor.base_url('anthropic')}'\n")
    command = [Path(sys.executable).parent / "ostler", "say", "hello"]
    environment = ostler.environment({"LANG": "C.UTF-8"})
    with Terminal(command, environment=environment, cwd=ostler.work, columns=90, rows=40) as terminal:
        terminal.wait_for("how do you want to set up a model?")
        screen = terminal.wait_for_ever("ostler searched for")
        assert "a model file: none: put a file into" in screen
        assert screen.count("no model is set up yet") == 1
        for way in ("add an API key", "local server", "model file", "the demo"):
            assert way in terminal.wait_for(way), screen
        terminal.type("model file")
        terminal.wait_for("❯ run a model file")
        terminal.press("enter")
        terminal.wait_for("where is the GGUF file?")
        terminal.type("nowhere.gguf")
        terminal.press("enter")
        terminal.wait_for("there is no file")
        tried = {"sk-wrong-canary": "the key is not stored", "sk-right-canary-012345": "At last."}
        for key, comes in tried.items():
            terminal.wait_for("╭─ how do you want to set up a model?")
            terminal.press("enter")
            terminal.wait_for("╭─ which provider?")
            terminal.type("anthropic")
            terminal.wait_for("❯ anthropic")
            terminal.press("enter")
            terminal.wait_for("╭─ key for anthropic")
            terminal.paste(key)
            terminal.wait_for("•••••")
            terminal.press("enter")
            terminal.wait_for(comes)
        assert "▌ say hello" in terminal.everything()
        assert "canary" not in terminal.everything()
    assert len([one for one in vendor.requests if one.json]) == 3
    assert ostler("key", "list").out.startswith("anthropic")


def test_a_local_server_started_meanwhile_is_detected_and_remembered(
    serve: Serve, ostler: Ostler, configure: Configure
) -> None:
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    configure(ollama=f"http://127.0.0.1:{port}/v1")
    command = [Path(sys.executable).parent / "ostler"]
    environment = ostler.environment({"LANG": "C.UTF-8"})
    with Terminal(command, environment=environment, cwd=ostler.work, columns=90, rows=40) as terminal:
        terminal.wait_for("how do you want to set up a model?")
        serve(turn("From this machine."), models=["tiny"], port=port)
        terminal.type("again")
        terminal.wait_for("❯ search again")
        terminal.press("enter")
        terminal.wait_for("❯ use ollama/tiny")
        terminal.press("enter")
        terminal.wait_for("started a new session")
        say(terminal, "hello")
        terminal.wait_for("From this machine.")
    with Terminal(command, environment=environment, cwd=ostler.work, columns=90, rows=40) as terminal:
        assert "Use it from now on?" not in terminal.wait_for("ollama/tiny")


def test_report_commands_print_their_reports(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    ostler.configure("[providers.mine]\nbase_url = 'http://127.0.0.1:1/v1'\napi_key = 'sk-hidden-0123'\n")
    terminal = open_tui(serve(turn("an answer")), rows=50, columns=100)
    terminal.wait_for(">")
    say(terminal, "hello")
    terminal.wait_for("completed")
    for command, expected in {
        "/help": "show commands and keys",
        "/tools": "Runs a shell command",
        "/cost": "MODEL",
        "/context": "step 1 of 1",
        "/permissions": "the profile is ",
        "/agents": "there are no agents",
        "/skills": "there are no skills",
        "/extensions": "no extension is loaded",
        "/queue": "no prompt is queued",
        "/session": "messages  2",
        "/settings": "api_key: (set)",
        "/key": fingerprint("sk-hidden-0123"),
        "/doctor": "servers on this machine",
        "/copy": "9 characters, if the terminal",
        "/thinking enormous": "there is no level 'enormous'",
        "/thinking high": "thinking: high",
        "/model nowhere/nothing": "nowhere",
        "/fork far": "is not the number of an entry",
        "/import missing.jsonl": "No such file or directory",
    }.items():
        say(terminal, command)
        terminal.wait_for_ever(expected)
    assert "sk-hidden" not in terminal.everything()
    say(terminal, "/theme")
    terminal.wait_for("╭─ theme")
    terminal.press("down", "enter")
    terminal.wait_for("in your settings to keep it")
    say(terminal, "/quit")
    assert terminal.wait_for_end() == 0


def test_a_session_is_exported_and_imported(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    terminal = open_tui(serve(turn("an answer"), turn("another")))
    terminal.wait_for(">")
    say(terminal, "hello")
    terminal.wait_for("completed")
    say(terminal, "/export kept.jsonl")
    terminal.wait_for_ever(f" {ostler.work / 'kept.jsonl'}\n")
    say(terminal, "/share page.html")
    terminal.wait_for_ever(f" {ostler.work / 'page.html'}\n")
    say(terminal, "/import kept.jsonl")
    terminal.wait_for_ever("session ses_")
    say(terminal, "more")
    terminal.wait_for("another")
    assert "an answer" in (ostler.work / "page.html").read_text()
    assert len(sessions_of(ostler)) == 2


def test_an_extension_can_refuse_a_switch_and_start_a_session(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    extension = ostler.work / "doorkeeper.py"
    extension.write_text(
        dedent("""
            from ostler.extensions import Refuse


            def setup(ostler):
                @ostler.before_switch
                def stay(planned):
                    if planned.reason == "clear":
                        return Refuse("not before it is tidy")

                @ostler.command("leave", description="goes away")
                async def leave(arguments, context):
                    await context.new_session("from the command")
        """)
    )
    terminal = open_tui(serve(turn("hello"), turn("here I am")), "-e", str(extension))
    terminal.wait_for(">")
    say(terminal, "hi")
    terminal.wait_for("completed")
    say(terminal, "/clear")
    terminal.wait_for("not before it is tidy")
    say(terminal, "/leave")
    terminal.wait_for("here I am")
    terminal.wait_for_ever("started a new session")
    assert len(sessions_of(ostler)) == 2


def test_a_session_held_by_another_process_is_followed(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    first = open_tui(serve(turn("the first"), turn("the next")))
    first.wait_for(">")
    say(first, "one")
    first.wait_for("completed")
    held = sessions_of(ostler)[0]["id"]
    second = open_tui(serve(turn("the second")), columns=40)
    second.wait_for(">")
    say(second, "/resume")
    second.wait_for("❯ one")
    assert all(len(line) <= 40 for line in second.screen().splitlines())
    second.press("enter")
    second.wait_for("the first")
    say(second, "two")
    second.wait_for("the next")
    first.wait_for("the next")
    assert [fact["type"] for fact in facts_of(ostler, held)].count("run_started") == 2


def test_a_theme_is_previewed_and_escape_restores_the_old_one(open_tui: Open, serve: Serve) -> None:
    terminal = open_tui(serve(turn("done")))
    terminal.wait_for(">")
    say(terminal, "/theme")
    terminal.wait_for("╭─ theme")

    def colors() -> set[str]:
        return {str(cell.style.get("fg")) for row in terminal.cells() for cell in row if cell.text in "╭❯"}

    before = colors()
    terminal.type("\x1bOP\x1b[24;1R")  # a key without a letter, and where the cursor is
    terminal.type("phosphor")
    terminal.wait_for("› phosphor")
    terminal.wait_for("❯ phosphor")
    assert colors() != before
    terminal.press("ctrl+c")
    terminal.wait_for("╭─ theme", gone=True)
    say(terminal, "/theme")
    terminal.wait_for("❯ default")
    assert colors() == before


async def test_continuing_a_run_comes_before_queued_prompts() -> None:
    overloaded = Failure("authentication_failed", "the key is no good", status=401)
    model = ScriptedModel([Turn(failure=overloaded), "went on", "second"])
    session = await create_session(MemoryStore(), Harness(model))
    conversation = Conversation(session, None, lambda batch: None)
    conversation.begin()
    ends: list[str] = []
    came = asyncio.Event()

    def see(batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            if isinstance(one, Fact) and isinstance(one.event, RunEnded):
                ends.append(one.event.status)
                came.set()

    session.subscribe(see)
    await conversation.prompt(as_content("first"))
    await asyncio.wait_for(came.wait(), 60)
    assert ends == ["failed"] and session.state.held
    await conversation.store.submit(session.id, Prompt(id="later", content=as_content("later")))
    assert not await conversation.is_busy()
    await conversation.continue_run()
    while len(ends) < 3:
        came.clear()
        await asyncio.wait_for(came.wait(), 60)
    texts = [text_of(message.content) for message in session.state.transcript.messages]
    assert texts == ["first", "went on", "later", "second"]
    await conversation.close()


async def test_a_refused_request_is_reported_to_its_sender() -> None:
    session = await create_session(MemoryStore(), Harness(ScriptedModel([])))
    conversation = Conversation(session, None, lambda batch: None)
    conversation.begin()
    came = await asyncio.wait_for(conversation.ask(lambda id: Navigate(id=id, entry=99)), 60)
    assert isinstance(came, RequestRefused) and came.reason == "there is no entry 99"
    with pytest.raises(UsageError, match="nothing to continue"):
        await conversation.continue_run()
    await conversation.close()


async def test_closing_a_side_question_or_the_session_cancels_its_call() -> None:
    was_asked = asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
            was_asked.set()
            await asyncio.Event().wait()
            yield []

    async with run_ui() as terminal:
        terminal.tui.conversation.harness.model = Slow([])
        for leave in ("esc", "/new\r"):
            was_asked.clear()
            terminal.press("/btw why?", "enter")
            await asyncio.wait_for(was_asked.wait(), 60)
            session = terminal.tui.conversation.session
            terminal.press(leave)
            await terminal.until_gone("─ btw")
            await terminal.until(lambda session=session: not session.journal.side_calls)
        await terminal.see("started a new session")
        assert terminal.tui.conversation.session is not session
        facts = await session.journal.history()
        failed = [fact.event for fact in facts if isinstance(fact.event, ModelFailed)]
        assert [one.failure.kind for one in failed] == ["interrupted", "interrupted"]
