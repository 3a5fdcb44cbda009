"""A POST that is sent twice happens once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from ostler.server.idempotency import KEPT_SECONDS, IdempotencyStore, KeyedRequest
from ostler.server.problems import KeyReused
from ostler.server.tokens import Principal
from tests.server.served import serving, text


async def test_the_same_key_gives_the_same_answer_and_nothing_more_happens(tmp_path: Path) -> None:
    async with serving(tmp_path, "done", "done") as served:
        key = {"Idempotency-Key": "k-1"}
        body = {"prompt": text("hello")}
        first = await served.http.post("sessions", json=body, headers=key)
        again = await served.http.post("sessions", json=body, headers=key)
        assert first.status_code == again.status_code == 201
        assert first.content == again.content
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert len((await served.get("sessions"))["sessions"]) == 1
        other = await served.http.post("sessions", json={}, headers=key)
        assert (other.status_code, other.json()["kind"]) == (422, "key_reused")
        elsewhere = await served.http.post("sessions/import", json=body, headers=key)
        assert elsewhere.status_code == 422


async def test_two_at_once_with_the_same_key_are_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()

        async def ask() -> httpx2.Response:
            return await served.http.post(
                f"sessions/{session}/requests?wait=5",
                json={"type": "rename", "title": "once"},
                headers={"Idempotency-Key": "k"},
            )

        answers = await asyncio.gather(*(ask() for _ in range(8)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        facts = (await served.get(f"sessions/{session}/events"))["facts"]
        assert [fact["type"] for fact in facts].count("session_renamed") == 1


async def test_a_key_belongs_to_its_token_and_survives_the_server(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "k"}
    async with serving(tmp_path) as served:
        first = await served.http.post("sessions", json={}, headers=key)
        other = served.tokens.new("other", "all")
        theirs = await served.http.post(
            "sessions", json={}, headers={**key, "Authorization": f"Bearer {other}"}
        )
        assert theirs.json()["id"] != first.json()["id"]
        principal = served.tokens.of_token(served.token)
        assert principal is not None
    kept = IdempotencyStore(tmp_path / "home" / "answers.db")
    replayed = await kept.once(_keyed("k", principal, b"{}", "/api/v1/sessions"), _never)
    kept.close()
    assert replayed.body == first.content


async def test_a_server_that_died_before_it_answered_finds_what_it_had_done(tmp_path: Path) -> None:
    async with serving(tmp_path, "done", "done") as served:
        key = {"Idempotency-Key": "k"}
        body = {"prompt": text("hello")}
        first = await served.http.post("sessions", json=body, headers=key)
        served.server.answers._connection().execute("delete from answers").connection.commit()
        again = await served.http.post("sessions", json=body, headers=key)
        assert again.status_code == 201
        assert again.json()["id"] == first.json()["id"]
        await served.rest(first.json()["id"])
        facts = (await served.get(f"sessions/{first.json()['id']}/events"))["facts"]
        assert [fact["type"] for fact in facts].count("run_started") == 1


async def test_what_failed_may_be_tried_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        key = {"Idempotency-Key": "k"}
        wanted = tmp_path / "later"
        body = {"cwd": str(wanted)}
        assert (await served.http.post("sessions", json=body, headers=key)).status_code == 400
        wanted.mkdir()
        assert (await served.http.post("sessions", json=body, headers=key)).status_code == 201


async def test_a_key_must_be_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for key in ("", "x" * 256):
            answer = await served.http.post("sessions", json={}, headers={"Idempotency-Key": key})
            assert answer.status_code == 400


async def test_a_response_is_stored_for_a_day_without_key_or_body(tmp_path: Path) -> None:
    now = 1_000_000.0
    kept = IdempotencyStore(tmp_path / "answers.db", lambda: now)
    principal = Principal("tok_1", "all")

    async def answer() -> Response:
        return Response(b"made", 201)

    await kept.once(_keyed("the-key", principal, b"the-body"), answer)
    assert (await kept.once(_keyed("the-key", principal, b"the-body"), _never)).body == b"made"
    with pytest.raises(KeyReused):
        await kept.once(_keyed("the-key", principal, b"another"), _never)
    now += KEPT_SECONDS + 1
    await kept.once(_keyed("the-key", principal, b"another"), answer)
    assert kept._connection().execute("select count(*) from answers").fetchone() == (1,)
    kept.close()
    stored = (tmp_path / "answers.db").read_bytes()
    assert b"the-key" not in stored
    assert b"the-body" not in stored
    assert (tmp_path / "answers.db").stat().st_mode & 0o077 == 0


async def _never() -> Response:
    raise AssertionError("it was carried out again")


def _keyed(key: str, principal: Principal, body: bytes, path: str = "/x") -> KeyedRequest:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    return KeyedRequest(key, principal, Request(scope), receive)
