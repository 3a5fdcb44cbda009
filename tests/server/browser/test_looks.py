"""For everybody: names, a focus that is seen, contrast, dark and light, the width of a phone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ostler.testkit.vendors import Think, call, turn
from tests.server.browser.conftest import Start, Visit
from tests.server.browser.material import ANSWER, COMMAND, EDIT, PROMPT, lay_out
from tests.server.browser.pictures import picture
from tests.server.browser.serving import Served
from tests.server.browser.visitor import Visitor
from tests.support.command import Ostler

pytestmark = pytest.mark.long

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
NAMELESS = re.compile(
    r"^ *- (?:button|link|textbox|searchbox|combobox|checkbox|radio|img|dialog|menuitem|option|listbox)"
    r"(?: \[[^\]]*\])*:?$",
    re.MULTILINE,
)


SMALL = """
all => all
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 24)
  .map((one) => one.outerHTML.slice(0, 100))
"""
FOCUSED = """
() => {
  const one = document.activeElement;
  const around = [one, one.parentElement, one.closest("form") ?? one];
  const drawn = () => around.map((each) => {
    const { outline, border, boxShadow, background } = getComputedStyle(each);
    return [outline, border, boxShadow, background].join();
  }).join();
  const focused = drawn();
  one.blur();
  const isSeen = drawn() !== focused;
  one.focus();
  const { width, height } = one.getBoundingClientRect();
  return [one.outerHTML.slice(0, 120), isSeen, width * height > 0];
}
"""


def begun(start: Start, ostler: Ostler) -> Served:
    lay_out(ostler.work)
    return start(
        turn(Think(("Equals decide.",)), "I look at it.", call("read", {"path": "longest.py"})),
        turn(call("edit", EDIT)),
        turn(call("bash", {"command": COMMAND})),
        turn(ANSWER),
    )


def names_are_there(at: Visitor) -> None:
    shown = at.page.locator("body").aria_snapshot()
    assert not NAMELESS.findall(shown), shown


def nothing_is_wider_than_the_window(at: Visitor) -> None:
    wide, there = at.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= there


def text_can_be_read(at: Visitor) -> None:
    """As WCAG AA wants it: 4.5 to 1, and 3 to 1 for large text."""
    assert at.page.evaluate(CONTRAST) == []


def test_everything_has_a_name_and_what_changes_is_announced(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    served = begun(start, ostler)
    at = visit(served)
    names_are_there(at)
    at.begin()
    names_are_there(at)
    at.say(PROMPT)
    expect(at.question).to_be_visible()
    live = at.page.locator("[aria-live=polite]")
    expect(live).to_contain_text("Question: ")
    names_are_there(at)
    at.choose("Allow once")
    expect(at.question.get_by_label("Command")).to_be_visible()
    at.choose("Allow once")
    at.see_end()
    expect(live).to_contain_text("The first of equals wins")
    names_are_there(at)
    for opened in ("Branches", re.compile("Context: ")):
        at.page.get_by_role("button", name=opened).click()
        names_are_there(at)
    at.button("More").click()
    names_are_there(at)
    at.page.keyboard.press("Escape")
    for key in ("m", "n", "?", "Control+k"):
        at.page.keyboard.press(key)
        expect(at.page.get_by_role("dialog")).to_be_visible()
        names_are_there(at)
        at.page.keyboard.press("Escape")
        expect(at.page.get_by_role("dialog")).to_have_count(0)
    assert at.page.evaluate("document.documentElement.lang") == "en"
    assert at.page.get_by_role("heading", level=1).count() == 1
    assert at.page.get_by_role("main").count() == 1


def test_the_focus_is_seen_wherever_it_goes(start: Start, visit: Visit, ostler: Ostler) -> None:
    served = begun(start, ostler)
    at = visit(served)
    at.begin()
    at.say(PROMPT)
    expect(at.question).to_be_visible()
    seen = set()
    for _ in range(60):
        at.page.keyboard.press("Tab")
        focused = at.page.evaluate(FOCUSED)
        if focused[0] in seen or focused[0].startswith("<body"):
            continue
        seen.add(focused[0])
        assert focused[1], f"no focus is seen at {focused[0]}"
        assert focused[2], f"the focus is on something that is not seen: {focused[0]}"
    assert len(seen) > 12


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_light_and_dark_and_can_be_read_in_both(
    start: Start, visit: Visit, ostler: Ostler, scheme: str
) -> None:
    served = begun(start, ostler)
    at = visit(served, color_scheme=scheme)
    shade = "getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number)"
    is_dark = sum(at.page.evaluate(shade)) < 3 * 128
    assert is_dark == (scheme == "dark")
    at.begin()
    at.say(PROMPT)
    expect(at.question).to_be_visible()
    text_can_be_read(at)
    at.choose("Allow once")
    expect(at.question.get_by_label("Command")).to_be_visible()
    at.choose("Allow once")
    at.see_end()
    text_can_be_read(at)
    if is_dark:
        picture(at, "dark")
    other = "Dark" if scheme == "light" else "Light"
    at.page.get_by_role("button", name=re.compile("^Theme: ")).click()
    expect(at.page.get_by_role("button", name=f"Theme: {other}. Switch")).to_be_visible()
    assert (sum(at.page.evaluate(shade)) < 3 * 128) != is_dark
    at.page.reload()
    at.see_end()
    assert (sum(at.page.evaluate(shade)) < 3 * 128) != is_dark
    text_can_be_read(at)


def allow_by_taps(at: Visitor) -> None:
    at.see_question()
    at.question.get_by_role("radio", name="Allow once").tap()
    at.question.get_by_role("button", name="Confirm: Allow once").tap()


def test_a_phone_shows_all_of_it(start: Start, visit: Visit, ostler: Ostler) -> None:
    served = begun(start, ostler)
    at = visit(served, **PHONE)
    nothing_is_wider_than_the_window(at)
    at.page.get_by_role("button", name="New session").last.tap()
    nothing_is_wider_than_the_window(at)
    at.button("Start").tap()
    at.message.fill(PROMPT)
    at.button("Send").tap()
    expect(at.question).to_have_accessible_name("Question: Allow edit?")
    nothing_is_wider_than_the_window(at)
    for name in ("Allow once", "Deny", "Remember…"):
        expect(at.question.get_by_role("radio", name=name)).to_be_in_viewport()
    expect(at.question.get_by_role("button", name="Select an answer first")).to_be_in_viewport()
    for beside in (at.message, at.button("Stop").last):
        expect(beside).to_be_in_viewport(ratio=0.95)
    allow_by_taps(at)
    expect(at.question.get_by_label("Command")).to_have_text(COMMAND)
    command = at.question.get_by_label("Command")
    expect(command).to_be_in_viewport(ratio=0.95)
    assert command.evaluate("one => one.scrollHeight <= one.clientHeight"), "all that would run is seen"
    picture(at, "phone")
    allow_by_taps(at)
    at.see_end()
    nothing_is_wider_than_the_window(at)

    at.button("More").tap()
    at.page.get_by_role("menuitem", name="Branches").tap()
    panel = at.page.get_by_role("complementary", name="Branches")
    expect(panel.get_by_role("listitem").first).to_be_in_viewport()
    nothing_is_wider_than_the_window(at)
    panel.get_by_role("button", name="Close").tap()
    expect(panel).to_have_count(0)
    at.page.get_by_role("button", name=re.compile("Context: ")).tap()
    expect(at.page.get_by_role("complementary", name="Context and cost")).to_be_in_viewport()
    nothing_is_wider_than_the_window(at)
    at.page.get_by_role("complementary").get_by_role("button", name="Close").tap()
    at.button("More").tap()
    for item in at.page.get_by_role("menuitem").all():
        expect(item).to_be_in_viewport(ratio=0.9)
    at.page.get_by_role("menuitem", name="Rename").tap()
    at.page.get_by_role("textbox", name="Title").fill("The longest word")
    at.button("Rename").tap()
    expect(at.page.get_by_role("heading", name="The longest word", level=1)).to_be_visible()
    at.button("Sessions").tap()
    row = at.page.get_by_role("list", name="Sessions").get_by_role("link", name="The longest word")
    expect(row).to_be_in_viewport()
    nothing_is_wider_than_the_window(at)
    row.tap()
    expect(row).not_to_be_in_viewport()
    small = at.page.get_by_role("button").evaluate_all(SMALL)
    assert small == [], "too small for a finger"
