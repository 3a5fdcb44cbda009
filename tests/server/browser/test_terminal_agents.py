"""Agents of other vendors in the page: the conversation, and the live terminal beside it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ostler.server.tokens import TokenStore
from tests.agents.serving.served_agent import serving_agent
from tests.drivers.screen_agents import ECHO_AGENT
from tests.server.browser.agent_sites import GREETING, PAINTED_AGENT, AgentVisitor, Site, start_agent
from tests.server.browser.conftest import Start, Visit
from tests.server.browser.material import PROMPT
from tests.server.browser.pictures import picture
from tests.server.browser.test_looks import (
    PHONE,
    names_are_there,
    nothing_is_wider_than_the_window,
    text_can_be_read,
)
from tests.support.command import Ostler

pytestmark = pytest.mark.long


def test_an_agent_is_started_typed_to_and_talked_to(start: Start, visit: Visit) -> None:
    served = start()
    at = visit(served)
    agent = AgentVisitor(at)
    at.button("New session").first.click()
    dialog = at.page.get_by_role("dialog", name="New session")
    dialog.get_by_text("Another vendor's agent").click()
    dialog.get_by_role("combobox", name="Start command").fill(shlex.join(ECHO_AGENT))
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(agent.terminal).to_contain_text(GREETING)
    expect(at.answers).to_contain_text(GREETING)
    agent.until_it_waits()

    agent.keyboard.press_sequentially("typed by hand")
    expect(agent.terminal).to_contain_text("> typed by hand")
    agent.keyboard.press("Enter")
    expect(agent.terminal).to_contain_text("you said: typed by hand")
    agent.until_it_waits()
    agent.keyboard.press("Shift+Escape")
    expect(at.message).to_be_focused()

    agent.ask("a message")
    expect(agent.terminal).to_contain_text("you said: a message")
    names_are_there(at)
    session = at.session
    at.page.reload()
    expect(at.prompts).to_have_text(["a message"])
    expect(at.answers).to_have_count(2)
    expect(at.answers.first).to_contain_text("typed by hand")
    expect(agent.terminal).to_contain_text("you said: a message")
    assert served.facts(session, "user_message")[0]["content"] == [{"type": "text", "text": "a message"}]
    at.page.get_by_role("list", name="Sessions").get_by_role("link", name="a message").click()
    expect(agent.terminal).to_contain_text("you said: a message")


def test_two_tabs_see_the_same_terminal_and_one_may_only_look(start: Start, visit: Visit) -> None:
    served = start()
    session = start_agent(served)
    first, second = (
        AgentVisitor(visit(served)),
        AgentVisitor(visit(Site(served.address, f"/#token={served.token}"))),
    )
    looking = TokenStore(served.ostler.home / "tokens.json").new("looks on", "observe")
    third = AgentVisitor(visit(Site(served.address, f"/#token={looking}")))
    for one in (first, second, third):
        one.open(session)
        expect(one.terminal).to_contain_text(GREETING)
    first.keyboard.press_sequentially("one")
    expect(second.terminal).to_contain_text("> one")
    second.keyboard.press_sequentially(" two")
    expect(first.terminal).to_contain_text("> one two")
    expect(third.terminal).to_contain_text("> one two")
    expect(third.at.message).to_be_disabled()
    third.keyboard.press_sequentially("three")
    first.keyboard.press("Enter")
    expect(third.terminal).to_contain_text("you said: one two")
    expect(third.terminal).not_to_contain_text("three")


def test_what_is_sent_while_it_works_waits_and_stop_interrupts_it(start: Start, visit: Visit) -> None:
    served = start()
    agent = AgentVisitor(visit(served))
    at = agent.at
    agent.open(start_agent(served, type="custom"))
    at.say("/think")
    expect(agent.status).to_contain_text("working")
    expect(agent.terminal).to_contain_text("Thinking...")
    expect(at.answers.last).to_contain_text("Thinking...")
    agent.until_it_waits()  # a screen that stands still
    agent.keyboard.press_sequentially("/later 3")
    agent.keyboard.press("Enter")
    expect(agent.terminal).to_contain_text("first thoughts")
    at.say("afterwards")
    waiting = at.page.get_by_role("region", name="Queued messages")
    expect(waiting).to_contain_text("afterwards")
    expect(agent.terminal).to_contain_text("second thoughts")
    expect(at.prompts.last).to_have_text("afterwards")
    expect(waiting).to_have_count(0)
    agent.until_it_waits()

    at.say("/later 4")
    expect(agent.terminal).to_contain_text("> /later 4")
    at.button("Stop").click()
    expect(at.conversation.get_by_text("Stopped")).to_be_visible()
    agent.until_it_waits()


def test_control_sends_each_key_and_shows_it(start: Start, visit: Visit) -> None:
    served = start()
    agent = AgentVisitor(visit(served))
    agent.open(start_agent(served))
    keys = agent.control()
    expect(keys).to_be_focused()
    keys.press_sequentially("raw")
    sent = agent.page.get_by_role("list", name="Keys sent")
    expect(sent.get_by_role("listitem")).to_have_text(["r", "a", "w"])
    expect(agent.terminal).to_contain_text("> raw")
    agent.page.get_by_role("group", name="Keys").get_by_role("button", name="Enter").click()
    expect(agent.terminal).to_contain_text("you said: raw")
    expect(sent.get_by_role("listitem")).to_have_count(0)
    keys.press("Shift+Escape")
    expect(agent.at.message).to_be_focused()


def test_files_are_named_by_their_path(start: Start, visit: Visit, tmp_path: Path) -> None:
    served = start()
    agent = AgentVisitor(visit(served))
    agent.open(start_agent(served))
    (tmp_path / "hay.txt").write_text("dry")
    agent.at.message.fill("look at")
    agent.page.locator("input[type=file]").set_input_files(tmp_path / "hay.txt")
    expect(agent.at.message).not_to_have_value("look at")
    said = agent.at.message.input_value()
    path = Path(said.removeprefix('look at @"').removesuffix('"'))
    assert path.read_text() == "dry"


def test_an_agent_that_has_ended_is_started_again(start: Start, visit: Visit) -> None:
    served = start()
    agent = AgentVisitor(visit(served))
    agent.open(start_agent(served))
    agent.ask("before")
    agent.at.button("More").click()
    agent.page.get_by_role("menuitem", name="Stop the agent").click()
    expect(agent.status).to_contain_text("ended")
    expect(agent.at.message).to_be_disabled()
    agent.at.button("Restart").click()
    agent.until_it_waits()
    agent.ask("after")
    expect(agent.at.prompts).to_have_text(["before", "after"])


def test_the_terminal_of_another_process_is_seen_as_text(start: Start, visit: Visit, ostler: Ostler) -> None:
    served = start()
    with serving_agent(ostler, agent=ECHO_AGENT) as other:
        other.until_stable()
        agent = AgentVisitor(visit(served))
        agent.open(other.session)
        expect(agent.terminal.get_by_label("Screen")).to_contain_text(GREETING)
        agent.ask("from elsewhere")
        expect(agent.terminal.get_by_label("Screen")).to_contain_text("you said: from elsewhere")
        assert ("user", "from elsewhere") in other.messages


def test_what_is_written_at_both_ends_of_a_high_terminal_is_seen_together(start: Start, visit: Visit) -> None:
    served = start()
    agent = AgentVisitor(visit(served))
    script = r"printf 'the beginning\033[299;1Hthe end\r\n> '; exec cat"
    agent.open(start_agent(served, "sh", "-c", script, rows=300))
    rows = agent.terminal.locator(".xterm-rows > div")
    first, last = rows.filter(has_text="the beginning"), rows.filter(has_text="the end")
    expect(first).to_be_in_viewport()
    expect(last).to_be_in_viewport()
    expect(rows.filter(visible=True)).to_have_count(4)

    last.dblclick(position={"x": 12, "y": 5}, force=True)  # a word is selected where it is seen
    marked = agent.terminal.locator(".xterm-selection > div").first.bounding_box()
    place = last.bounding_box()
    assert marked and place and marked["width"] < 40
    assert abs(marked["y"] - place["y"]) < 1 and marked["height"] == place["height"]

    agent.keyboard.press_sequentially("typed")
    expect(agent.terminal).to_contain_text("> typed")
    agent.page.set_viewport_size({"width": 1280, "height": 6000})
    expect(rows.filter(visible=True)).to_have_count(300)


def test_a_phone_shows_one_at_a_time(start: Start, visit: Visit) -> None:
    served = start()
    agent = AgentVisitor(visit(served, **PHONE))
    agent.page.goto(f"{served.address}/s/{start_agent(served)}")
    expect(agent.at.answers).to_contain_text(GREETING)
    expect(agent.terminal).to_have_count(0)
    nothing_is_wider_than_the_window(agent.at)
    agent.show("Terminal")
    expect(agent.terminal).to_contain_text(GREETING)
    expect(agent.at.message).to_be_hidden()
    nothing_is_wider_than_the_window(agent.at)
    agent.keyboard.press_sequentially("thumbs")
    expect(agent.terminal).to_contain_text("> thumbs")
    agent.show("Conversation")
    expect(agent.at.message).to_be_visible()
    agent.page.reload()
    expect(agent.at.answers).to_contain_text(GREETING)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_coloured_terminal_follows_the_theme(
    start: Start, visit: Visit, ostler: Ostler, scheme: str
) -> None:
    served = start()
    agent = AgentVisitor(visit(served, color_scheme=scheme, viewport={"width": 1440, "height": 840}))
    session = start_agent(served, *PAINTED_AGENT, type="claude")
    agent.open(session)
    agent.at.say(PROMPT)
    expect(agent.terminal).to_contain_text("3 checks passed")
    expect(agent.at.answers.last).to_contain_text("The first of equals wins now")
    agent.until_it_waits()
    text_can_be_read(agent.at)
    shade = "getComputedStyle(document.querySelector('.xterm-rows')).color"
    before = agent.page.evaluate(shade)
    if scheme == "light":
        picture(agent.at, "terminal")
    agent.page.get_by_role("button", name="Theme: ").click()
    agent.page.wait_for_function(f"before => {shade} !== before", arg=before)
