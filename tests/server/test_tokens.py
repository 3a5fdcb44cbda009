"""Tokens: who may do what, for how long; and `ostler token`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ostler.schema.errors import ConfigurationError, NotFound, UsageError
from ostler.schema.requests import AnyRequest
from ostler.server import auth
from ostler.server.app import OPERATIONS, PREFIX
from ostler.server.openapi import openapi
from ostler.server.operations import Operation
from ostler.server.scopes import REQUESTS, SCOPES
from ostler.server.tokens import LOGIN_DAYS, TOKEN_DAYS, Principal, TokenScope, TokenStore
from tests.server.extended import extended_server
from tests.server.raw_http import status_of
from tests.server.served import Served, serving, text
from tests.support.command import Ostler

OPEN_TO_ALL = {"/health", "/ready", "/login"}


def path_of(operation: Operation) -> str:
    return operation.path.lstrip("/").replace("{session}", "ses_none").replace("{", "").replace("}", "")


async def asked(served: Served, operation: Operation, headers: dict[str, str]) -> httpx2.Response:
    given = {"Authorization": "", **headers}
    body: Any = {} if operation.method != "GET" else None
    return await served.http.request(operation.method, path_of(operation), headers=given, json=body)


async def test_every_route_but_three_needs_a_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for operation in OPERATIONS:
            answer = await asked(served, operation, {})
            if operation.path in OPEN_TO_ALL:
                assert answer.status_code in (200, 204, 400, 401), operation.path
            else:
                assert answer.status_code == 401, operation.path
                assert answer.headers["www-authenticate"] == "Bearer"


def needed(operation: Operation) -> set[str]:
    """The scopes of tokens that a route is for, as the OpenAPI document says."""
    described = openapi(OPERATIONS, PREFIX)["paths"][PREFIX + operation.path][operation.method.lower()]
    accesses = {access for one in described["security"] for access in one["token"]}
    return {scope for scope, granted in SCOPES.items() if accesses & granted}


@pytest.mark.parametrize("scope", SCOPES)
async def test_each_kind_of_token_is_for_the_routes_that_the_document_says(
    tmp_path: Path, scope: TokenScope
) -> None:
    async with serving(tmp_path) as served:
        bearer = {"Authorization": f"Bearer {served.tokens.new('kind', scope)}"}
        for operation in OPERATIONS:
            if operation.path in OPEN_TO_ALL:
                continue
            answer = await asked(served, operation, bearer)
            if scope in needed(operation):
                assert answer.status_code not in (401, 403), (operation.method, operation.path)
            else:
                assert answer.status_code == 403, (operation.method, operation.path)
                assert scope in answer.json()["detail"]
        assert served.server.agents.started_as == {}


BODIES = {
    "prompt": {"content": [{"type": "text", "text": "hello"}]},
    "steer": {"content": [{"type": "text", "text": "hello"}]},
    "answer": {"question": "que_none", "answer": "yes"},
    "fork": {"entry": 1},
    "navigate": {"entry": 1},
    "set_model": {"model": "nobody/knows"},
    "undo_compaction": {"compaction": 1},
    "rename": {"title": "a"},
    "label": {"entry": 1, "label": "a"},
    "collapse_branch": {"leaf": 1},
    "take_back": {"request": "req_none"},
    "revoke_permission": {"rule": "bash"},
    "finish_call": {"call": "cal_none", "outcome": {"status": "ok"}},
    "run_command": {"name": "nothing"},
    "keys": {"keys": "y"},
    "resize": {"columns": 80, "rows": 24},
}


@pytest.mark.parametrize("scope", SCOPES)
async def test_each_kind_of_token_may_send_the_requests_that_its_scope_says(
    tmp_path: Path, scope: TokenScope
) -> None:
    async with serving(tmp_path) as served:
        bearer = {"Authorization": f"Bearer {served.tokens.new('kind', scope)}"}
        session = await served.new_session()
        assert set(REQUESTS) == set(AnyRequest.__args__)
        for kind, access in REQUESTS.items():
            tag = str(kind.__struct_config__.tag)
            body = {"type": tag, **BODIES.get(tag, {})}
            answer = await served.http.post(f"sessions/{session}/requests", json=body, headers=bearer)
            if access in SCOPES[scope]:
                assert answer.status_code != 403, tag
            else:
                assert answer.status_code == 403, tag


COMMAND = """
def setup(ostler):
    @ostler.command("greet", description="greets")
    def greet(arguments, context):
        return "hello"
