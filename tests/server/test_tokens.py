"""Tokens: who may do what, for how long; and `ostler token`."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ostler.schema.errors import ConfigurationError, NotFound, UsageError
from ostler.server import auth
from ostler.server.app import OPERATIONS
from ostler.server.operations import Operation
from ostler.server.tokens import COOKIE_SECONDS, TokenStore
from tests.server.raw_http import status_of
from tests.server.served import Served, serving
from tests.support.command import Ostler

OPEN_TO_ALL = {"/health", "/ready", "/login", "/logout"}


def path_of(operation: Operation) -> str:
    return operation.path.lstrip("/").replace("{session}", "ses_none").replace("{", "").replace("}", "")


async def asked(served: Served, operation: Operation, headers: dict[str, str]) -> httpx2.Response:
    given = {"Authorization": "", **headers}
    body: Any = {} if operation.method != "GET" else None
    return await served.http.request(operation.method, path_of(operation), headers=given, json=body)


async def test_every_route_but_four_needs_a_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for operation in OPERATIONS:
            answer = await asked(served, operation, {})
            if operation.path in OPEN_TO_ALL:
                assert answer.status_code in (200, 204, 400, 401), operation.path
            else:
                assert answer.status_code == 401, operation.path
                assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_that_observes_may_read_and_follow_and_nothing_else(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        observer = {"Authorization": f"Bearer {served.tokens.new('look', 'observe')}"}
        for operation in OPERATIONS:
            if operation.path in OPEN_TO_ALL:
                continue
            answer = await asked(served, operation, observer)
            if operation.method == "GET":
                assert answer.status_code not in (401, 403), operation.path
            else:
                assert answer.status_code == 403, (operation.method, operation.path)
                assert "observe" in answer.json()["detail"]
        session = await served.new_session("hello")
        async with served.stream(f"sessions/{session}/events", **observer) as events:
            assert (await anext(events))["type"] == "session_started"


async def test_a_cookie_has_the_scope_of_its_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        token = served.tokens.new("look", "observe")
        async with browser(served) as page:
            await page.post("login", json={"token": token})
            assert (await page.get("me")).json()["scope"] == "observe"
            refused = await page.post("sessions", json={}, headers={"X-Ostler": "1"})
            assert refused.status_code == 403


async def test_a_login_gives_a_cookie_that_no_script_and_no_other_site_gets(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, browser(served) as page:
        answer = await page.post("login", json={"token": served.token})
        assert answer.status_code == 204
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "path=/" in cookie
        assert served.token.lower() not in cookie
        assert "secure" not in cookie  # over plain HTTP a browser would throw it away
        assert (await page.get("me")).status_code == 200
        await page.post("logout")
        assert (await page.get("me")).status_code == 401


async def test_with_a_cookie_only_our_own_page_may_ask_for_changes(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, browser(served) as page:
        await page.post("login", json={"token": served.token})
        assert (await page.post("sessions", json={})).status_code == 403
        own = {"X-Ostler": "1", "Sec-Fetch-Site": "same-origin", "Origin": served.base_url}
        assert (await page.post("sessions", json={}, headers=own)).status_code == 201
        for site in ("cross-site", "same-site"):
            other = {"X-Ostler": "1", "Sec-Fetch-Site": site}
            assert (await page.post("sessions", json={}, headers=other)).status_code == 403
            assert (await page.get("sessions", headers={"Sec-Fetch-Site": site})).status_code == 403
        assert (await page.get("sessions", headers={"Sec-Fetch-Site": "none"})).status_code == 200


async def test_a_token_in_the_address_is_no_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, browser(served) as page:
        for query in (f"?token={served.token}", f"?access_token={served.token}"):
            assert (await page.get(f"me{query}")).status_code == 401


async def test_the_code_of_a_link_logs_in_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, browser(served) as page:
        code = served.tokens.code()
        assert (await page.post("login", json={"token": code})).status_code == 204
        assert (await page.get("me")).json()["scope"] == "all"
        assert (await page.post("login", json={"token": code})).status_code == 401
        assert (await page.get("me", headers={"Authorization": f"Bearer {code}"})).status_code == 401


async def test_wrong_tokens_are_slowed_down_and_right_ones_are_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, browser(served) as page:
        seen = [(await page.post("login", json={"token": f"no{n}"})).status_code for n in range(25)]
        assert seen[:20] == [401] * 20
        assert set(seen[20:]) == {429}
        wrong = await page.get("me", headers={"Authorization": "Bearer wrong"})
        assert wrong.status_code == 429
        assert (await served.http.get("me")).status_code == 200


async def test_what_is_no_token_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for wrong in (
            "Bearer",
            "Bearer ",
            "Basic abc",
            "Bearer x y",
            "bearer \u00e9",
            f"Basic {served.token}",
        ):
            lines = ("Host: localhost", f"Authorization: {wrong}")
            assert await status_of(served.base_url, *lines, path="/api/v1/me") == 401


async def test_a_strange_login_is_refused_and_nothing_breaks(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, browser(served) as page:
        for token in ('"\\ud800"', '"\\u0000"', '""', "1", "null"):
            body = f'{{"token": {token}}}'.encode()
            answer = await page.post("login", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code in (400, 401)


async def test_a_revoked_token_ends_its_streams_its_waiting_and_its_cookies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "CHECK_INTERVAL", 0.05)
    async with serving(tmp_path) as served, browser(served) as page, asyncio.timeout(60):
        token = served.tokens.new("gone", "all")
        await page.post("login", json={"token": token})
        session = await served.new_session()
        bearer = {"Authorization": f"Bearer {token}"}
        begun = [asyncio.Event() for _ in range(3)]

        async def follow(path: str, client: httpx2.AsyncClient, headers: dict[str, str], number: int) -> None:
            asked = {**headers, "Accept": "text/event-stream"}
            async with client.stream("GET", path, headers=asked) as answer:
                assert answer.status_code == 200
                begun[number].set()
                async for _ in answer.aiter_bytes():
                    continue

        async with asyncio.TaskGroup() as group:
            group.create_task(follow(f"sessions/{session}/events", served.http, bearer, 0))
            group.create_task(follow(f"sessions/{session}/events", page, {}, 1))
            group.create_task(follow("events", served.http, bearer, 2))
            path = f"sessions/{session}/events?after=1"
            waiting = group.create_task(served.http.get(f"{path}&wait=60", headers=bearer))
            kept = group.create_task(served.http.get(f"{path}&wait=0.5"))
            for one in begun:
                await one.wait()
            TokenStore(served.tokens.path).revoke("gone")  # as another process does it
        assert waiting.result().status_code == 401
        assert kept.result().status_code == 200
        assert (await page.get("me")).status_code == 401
        assert (await served.http.get("me", headers=bearer)).status_code == 401
        assert (await served.http.get("me")).status_code == 200


def test_a_cookie_ends_and_cannot_be_changed(tmp_path: Path) -> None:
    clock = [1000.0]
    book = TokenStore(tmp_path / "tokens.json", lambda: clock[0])
    observer = book.of_token(book.new("a", "observe"))
    master = book.of_token(book.new("b", "all"))
    assert observer is not None
    assert master is not None
    cookie = book.cookie(observer)
    known = book.of_cookie(cookie)
    assert known is not None
    assert known.scope == "observe"
    assert book.of_cookie(cookie.replace(observer.token, master.token)) is None
    assert book.of_cookie(cookie.replace(str(1000 + COOKIE_SECONDS), "9" * 12)) is None
    assert book.of_cookie(cookie[:-1] + ("0" if cookie[-1] != "0" else "1")) is None
    for wrong in ("", ".", "..", "a.b.c", "é.1.2"):
        assert book.of_cookie(wrong) is None
    clock[0] += COOKIE_SECONDS + 1
    assert book.of_cookie(cookie) is None
    assert not book.knows(known)


def test_the_file_has_no_token_in_it_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    book = TokenStore(tmp_path / "tokens.json")
    token = book.new("a", "all")
    assert token not in book.path.read_text()
    assert book.path.stat().st_mode & 0o777 == 0o600
    assert book.of_token(token)


def test_a_link_ends_after_some_minutes(tmp_path: Path) -> None:
    clock = [1000.0]
    book = TokenStore(tmp_path / "tokens.json", lambda: clock[0])
    book.new("a", "all")
    code = book.code()
    clock[0] += 601
    assert book.of_code(code) is None


def test_the_first_token_is_made_once_also_by_two_at_a_time(tmp_path: Path) -> None:
    books = [TokenStore(tmp_path / "tokens.json") for _ in range(2)]
    assert [bool(book.first()) for book in books] == [True, False]
    assert [one.name for one in books[1].all()] == ["first"]


def test_a_name_counts_once_and_is_plain(tmp_path: Path) -> None:
    book = TokenStore(tmp_path / "tokens.json")
    book.new("a", "all")
    for wrong in ("a", "", "  ", "a\x1b[2J", "x" * 101, book.all()[0].id):
        with pytest.raises(UsageError):
            book.new(wrong, "all")
    with pytest.raises(NotFound):
        book.revoke("b")


def test_a_damaged_token_file_is_reported_and_not_replaced(tmp_path: Path) -> None:
    book = TokenStore(tmp_path / "tokens.json")
    book.path.write_text("{")
    with pytest.raises(ConfigurationError, match="damaged"):
        book.new("a", "all")
    assert book.path.read_text() == "{"


async def test_a_damaged_file_lets_nobody_in(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        served.tokens.path.write_text("{")
        os.utime(served.tokens.path, ns=(1, 1))
        answer = await served.http.get("me")
        assert answer.status_code == 503
        assert str(served.home) not in answer.text


def test_tokens_are_made_listed_and_revoked_on_the_command_line(ostler: Ostler) -> None:
    made = ostler("token", "new", "laptop", "--scope", "observe")
    assert made.code == 0
    token = made.out.strip()
    assert token.startswith("ostler_")
    assert token not in made.err
    listed = ostler("token")
    assert "laptop" in listed.out
    assert "observe" in listed.out
    assert token not in listed.out
    (row,) = map(json.loads, ostler("token", "list", "--json").out.splitlines())
    assert row.keys() == {"id", "name", "scope", "created_ms"}
    assert json.loads(ostler("token", "--json").out) == row
    other = json.loads(ostler("token", "new", "phone", "--json").out)
    assert other["scope"] == "all"
    assert TokenStore(ostler.home / "tokens.json").of_token(other["token"])
    gone = json.loads(ostler("token", "revoke", row["id"], "--json").out)
    assert gone == row
    assert [one.name for one in TokenStore(ostler.home / "tokens.json").all()] == ["phone"]
    wrong = ostler("token", "revoke", "laptop")
    assert wrong.code == 2
    assert len(wrong.err.splitlines()) == 1


def browser(served: Served) -> httpx2.AsyncClient:
    """A client without a token, that keeps cookies."""
    return httpx2.AsyncClient(base_url=f"{served.base_url}/api/v1/", timeout=60)
