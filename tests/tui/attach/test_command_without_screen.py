"""`ostler attach` to an agent without a screen shows its conversation."""

from __future__ import annotations

import sys

from ostler.server.tokens import TokenStore
from tests.agents.serving.served_agent import serving_agent
from tests.drivers.protocol_agents import _HERE
from tests.support.attach import Attach
from tests.support.command import Ostler
from tests.tui.terminal import Terminal

ACP_AGENT = (sys.executable, str(_HERE / "acp_agent.py"))


def send_line(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.wait_for(f"> {text}")
    terminal.press("enter")


def test_an_agent_without_a_screen_is_prompted_in_its_conversation(attach: Attach, ostler: Ostler) -> None:
    with serving_agent(ostler, "--transport", "acp", agent=ACP_AGENT) as served:
        token = TokenStore(ostler.home / "tokens.json").new("attach", "all")
        without = attach(served.url)
        assert without.wait_for_end() == 2
        assert "/chat/embed" in without.screen().replace("\n", "")
        assert "--token" in without.screen().replace("\n", "")
        terminal = attach(served.url, OSTLER_TOKEN=token)
        terminal.wait_for("continues when you leave")
        send_line(terminal, "hello")
        terminal.wait_for("you said: hello")
        send_line(terminal, "run ls")
        terminal.answer("1")
        terminal.wait_for("Done with yes-1.")
        send_line(terminal, "wait")
        terminal.wait_for("waiting")
        terminal.press("esc")
        terminal.wait_for("cancelled")
