"""Going back, branches, names of places, and forks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from ostler.testkit.vendors import turn
from tests.server.browser.conftest import Start, Visit
from tests.server.browser.pictures import picture
from tests.support.command import Ostler

pytestmark = pytest.mark.long


def echo(request: dict[str, Any]) -> Any:
    return turn(f"You said: {request['messages'][-1]['content']}")


def test_one_goes_back_takes_another_way_and_forks(start: Start, visit: Visit) -> None:
    served = start(by=echo)
    at = visit(served)
    at.begin()
    for prompt in ("Saddle the mare.", "Ride to the mill."):
        at.say(prompt)
        expect(at.answers.last).to_contain_text(f"You said: {prompt}")
        at.see_end()

    at.answers.first.get_by_role("button", name="Go back here").click()
    expect(at.prompts).to_have_count(1)
    at.say("Ride to the ford.")
    at.see_end()
    expect(at.prompts).to_have_text([re.compile("Saddle the mare."), re.compile("Ride to the ford.")])

    at.button("Branches").click()
    branches = at.page.get_by_role("complementary", name="Branches").get_by_role("listitem")
    expect(branches).to_have_count(6)
    expect(branches.filter(has_text="2 branches")).to_have_count(1)
    mill = branches.filter(has_text="You said: Ride to the mill.")
    mill.get_by_role("button", name="Label").click()
    at.page.get_by_role("textbox", name="Label").fill("by the mill")
    at.button("OK").click()
    expect(mill).to_contain_text("by the mill")
    picture(at, "branches")
    mill.get_by_role("button", name=re.compile("You said")).click()
    expect(at.prompts).to_have_text([re.compile("Saddle the mare."), re.compile("Ride to the mill.")])
    expect(mill).to_have_attribute("aria-current", "true")

    before = at.session
    at.prompts.first.get_by_role("button", name="Fork here").click()
    at.page.wait_for_url(lambda url: before not in url)
    expect(at.prompts).to_have_text([re.compile("Saddle the mare.")])
    at.say("Feed her.")
    expect(at.answers.last).to_contain_text("You said: Feed her.")
    at.see_end()
    assert len(served.facts(before, "user_message")) == 3
    expect(at.page.get_by_role("list", name="Sessions").get_by_role("link")).to_have_count(2)


def test_a_prompt_is_taken_back_to_be_changed(start: Start, visit: Visit, ostler: Ostler) -> None:
    served = start(by=echo)
    at = visit(served)
    at.begin()
    (ostler.work / "list.txt").write_text("oats\n")
    with at.page.expect_file_chooser() as chooser:
        at.button("Attach files").click()
    chooser.value.set_files(ostler.work / "list.txt")
    chips = at.page.get_by_role("list", name="Attachments").get_by_role("listitem")
    expect(chips).to_have_text("list.txt")
    expect(at.page.get_by_label("uploading")).to_have_count(0)
    at.say("Sadle the mare.")
    at.see_end()
    row = at.page.get_by_role("list", name="Sessions").get_by_role("link")
    expect(row).to_have_accessible_name(re.compile(r"Sadle the mare\.(?!.*oats)"))
    at.prompts.get_by_role("button", name="Edit and resend").click()
    expect(at.message).to_have_value("Sadle the mare.")
    expect(at.message).to_be_focused()
    expect(chips).to_have_text("list.txt")
    at.say("Saddle the mare.")
    expect(at.prompts).to_have_text([re.compile("Saddle the mare.")])
    expect(at.answers.last).to_contain_text("Saddle the mare.")
    assert "oats" in str(served.told[-1]["messages"])
