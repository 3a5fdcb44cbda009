"""The way in: a link that works once, a login that stays in its origin, a field for the token."""

from __future__ import annotations

import base64
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ostler.server.tokens import TokenStore
from ostler.testkit.vendors import turn
from tests.server.browser.conftest import Start, Visit
from tests.support.command import Ostler

pytestmark = pytest.mark.long
KEPT = (
    "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, history.length])"
)


TOKEN = "localStorage.getItem('ostler.token:/')"
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
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
    assert at.page.context.cookies() == []


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


def test_a_second_tab_is_logged_in_and_logging_out_ends_both(start: Start, visit: Visit) -> None:
    served = start()
    at = visit(served)
    beside = visit(served, beside=at)
    token = at.page.evaluate(TOKEN)
    assert TokenStore(served.ostler.home / "tokens.json").of_token(token)
    at.button("Log out").click()
    for one in (at, beside):
        expect(one.page.get_by_label("Token")).to_be_visible()
    assert at.page.evaluate(TOKEN) is None
    assert TokenStore(served.ostler.home / "tokens.json").of_token(token) is None
    at.page.reload()
    expect(at.page.get_by_label("Token")).to_be_visible()


def test_a_login_for_one_tab_stays_in_that_tab(start: Start, chromium: Browser) -> None:
    served = start()
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(served.address)
        page.get_by_label("Token").fill(served.token)
        page.get_by_label("Only in this tab").check()
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("button", name="New session").first).to_be_visible()
        page.reload()
        expect(page.get_by_role("button", name="New session").first).to_be_visible()
        other = context.new_page()
        other.goto(served.address)
        expect(other.get_by_label("Token")).to_be_visible()


def test_another_port_of_the_host_gets_nothing_that_logs_in(start: Start, visit: Visit) -> None:
    served = start()
    at = visit(served)
    heard: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]

        def listen() -> None:
            connection, _ = other.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")

        listening = threading.Thread(target=listen)
        listening.start()
        page = at.page.context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        listening.join(60)
        assert page.evaluate("({...localStorage})") == {}
    assert b"ostler" not in heard[0]
    assert b"cookie" not in heard[0].lower()


def test_pictures_and_files_come_with_the_login(start: Start, visit: Visit, ostler: Ostler) -> None:
    served = start(turn("I see."))
    at = visit(served)
    at.begin()
    picture = ostler.work / "dot.png"
    picture.write_bytes(DOT)
    at.page.locator("input[type=file]").set_input_files(picture)
    at.say("Look.")
    at.see_end()
    at.page.reload()
    image = at.prompts.first.get_by_role("img", name="attached image")
    expect(image).to_be_visible()
    assert image.evaluate("one => one.naturalWidth") == 1
    at.button("More").click()
    with at.page.expect_download() as saving:
        at.page.get_by_role("menuitem", name="Save as Markdown").click()
    assert saving.value.suggested_filename.endswith(".md")
    assert "Look." in Path(saving.value.path()).read_text()
