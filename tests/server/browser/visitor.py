"""A person at a browser. All is found by what it is and how it is named, as a screen reader finds it."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.server.browser.serving import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)

_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


class Visitor:
    """One tab. What it asks of other origins, and what goes wrong in it, is kept."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.strayed: list[str] = []
        self.errors: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.page.add_init_script(_WATCH)
        self.page.on("request", self._see)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._hear)

    def _see(self, request: Any) -> None:
        if not request.url.startswith((f"{self.address}/", "data:", "blob:")):
            self.strayed.append(request.url)

    def _hear(self, message: Any) -> None:
        if "Content Security Policy" in message.text:
            self.errors.append(message.text)

    def check(self) -> None:
        """Nothing left the origin, nothing failed, nothing was forbidden."""
        assert self.strayed == []
        assert self.errors == []
        assert self.page.evaluate("window.violations") == []

    # --- what is there --------------------------------------------------------------------------------

    @property
    def session(self) -> str:
        """The id in the address."""
        found = re.search(r"/s/([^/#?]+)", self.page.url)
        assert found, self.page.url
        return found[1]

    @property
    def message(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message")

    @property
    def conversation(self) -> Locator:
        return self.page.get_by_role("log", name="Conversation")

    @property
    def answers(self) -> Locator:
        return self.conversation.get_by_role("article", name="Answer")

    @property
    def prompts(self) -> Locator:
        return self.conversation.get_by_role("article", name="You")

    @property
    def question(self) -> Locator:
        return self.page.get_by_role("region", name=re.compile("^Question:"))

    def call(self, tool: str) -> Locator:
        """The cards of a tool's calls."""
        return self.conversation.get_by_role("group", name=re.compile(f"^{tool}:"))

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    # --- what is done ---------------------------------------------------------------------------------

    def enter(self, link: str) -> None:
        self.page.goto(link)
        expect(
            self.page.get_by_role("button", name=re.compile("^(New session|Send|Queue|Stop)$")).first
        ).to_be_visible()

    def begin(self) -> None:
        """A new session, in the folder of the server."""
        self.page.get_by_role("button", name="New session").first.click()
        dialog = self.page.get_by_role("dialog", name="New session")
        dialog.get_by_role("button", name="Start", exact=True).click()
        expect(self.message).to_be_visible()

    def say(self, text: str) -> None:
        self.message.fill(text)
        self.message.press("Enter")

    def choose(self, name: str) -> None:
        """Answers what is asked: selects, and confirms what needs that."""
        self.see_question()
        radios = self.question.get_by_role("radio")
        if not radios.count():
            self.question.get_by_role("button", name=name).click()
            return
        if name.startswith("Always"):
            self.question.get_by_role("radio", name="Remember…").click()
            self.question.get_by_role("button", name="Show what is remembered").click()
        self.question.get_by_role("radio", name=name).click()
        self.question.get_by_role("button", name=f"Confirm: {name}").click()

    def see_question(self) -> None:
        """Waits until keys and clicks count."""
        expect(self.question).to_have_attribute("aria-busy", "false")

    def see_end(self, status: str = "Done") -> None:
        expect(self.conversation.get_by_text(re.compile(f"^{status}( ·|$)")).last).to_be_visible()
        expect(self.button("Stop")).to_have_count(0)
