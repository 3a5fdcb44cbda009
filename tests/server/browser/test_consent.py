"""Questions on the page: what they show, and which keys, clicks and taps answer them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from ostler.testkit.vendors import call, turn
from tests.server.browser.conftest import Start, Visit
from tests.server.browser.serving import Served
from tests.server.browser.visitor import Visitor
from tests.support.command import Ostler

pytestmark = pytest.mark.long

FROZEN = "window.performance.now = () => 0"
"""Time stands still: no question is ever seen for long enough."""


def asking(start: Start, visit: Visit, *commands: str, frozen: bool = False) -> tuple[Served, Visitor]:
    """A page with a question about the first of these commands; the others follow."""
    served = start(*(turn(call("bash", {"command": one})) for one in commands), turn("Done then."))
    at = visit(served)
    if frozen:
        at.page.add_init_script(FROZEN)
        at.page.reload()
    at.begin()
    at.say("Go.")
    expect(at.question.get_by_label("Command")).to_have_text(commands[0])
    return served, at


def answers(served: Served, at: Visitor) -> list[tuple[str, object]]:
    facts = served.facts(at.session, "question_answered")
    return [(fact["outcome"], fact.get("answer")) for fact in facts]


def selected(at: Visitor) -> Locator:
    return at.question.get_by_role("radio", checked=True)


def test_nothing_answers_in_the_first_moments_and_no_letter_is_lost(start: Start, visit: Visit) -> None:
    served, at = asking(start, visit, "touch made", frozen=True)
    at.page.evaluate("document.activeElement.blur()")
    at.page.keyboard.type("you must")
    expect(at.message).to_have_value("you must")
    at.message.fill("")
    at.question.evaluate("one => one.focus()")
    at.page.keyboard.press("Enter")
    at.question.evaluate("one => one.focus()")
    at.page.keyboard.type("u")
    expect(at.message).to_have_value("u")
    at.message.fill("")
    for name in ("Allow once", "Deny", "Remember…"):
        at.question.get_by_role("radio", name=name).click()
    expect(selected(at)).to_have_count(0)
    expect(at.question.get_by_role("button", name="Select an answer first")).to_be_disabled()
    assert answers(served, at) == []
    expect(at.question).to_be_visible()


def test_an_answer_takes_a_selection_and_then_enter(start: Start, visit: Visit, ostler: Ostler) -> None:
    served, at = asking(start, visit, "touch made")
    expect(at.question).to_be_focused()
    keys = at.page.keyboard
    expect(selected(at)).to_have_count(0)
    keys.press("Enter")
    keys.press("Enter")
    expect(selected(at)).to_have_count(0)
    for key, name in (("y", "Allow once"), ("Escape", ""), ("2", "Deny"), ("ArrowUp", "Allow once")):
        keys.press(key)
        if name:
            expect(selected(at)).to_have_accessible_name(re.compile(name))
        else:
            expect(selected(at)).to_have_count(0)
    assert answers(served, at) == []
    keys.press("Enter")
    at.see_end()
    assert answers(served, at) == [("answered", "yes")]
    assert (ostler.work / "made").exists()


def test_wider_answers_are_behind_another_step(start: Start, visit: Visit) -> None:
    served, at = asking(start, visit, "touch made")
    expect(at.question).to_be_focused()
    keys = at.page.keyboard
    expect(at.question.get_by_role("radio")).to_have_count(3)
    for key in ("u", "Enter"):  # a letter of an answer that is not shown is a reason
        keys.press(key)
        if key == "u":
            expect(at.question.get_by_label("Reason to deny")).to_have_value("u")
            at.question.get_by_label("Reason to deny").fill("")
            at.question.evaluate("one => one.focus()")
    keys.press("r")
    keys.press("Enter")
    expect(at.question.get_by_role("radio", name="Always in all projects")).to_be_visible()
    expect(at.question.get_by_text("bash(")).not_to_have_count(0)
    assert answers(served, at) == []
    keys.press("Enter")
    keys.press("s")
    expect(selected(at)).to_have_accessible_name(re.compile("Always in this session"))
    keys.press("Enter")
    at.see_end()
    assert answers(served, at) == [("answered", "session")]


def test_typed_text_denies_and_the_model_gets_it(start: Start, visit: Visit, ostler: Ostler) -> None:
    served, at = asking(start, visit, "touch made")
    expect(at.question).to_be_focused()
    at.page.keyboard.type("you must not touch this")
    expect(at.question.get_by_label("Reason to deny")).to_have_value("you must not touch this")
    expect(selected(at)).to_have_count(0)
    at.page.keyboard.press("Enter")
    at.see_end()
    assert answers(served, at) == [("declined", "you must not touch this")]
    assert not (ostler.work / "made").exists()
    assert "you must not touch this" in str(served.told[-1]["messages"])


def test_a_held_key_answers_nothing(start: Start, visit: Visit, ostler: Ostler) -> None:
    served, at = asking(start, visit, "touch one", "touch two", "touch three")
    expect(at.question).to_be_focused()
    keys = at.page.keyboard
    for _ in range(4):  # the browser marks all but the first as repeated
        keys.down("y")
    for _ in range(4):
        keys.down("Enter")
    keys.up("y")
    keys.up("Enter")
    expect(at.question.get_by_label("Command")).to_have_text("touch two")
    at.see_question()
    for _ in range(3):
        keys.down("Enter")
    keys.up("Enter")
    expect(selected(at)).to_have_count(0)
    assert answers(served, at) == [("answered", "yes")]
    assert not (ostler.work / "two").exists()


def test_a_draft_keeps_the_focus_until_a_key_moves_it(start: Start, visit: Visit) -> None:
    served = start(turn(call("bash", {"command": "touch made"})), turn("Done then."))
    at = visit(served)
    at.begin()
    at.say("Go.")
    expect(at.question).to_be_visible()
    at.message.fill("and then tidy up")
    at.see_question()
    expect(at.message).to_be_focused()
    at.page.keyboard.press("Enter")  # queues the draft
    waiting = at.page.get_by_role("region", name="Queued messages")
    expect(waiting).to_contain_text("and then tidy up")
    assert answers(served, at) == []
    at.message.fill("another draft")
    at.page.keyboard.press("Alt+q")
    expect(at.question).to_be_focused()
    expect(at.message).to_have_value("another draft")
    at.page.keyboard.press("n")
    at.page.keyboard.press("Enter")
    expect(at.question).to_have_count(0)
    assert answers(served, at) == [("answered", "no")]


def test_an_open_question_is_shown_again_after_a_reload_and_a_kill(start: Start, visit: Visit) -> None:
    served, at = asking(start, visit, "touch made")
    at.page.reload()
    expect(at.question.get_by_label("Command")).to_have_text("touch made")
    served.kill()
    served.start()
    at.page.reload()
    expect(at.question.get_by_label("Command")).to_have_text("touch made")
    at.choose("Allow once")
    at.see_end()
    assert answers(served, at) == [("answered", "yes")]


def test_a_change_is_shown_as_the_diff_of_the_file_as_it_is(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    lines = [f"line {number}" for number in range(1, 201)]
    (ostler.work / "long.txt").write_text("\n".join(lines) + "\n")
    lines[119], lines[179] = "changed here", "and there"
    served = start(
        turn(call("read", {"path": "long.txt"})),
        turn(call("write", {"path": "long.txt", "content": "\n".join(lines) + "\n"})),
        turn("Done then."),
    )
    at = visit(served)
    at.begin()
    at.say("Go.")
    changes = at.question.get_by_role("region", name="Changes")
    expect(changes.get_by_text("changed here")).to_be_in_viewport()
    expect(changes.get_by_text("line 118", exact=True).first).to_be_visible()
    expect(changes.get_by_text("120", exact=True).first).to_be_visible()
    expect(changes.get_by_text("line 60", exact=True)).to_have_count(0)
    expect(at.question.get_by_text("2 changes in this file")).to_be_visible()


def test_what_could_deceive_is_made_visible(start: Start, visit: Visit) -> None:
    command = "echo safe\u202e; touch p\u0430id #" + " " * 200 + "rm -rf x\u200b"
    served = start(turn(call("bash", {"command": command})), turn("Done then."))
    at = visit(served)
    at.begin()
    at.say("Go.")
    shown = at.question.get_by_label("Command")
    for mark in ("⟨U+202E⟩", "p⟨U+0430⟩id", "⟨200 spaces⟩", "rm -rf x⟨U+200B⟩"):
        expect(shown).to_contain_text(mark)
    expect(at.question.get_by_role("alert")).to_contain_text("4 hidden or misleading characters")
