"""Sessions as things to keep: saved, brought back, deleted, counted; and a page that nobody looks at."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from ostler.testkit.vendors import turn
from tests.server.browser.conftest import Start, Visit
from tests.support.command import Ostler

pytestmark = pytest.mark.long

HIDE = """
(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


def test_a_session_is_exported_deleted_and_imported(start: Start, visit: Visit, tmp_path: Path) -> None:
    served = start(turn("It was *written*."))
    at = visit(served)
    at.begin()
    at.say("Write it.")
    at.see_end()
    saved = {}
    for name in ("Markdown", "HTML", "JSONL"):
        at.button("More").click()
        with at.page.expect_download() as download:
            at.page.get_by_role("menuitem", name=f"Save as {name}").click()
        saved[name] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[name])
        assert "written" in saved[name].read_text()
    at.button("More").click()
    at.page.get_by_role("menuitem", name="Delete").click()
    at.page.get_by_role("dialog", name="Delete this session?").get_by_role("button", name="Delete").click()
    expect(at.page.get_by_role("heading", name="Ostler")).to_be_visible()
    listed = at.page.get_by_role("list", name="Sessions").get_by_role("link")
    expect(listed).to_have_count(0)

    at.page.keyboard.press("Control+k")
    at.page.get_by_role("combobox", name="Command palette").fill("import")
    with at.page.expect_file_chooser() as chooser:
        at.page.keyboard.press("Enter")
    chooser.value.set_files(saved["JSONL"])
    expect(at.answers).to_contain_text("It was written.")
    expect(listed).to_have_count(1)
    at.page.get_by_role("button", name="New session").first.click()
    with at.page.expect_file_chooser() as chooser:
        at.page.get_by_role("dialog", name="New session").get_by_role("button", name="Import a file").click()
    chooser.value.set_files(saved["Markdown"])
    expect(at.page.get_by_role("status").filter(has_text=re.compile("export|line|session"))).to_be_visible()
    expect(listed).to_have_count(1)


def test_usage_is_shown_by_day_model_and_session(start: Start, visit: Visit) -> None:
    served = start(turn("One."), turn("Two."))
    at = visit(served)
    at.begin()
    at.say("Count.")
    at.see_end()
    at.say("Go on.")
    expect(at.answers.last).to_contain_text("Two.")
    at.see_end()
    at.message.press("Escape")
    at.page.keyboard.press("u")
    dialog = at.page.get_by_role("dialog", name="Usage of all sessions")
    expect(dialog.get_by_role("row")).to_have_count(3)
    expect(dialog.get_by_role("row", name=re.compile("^Total 2 "))).to_be_visible()
    dialog.get_by_text("Model", exact=True).click()
    expect(dialog.get_by_role("row", name=re.compile(r"^openai.gpt-4.1 2 .*\$"))).to_be_visible()
    dialog.get_by_text("Session", exact=True).click()
    dialog.get_by_role("button", name="Count.").click()
    expect(dialog).to_have_count(0)
    expect(at.answers.last).to_contain_text("Two.")


def test_the_list_is_live_with_two_connections_and_none_when_nobody_looks(start: Start, visit: Visit) -> None:
    served = start(turn("One."), turn("Two."), turn("Three."))
    at = visit(served)
    open_streams: set[Any] = set()
    at.page.on(
        "request",
        lambda one: open_streams.add(one) if re.search(r"/events(\?after=\d+)?$", one.url) else None,
    )
    at.page.on("requestfinished", lambda one: open_streams.discard(one))
    at.page.on("requestfailed", lambda one: open_streams.discard(one))
    at.page.clock.install()
    at.page.reload()
    at.begin()
    at.say("Begin.")
    at.see_end()
    listed = at.page.get_by_role("list", name="Sessions").get_by_role("link")
    expect(listed).to_have_count(1)
    made = served.ask("POST", "sessions", json={"prompt": [{"type": "text", "text": "Elsewhere."}]})["id"]
    at.page.clock.run_for(1000)
    expect(listed).to_have_count(2)
    assert len(open_streams) == 2

    at.page.evaluate(HIDE, True)
    at.page.clock.run_for(61_000)
    expect(at.page.get_by_text("paused", exact=True)).to_be_visible()
    assert len(open_streams) == 0
    served.ask(
        "POST",
        f"sessions/{at.session}/requests?wait=10",
        json={"type": "prompt", "content": [{"type": "text", "text": "Meanwhile."}]},
    )
    at.page.evaluate(HIDE, False)
    at.page.clock.run_for(1000)
    expect(at.answers.last).to_contain_text("Three.")
    expect(at.page.get_by_text("paused", exact=True)).to_have_count(0)
    assert made


def test_a_new_line_is_made_as_in_the_terminal(start: Start, visit: Visit) -> None:
    served = start(turn("Two lines."))
    at = visit(served)
    at.begin()
    at.message.press_sequentially("one")
    at.message.press("Alt+Enter")
    at.message.press_sequentially("two")
    expect(at.message).to_have_value("one\ntwo")
    at.message.press("ArrowUp")
    at.message.press("Home")
    at.message.press("Alt+Enter")
    expect(at.message).to_have_value("\none\ntwo")
    at.message.press("Enter")
    at.see_end()
    assert served.told[0]["messages"][-1]["content"] == "one\ntwo"


def test_without_a_model_the_page_says_what_to_do(
    visit: Visit, start: Start, ostler: Ostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = start()
    served.stop()
    ostler.configure("")
    monkeypatch.setattr("tests.server.browser.serving.KEY", "")
    served.start()
    at = visit(served)
    notice = at.page.get_by_role("status", name="No model")
    expect(notice).to_contain_text("No model can answer: set ")
    notice.get_by_text("What was checked", exact=True).click()
    expect(notice.get_by_role("listitem").first).to_be_visible()
    at.begin()
    expect(notice).to_be_visible()
    at.say("Hello?")
    said = at.page.get_by_role("status").filter(has_text="no model can answer")
    expect(said.and_(at.page.locator(".toasts"))).to_be_visible()
    expect(at.message).to_have_value("Hello?")


def test_a_session_that_was_begun_and_left_is_begun_again(start: Start, visit: Visit) -> None:
    served = start(turn("One."))
    at = visit(served)
    at.begin()
    first = at.session
    listed = at.page.get_by_role("list", name="Sessions").get_by_role("link")
    expect(listed).to_have_count(1)
    at.page.go_back()
    at.begin()
    assert at.session == first
    at.message.fill("Not sent yet.")
    at.begin()
    expect(listed).to_have_count(2)
    second = at.session
    assert second != first
    at.say("Begin.")
    at.see_end()
    at.begin()
    expect(listed).to_have_count(3)
    assert at.session not in (first, second)
