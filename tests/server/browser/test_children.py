"""Child runs: nested where they were sent from, live, and asking where their parent is looked at."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from ostler.testkit.vendors import call, turn
from tests.server.browser.conftest import Start, Visit
from tests.server.browser.pictures import picture
from tests.server.browser.serving import Halting

pytestmark = pytest.mark.long

TESTS = "Read the tests, and say whether they are sound."
CODE = "Read the code, and say what it does."


def by_task(text: Halting) -> Callable[[dict[str, Any]], Any]:
    """One child has its answer at once, the other runs a command first and comes to a halt in its answer."""

    def by(request: dict[str, Any]) -> Any:
        last = request["messages"][-1]
        asked = [str(one.get("content")) for one in request["messages"] if one["role"] == "user"]
        if last["role"] == "tool":
            return turn(text.say()) if any(TESTS in one for one in asked) else turn("Both are fine.")
        if TESTS in asked[-1]:
            return turn(call("bash", {"command": "touch 3 tests"}))
        if CODE in asked[-1]:
            return turn("It finds the **longest** word.")
        tasks = (call("delegate", {"task": one}) for one in (CODE, TESTS))
        return turn("I have it looked at from two sides.", *tasks)

    return by


def test_children_are_nested_and_live_and_can_be_opened(start: Start, visit: Visit) -> None:
    text = Halting("The tests look at every case: ", "they are sound.")
    served = start(by=by_task(text), options=("--yes",))
    at = visit(served)
    at.begin()
    at.say("Have it reviewed.")
    child = at.call("delegate").filter(has_text=TESTS)
    expect(child.get_by_role("group", name=re.compile("^bash:"))).to_contain_text("3 tests")
    expect(child.get_by_role("article", name="Answer")).to_have_text(re.compile("every case:\\s*$"))
    picture(at, "children")
    at.page.reload()
    expect(child.get_by_role("article", name="Answer")).to_have_text(re.compile("every case:\\s*$"))
    expect(child.get_by_role("group", name=re.compile("^bash:"))).to_have_count(1)
    text.go_on.set()
    at.see_end()
    expect(at.answers.last).to_contain_text("Both are fine.")

    other = at.call("delegate").filter(has_text=CODE)
    other.get_by_role("button", name=re.compile(re.escape(CODE)), expanded=False).last.click()
    expect(other.get_by_role("article", name="Answer")).to_contain_text("It finds the longest word.")
    parent = at.session
    child.get_by_role("link", name="Open this child's session").click()
    at.page.wait_for_url(lambda url: parent not in url)
    expect(at.answers.last).to_contain_text("they are sound.")
    at.page.go_back()
    expect(at.prompts).to_contain_text("Have it reviewed.")


def test_a_childs_question_is_answered_where_its_parent_is_looked_at(start: Start, visit: Visit) -> None:
    text = Halting("The tests look at every case: ", "they are sound.")
    text.go_on.set()
    at = visit(start(by=by_task(text)))
    at.begin()
    at.say("Have it reviewed.")
    expect(at.question.get_by_label("Command")).to_have_text("touch 3 tests")
    at.choose("Allow once")
    expect(at.answers.last).to_contain_text("Both are fine.")
    at.see_end()
