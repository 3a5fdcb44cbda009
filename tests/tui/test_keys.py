"""Keys and the terminal around the line: early typing, unmarked pastes, suspending, quitting."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import termios
from pathlib import Path

import pytest

from ostler.core.function_tool import tool
from ostler.models.scripted import Call
from ostler.schema.messages import Text
from ostler.schema.requests import Prompt
from ostler.testkit.vendors import call, turn
from ostler.tui.terminal_input import marked
from tests.support.command import Ostler, use
from tests.support.fixtures import Open, Serve
from tests.tui.in_process import run_ui
from tests.tui.terminal import Terminal
from tests.tui.test_composer import request_text


def modes(terminal: Terminal) -> dict[str, bool]:
    """The terminal settings that a shell expects back."""
    state = termios.tcgetattr(terminal.descriptor)
    emulator = terminal.emulator
    return {
        "echo": bool(state[3] & termios.ECHO),
        "lines": bool(state[3] & termios.ICANON),
        "enter": bool(state[0] & termios.ICRNL),
        "signals": bool(state[3] & termios.ISIG),
        "cursor": emulator.mode(25),
        "pastes": not emulator.mode(2004),
        "focus": not emulator.mode(1004),
    }


def test_keys_typed_before_the_first_frame_are_sent(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn("heard"))
    terminal = open_tui(vendor)
    terminal.type("typed early\r")
    terminal.type("and the next")
    screen = terminal.wait_for("completed")
    assert "> and the next" in screen
    assert "typed early" in request_text(vendor)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_and_restores_the_terminal(
    open_tui: Open, serve: Serve, number: signal.Signals
) -> None:
    vendor = serve(turn(call("bash", {"command": "sleep 60"})))
    terminal = open_tui(vendor, "--yes")
    before = modes(terminal)
    terminal.wait_for(">")
    terminal.type("begin\r")
    terminal.wait_for("esc stops")
    assert modes(terminal) != before
    terminal.process.send_signal(number)
    assert terminal.wait_for_end() == 128 + number
    screen = terminal.screen()
    assert "the terminal was closed" in screen
    assert "esc stops" not in screen
    assert set(modes(terminal).values()) == {True}


def test_several_lines_at_once_are_an_unmarked_paste(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn("done"))
    terminal = open_tui(vendor)
    terminal.wait_for(">")
    terminal.type("one\rtwo\rthree")
    assert "> one\n  two\n  three" in terminal.wait_for("three")
    terminal.type("\r".join(f"line {number}" for number in range(200)))
    terminal.wait_for("[pasted text #1 +200 lines]")
    terminal.press("enter")
    terminal.wait_for("completed")
    assert "… 163 more rows" in terminal.everything()
    assert len(vendor.requests) == 1
    assert "one\\ntwo\\nthreeline 0\\nline 1\\n" in request_text(vendor)


def test_an_unmarked_paste_has_several_lines_or_very_many_letters() -> None:
    reading, writing = os.pipe()
    os.close(writing)  # nothing more comes
    long = "x" * 300
    try:
        for typed in ("hello", "hello\r", "\r\r", "a\x1b[A\rb", "\x1b\ra", "one\r\x03"):
            assert marked(typed, str, reading) == typed
        assert marked("a\rb\tc\r\x1b[A", str, reading) == "\x1b[200~a\rb\tc\r\x1b[201~\x1b[A"
        assert marked(f"{long}\r\x03", str, reading) == f"\x1b[200~{long}\x1b[201~\r\x03"
    finally:
        os.close(reading)


@pytest.mark.skipif(sys.platform != "linux", reason="needs setsid --ctty")
def test_ctrl_z_suspends_until_fg(serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn("done"))
    command = shlex.join([str(Path(sys.executable).parent / "ostler"), *use(vendor)])
    shell = ["setsid", "--ctty", "--wait", "bash", "--norc", "-i"]
    environment = ostler.environment({"LANG": "C.UTF-8", "PS1": "SHELL: "})
    with Terminal(shell, environment=environment, cwd=ostler.work) as terminal:
        terminal.wait_for("SHELL:")
        terminal.type(f"{command}\r")
        terminal.wait_for("work  openai/fake")
        terminal.type("a draft")
        terminal.wait_for("> a draft")
        terminal.press("ctrl+z")
        assert "> a draft" not in terminal.wait_for("Stopped")
        terminal.type("echo the sh''ell\r")
        terminal.wait_for("\nthe shell")
        terminal.type("fg\r")
        terminal.wait_for("> a draft")
        terminal.type(" sent\r")
        terminal.wait_for("completed")
        assert "a draft sent" in request_text(vendor)


async def test_shift_tab_cycles_the_thinking_level() -> None:
    async with run_ui() as terminal:
        harness = terminal.tui.conversation.harness
        harness.make_model = lambda name: harness.model
        terminal.press("\x1b[Z")
        await terminal.see("thinking: off")
        terminal.press("\x1b[Z\x1b[Z")
        await terminal.see("thinking: low")
        assert harness.reasoning == "low"
        harness.reasoning = "high"
        terminal.press("\x1b[Z")
        await terminal.see("thinking: off")


async def test_ctrl_c_quits_only_while_its_notice_is_visible() -> None:
    async with run_ui() as terminal:
        terminal.press("ctrl+c")
        await terminal.see("ctrl+c again to quit")
        terminal.press("typed")
        await terminal.see("> typed")
        assert "ctrl+c again to quit" not in terminal.screen.text()
        terminal.press("ctrl+c")
        await terminal.see("ctrl+c again to quit")
        terminal.press("ctrl+r")
        await terminal.see("search:")
        assert "ctrl+c again to quit" not in terminal.screen.text()
        terminal.press("esc", "ctrl+c")
        await terminal.see("ctrl+c again to quit")
        assert terminal.tui.app.application.is_running
        terminal.press("ctrl+c")
        await terminal.until(lambda: not terminal.tui.app.application.is_running)


async def test_ctrl_c_closes_a_panel_and_alt_does_not() -> None:
    async with run_ui() as terminal:
        terminal.press("a draft", "ctrl+r")
        await terminal.see("search: a draft")
        terminal.press("ctrl+c")
        assert "search:" not in await terminal.see("ctrl+c again to quit", "> a draft")
        terminal.press("ctrl+u", "/hel")
        await terminal.see("show commands and keys")
        terminal.press("alt+enter", "and more")
        await terminal.see("> /hel\n  and more")


@pytest.mark.parametrize("columns", [40, 80])
async def test_help_is_complete_in_any_width(columns: int) -> None:
    async with run_ui(columns=columns, rows=200) as terminal:
        terminal.press("/help", "enter")

        def words() -> str:
            return " ".join(terminal.screen.text().split())

        await terminal.until(lambda: "fg resumes" in words())
        assert "…" not in words().partition(" > ")[0]
        assert "/help show commands and keys (also /h, /?, /shortcuts) /quit" in words()


async def test_a_prompt_whose_run_has_started_is_not_queued() -> None:
    release = asyncio.Event()

    @tool(kind="ask")
    async def hold() -> str:
        """Takes its time."""
        await release.wait()
        return "over"

    async with run_ui(answers=[Call("hold"), "ok"], tools={"hold": hold}) as terminal:
        terminal.press("go", "enter")
        await terminal.see("running hold")
        run = terminal.tui.conversation.session.state.run
        assert run is not None
        queue = terminal.tui.composer.queue
        started = Prompt(id=run.started.request, by="tui", content=(Text("go"),))
        queue._requests = [started]  # as it was read a moment ago
        assert len(queue) == 0
        terminal.press("next")
        assert "queued" not in await terminal.see("> next")
        release.set()
        await terminal.see("ok")


async def test_escape_after_a_new_run_started_only_stops_that_run() -> None:
    async with run_ui(answers=["one", "two"]) as terminal:
        terminal.press("first", "enter")
        await terminal.see("one")
        await terminal.until(lambda: terminal.tui.conversation.session.state.run is None)
        terminal.press("esc")
        await terminal.see("esc again to go back")
        session = terminal.tui.conversation.session
        await session.journal.store.submit(session.id, Prompt(id="elsewhere", content=(Text("second"),)))
        await terminal.see("two")
        terminal.press("esc")
        await terminal.see("esc again to go back")
        assert terminal.tui.composer.line.text == ""
        terminal.press("esc")
        await terminal.see("> second")


def test_words_are_a_prompt_and_a_command_after_options_is_refused(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn("done"))
    refused = open_tui(vendor, "sessions")
    assert refused.wait_for_end() == 2
    assert "sessions is a command" in refused.everything()
    terminal = open_tui(vendor, "--", "sessions", "are", "long")
    terminal.wait_for("completed")
    assert "sessions are long" in request_text(vendor)
