"""Agents of other vendors as a browser finds them: as a session of a server, and served alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, expect

from tests.agents.serving.served_agent import ServedAgent
from tests.drivers.screen_agents import ECHO_AGENT
from tests.server.browser.serving import Served
from tests.server.browser.visitor import Visitor

PAINTED_AGENT = (*ECHO_AGENT[:-1], str(Path(__file__).with_name("painted_agent.py")))
GREETING = "Hello, I repeat things."


class Site:
    """What a visitor needs of a server."""

    def __init__(self, address: str, path: str) -> None:
        self.address = address
        self.link = address + path


def alone(served: ServedAgent, path: str = "/chat/embed") -> Site:
    return Site(served.url.rstrip("/"), path)


def start_agent(served: Served, *command: str, **options: Any) -> str:
    """A session of an agent, by way of the API."""
    agent = {"command": command or ECHO_AGENT, "ready_after": 0.6, **options}
    return str(served.ask("POST", "sessions", json={"agent": agent})["id"])


class AgentVisitor:
    """At an agent, with both its conversation and its terminal."""

    def __init__(self, at: Visitor) -> None:
        self.at = at
        self.page = at.page

    @property
    def terminal(self) -> Locator:
        return self.page.get_by_role("region", name="Terminal")

    @property
    def keyboard(self) -> Locator:
        """What the terminal is typed into."""
        return self.terminal.get_by_role("textbox", name="Terminal input")

    @property
    def status(self) -> Locator:
        return self.page.locator(".agent-badge")

    def until_it_waits(self) -> None:
        expect(self.status).to_contain_text("ready")

    def open(self, session: str) -> None:
        self.page.goto(f"{self.at.address}/s/{session}")
        self.until_it_waits()

    def ask(self, text: str) -> None:
        """Says it, and sees the answer of the echo agent."""
        self.at.say(text)
        expect(self.at.prompts.last).to_contain_text(text)
        expect(self.at.answers.last).to_contain_text(f"you said: {text}")
        self.until_it_waits()

    def show(self, name: str) -> None:
        self.page.get_by_role("group", name="Layout").get_by_role("button", name=name).click()

    def control(self) -> Locator:
        self.page.get_by_role("tab", name="Control").click()
        return self.page.get_by_role("textbox", name="Keys for the agent")
