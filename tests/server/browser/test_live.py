"""What is seen is what is logged: after a reload, in two tabs, after a restart, and beside the terminal."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from ostler.testkit.vendors import call, turn
from tests.server.browser.conftest import Start, Visit
from tests.server.browser.serving import Halting, Served
from tests.server.browser.visitor import Visitor
from tests.support.command import Ostler
from tests.support.fixtures import Open

pytestmark = pytest.mark.long

WORDS = " ".join(f"word{number}" for number in range(300))
MIDDLE = WORDS.index("word150")
WAITS = "echo begun; until [ -e go ]; do sleep 0.02; done; echo ended"


def halting() -> Halting:
    return Halting(WORDS[:MIDDLE], WORDS[MIDDLE:])


def logged(served: Served, session: str) -> list[str]:
    """The texts of the answers."""
    found = []
    for fact in served.facts(session, "assistant_message"):
        found += [block["text"] for block in fact["content"] if block["type"] == "text"]
    return found


def expect_as_logged(at: Visitor, served: Served) -> None:
    """Nothing is missing and nothing is there twice."""
    texts = logged(served, at.session)
    expect(at.answers).to_have_text([re.compile(f"^\\s*{re.escape(text)}\\s*$") for text in texts])
    prompts = served.facts(at.session, "user_message")
    expect(at.prompts).to_have_count(len(prompts))
    calls = served.facts(at.session, "tool_called")
    expect(at.call("bash")).to_have_count(len(calls))


def test_a_reload_in_the_middle_of_a_stream_loses_nothing_and_repeats_nothing(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    text = halting()
    served = start(turn(text.say(), call("bash", {"command": WAITS})), turn("The end."), options=("--yes",))
    at = visit(served)
    at.begin()
    at.say("Count the words.")
    expect(at.answers).to_contain_text("word149")
    at.page.reload()
    expect(at.answers).to_have_text(re.compile(r"^\s*word0 .* word149\s*$"))
    expect(at.answers).to_have_attribute("aria-busy", "true")
    text.go_on.set()
    expect(at.call("bash").get_by_label("Output")).to_have_text(re.compile(r"^begun\s*$"))
    at.page.reload()
    expect(at.call("bash").get_by_label("Output")).to_have_text(re.compile(r"^begun\s*$"))
    (ostler.work / "go").touch()
    at.see_end()
    expect(at.call("bash").get_by_label("Output")).to_have_text(re.compile(r"^begun\s+ended\s*$"))
    expect_as_logged(at, served)
    at.page.reload()
    at.see_end()
    expect_as_logged(at, served)


def test_two_tabs_see_the_same_and_a_question_closes_in_both(start: Start, visit: Visit) -> None:
    text = halting()
    served = start(turn(call("bash", {"command": "touch checked && echo checked"})), turn(text.say()))
    one = visit(served)
    one.begin()
    two = visit(served, beside=one)
    one.say("Check it.")
    for tab in (one, two):
        expect(tab.prompts).to_contain_text("Check it.")
        expect(tab.question.get_by_label("Command")).to_have_text("touch checked && echo checked")
    two.choose("Allow once")
    for tab in (one, two):
        expect(tab.question).to_have_count(0)
        expect(tab.call("bash").get_by_label("Output")).to_contain_text("checked")
        expect(tab.answers).to_have_text(re.compile(r"word149\s*$"))
    text.go_on.set()
    for tab in (one, two):
        tab.see_end()
        expect_as_logged(tab, served)


def test_a_run_of_the_terminal_is_approved_in_the_browser_and_seen_live_in_both(
    start: Start, visit: Visit, open_tui: Open
) -> None:
    text = halting()
    served = start(
        turn(call("bash", {"command": "touch checked && echo checked"})), turn(text.say()), turn("And again.")
    )
    terminal = open_tui(served.vendor, "--permissions", "ask")
    terminal.wait_for(">")
    terminal.type("Check it.")
    terminal.press("enter")
    terminal.wait_for("1. yes, this once")
    at = visit(served)
    at.page.get_by_role("list", name="Sessions").get_by_role("link", name="Check it.").click()
    expect(at.question.get_by_label("Command")).to_have_text("touch checked && echo checked")
    at.choose("Allow once")
    terminal.wait_for("1. yes, this once", gone=True)
    terminal.wait_for_ever("checked")
    expect(at.call("bash").get_by_label("Output")).to_contain_text("checked")
    terminal.wait_for_ever("word149")
    expect(at.answers).to_have_text(re.compile(r"word149\s*$"))
    text.go_on.set()
    terminal.wait_for_ever("completed")
    at.see_end()
    expect_as_logged(at, served)
    at.say("Once more.")
    terminal.wait_for_ever("And again.")
    expect(at.answers.last).to_contain_text("And again.")


def test_the_page_comes_back_by_itself_when_the_server_does(start: Start, visit: Visit) -> None:
    text = halting()
    served = start(turn("The first answer."), turn(text.say()), turn("From the start."), turn("And on."))
    at = visit(served)
    at.begin()
    at.say("Begin.")
    at.see_end()
    at.say("Count the words.")
    expect(at.answers.last).to_have_text(re.compile(r"word149\s*$"))
    served.kill()
    text.go_on.set()
    offline = at.page.get_by_role("main").get_by_role("status").get_by_text("offline")
    expect(offline).to_be_visible()
    served.start()
    expect(offline).to_have_count(0)
    at.say("Go on.")
    expect(at.answers.last).to_contain_text("And on.")
    at.see_end()
    expect_as_logged(at, served)
    seen = at.conversation.inner_text()
    assert "word149" not in seen, "it was never logged"
    at.page.reload()
    at.see_end()
    assert at.conversation.inner_text() == seen


def test_an_interrupted_run_is_marked_until_it_is_continued(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    text = halting()
    served = start(turn(call("bash", {"command": WAITS})), turn(text.say()), options=("--yes",))
    at = visit(served)
    at.begin()
    at.say("Wait.")
    expect(at.call("bash").get_by_label("Output")).to_have_text(re.compile(r"^begun\s*$"))
    served.kill()
    served.start()
    row = at.page.get_by_role("list", name="Sessions").get_by_role("link")
    cut = at.page.get_by_text("its process is gone")
    expect(cut).to_be_visible()
    expect(row).to_contain_text("interrupted")
    expect(at.call("bash").get_by_text("interrupted")).to_be_visible()
    at.button("Resume").click()
    expect(at.answers).to_have_text(re.compile(r"word149\s*$"))
    expect(cut).to_have_count(0)
    expect(row).to_contain_text("running")
    expect(at.call("bash").get_by_text("The process ended while this call ran").first).to_be_visible()
    expect(at.button("Pause")).to_be_visible()
    text.go_on.set()
    at.see_end()


def test_the_sender_of_a_message_sees_its_answer(start: Start, visit: Visit) -> None:
    served = start(turn("line\n\n" * 200), turn("The last answer."))
    at = visit(served)
    at.begin()
    at.say("A lot.")
    at.see_end()
    at.conversation.evaluate("one => { one.scrollTop = 0; }")
    expect(at.button("Scroll to the end")).to_be_visible()
    at.say("A little.")
    expect(at.answers.last).to_contain_text("The last answer.")
    expect(at.answers.last).to_be_in_viewport()