"""


async def test_a_typed_command_of_an_extension_needs_more_than_prompting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, code=COMMAND) as served:
        session = await served.new_session()
        path, body = f"sessions/{session}/requests?typed=true", {"type": "prompt", "content": text("/greet")}
        kinds: tuple[tuple[TokenScope, int], ...] = (("prompt", 403), ("approve", 403), ("all", 202))
        for scope, status in kinds:
            bearer = {"Authorization": f"Bearer {served.tokens.new(scope, scope)}"}
            assert (await served.http.post(path, json=body, headers=bearer)).status_code == status


async def test_a_page_has_the_scope_of_the_token_that_it_logged_in_with(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        token = served.tokens.new("look", "observe")
        async with browser(served) as page:
            await log_in(page, token)
            assert (await page.get("me")).json()["scope"] == "observe"
            refused = await page.post("sessions", json={}, headers={"X-Ostler": "1"})
            assert refused.status_code == 403


async def test_a_login_gives_a_token_that_counts_at_its_origin_only(tmp_path: Path) -> None:
    async with serving(tmp_path, hosts=["other.example"], origins=["http://allowed.example"]) as served:
        async with browser(served) as page:
            answer = await log_in(page, served.token)
            assert answer.headers["cache-control"] == "no-store"
            assert "set-cookie" not in answer.headers  # it would be sent to every port
            assert served.token not in answer.text
            assert (await page.get("me")).json()["page"] is True
            for headers in (
                {"Host": "other.example"},
                {"Origin": "http://allowed.example"},
                {"Sec-Fetch-Site": "same-site"},
                {"Sec-Fetch-Site": "cross-site"},
            ):
                refused = await page.get("me", headers=headers)
                assert refused.status_code == 403, headers
            changes = {"X-Ostler": "1", "Origin": served.base_url, "Sec-Fetch-Site": "same-origin"}
            assert (await page.post("sessions", json={}, headers=changes)).status_code == 201
            assert (await page.post("sessions", json={})).status_code == 403
        async with browser(served) as other:
            allowed = {"Origin": "http://allowed.example"}
            answer = await other.post("login", json={"token": served.token}, headers=allowed)
            bearer = {"Authorization": f"Bearer {answer.json()['token']}"}
            assert (await other.get("me", headers={**bearer, **allowed})).status_code == 200
            assert (await other.get("me", headers=bearer)).status_code == 403


async def test_a_cookie_alone_authorises_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, browser(served) as page:
        answer = await log_in(page, served.token)
        token = answer.json()["token"]
        page.headers.pop("authorization")
        login = served.tokens.logins()[0]
        for name in (f"__Host-{login.id}", "ostler", "token", "Authorization"):
            for value in (token, served.token, login.id, login.sha256):
                cookie = {"Cookie": f"{name}={value}", "X-Ostler": "1"}
                assert (await page.get("me", headers=cookie)).status_code == 401
                assert (await page.post("sessions", json={}, headers=cookie)).status_code == 401


async def test_logging_out_revokes_the_login_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "CHECK_INTERVAL", 0.05)
    async with serving(tmp_path) as served, browser(served) as page, browser(served) as other:
        await log_in(page, served.token)
        await log_in(other, served.token)
        session = await served.new_session()
        asked = {"Accept": "text/event-stream"}
        async with (
            asyncio.timeout(60),
            page.stream("GET", f"sessions/{session}/events", headers=asked) as answer,
        ):
            assert (await page.post("logout", headers={"X-Ostler": "1"})).status_code == 204
            async for _ in answer.aiter_bytes():  # until its end, which comes
                continue
        assert (await page.get("me")).status_code == 401
        assert (await page.post("logout", headers={"X-Ostler": "1"})).status_code == 401
        assert (await other.get("me")).status_code == 200
        assert (await served.http.get("me")).status_code == 200
        assert (await served.http.post("logout")).status_code == 409
        assert (await served.http.get("me")).status_code == 200


async def test_a_token_in_the_address_is_no_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, browser(served) as page:
        for query in (f"?token={served.token}", f"?access_token={served.token}"):
            assert (await page.get(f"me{query}")).status_code == 401


async def test_the_code_of_a_link_logs_in_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, browser(served) as page:
        code = TokenStore(served.tokens.path).link_code("prompt")  # as another process prints it
        await log_in(page, code)
        assert (await page.get("me")).json()["scope"] == "prompt"
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


async def test_a_revoked_token_ends_its_streams_its_waiting_and_its_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "CHECK_INTERVAL", 0.05)
    async with serving(tmp_path) as served, browser(served) as page, asyncio.timeout(60):
        token = served.tokens.new("gone", "all")
        await log_in(page, token)
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


def test_tokens_and_logins_expire(tmp_path: Path) -> None:
    clock = [1000.0]
    book = TokenStore(tmp_path / "tokens.json", lambda: clock[0])
    short, usual, lasting = book.new("a", "all", 1), book.new("b", "all"), book.new("c", "all", 0)
    logins = [book.log_in(one, "http://localhost", with_cookie=False) for one in (short, lasting)]
    tokens = [one.token for one in logins if one is not None]

    def valid() -> list[bool]:
        found = [book.of_token(one) for one in (short, usual, lasting, *tokens)]
        return [isinstance(one, Principal) and book.knows(one) for one in found]

    known = book.of_token(short)
    assert known is not None
    assert valid() == [True] * 5
    clock[0] += 86_400
    assert valid() == [False, True, True, False, True]
    assert not book.knows(known)
    clock[0] += (LOGIN_DAYS - 1) * 86_400
    assert valid() == [False, True, True, False, False]
    clock[0] += (TOKEN_DAYS - LOGIN_DAYS) * 86_400
    assert valid() == [False, False, True, False, False]
    assert book.log_in(usual, "http://localhost", with_cookie=False) is None


async def test_the_last_use_of_a_token_is_listed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        token = served.tokens.new("used", "observe")
        other = TokenStore(served.tokens.path)
        assert {one.name: one.used_ms for one in other.all()}["used"] == 0
        await served.http.get("me", headers={"Authorization": f"Bearer {token}"})
        await served.server.close()  # which stores it
        assert {one.name: one.used_ms for one in other.all()}["used"]


def test_a_token_file_of_an_older_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(
        '{"tokens": [{"id": "tok_1", "name": "old", "scope": "all", "sha256": "'
        + hashlib.sha256(b"ostler_old").hexdigest()
        + '", "created_ms": 1}], "cookie_key": "00"}'
    )
    book = TokenStore(path)
    assert book.of_token("ostler_old") == Principal("tok_1", "all", "old")
    book.new("new", "approve")
    assert book.of_token("ostler_old") == Principal("tok_1", "all", "old")


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
    code = book.link_code()
    clock[0] += 601
    assert book.log_in(code, "http://localhost", with_cookie=False) is None


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
    assert row.keys() == {"id", "name", "scope", "created_ms", "expires_ms", "used_ms"}
    assert row["expires_ms"] - row["created_ms"] == 90 * 86_400_000
    assert "never used" in listed.out
    assert "expires" in listed.out
    assert json.loads(ostler("token", "--json").out) == row
    other = json.loads(ostler("token", "new", "phone", "--json").out)
    assert other["scope"] == "all"
    assert TokenStore(ostler.home / "tokens.json").of_token(other["token"])
    gone = json.loads(ostler("token", "revoke", row["id"], "--json").out)
    assert gone == row
    assert [one.name for one in TokenStore(ostler.home / "tokens.json").all()] == ["phone"]
    for days in ("0", "-1", "soon", "nan"):
        assert ostler("token", "new", "tablet", "--expires", days).code == 2
    tablet = json.loads(ostler("token", "new", "tablet", "--expires", "never", "--json").out)
    assert tablet["expires_ms"] == 0
    wrong = ostler("token", "revoke", "laptop")
    assert wrong.code == 2
    assert len(wrong.err.splitlines()) == 1


def browser(served: Served) -> httpx2.AsyncClient:
    """A client without a token, that keeps cookies."""
    return httpx2.AsyncClient(base_url=f"{served.base_url}/api/v1/", timeout=60)


async def log_in(page: httpx2.AsyncClient, secret: str) -> httpx2.Response:
    """As a page does: what it gets is sent in a header from then on."""
    answer = await page.post("login", json={"token": secret})
    assert answer.status_code == 200, answer.text
    page.headers["Authorization"] = f"Bearer {answer.json()['token']}"
    return answer
