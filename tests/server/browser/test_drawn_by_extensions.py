"""What extensions draw, and what they wish of the page."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest
from playwright.sync_api import expect

from ostler.testkit.vendors import call, turn
from tests.server.browser.conftest import Start, Visit
from tests.support.command import Ostler

pytestmark = pytest.mark.long

EXTENSION = """
from ostler.extensions import Content, Overlay, Theme, ThemeColor, Widget

times = []

def setup(ostler):
    @ostler.command("bar")
    def bar(arguments, context):
        def render(width):
            times.append(width)
            return "\\x1b[1;32mall well\\x1b[0m <b>" + "=" * (width // 2) + f" {len(times)}"
        context.ui.set_widget(Widget("bar", Content("plain", render=render, hz=2)))
        context.print("\\x1b[38;2;200;0;0mred words\\x1b[0m")

    @ostler.command("ask")
    async def ask(arguments, context):
        drawn = Content("plain", render=lambda width: "\\x1b[33mdrawn\\x1b[0m at " + "." * (width // 4))
        closed = await context.ui.overlay(Overlay("Look", drawn, actions=("Keep", "Drop")))
        return closed.action

    @ostler.command("leave")
    async def leave(arguments, context):
        await context.new_session(arguments)

    @ostler.command("write")
    def write(arguments, context):
        context.ui.set_editor_text(arguments)

    @ostler.command("paint")
    def paint(arguments, context):
        context.ui.register_theme("sea", Theme(text=ThemeColor("#003366", "#cceeff")))
        context.ui.set_theme("sea")

    @ostler.tool
    def shout(word: str) -> str:
        "Says it louder."
        return word.upper()

    ostler.tool_renderer(
        "shout",
        title="Shouting",
        color="#aa3300",
        header=lambda arguments, width: "\\x1b[35m" + arguments["word"] + "\\x1b[0m, loudly",
        body=lambda result, failed, width: "\\x1b[1m~~ " + result + " ~~",
    )
"""


def extension(ostler: Ostler) -> str:
    path = ostler.home.parent / "painter.py"
    path.write_text(dedent(EXTENSION))
    return str(path)


def test_widgets_and_calls_are_drawn_as_their_extension_says(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    served = start(
        turn(call("shout", {"word": "hello"})), turn("Done."), options=("--yes", "-e", extension(ostler))
    )
    at = visit(served)
    at.begin()
    at.say("/bar")
    widget = at.page.get_by_role("status", name="painter")
    expect(widget).to_contain_text(re.compile("all well <b>=+ [2-9]"))
    expect(widget.locator(".ansi-green")).to_have_text("all well")
    printed = at.conversation.get_by_text("red words")
    expect(printed).to_have_css("color", "rgb(200, 0, 0)")
    at.say("/ask")
    expect(at.question.get_by_text("drawn", exact=True)).to_have_class("ansi-yellow")
    at.choose("Keep")
    expect(at.conversation.get_by_text("Keep", exact=True)).to_be_visible()
    at.say("Shout.")
    at.see_end()
    card = at.call("shout")
    expect(card).to_contain_text("Shouting")
    expect(card.get_by_text("hello", exact=True)).to_have_class("ansi-magenta")
    card.get_by_role("button", name="Shouting").click()
    expect(card.get_by_label("Result")).to_have_text("~~ HELLO ~~")


def test_an_extension_leads_to_another_session_and_writes_in_the_line(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    served = start(turn("Here we are."), options=("--yes", "-e", extension(ostler)))
    at = visit(served)
    at.begin()
    first = at.session
    at.say("/write dear diary")
    expect(at.message).to_have_value("dear diary")
    at.page.reload()
    expect(at.message).to_have_value("dear diary")
    at.message.fill("mine")
    at.page.reload()
    expect(at.message).to_have_value("mine")
    at.say("/leave Begin there.")
    expect(at.answers).to_have_text("Here we are.")
    assert at.session != first
    at.page.go_back()
    expect(at.conversation.get_by_text("/leave")).to_be_visible()
    assert at.session == first, "what was wished before is not wished again"
    at.say("/paint")
    expect(at.page.locator("body")).to_have_css("color", "rgb(0, 51, 102)")
