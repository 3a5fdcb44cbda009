"""Under which names the server answers, and what it tells browsers about pages of other origins."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.schema.errors import UsageError
from ostler.server.agentapi.access import parse_allowed_hosts, parse_allowed_origins
from ostler.server.agentapi.app import create_agent_app
from tests.server.agentapi.served_agent import FakeAgent, native, serving
from tests.server.raw_http import status_of

REFUSED = "Invalid host header. Allowed hosts: localhost, 127.0.0.1, ::1\n"


@pytest.mark.parametrize(
    ("items", "parsed"),
    [
        (["localhost", "127.0.0.1", "[::1]"], ["localhost", "127.0.0.1", "::1"]),
        (["EXAMPLE.com.", "a/b?c"], ["EXAMPLE.com.", "a"]),
        (["*"], ["*"]),
        (["a b", "http://x:1", "*"], ["*"]),
        (["[2001:db8::1]"], ["2001:db8::1"]),
    ],
)
def test_hosts_are_parsed_to_the_names_that_are_compared(items: list[str], parsed: list[str]) -> None:
    assert parse_allowed_hosts(items) == parsed


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "the list must not be empty"),
        (["a", "b\u2003c"], "'b\u2003c' contains whitespace characters, which are not allowed"),
        (["http://a b"], "'http://a b' contains whitespace characters, which are not allowed"),
        (["a,b"], "'a,b' contains comma characters, which are not allowed"),
        (["https://a"], "'https://a' must not include http:// or https://"),
        (["a:8080"], "'a:8080' must not include a port"),
        (["[::1]:80"], "'[::1]:80' must not include a port"),
        (["2001:db8::1"], "'2001:db8::1' must not include a port"),
        (["fe80::abc"], "'fe80::abc' is not a valid host: invalid port \":abc\" after host"),
        (["[::1"], "'[::1' is not a valid host: missing ']' in host"),
        (['a"b'], "'a\"b' is not a valid host: invalid character '\"' in host name"),
    ],
)
def test_a_list_of_hosts_that_cannot_be_meant_is_refused(items: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_allowed_hosts(items)
    assert refused.value.message == f"failed to parse allowed hosts: {said}"


def test_origins_lose_what_is_no_part_of_them() -> None:
    origins = ["https://a.example/path?q#f", "http://localhost:3000/", "https://*.example.com"]
    assert parse_allowed_origins(origins) == [
        "https://a.example",
        "http://localhost:3000",
        "https://*.example.com",
    ]
    assert parse_allowed_origins(["x y", "*"]) == ["*"]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "the list must not be empty"),
        (["http://a b"], "'http://a b' contains whitespace characters, which are not allowed"),
        (["http://a,http://b"], "'http://a,http://b' contains comma characters, which are not allowed"),
    ],
)
def test_a_list_of_origins_that_cannot_be_meant_is_refused(items: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_allowed_origins(items)
    assert refused.value.message == f"failed to parse allowed origins: {said}"


async def test_nothing_is_served_with_a_wrong_list(tmp_path: Path) -> None:
    agent = FakeAgent()
    with pytest.raises(UsageError, match="must not include a port"):
        create_agent_app(agent, native, allowed_hosts=["a:1"], allowed_origins=["*"], uploads=tmp_path)
    assert agent.observers == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]", "[::1]:3284"])
async def test_an_allowed_host_is_served_at_any_port(tmp_path: Path, host: str) -> None:
    async with serving(FakeAgent(), tmp_path) as served:
        assert (await served.http.get("/status", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["malicious.com", "localhost.", "localhost.evil.com", "localhost:x", "[::1", "::1"]
)
async def test_another_host_is_refused_before_anything_else(tmp_path: Path, host: str) -> None:
    async with serving(FakeAgent(), tmp_path) as served:
        asked = {"host": host, "origin": "http://localhost:3000", "access-control-request-method": "GET"}
        for method, path in (
            ("GET", "/status"),
            ("GET", "/nothing"),
            ("OPTIONS", "/status"),
            ("GET", "/chat"),
        ):
            answer = await served.http.request(method, path, headers=asked)
            assert (answer.status_code, answer.text) == (400, REFUSED)
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "vary" not in answer.headers and "access-control-allow-origin" not in answer.headers


async def test_a_request_without_a_host_is_refused(tmp_path: Path) -> None:
    async with serving(FakeAgent(), tmp_path) as served:
        assert await status_of(served.base_url, "Host:", path="/status") == 400


async def test_names_are_compared_without_case_and_brackets(tmp_path: Path) -> None:
    hosts = ["EXAMPLE.COM", "[2001:db8::1]"]
    async with serving(FakeAgent(), tmp_path, allowed_hosts=hosts) as served:
        for host in ("example.com:80", "[2001:DB8::1]:80"):
            assert (await served.http.get("/status", headers={"host": host})).status_code == 200
        answer = await served.http.get("/status")
        assert answer.text == "Invalid host header. Allowed hosts: EXAMPLE.COM, 2001:db8::1\n"


async def test_any_host_is_served_where_all_are_allowed(tmp_path: Path) -> None:
    async with serving(FakeAgent(), tmp_path, allowed_hosts=["x:1", "*"]) as served:
        assert (await served.http.get("/status", headers={"host": "what.ever:1"})).status_code == 200


ALLOWED = {
    "access-control-allow-origin": "http://localhost:3000",
    "access-control-expose-headers": "Link",
    "access-control-allow-credentials": "true",
}


def cors(headers: object) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("access-control")}  # type: ignore[attr-defined]


async def test_a_page_of_an_allowed_origin_may_read_the_answer(tmp_path: Path) -> None:
    async with serving(FakeAgent(), tmp_path) as served:
        for path in ("/status", "/nothing", "/"):
            answer = await served.http.get(path, headers={"origin": "http://localhost:3000"})
            assert cors(answer.headers) == ALLOWED
            assert answer.headers["vary"] == "Origin"
        answer = await served.http.get("/status", headers={"origin": "HTTP://LOCALHOST:3000"})
        assert answer.headers["access-control-allow-origin"] == "HTTP://LOCALHOST:3000"
        answer = await served.http.head("/status", headers={"origin": "http://localhost:3000"})
        assert cors(answer.headers) == {}


async def test_a_page_of_another_origin_gets_no_cors_headers(tmp_path: Path) -> None:
    async with serving(FakeAgent(), tmp_path) as served:
        for origin in ({}, {"origin": "http://localhost:3002"}, {"origin": "null"}):
            answer = await served.http.get("/status", headers=origin)
            assert answer.status_code == 200
            assert answer.headers["vary"] == "Origin"
            assert cors(answer.headers) == {}


async def test_a_preflight_is_answered_with_what_was_asked_for(tmp_path: Path) -> None:
    asked = {
        "origin": "http://localhost:3001",
        "access-control-request-method": "post",
        "access-control-request-headers": "content-type, x-csrf-token",
    }
    async with serving(FakeAgent(), tmp_path) as served:
        answer = await served.http.options("/nothing", headers=asked)
        assert (answer.status_code, answer.content) == (200, b"")
        assert cors(answer.headers) == {
            "access-control-allow-origin": "http://localhost:3001",
            "access-control-allow-methods": "POST",
            "access-control-allow-headers": "Content-Type, X-Csrf-Token",
            "access-control-allow-credentials": "true",
            "access-control-max-age": "300",
        }
        vary = ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"]
        assert answer.headers.get_list("vary") == vary
        for other in (
            {"origin": "http://evil.example"},
            {"access-control-request-method": "PATCH"},
            {"access-control-request-headers": "x-other"},
        ):
            answer = await served.http.options("/status", headers={**asked, **other})
            assert (answer.status_code, cors(answer.headers)) == (200, {})
            assert answer.headers.get_list("vary") == vary


async def test_one_star_in_an_origin_stands_for_anything(tmp_path: Path) -> None:
    origins = ["https://*.example.com"]
    async with serving(FakeAgent(), tmp_path, allowed_origins=origins) as served:
        for origin, allowed in (
            ("https://a.EXAMPLE.com", True),
            ("https://a.b.example.com", True),
            ("https://example.com", False),
            ("http://a.example.com", False),
            ("https://a.example.com.evil.com", False),
            ("https://aXexampleXcom", False),
        ):
            answer = await served.http.get("/status", headers={"origin": origin})
            assert (answer.headers.get("access-control-allow-origin") == origin) is allowed, origin


async def test_any_origin_is_allowed_with_a_wildcard(tmp_path: Path) -> None:
    async with serving(FakeAgent(), tmp_path, allowed_origins=["*"]) as served:
        answer = await served.http.get("/status", headers={"origin": "https://any.where"})
        assert cors(answer.headers) == {**ALLOWED, "access-control-allow-origin": "*"}
