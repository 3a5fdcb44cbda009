"""The screen of a terminal agent in a real terminal, over the wire at a server's root."""

from __future__ import annotations

import os
import signal
import termios
from pathlib import Path

import pytest

from tests.support.attach import Attach, fake_server
from tests.tui.terminal import Terminal

GREETING = "Hello, I repeat things."
BACK, FORTH = "\x1b[5;2~", "\x1b[6;2~"


def last_row(terminal: Terminal) -> str:
    return terminal.screen().splitlines()[-1]


@pytest.mark.parametrize("wire", ["bytes", "text"])
def test_the_screen_is_shown_and_keys_reach_the_agent(attach: Attach, tmp_path: Path, wire: str) -> None:
    with fake_server(tmp_path, wire) as server:
        terminal = attach(server.address)
        terminal.wait_for(GREETING)
        terminal.wait_for("custom")
        assert "ctrl+] detaches" in last_row(terminal)
        terminal.type("gänse 你好")
        terminal.wait_for("> gänse 你好")
        terminal.press("enter")
        terminal.wait_for("you said: gänse 你好")
        terminal.type("\x1d")
        assert terminal.wait_for_end() == 0


def test_detaching_keeps_the_agent_running_and_restores_the_terminal(attach: Attach, tmp_path: Path) -> None:
    with fake_server(tmp_path) as server:
        terminal = attach(server.address)
        terminal.wait_for(GREETING)
        terminal.type("half of it")
        terminal.wait_for("> half of it")
        terminal.type("\x1d")
        assert terminal.wait_for_end() == 0
        screen = terminal.screen()
        assert screen == "ostler: detached; the agent continues"
        assert not terminal.emulator.mode(2004)
        assert not terminal.emulator.mode(1049)
        assert termios.tcgetattr(terminal.descriptor)[3] & termios.ECHO
        again = attach(server.address)
        again.wait_for("> half of it")


def test_ctrl_c_and_pastes_reach_the_agent_and_the_detach_key_is_configurable(
    attach: Attach, tmp_path: Path
) -> None:
    with fake_server(tmp_path) as server:
        terminal = attach("--url", f"http://{server.address}/", "--detach-key", "ctrl+q")
        terminal.wait_for(GREETING)
        terminal.type("/think\r")
        terminal.wait_for("Thinking...")
        terminal.press("ctrl+c")
        terminal.wait_for("interrupted")
        assert terminal.emulator.mode(2004)
        terminal.paste("two\nlines \x11 and more")
        terminal.wait_for("lines")
        terminal.press("enter")
        terminal.wait_for("you said: two")
        terminal.press("ctrl+q")
        assert terminal.wait_for_end() == 0


def test_several_clients_share_a_screen_and_one_is_read_only(attach: Attach, tmp_path: Path) -> None:
    with fake_server(tmp_path) as server:
        first, second = attach(server.address), attach(server.address, "--read-only", columns=100, rows=30)
        for terminal in (first, second):
            terminal.wait_for(GREETING)
        second.type("unheard")
        first.type("heard\r")
        for terminal in (first, second):
            terminal.wait_for("you said: heard")
            assert "unheard" not in terminal.screen()
        assert "read-only" in last_row(second)


def test_a_smaller_window_shows_the_end_and_scrolls_back(attach: Attach, tmp_path: Path) -> None:
    with fake_server(tmp_path) as server:
        terminal = attach(server.address, columns=72, rows=10)
        terminal.wait_for(GREETING)
        for number in range(8):
            terminal.type(f"line {number}\r")
            terminal.wait_for(f"you said: line {number}")
        assert GREETING not in terminal.screen()
        terminal.wait_for("rows 12-20 of 1000")
        terminal.type(BACK * 3)
        terminal.wait_for(GREETING)
        terminal.type(FORTH * 3)
        terminal.wait_for("you said: line 7")
        terminal.resize(80, 40)
        terminal.wait_for(GREETING)
        terminal.wait_for("you said: line 7")
        terminal.resize(100, 8)
        terminal.wait_for(GREETING, gone=True)
        terminal.wait_for("of 1000")
        terminal.resize(40, 40)  # the small agent leaves its cursor at the end of its box, in column 60
        terminal.wait_for("you said: line 7", gone=True)
        terminal.wait_for("──────────")


def test_a_larger_window_shows_the_whole_screen(attach: Attach, tmp_path: Path) -> None:
    with fake_server(tmp_path, columns=40, rows=12) as server:
        terminal = attach(server.address, columns=100, rows=30)
        terminal.wait_for(GREETING)
        assert " of 12" not in last_row(terminal)
        terminal.type("/size\r")
        terminal.wait_for("40x12")


def test_the_view_reconnects_after_the_server_was_down(attach: Attach, tmp_path: Path) -> None:
    with fake_server(tmp_path) as server:
        terminal = attach(server.address, columns=120)
        terminal.wait_for(GREETING)
        terminal.type("before\r")
        terminal.wait_for("you said: before")
        server.end(signal.SIGKILL)
        terminal.wait_for("reconnecting")
        with fake_server(tmp_path, port=server.port):
            terminal.wait_for("reconnecting", gone=True)
            terminal.wait_for("you said: before", gone=True)
            terminal.type("after\r")
            terminal.wait_for("you said: after")


def test_the_view_ends_with_the_agent(attach: Attach, tmp_path: Path) -> None:
    with fake_server(tmp_path) as server:
        terminal = attach(server.address)
        terminal.wait_for(GREETING)
        terminal.type("/exit 0\r")
        assert terminal.wait_for_end() == 0
        assert terminal.screen() == "ostler: the agent has ended"


def test_signals_restore_the_terminal(attach: Attach, tmp_path: Path) -> None:
    with fake_server(tmp_path) as server:
        terminals = {by: attach(server.address) for by in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
        for by, terminal in terminals.items():
            terminal.wait_for(GREETING)
            os.kill(terminal.process.pid, by)
            assert terminal.wait_for_end() == 128 + by
            assert terminal.screen() == ""
            assert termios.tcgetattr(terminal.descriptor)[3] & termios.ICANON


def test_attach_to_an_agent_without_a_screen_points_to_its_page(attach: Attach, tmp_path: Path) -> None:
    with fake_server(tmp_path, "acp") as server:
        terminal = attach(server.address)
        assert terminal.wait_for_end() == 2
        assert "/chat/embed" in terminal.screen().replace("\n", "")
