"""What goes into a message, who answers it, and what extensions bring."""

from __future__ import annotations

import base64
import io
import re
from textwrap import dedent

import pytest
from PIL import Image
from playwright.sync_api import expect

from ostler.testkit.vendors import turn
from tests.server.browser.conftest import Start, Visit
from tests.server.browser.serving import MODEL
from tests.support.command import Ostler

pytestmark = pytest.mark.long

GIVE = """
([kind, files]) => {
  const data = new DataTransfer();
  for (const [name, type, text] of files) {
    const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    data.items.add(new File([bytes], name, { type }));
  }
  const options = { bubbles: true, cancelable: true };
  const event = kind === "paste"
    ? new ClipboardEvent("paste", { ...options, clipboardData: data })
    : new DragEvent("drop", { ...options, dataTransfer: data });
  document.activeElement.dispatchEvent(event);
}
"""


def drawn(colour: str) -> str:
    made = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(made, "png")
    return base64.b64encode(made.getvalue()).decode()


def test_pictures_and_files_reach_the_model_however_they_are_given(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    served = start(turn("A red one, a green one, and oats."))
    at = visit(served)
    at.begin()
    red, green = drawn("red"), drawn("green")
    at.message.focus()
    at.page.evaluate(GIVE, ["paste", [["red.png", "image/png", red]]])
    at.page.evaluate(GIVE, ["drop", [["green.png", "image/png", green]]])
    (ostler.work / "list.txt").write_text("oats\n")
    with at.page.expect_file_chooser() as chooser:
        at.button("Attach files").click()
    chooser.value.set_files([ostler.work / "list.txt", ostler.work / "list.txt"])
    chips = at.page.get_by_role("list", name="Attachments").get_by_role("listitem")
    expect(chips).to_have_count(4)
    chips.last.get_by_role("button", name="Remove list.txt").click()
    expect(chips).to_have_text(["red.png", "green.png", "list.txt"])
    expect(at.page.get_by_label("uploading")).to_have_count(0)
    at.say("What is this?")
    at.see_end()
    expect(chips).to_have_count(0)
    expect(at.prompts.get_by_role("img", name="attached image")).to_have_count(2)
    for picture in at.prompts.get_by_role("img", name="attached image").all():
        assert picture.evaluate("async (one) => (await one.decode(), one.naturalWidth)") == 40
    told = str(served.told[0]["messages"])
    assert f"data:image/png;base64,{red}" in told
    assert f"data:image/png;base64,{green}" in told
    assert "oats" in told or base64.b64encode(b"oats\n").decode() in told


def test_another_model_answers_the_next_prompt(start: Start, visit: Visit) -> None:
    served = start(turn("The first."), turn("The second."))
    at = visit(served)
    at.begin()
    at.say("Who are you?")
    at.see_end()
    expect(at.button("Model: gpt-4.1")).to_be_visible()
    at.button("Model: gpt-4.1").click()
    dialog = at.page.get_by_role("dialog", name="Model and reasoning")
    dialog.get_by_label("Find a model").fill("openai gpt-4.1-mini")
    dialog.get_by_role("option", name=f"{MODEL}-mini").first.click()
    expect(at.button("Model: gpt-4.1-mini")).to_be_visible()
    at.say("And now?")
    expect(at.answers.last).to_contain_text("The second.")
    at.see_end()
    assert [one["model"] for one in served.told] == ["gpt-4.1", "gpt-4.1-mini"]


EXTENSION = """
from ostler.extensions import Widget

left = ["water the beds", "weed the path"]

def setup(ostler):
    @ostler.command("garden", description="Ask what is done in the garden")
    async def garden(arguments, context):
        context.ui.set_widget(Widget("left", f"{len(left)} things left"))
        context.ui.set_status("weather", "rain")
        chosen = await context.ui.select("What is **done**?", left)
        if not chosen.cancelled:
            left.remove(chosen.value)
            context.ui.set_widget(Widget("left", f"{len(left)} thing left"))
            context.print_info(f"{chosen.value}: done")

    @ostler.command("sow")
    async def sow(arguments, context):
        asked = "Which beds?\\nThe others rest."
        beds = await context.ui.multi_select(asked, ["north", "south"], selected=[0])
        what = await context.ui.input("What?")
        context.print_info(f"{what.value} in {' and '.join(beds.values)}")
"""


def test_an_extension_shows_a_widget_and_asks(start: Start, visit: Visit, ostler: Ostler) -> None:
    path = ostler.home.parent / "gardener.py"
    path.write_text(dedent(EXTENSION))
    served = start(turn("Hello."), options=("--yes", "-e", str(path)))
    at = visit(served)
    at.begin()
    at.say("Hello.")
    at.see_end()
    at.message.press_sequentially("/gar")
    expect(at.page.get_by_role("listbox", name="Suggestions").get_by_role("option")).to_have_text(
        [re.compile("/garden.*Ask what is done in the garden")]
    )
    at.message.press("Tab")
    expect(at.message).to_have_value("/garden ")
    at.message.press("Enter")
    widget = at.page.get_by_role("status", name="gardener")
    expect(widget).to_have_text("2 things left")
    expect(at.page.get_by_text("rain", exact=True)).to_be_visible()
    expect(at.question).to_contain_text("What is done?")
    at.page.reload()
    expect(widget).to_have_text("2 things left")
    at.choose("weed the path")
    expect(widget).to_have_text("1 thing left")
    expect(at.question).to_have_count(0)
    expect(at.conversation.get_by_text("weed the path: done")).to_be_visible()


def test_what_an_extension_asks_is_answered_by_typing(start: Start, visit: Visit, ostler: Ostler) -> None:
    path = ostler.home.parent / "gardener.py"
    path.write_text(dedent(EXTENSION))
    served = start(options=("--yes", "-e", str(path)))
    at = visit(served)
    at.begin()
    at.say("/sow")
    expect(at.question.get_by_role("checkbox", name="north")).to_be_focused()
    expect(at.question).to_have_text(re.compile(r"Which beds\?\nThe others rest\."), use_inner_text=True)
    waiting = at.page.get_by_role("region", name="Queued messages")
    expect(waiting).to_have_text(re.compile(r"^\s*running\s*/sow\s*$"))
    expect(waiting.get_by_role("button")).to_have_count(0)
    at.page.keyboard.press("Tab")
    at.page.keyboard.press("Space")
    at.page.keyboard.press("Enter")
    expect(at.question.get_by_role("textbox", name="What?")).to_be_focused()
    at.page.keyboard.type("dandelions")
    at.page.keyboard.press("Enter")
    expect(at.conversation.get_by_text("dandelions in north and south")).to_be_visible()
    expect(at.conversation.get_by_text("Which beds? → north, south")).to_be_visible()
    expect(waiting).to_have_count(0)


def test_a_file_that_did_not_arrive_keeps_its_message_back_in_its_session(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    served = start(turn("Oats."))
    at = visit(served)
    at.begin()
    session = at.session
    (ostler.work / "list.txt").write_text("oats\n")
    no_room = {"status": 507, "json": {"detail": "there is no room for it", "kind": "store_full"}}
    at.page.route("**/api/v1/uploads*", lambda route: route.fulfill(**no_room))
    with at.page.expect_file_chooser() as chooser:
        at.button("Attach files").click()
    chooser.value.set_files(ostler.work / "list.txt")
    chip = at.page.get_by_role("list", name="Attachments").get_by_role("listitem")
    again = chip.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    at.say("What is on it?")
    said = "Not sent: the upload of list.txt failed. Try again or remove it. there is no room for it"
    expect(at.page.get_by_role("status").filter(has_text=said)).to_be_visible()
    expect(at.message).to_have_value("What is on it?")

    at.begin()
    expect(at.message).to_have_value("")
    expect(chip).to_have_count(0)
    at.page.go_back()
    expect(at.message).to_have_value("What is on it?")
    at.page.unroute("**/api/v1/uploads*")
    again.click()
    expect(again).to_have_count(0)
    expect(at.page.get_by_label("uploading")).to_have_count(0)
    assert served.facts(session, "user_message") == []

    at.page.reload()
    expect(chip).to_have_text("list.txt")
    at.message.press("Enter")
    at.see_end()
    expect(chip).to_have_count(0)
    at.page.reload()
    at.see_end()
    expect(chip).to_have_count(0)
    assert at.session == session
    assert "oats" in str(served.told[0]["messages"])


def test_the_present_model_is_seen_among_many(start: Start, visit: Visit) -> None:
    at = visit(start())
    at.begin()
    at.button("Model: gpt-4.1").click()
    dialog = at.page.get_by_role("dialog", name="Model and reasoning")
    present = dialog.get_by_role("option", name=re.compile(r"^openai.gpt-4\.1 "))
    expect(present).to_be_in_viewport()
    dialog.get_by_role("listbox", name="Models").evaluate("(one) => one.scrollTo(0, 0)")
    expect(present).not_to_be_in_viewport()
