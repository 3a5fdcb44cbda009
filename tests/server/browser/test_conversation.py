"""A whole conversation: text as it comes, calls as they are written, questions, changes, and the end."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from ostler.schema.usage import Usage
from ostler.testkit.vendors import Call, Think, call, turn
from tests.server.browser.conftest import Start, Visit
from tests.server.browser.material import ANSWER, COMMAND, EDIT, PROMPT, lay_out
from tests.server.browser.pictures import picture
from tests.server.browser.serving import Halting
from tests.support.command import Ostler

pytestmark = pytest.mark.long


def test_a_conversation_from_the_first_word_to_the_bill(start: Start, visit: Visit, ostler: Ostler) -> None:
    lay_out(ostler.work)
    written = json.dumps(EDIT)
    arguments = Halting(written[: len(written) // 2], written[len(written) // 2 :])
    at_code = ANSWER.index("        best = word")
    answer = Halting(ANSWER[:at_code], ANSWER[at_code:])
    used = Usage(input_tokens=2_310, output_tokens=140)
    served = start(
        turn(
            Think(("The comparison", " decides about equals.")),
            "I look at the program first.",
            call("read", {"path": "longest.py"}),
            usage=used,
        ),
        turn(Call("edit", arguments), usage=used),  # type: ignore[arg-type]
        turn(call("bash", {"command": COMMAND}), usage=used),
        turn(answer.say(), usage=used),
    )
    at = visit(served)
    at.begin()
    at.say(PROMPT)
    expect(at.prompts).to_contain_text(PROMPT)

    expect(at.conversation.get_by_role("group", name="Reasoning")).to_contain_text("Thought")
    expect(at.answers.first).to_have_text(re.compile("I look at the program first."))
    expect(at.call("read")).to_have_accessible_name(re.compile("done$"))

    assert arguments.reached.wait(60)
    expect(at.call("edit")).to_have_accessible_name(re.compile("being written$"))
    expect(at.call("edit").get_by_role("region", name="Changes")).to_contain_text("if len(word) >= len(best)")
    expect(at.call("edit")).not_to_contain_text("added")
    arguments.go_on.set()

    expect(at.question).to_have_accessible_name("Question: Allow edit?")
    expect(at.question.get_by_role("region", name="Changes")).to_contain_text("if len(word) > len(best)")
    picture(at, "approval")
    at.choose("Allow once")
    expect(at.call("edit")).to_have_accessible_name(re.compile("done$"))
    expect(at.call("edit").get_by_role("region", name="Changes")).to_contain_text("if len(word) > len(best)")
    assert "len(word) > len(best)" in (ostler.work / "longest.py").read_text()

    expect(at.question.get_by_label("Command")).to_have_text(COMMAND)
    picture(at, "diff")
    at.choose("Allow once")
    expect(at.call("bash").get_by_label("Output")).to_contain_text("3 checks passed")

    assert answer.reached.wait(60)
    expect(at.answers.last).to_have_attribute("aria-busy", "true")
    expect(at.answers.last.get_by_role("heading", name="The first of equals wins")).to_be_visible()
    expect(at.answers.last.get_by_label("Code in python")).to_contain_text("if len(word) > len(best):")
    answer.go_on.set()
    at.see_end()
    expect(at.answers.last).to_have_attribute("aria-busy", "false")
    expect(at.answers.last.get_by_role("table")).to_contain_text("mare")
    expect(
        at.conversation.get_by_text(re.compile(r"Done · 3 calls · 9\.8k tokens · \$0\.02"))
    ).to_be_visible()
    expect(at.page.get_by_role("button", name=re.compile("Context: .* of 1.*M tokens"))).to_be_visible()
    picture(at, "conversation")


def test_a_call_is_denied_and_what_is_always_allowed_is_remembered(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    served = start(
        turn(call("bash", {"command": "rm longest.py"})),
        turn(call("bash", {"command": "touch made"})),
        turn(call("bash", {"command": "touch made"})),
        turn(call("write", {"path": "notes.md", "content": "# Notes\n"})),
        turn("As you wish."),
    )
    lay_out(ostler.work)
    at = visit(served)
    at.begin()
    at.say("Tidy up.")
    expect(at.question.get_by_label("Command")).to_have_text("rm longest.py")
    at.choose("Deny")
    expect(at.question.get_by_label("Command")).to_have_text("touch made")
    at.choose("Always in this session")
    expect(at.question.get_by_label("Content of notes.md")).to_contain_text("# Notes")
    at.choose("Always in this project")
    at.see_end()
    assert (ostler.work / "longest.py").exists()
    assert (ostler.work / "made").exists()
    assert (ostler.work / "notes.md").read_text() == "# Notes\n"
    expect(at.call("bash").first).to_have_accessible_name(re.compile("refused$"))
    expect(at.call("bash").last).to_have_accessible_name(re.compile("done$"))
    answers = [fact["answer"] for fact in served.facts(at.session, "question_answered")]
    assert answers == ["no", "session", "project"]
    assert "notes.md" in ostler("permissions", "list").out


def test_the_whole_of_it_is_done_with_keys_alone(start: Start, visit: Visit, ostler: Ostler) -> None:
    lay_out(ostler.work)
    served = start(
        turn(call("read", {"path": "longest.py"})),
        turn(call("edit", EDIT)),
        turn(call("bash", {"command": COMMAND})),
        turn(call("bash", {"command": "touch made"})),
        turn(call("bash", {"command": "touch made"})),
        turn(ANSWER),
    )
    at = visit(served)
    keys = at.page.keyboard
    expect(at.page.get_by_role("button", name="New session").last).to_be_visible()
    keys.press("n")
    expect(at.page.get_by_label("Working directory")).to_be_focused()
    keys.press("Enter")
    expect(at.message).to_be_focused()
    keys.type(PROMPT)
    keys.press("Enter")
    expect(at.question).to_have_accessible_name("Question: Allow edit?")
    expect(at.question).to_be_focused()
    keys.press("y")
    keys.press("Enter")
    expect(at.question.get_by_label("Command")).to_have_text(COMMAND)
    at.see_question()
    keys.press("Tab")
    keys.press("n")
    keys.press("Enter")
    expect(at.question.get_by_label("Command")).to_have_text("touch made")
    at.see_question()
    allow = at.question.get_by_role("radio", name="Allow once")
    for _ in range(8):
        keys.press("Tab")
        if allow.evaluate("one => one === document.activeElement"):
            break
    expect(allow).to_be_focused()
    keys.press(" ")
    expect(allow).to_be_checked()
    keys.press("Enter")
    expect(at.question.get_by_label("Command")).to_have_text("touch made")
    at.see_question()
    keys.press("r")
    keys.press("Enter")
    keys.press("s")
    keys.press("Enter")
    at.see_end()
    assert "len(word) > len(best)" in (ostler.work / "longest.py").read_text()
    answers = [fact["answer"] for fact in served.facts(at.session, "question_answered")]
    assert answers == ["yes", "no", "yes", "session"]

    keys.press("Control+k")
    expect(at.page.get_by_role("combobox", name="Command palette")).to_be_focused()
    keys.type("branch")
    keys.press("Enter")
    expect(at.page.get_by_role("complementary", name="Branches")).to_be_visible()
    keys.press("Escape")
    expect(at.page.get_by_role("complementary", name="Branches")).to_have_count(0)
    keys.press("k")
    keys.press("k")
    keys.press("?")
    expect(at.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    keys.press("Escape")
    expect(at.page.get_by_role("dialog", name="Keyboard shortcuts")).to_have_count(0)
    keys.press("/")
    expect(at.message).to_be_focused()
    keys.press("ArrowUp")
    expect(at.message).to_have_value(PROMPT)
