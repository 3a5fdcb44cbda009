"""While it runs: queue, steer, take back, stop, go on."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from ostler.testkit.vendors import call, turn
from tests.server.browser.conftest import Start, Visit
from tests.server.browser.serving import Served
from tests.server.browser.visitor import Visitor
from tests.support.command import Ostler

pytestmark = pytest.mark.long

WAITS = "until [ -e go ]; do sleep 0.02; done"


def in_a_command(start: Start, visit: Visit, command: str, *answers: str) -> tuple[Served, Visitor]:
    """A run that was begun with "Begin.", while it runs this; after it come the answers."""
    served = start(turn(call("bash", {"command": command})), *map(turn, answers), options=("--yes",))
    at = visit(served)
    at.begin()
    at.say("Begin.")
    expect(at.call("bash")).to_have_accessible_name(re.compile("running$"))
    return served, at


def test_a_message_during_a_run_is_queued_or_steers_and_can_be_withdrawn(
    start: Start, visit: Visit, ostler: Ostler
) -> None:
    served, at = in_a_command(start, visit, WAITS, "The first.", "The second.")
    waiting = at.page.get_by_role("region", name="Queued messages").get_by_role("listitem")

    at.say("Not this.")
    expect(waiting).to_have_text([re.compile("Not this.")])
    waiting.get_by_role("button", name="Remove").click()
    expect(waiting).to_have_count(0)

    at.say("Then tis.")
    waiting.get_by_role("button", name="Edit").click()
    expect(at.message).to_have_value("Then tis.")
    at.say("Then this.")
    at.message.fill("Mind the gap.")
    at.button("Steer").click()
    expect(waiting).to_have_text([re.compile("next.*Then this."), re.compile("steer.*Mind the gap.")])
    at.page.reload()
    expect(waiting).to_have_text([re.compile("next.*Then this."), re.compile("steer.*Mind the gap.")])

    (ostler.work / "go").touch()
    expect(at.answers.last).to_contain_text("The second.")
    at.see_end()
    expect(waiting).to_have_count(0)
    said = [re.compile("Begin."), re.compile("steer.*Mind the gap."), re.compile("Then this.")]
    expect(at.prompts).to_have_text(said)
    told = [str(request["messages"]) for request in served.told]
    assert "Mind the gap." in told[1]
    assert "Then this." not in told[1]
    assert not any("Not this." in one or "Then tis." in one for one in told)


def test_a_run_is_stopped_and_continued(start: Start, visit: Visit) -> None:
    _, at = in_a_command(start, visit, "sleep 60", "Well then.")
    at.button("Stop").first.click()
    at.see_end("Stopped")
    at.button("Continue").click()
    expect(at.answers.last).to_contain_text("Well then.")
    at.see_end()


def test_a_run_is_paused_before_its_next_step(start: Start, visit: Visit, ostler: Ostler) -> None:
    served, at = in_a_command(start, visit, WAITS, "Well then.")
    at.button("Pause").click()
    (ostler.work / "go").touch()
    expect(at.page.get_by_text("Paused", exact=True)).to_be_visible()
    assert len(served.told) == 1
    at.button("Resume").click()
    expect(at.answers.last).to_contain_text("Well then.")
    at.see_end()


@pytest.mark.parametrize("end", ["Done", "Stopped"])
def test_a_steer_that_comes_too_late_is_the_next_prompt_or_yours_again(
    start: Start, visit: Visit, ostler: Ostler, end: str
) -> None:
    served, at = in_a_command(start, visit, WAITS, "The first.", "The second.")
    late: list[Route] = []

    def delay(route: Route) -> None:
        if '"steer"' in (route.request.post_data or ""):
            late.append(route)
        else:
            route.continue_()

    at.page.route("**/requests", delay)
    at.message.fill("Mind the gap.")
    with at.page.expect_request(lambda request: '"steer"' in (request.post_data or "")):
        at.button("Steer").click()
    if end == "Done":
        (ostler.work / "go").touch()
    else:
        at.button("Stop").first.click()
    at.see_end(end)
    late[0].continue_()
    if end == "Done":
        expect(at.answers.last).to_contain_text("The second.")
        expect(at.prompts).to_have_text([re.compile("Begin."), re.compile("Mind the gap.")])
    else:
        expect(at.message).to_have_value("Mind the gap.")
    at.see_end(end)
    expect(at.conversation.get_by_text("Request refused")).to_have_count(0)
    if end == "Done":
        at.page.reload()
        at.see_end()
        expect(at.prompts).to_have_count(2)
        expect(at.conversation.get_by_text("Request refused")).to_have_count(0)
    assert len(served.facts(at.session, "request_refused")) == 1
