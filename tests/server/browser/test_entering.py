"""The way in: a link that works once, a cookie that stays, a field for the token."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.server.browser.conftest import Start, Visit

pytestmark = pytest.mark.long
KEPT = (
    "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, history.length])"
)


def test_the_link_logs_in_and_its_code_leaves_the_address(start: Start, visit: Visit) -> None:
    served = start()
    code = served.link.partition("#token=")[2]
    at = visit(served)
    assert at.page.url == f"{served.address}/"
    assert code not in at.page.evaluate(KEPT)
    assert served.token not in at.page.evaluate(KEPT)
    at.page.reload()
    expect(at.button("New session").first).to_be_visible()
    at.page.goto(f"{served.address}/")
    expect(at.button("New session").first).to_be_visible()
    (cookie,) = at.page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"


def test_a_link_that_was_used_asks_for_the_token(start: Start, visit: Visit, chromium: Browser) -> None:
    served = start()
    visit(served)
    with chromium.new_context() as other:
        page = other.new_page()
        page.goto(served.link)
        expect(page.get_by_role("alert")).to_contain_text("was used before")
        field = page.get_by_label("Token")
        field.fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("is invalid")
        expect(field).to_have_attribute("aria-invalid", "true")
        field.fill(served.token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("button", name="New session").first).to_be_visible()
        assert served.token not in page.evaluate(KEPT)
