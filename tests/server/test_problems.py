"""What is asked wrongly is answered with a problem that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.served import serving


async def test_unknown_paths_and_wrong_methods_are_problems(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()
        for method, path, status, kind in (
            ("GET", "nothing", 404, "not_found"),
            ("GET", "../v2/sessions", 404, "not_found"),
            ("POST", "nothing/at/all", 404, "not_found"),
            ("GET", "sessions/", 404, "not_found"),
            ("PUT", "sessions", 405, "method_not_allowed"),
            ("PATCH", f"sessions/{session}", 405, "method_not_allowed"),
            ("POST", f"sessions/{session}/tree", 405, "method_not_allowed"),
            ("GET", f"sessions/{session}/fork", 405, "method_not_allowed"),
        ):
            answer = await served.http.request(method, path)
            assert answer.status_code == status, path
            assert answer.headers["content-type"] == "application/problem+json"
            problem = answer.json()
            assert problem["kind"] == kind
            assert problem["type"] == f"urn:ostler:{kind}"
            assert problem["status"] == status
            assert problem["title"] and problem["detail"]
            if status == 405:
                assert answer.headers["allow"] in problem["detail"]


async def test_head_and_options_answer_without_a_body(tmp_path: Path) -> None:
    async with serving(tmp_path, "done") as served:
        session = await served.new_session("go")
        await served.rest(session)
        for path in ("health", "sessions", f"sessions/{session}", f"sessions/{session}/export"):
            answer = await served.http.head(path)
            assert (answer.status_code, answer.content) == (200, b"")
        stream = {"Accept": "text/event-stream"}
        answer = await served.http.head(f"sessions/{session}/events", headers=stream)
        assert (answer.status_code, answer.content) == (200, b"")
        assert (await served.http.head("sessions/nothing")).status_code == 404
        options = await served.http.options(f"sessions/{session}")
        assert (options.status_code, options.content) == (204, b"")
        assert options.headers["allow"] == "DELETE, GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"[" * 5000, "application/json", 400),
        (b"[1]", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b"cwd=x", "application/x-www-form-urlencoded", 415),
        (b"", "", 201),
        (b"{}", "application/json; charset=utf-8", 201),
    ],
)
async def test_a_body_must_be_what_it_says(tmp_path: Path, content: bytes, kind: str, status: int) -> None:
    async with serving(tmp_path) as served:
        headers = {"Content-Type": kind} if kind else {}
        answer = await served.http.post("sessions", content=content, headers=headers)
        assert answer.status_code == status, answer.text
        if status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"


async def test_a_query_must_be_what_it_should(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for path in ("sessions?limit=0", "sessions?limit=x", "sessions?children=perhaps", "sessions/search"):
            answer = await served.http.get(path)
            assert (answer.status_code, answer.json()["kind"]) == (400, "usage_error"), path
