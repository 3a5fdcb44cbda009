"""When something went wrong or was decided too soon: another model, the queue, rules, summaries."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from ostler.testkit.vendors import Answer, Refusal, call, turn
from tests.server.browser.conftest import Start, Visit
from tests.support.command import Ostler

pytestmark = pytest.mark.long


def test_one_click_continues_with_another_model(start: Start, visit: Visit) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        if request["model"] == "gpt-4.1":
            return Refusal(400, "that model is gone", code="model_not_found")
        return turn("I go on.")

    served = start(by=answer)
    at = visit(served)
    at.begin()
    at.say("Begin.")
    at.see_end("Failed")
    expect(at.button("Try again")).to_be_visible()
    at.page.get_by_role("button", name=re.compile("^Continue with openai")).first.click()
    expect(at.answers).to_have_text("I go on.")
    at.see_end()
    expect(at.prompts).to_have_count(1)
    assert served.told[-1]["model"] != "gpt-4.1"


def test_any_other_model_can_be_chosen_to_go_on(start: Start, visit: Visit) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        if request["model"] == "gpt-4.1-nano":
            return turn("Small, but here.")
        return Refusal(400, "that model is gone", code="model_not_found")

    served = start(by=answer)
    at = visit(served)
    at.begin()
    at.say("Begin.")
    at.see_end("Failed")
    at.button("Another model…").click()
    dialog = at.page.get_by_role("dialog", name="Continue with another model")
    dialog.get_by_label("Find a model").fill("openai/gpt-4.1-nano")
    at.page.keyboard.press("Enter")
    expect(at.answers).to_have_text("Small, but here.")
    at.see_end()


def test_what_is_held_is_started_or_forgotten(start: Start, visit: Visit) -> None:
    served = start(turn(call("bash", {"command": "sleep 60"})), turn("The second."), options=("--yes",))
    at = visit(served)
    at.begin()
    at.say("Begin.")
    expect(at.call("bash")).to_have_accessible_name(re.compile("running$"))
    at.say("Then this.")
    waiting = at.page.get_by_role("region", name="Queued messages")
    expect(waiting.get_by_role("listitem")).to_have_count(1)
    at.button("Stop").first.click()
    at.see_end("Stopped")
    waiting.get_by_role("button", name="Run them").click()
    expect(at.answers.last).to_contain_text("The second.")
    at.see_end()
    expect(waiting).to_have_count(0)


def test_what_is_held_is_forgotten(start: Start, visit: Visit) -> None:
    served = start(turn(call("bash", {"command": "sleep 60"})), turn("Another."), options=("--yes",))
    at = visit(served)
    at.begin()
    at.say("Begin.")
    expect(at.call("bash")).to_have_accessible_name(re.compile("running$"))
    at.say("Not this.")
    at.say("Nor this.")
    waiting = at.page.get_by_role("region", name="Queued messages")
    expect(waiting.get_by_role("listitem")).to_have_count(2)
    at.button("Stop").first.click()
    at.see_end("Stopped")
    waiting.get_by_role("button", name="Discard them").click()
    expect(waiting).to_have_count(0)
    at.say("This.")
    expect(at.answers.last).to_contain_text("Another.")
    assert "Not this." not in str(served.told)


def test_a_prompt_is_taken_back_with_its_files(start: Start, visit: Visit, ostler: Ostler) -> None:
    served = start(turn(call("bash", {"command": "sleep 60"})), turn("Oats."), options=("--yes",))
    at = visit(served)
    at.begin()
    at.say("Begin.")
    expect(at.call("bash")).to_have_accessible_name(re.compile("running$"))
    (ostler.work / "list.txt").write_text("oats\n")
    with at.page.expect_file_chooser() as chooser:
        at.button("Attach files").click()
    chooser.value.set_files(ostler.work / "list.txt")
    expect(at.page.get_by_label("uploading")).to_have_count(0)
    at.say("What is tis?")
    waiting = at.page.get_by_role("region", name="Queued messages")
    expect(waiting).to_contain_text("What is tis? (+1 file)")
    at.page.reload()
    waiting.get_by_role("button", name="Edit").click()
    expect(at.message).to_have_value("What is tis?")
    expect(at.page.get_by_role("list", name="Attachments").get_by_role("listitem")).to_have_text("list.txt")
    at.page.get_by_role("button", name="Stop").first.click()
    at.see_end("Stopped")
    at.say("What is this?")
    expect(at.answers.last).to_contain_text("Oats.")
    expect(at.prompts.last).to_contain_text("list.txt")
    assert "oats" in str(served.told[-1]["messages"])
    assert "tis?" not in str(served.told[-1]["messages"])


def test_a_rule_that_was_remembered_is_seen_and_forgotten(start: Start, visit: Visit, ostler: Ostler) -> None:
    touch = call("bash", {"command": "touch made"})
    served = start(turn(touch), turn("Made."), turn(touch), turn("Once more."))
    at = visit(served)
    at.begin()
    at.say("Make it.")
    at.choose("Always in this session")
    at.see_end()
    at.message.press("Escape")
    at.page.keyboard.press("p")
    panel = at.page.get_by_role("complementary", name="Permissions")
    rules = panel.get_by_role("list", name="Remembered rules").get_by_role("listitem")
    expect(rules).to_have_count(1)
    expect(rules).to_contain_text("in this session")
    rules.get_by_role("button", name=re.compile("^Remove ")).click()
    expect(rules).to_have_count(0)
    expect(at.conversation.get_by_text("Rule removed")).to_be_visible()
    at.say("Again.")
    expect(at.question.get_by_label("Command")).to_have_text("touch made")
    at.choose("Allow once")
    expect(at.answers.last).to_contain_text("Once more.")


def test_earlier_messages_are_summarised_and_the_prompt_is_sent_again(start: Start, visit: Visit) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        said = str(request["messages"][-1]["content"])
        if "ummar" in said or "ummar" in str(request["messages"][0]["content"])[:300]:
            return turn("They counted to two.")
        return turn(f"Answer {len(request['messages'])}. " + "So it is, and so it was. " * 400)

    served = start(by=answer)
    at = visit(served)
    at.begin()
    for number in range(4):
        at.say(f"Prompt {number}.")
        expect(at.prompts).to_have_count(number + 1)
        at.see_end()
        expect(at.answers).to_have_count(number + 1)
    at.message.press("Escape")
    at.page.keyboard.press("c")
    panel = at.page.get_by_role("complementary", name="Context and cost")
    panel.get_by_role("button", name="Summarise earlier messages").click()
    expect(at.conversation.get_by_text("Earlier messages summarised")).to_be_visible()
    panel.get_by_role("button", name="Undo the last summary").click()
    expect(at.conversation.get_by_text("Summary undone")).to_be_visible()
    expect(panel.get_by_role("button", name="Undo the last summary")).to_have_count(0)
