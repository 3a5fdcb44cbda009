"""What a model or a tool says is text: nothing of it runs, and nothing is fetched for it."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from ostler.testkit.vendors import Call, Cite, call, turn
from tests.server.browser.conftest import Start, Visit
from tests.support.command import Ostler

pytestmark = pytest.mark.long

ELSEWHERE = "http://elsewhere.invalid"
TEXT = f"""# <img src="{ELSEWHERE}/a.png" onerror="window.caught = 1">

<script>window.caught = 2</script>

![a picture]({ELSEWHERE}/b.png) and [a link](javascript:window.caught=3) and
[another](JaVaScRiPt&colon;window.caught=4) and [data](data:text/html,<script>window.caught=5</script>)
and <a href="javascript:window.caught=6">raw</a> and {ELSEWHERE}/c and <{ELSEWHERE}/d>

[ref]: javascript:window.caught=7
[by reference][ref]

<iframe src="{ELSEWHERE}/e"></iframe><style>@import url({ELSEWHERE}/f.css);</style>
<svg onload="window.caught = 8"><use href="{ELSEWHERE}/g.svg#x"/></svg>

```html"><script>window.caught=9</script>
<script>window.caught = 10</script>
```

| <img src=x onerror=window.caught=11> | b |
|---|---|
| <details open ontoggle=window.caught=12> | ![x]({ELSEWHERE}/h.png) |
"""
PAGE = f"""<!doctype html><html><body onload="window.caught = 20"><img src="{ELSEWHERE}/i.png">
<script src="{ELSEWHERE}/j.js"></script><script>window.caught = 21</script></body></html>
\x1b]8;;{ELSEWHERE}\x07link\x1b[31m
"""


def test_message_content_is_neither_run_nor_fetched(start: Start, visit: Visit, ostler: Ostler) -> None:
    (ostler.work / "page.html").write_text(PAGE)
    command = "cat page.html #<script>window.caught = 30</script>"
    served = start(
        turn(TEXT, Cite("javascript:window.caught=31", "a source"), call("bash", {"command": command})),
        turn(
            call("read", {"path": "page.html"}),
            call("write", {"path": "<img src=x onerror=caught=32>.html", "content": PAGE}),
        ),
        turn(Call("<img src=x onerror=window.caught=33>", (json.dumps({"<b>": PAGE}),))),
        turn("The end."),
        options=("--yes",),
    )
    at = visit(served)
    dialogs: list[str] = []
    at.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    at.begin()
    at.say("<script>window.caught = 40</script> Look at the page.")
    expect(at.answers.last).to_contain_text("The end.")
    at.see_end()
    for closed in at.conversation.get_by_role("button", expanded=False).all():
        closed.click()
    expect(at.call("bash").get_by_label("Output")).to_contain_text("<script>window.caught = 21</script>")
    expect(at.answers.first).to_contain_text("<script>window.caught = 2</script>")
    links = at.conversation.get_by_role("link").evaluate_all("all => all.map((one) => [one.href, one.rel])")
    assert {rel for _, rel in links} == {"noopener noreferrer nofollow"}
    assert all(address.startswith(f"{ELSEWHERE}/") for address, _ in links), links
    at.page.reload()
    at.see_end()
    assert at.page.evaluate("window.caught") is None
    assert (
        at.conversation.evaluate(
            "one => one.querySelectorAll('script, iframe, img, style, object, embed').length"
        )
        == 0
    )
    assert dialogs == []
    at.check()


def test_the_page_runs_nothing_but_its_own_scripts(start: Start, visit: Visit) -> None:
    """The last line: what the page itself would let through, the browser does not run."""
    served = start()
    at = visit(served)
    at.page.evaluate(
        """() => {
          const one = document.createElement("div");
          one.innerHTML = '<img src="data:," onerror="window.caught = 1">';
          document.body.append(one);
          const script = document.createElement("script");
          script.textContent = "window.caught = 2";
          document.body.append(script);
        }"""
    )
    at.page.wait_for_function("window.violations.length >= 2")
    assert at.page.evaluate("window.caught") is None
    at.errors.clear()
    at.page.reload()


def test_a_table_that_is_too_wide_is_scrolled_and_its_words_stay_whole(start: Start, visit: Visit) -> None:
    rows = ["|".join(["", *("Przewalski" for _ in range(40)), ""]), "|---" * 40 + "|"]
    at = visit(start(turn("\n".join([*rows, rows[0]]))))
    at.begin()
    at.say("Make a table.")
    at.see_end()
    cell = at.answers.get_by_role("cell").first
    height = cell.evaluate("one => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)")
    assert height < 2, "one line"
    assert at.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
