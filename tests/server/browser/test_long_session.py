"""A session of thousands of blocks: it opens at its end, scrolls, and is searched."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from ostler.testkit.vendors import call, turn
from tests.server.browser.conftest import Start, Visit
from tests.support.command import Ostler, use
from tests.support.fixtures import Serve

pytestmark = pytest.mark.long

TIMES = 600
BLOCKS = 5
"""Of each time: a prompt, a text, a call, an answer, the end."""


def repeated(exported: Path, times: int) -> str:
    """A session whose run has been run so many times."""
    head, first, *facts = (json.loads(line) for line in exported.read_text().splitlines())
    lines: list[dict[str, Any]] = [head | {"facts": 1 + len(facts) * times}, first]
    leaf = 0
    for time in range(times):
        moved = time * len(facts)
        for fact in facts:
            text = json.dumps(fact).replace("call_", f"call_{time}_").replace("msg_", f"msg_{time}_")
            one = json.loads(text.replace(fact["run"], f"{fact['run']}{time}").replace("NUMBER", str(time)))
            one["seq"] += moved
            if "parent" in one:
                one["parent"] = one["parent"] + moved if one["parent"] else leaf
                leaf = one["seq"]
            lines.append(one)
    return "".join(f"{json.dumps(line)}\n" for line in lines)


@pytest.fixture
def long_session(ostler: Ostler, serve: Serve, tmp_path: Path) -> str:
    vendor = serve(
        turn("I look **once**.", call("bash", {"command": "echo NUMBER"})), turn("It was number NUMBER.")
    )
    ostler("-p", "--yes", *use(vendor), "Count to NUMBER.")
    session = ostler("sessions", "list").out.split()[0]
    assert ostler("sessions", "export", session, str(tmp_path / "one.jsonl")).code == 0
    (tmp_path / "many.jsonl").write_text(repeated(tmp_path / "one.jsonl", TIMES))
    made = ostler("sessions", "import", str(tmp_path / "many.jsonl"))
    assert made.code == 0, made.err
    return made.out.split()[0]


def test_a_session_of_three_thousand_blocks_opens_and_scrolls(
    start: Start, visit: Visit, long_session: str
) -> None:
    served = start(turn("Number 600."))
    at = visit(served)
    at.page.goto(f"{served.address}/s/{long_session}")
    expect(at.answers.last).to_contain_text(f"It was number {TIMES - 1}.")
    expect(at.answers.last).to_be_in_viewport()
    blocks = "one => one.querySelectorAll('.item').length"
    assert at.conversation.evaluate(blocks) < TIMES * BLOCKS / 4, "only what is near is drawn"

    for share, number in ((0, 0), (0.5, TIMES // 2), (1, TIMES - 1)):
        at.conversation.evaluate("(one, share) => { one.scrollTop = one.scrollHeight * share; }", share)
        near = [re.compile(f"number {one}\\.") for one in range(max(0, number - 20), min(TIMES, number + 20))]
        shown = at.answers.filter(has_text=re.compile("|".join(one.pattern for one in near)))
        expect(shown.first).to_be_visible()
    at.conversation.evaluate("one => { one.scrollTop = 0; }")
    expect(at.prompts.first).to_contain_text("Count to 0.")
    expect(at.prompts.first).to_be_in_viewport()

    at.button("Scroll to the end").click()
    expect(at.answers.last).to_be_in_viewport()
    at.say("And now?")
    expect(at.answers.last).to_contain_text("Number 600.")
    at.see_end()
    expect(at.answers.last).to_be_in_viewport()

    at.page.get_by_role("searchbox", name="Search sessions and messages").fill("number 123")
    at.page.get_by_role("list", name="Messages found").get_by_role(
        "link", name=re.compile("123")
    ).first.click()
    expect(at.answers.filter(has_text="It was number 123.")).to_be_in_viewport()
