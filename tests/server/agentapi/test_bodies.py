"""Bodies, headers, statuses and errors, byte for byte where clients may look at bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ostler.drivers.driver import NOT_WAITING, STOPPED, AgentMessage
from ostler.drivers.tracker import TIMED_OUT
from ostler.schema.errors import OstlerError, SessionBusy
from ostler.server.agentapi import bodies
from tests.server.agentapi.served_agent import FakeAgent, ServedAgent, serving
from tests.server.raw_http import connected


@pytest.fixture
async def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
async def served(agent: FakeAgent, tmp_path: Path) -> AsyncIterator[ServedAgent]:
    async with serving(agent, tmp_path) as served:
        yield served


def problem(served: ServedAgent, status: int, title: str, detail: str, *errors: Any) -> bytes:
    body: dict[str, Any] = {"$schema": f"{served.base_url}/schemas/ErrorModel.json"}
    body |= {"title": title, "status": status, "detail": detail}
    if errors:
        body["errors"] = list(errors)
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


async def test_the_status_names_its_schema(served: ServedAgent, agent: FakeAgent) -> None:
    answer = await served.http.get("/status")
    assert answer.content == (
        b'{"$schema":"%b/schemas/StatusResponseBody.json",'
        b'"status":"stable","agent_type":"claude","transport":"pty"}\n' % served.base_url.encode()
    )
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["link"] == '</schemas/StatusResponseBody.json>; rel="describedBy"'
    for host, scheme in (("localhost:1", "http"), ("127.0.0.1", "http"), ("[::1]:1", "https")):
        answer = await served.http.get("/status", headers={"host": host})
        assert answer.json()["$schema"] == f"{scheme}://{host}/schemas/StatusResponseBody.json"


@pytest.mark.parametrize("status", ["initializing", "changing"])
async def test_an_agent_that_does_not_wait_is_running(
    served: ServedAgent, agent: FakeAgent, status: Any
) -> None:
    agent.change(status=status)
    agent.transport = "stream-json"
    answer = (await served.http.get("/status", headers={"accept": "text/html"})).json()
    assert (answer["status"], answer["transport"]) == ("running", "acp")


async def test_messages_are_all_there_in_their_order_and_unescaped(
    served: ServedAgent, agent: FakeAgent
) -> None:
    agent.change(m0="Welcome <3 &\n", m1="hi")
    answer = await served.http.get("/messages")
    body = answer.json()
    assert [(one["id"], one["content"], one["role"]) for one in body["messages"]] == [
        (0, "Welcome <3 &\n", "agent"),
        (1, "hi", "user"),
    ]
    assert list(body) == ["$schema", "messages"]
    assert [list(one) for one in body["messages"]] == [["id", "content", "role", "time"]] * 2
    assert b"Welcome <3 &\\n" in answer.content and answer.content.endswith(b"\n")
    assert answer.headers["link"] == '</schemas/MessagesResponseBody.json>; rel="describedBy"'
    agent.messages = ()
    assert b'"messages":[]' in (await served.http.get("/messages")).content


async def test_a_user_message_is_trimmed_and_sent(served: ServedAgent, agent: FakeAgent) -> None:
    answer = await served.say(" \t\n\r\f\vhello\u00a0 \n")
    assert answer.status_code == 200
    assert answer.content == b'{"$schema":"%b/schemas/MessageResponseBody.json","ok":true}\n' % (
        served.base_url.encode()
    )
    assert agent.sent == ["hello\u00a0"]


async def test_raw_keys_are_pressed_as_they_are(served: ServedAgent, agent: FakeAgent) -> None:
    agent.change(status="changing")
    for keys in (" \x1b[A", "é\r", ""):
        assert (await served.say(keys, "raw")).status_code == 200
    assert agent.pressed == " \x1b[Aé\r".encode()
    assert agent.sent == []


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (SessionBusy(NOT_WAITING), f"failed to send message: {NOT_WAITING}"),
        (OstlerError(NOT_WAITING), f"failed to send message: {NOT_WAITING}"),
        (OstlerError(TIMED_OUT), f"failed to send message: failed to send message: {TIMED_OUT}"),
    ],
)
async def test_a_message_that_is_not_taken_says_why(
    served: ServedAgent, agent: FakeAgent, failure: Exception, said: str
) -> None:
    agent.failure = failure
    answer = await served.say("hello")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["link"] == '</schemas/ErrorModel.json>; rel="describedBy"'
    assert answer.content == problem(
        served, 500, "Internal Server Error", "unexpected error occurred", {"message": said}
    )


async def test_an_empty_message_is_refused_also_while_the_agent_is_busy(
    served: ServedAgent, agent: FakeAgent
) -> None:
    agent.failure = SessionBusy(NOT_WAITING)
    for content in ("", "  \n"):
        answer = await served.say(content)
        assert answer.status_code == 500
        assert answer.json()["errors"] == [{"message": "failed to send message: message must not be empty"}]


async def test_keys_that_an_agent_cannot_take_are_an_error(served: ServedAgent, agent: FakeAgent) -> None:
    agent.failure = SessionBusy("the agent has ended")
    answer = await served.say("x", "raw")
    assert answer.status_code == 500
    assert answer.json()["errors"] == [{"message": "failed to send message: the agent has ended"}]


async def test_nothing_waits_for_a_message_that_is_on_its_way(served: ServedAgent, agent: FakeAgent) -> None:
    agent.may_send.clear()
    pending = asyncio.ensure_future(served.say("slow"))
    async with asyncio.timeout(60):
        await agent.sending.wait()
        assert await served.status() == "stable"
        assert await served.texts() == [""]
        assert (await served.say("\x1b", "raw")).status_code == 200
        async with served.events() as events:
            assert (await anext(events))[0] == "message_update"
        assert not pending.done()
        agent.may_send.set()
        assert (await pending).status_code == 200


async def test_a_message_on_its_way_is_given_up_when_the_server_ends(
    agent: FakeAgent, tmp_path: Path
) -> None:
    async with serving(agent, tmp_path) as served:
        agent.may_send.clear()
        async with asyncio.timeout(60), served.events() as events:
            pending = asyncio.ensure_future(served.say("slow"))
            await agent.sending.wait()
            served.end()
            assert [name async for name, _ in events] == ["message_update", "status_change"]
            answer = await pending
    assert answer.status_code == 500
    said = f"failed to send message: failed to send message: {STOPPED}"
    assert answer.json()["errors"] == [{"message": said}]


# --- what is wrong with a request ----------------------------------------------------------------------


async def refused(served: ServedAgent, body: bytes, content_type: str = "application/json") -> Any:
    headers = {"content-type": content_type} if content_type else {}
    return await served.http.post("/message", content=body, headers=headers)


async def test_a_body_is_required(served: ServedAgent) -> None:
    answer = await refused(served, b"")
    assert answer.content == problem(served, 400, "Bad Request", "request body is required")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"content": "a", "type"', "unexpected end of JSON input"),
        (b'{"content": "a', "unexpected end of JSON input"),
        (b"  ", "unexpected end of JSON input"),
        (b"{'content': 1}", 'invalid character "\'" at offset 1'),
        (b'{"content": NaN}', "invalid character 'N' looking for beginning of value"),
        (b"[1e999]", "json: cannot unmarshal number 1e999 into Go value of type float64"),
        (b"[" * 501, "exceeded max depth"),
        (b"[" * 100_000, "exceeded max depth"),
        (b'{"a":' * 501 + b"1" + b"}" * 501, "exceeded max depth"),
        (b"[" * 500, "unexpected end of JSON input"),
        (b'["\\"' + b"[" * 501, "unexpected end of JSON input"),
        (b"[" + b"[]," * 501, "unexpected end of JSON input"),
    ],
)
async def test_invalid_json_is_quoted_in_the_error(served: ServedAgent, body: bytes, said: str) -> None:
    answer = await refused(served, body)
    detail = {"message": said, "location": "body", "value": body.decode()}
    assert answer.content == problem(served, 400, "Bad Request", "validation failed", detail)


@pytest.mark.parametrize(
    "content_type", ["", "application/json", "application/json; charset=utf-8", "json", "application/x+json"]
)
async def test_these_content_types_mean_json(served: ServedAgent, content_type: str) -> None:
    assert (await refused(served, b'{"content":"a","type":"user"}', content_type)).status_code == 200


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "Application/JSON"]
)
async def test_another_content_type_is_not_read(served: ServedAgent, content_type: str) -> None:
    answer = await refused(served, b"{}", content_type)
    detail = {"message": f"unknown content type: {content_type}", "location": "body", "value": "{}"}
    assert answer.content == problem(served, 415, "Unsupported Media Type", "validation failed", detail)


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "text/plain;+json", "text/plain; x=application/json"]
)
async def test_no_page_of_another_origin_can_type_without_asking(
    served: ServedAgent, agent: FakeAgent, content_type: str
) -> None:
    """A browser sends these to anybody, without a preflight."""
    headers = {"origin": "http://evil.example"} | ({"content-type": content_type} if content_type else {})
    answer = await served.http.post("/message", content=b'{"content":"x","type":"raw"}', headers=headers)
    assert answer.status_code == 415
    assert agent.pressed == b""


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        (
            '{"content":"a"}',
            [("expected required property type to be present", "body", {"content": "a"})],
        ),
        (
            "{}",
            [
                ("expected required property content to be present", "body", {}),
                ("expected required property type to be present", "body", {}),
            ],
        ),
        ('{"content":1,"type":"user"}', [("expected string", "body.content", 1)]),
        ('{"content":null,"type":"user"}', [("expected string", "body.content", None)]),
        ('{"content":"a","type":["user"]}', [("expected string", "body.type", ["user"])]),
        (
            '{"content":"a","type":"system"}',
            [('expected value to be one of "user, raw"', "body.type", "system")],
        ),
        (
            '{"type":"user","content":"a","extra":false}',
            [("unexpected property", "body.extra", {"content": "a", "extra": False, "type": "user"})],
        ),
        ("[]", [("expected object", "body", [])]),
        ('"text"', [("expected object", "body", "text")]),
        ("null", [("expected object", "body", None)]),
    ],
)
async def test_a_body_that_does_not_fit_says_what_and_where(
    served: ServedAgent, agent: FakeAgent, body: str, errors: list[tuple[str, str, Any]]
) -> None:
    answer = await refused(served, body.encode())
    expected = []
    for message, location, value in errors:
        detail = {"message": message, "location": location}
        expected.append(detail if value is None else {**detail, "value": value})
    assert answer.content == problem(served, 422, "Unprocessable Entity", "validation failed", *expected)
    assert agent.sent == []


async def test_names_of_properties_are_compared_without_case(served: ServedAgent, agent: FakeAgent) -> None:
    body = b'{"$schema": "https://example.com/x.json", "CONTENT": "hello", "Type": "user"}'
    assert (await refused(served, body)).status_code == 200
    assert agent.sent == ["hello"]


async def test_half_a_character_becomes_a_whole_one(served: ServedAgent, agent: FakeAgent) -> None:
    assert (await refused(served, b'{"content":"\\ud800 \xff","type":"user"}')).status_code == 200
    assert agent.sent == ["\ufffd \ufffd"]
    assert (await refused(served, b'{"content":"\\ud800","type":"\\ud800"}')).status_code == 422


async def test_a_body_may_have_one_byte_less_than_a_mebibyte(served: ServedAgent, agent: FakeAgent) -> None:
    frame = len(b'{"content":"","type":"user"}')
    fits = b'{"content":"%b","type":"user"}' % (b"x" * (1024 * 1024 - 1 - frame))
    assert (await refused(served, fits)).status_code == 200
    assert len(agent.sent[0]) == 1024 * 1024 - 1 - frame
    for more in (1, 3_000_000):
        answer = await refused(served, fits + b" " * more)
        said = "request body is too large limit=1048576 bytes"
        assert answer.content == problem(served, 413, "Request Entity Too Large", said)


async def test_a_body_that_does_not_come_is_not_waited_for(
    served: ServedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bodies.SECONDS == 5.0
    monkeypatch.setattr(bodies, "SECONDS", 0.05)
    async with asyncio.timeout(60), connected(served.base_url) as (reader, writer):
        writer.write(b"POST /message HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"title":"Request Timeout","status":408,"detail":"request body read timeout"}' in answer


async def test_a_disconnect_in_the_middle_of_a_body_leaves_nothing(
    served: ServedAgent, capfd: pytest.CaptureFixture[str]
) -> None:
    async with connected(served.base_url) as (_, writer):
        writer.write(b"POST /message HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
    assert await served.status() == "stable"
    assert capfd.readouterr().err == ""


# --- paths and methods ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/nothing", "/status/", "/events/x", "/schemas/", "/schemas/a/b", "/api", "/api/v2", "//"]
)
async def test_there_is_nothing_else(served: ServedAgent, path: str) -> None:
    answer = await served.http.get(f"{served.base_url}{path}")
    assert (answer.status_code, answer.content) == (404, b"404 page not found\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("HEAD", "/status", "GET"),
        ("OPTIONS", "/status", "GET"),
        ("POST", "/messages", "GET"),
        ("GET", "/message", "POST"),
        ("GET", "/upload", "POST"),
        ("DELETE", "/events", "GET"),
        ("PUT", "/internal/screen", "GET"),
        ("POST", "/docs", "GET"),
        ("POST", "/openapi.json", "GET"),
        ("POST", "/schemas/Message.json", "GET"),
    ],
)
async def test_only_the_methods_that_are_there_are_there(
    served: ServedAgent, method: str, path: str, allowed: str
) -> None:
    answer = await served.http.request(method, path)
    assert (answer.status_code, answer.content) == (405, b"")
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/health"])
async def test_the_api_of_our_own_is_beside_it_with_its_own_guard(served: ServedAgent, path: str) -> None:
    answer = await served.http.post(path, headers={"host": "elsewhere.example", "origin": "http://x"})
    assert answer.text == f"native POST {path}"
    assert answer.headers["x-native"] == "yes"
    assert "vary" not in answer.headers


async def test_a_message_has_the_time_at_which_it_was_made(served: ServedAgent, agent: FakeAgent) -> None:
    agent.messages = (AgentMessage(0, "agent", "", 1775820880.5),)
    (message,) = (await served.http.get("/messages")).json()["messages"]
    assert ":40.5" in message["time"]
