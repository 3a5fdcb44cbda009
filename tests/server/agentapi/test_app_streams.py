"""Events and screens as they come over HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ostler.server.agentapi import events
from tests.server.agentapi.served_agent import BEGAN, FakeAgent, ServedAgent, serving, take
from tests.server.raw_http import connected

HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-store, must-revalidate",
    "pragma": "no-cache",
    "expires": "0",
    "x-accel-buffering": "no",
    "x-proxy-buffering": "no",
    "connection": "keep-alive",
}


@pytest.fixture
async def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
async def served(agent: FakeAgent, tmp_path: Path) -> AsyncIterator[ServedAgent]:
    async with serving(agent, tmp_path) as served:
        yield served


@pytest.mark.parametrize("path", ["/events", "/internal/screen"])
async def test_a_stream_has_headers_against_buffering(served: ServedAgent, path: str) -> None:
    async with asyncio.timeout(60), served.http.stream("GET", path) as answer:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS


async def test_a_stream_begins_with_the_state_in_these_bytes(
    served: ServedAgent, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.change(m0="Welcome <3", m1="hi")
    served.emitter.warn("state was lost")
    async with served.frames() as frames:
        first, *_ = seen = await take(frames, 4)
    data = b'data: {"id":0,"role":"agent","message":"Welcome \\u003c3","time":"'
    assert first.startswith(b"event: message_update\n" + data) and first.endswith(b'"}\n\n')
    assert seen[2] == b'event: status_change\ndata: {"status":"stable","agent_type":"claude"}\n\n'
    names = [frame.split(b"\n")[0] for frame in seen]
    assert names == [b"event: message_update"] * 2 + [b"event: status_change", b"event: agent_error"]
    assert seen[3].startswith(
        b'event: agent_error\ndata: {"message":"state was lost","level":"warning","time":"'
    )


async def test_a_late_subscriber_gets_the_next_change_once(served: ServedAgent, agent: FakeAgent) -> None:
    async with served.events() as events:
        await take(events, 2)
        agent.change(status="changing", m0="a", m1="b", m2="c")
        seen = await take(events, 4)
        assert [(name, data.get("message", data.get("status"))) for name, data in seen] == [
            ("status_change", "running"),
            ("message_update", "a"),
            ("message_update", "b"),
            ("message_update", "c"),
        ]
        async with served.events() as later:
            await take(later, 4)
            agent.change(m2="d")
            for each in (events, later):
                assert (await anext(each))[1]["message"] == "d"


async def test_what_goes_wrong_with_the_agent_is_a_warning(served: ServedAgent, agent: FakeAgent) -> None:
    async with served.events() as events:
        await take(events, 2)
        agent.on_warning("the initial prompt was not taken")
        name, data = await anext(events)
    assert (name, data["level"], data["message"]) == (
        "agent_error",
        "warning",
        "the initial prompt was not taken",
    )


async def test_ten_subscribers_each_get_each_event_once(served: ServedAgent, agent: FakeAgent) -> None:
    async def follow(ready: asyncio.Barrier) -> list[Any]:
        async with served.events() as events:
            await take(events, 2)
            await ready.wait()
            return [data["message"] for _, data in await take(events, 20)]

    ready = asyncio.Barrier(11)
    following_all = [asyncio.ensure_future(follow(ready)) for _ in range(10)]
    async with asyncio.timeout(60):
        await ready.wait()
        for number in range(20):
            agent.change(m0=str(number))
        for seen in await asyncio.gather(*following_all):
            assert seen == [str(number) for number in range(20)]


async def test_the_replay_has_the_last_hundred_errors(served: ServedAgent) -> None:
    for number in range(150):
        served.emitter.emit_error(str(number))
    async with served.events() as events:
        seen = await take(events, 102)
    assert [data["message"] for name, data in seen if name == "agent_error"] == [
        str(number) for number in range(50, 150)
    ]


async def test_a_screen_is_the_present_one_and_then_each_new_one(
    served: ServedAgent, agent: FakeAgent
) -> None:
    agent.change(screen="first <&>\n  \n")
    async with served.frames("/internal/screen") as frames:
        assert await anext(frames) == b'event: screen\ndata: {"screen":"first \\u003c\\u0026\\u003e"}\n\n'
        agent.change(screen="second", m0="no news here")
        assert await anext(frames) == b'event: screen\ndata: {"screen":"second"}\n\n'


async def test_nobody_reads_a_screen_that_nobody_looks_at(served: ServedAgent, agent: FakeAgent) -> None:
    async with served.events() as events:
        await take(events, 2)
        for number in range(50):
            agent.change(screen=str(number))
        assert agent.looked == 0


async def test_screens_that_follow_each_other_at_once_become_one(
    served: ServedAgent, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert events.SCREEN_INTERVAL == 0.025
    async with served.events("/internal/screen") as screens:
        assert await anext(screens) == ("screen", {"screen": ""})
        before = agent.looked
        for number in range(1000):
            agent.change(screen=str(number))
        while (seen := await anext(screens)) != ("screen", {"screen": "999"}):
            assert seen[1]["screen"] < "999"
        assert agent.looked - before <= 3


async def test_a_silent_stream_has_a_sign_of_life(
    agent: FakeAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert events.KEEP_ALIVE == 15.0
    monkeypatch.setattr(events, "KEEP_ALIVE", 0.05)
    async with serving(agent, tmp_path) as served, served.frames() as frames:
        await take(frames, 2)
        assert await take(frames, 2) == [b":\n\n"] * 2
        agent.change(m0="alive")
        while (frame := await anext(frames)) == b":\n\n":
            continue
        assert b"alive" in frame


async def test_a_client_that_disconnects_is_unsubscribed(served: ServedAgent, agent: FakeAgent) -> None:
    async with served.events() as events:
        await take(events, 2)
        assert served.emitter.wants("message_update")
    async with asyncio.timeout(60):
        while served.emitter.wants("message_update"):
            await served.status()


async def test_a_subscriber_that_stops_reading_is_cut_off_and_nobody_else_notices(
    agent: FakeAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert events.WRITE_TIMEOUT == 5.0
    monkeypatch.setattr(events, "WRITE_TIMEOUT", 0.1)
    async with serving(agent, tmp_path) as served, served.events() as others:
        await take(others, 2)
        at = urlsplit(served.base_url)
        loop = asyncio.get_running_loop()
        with socket.socket() as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.setblocking(False)
            await loop.sock_connect(stuck, (at.hostname, at.port))
            await loop.sock_sendall(stuck, b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(60):
                while len(served.emitter._subscriptions) < 2:
                    await served.status()
                number = 0
                while len(served.emitter._subscriptions) > 1:
                    agent.change(m0=f"{number} " + "x" * 100_000)
                    assert (await anext(others))[1]["message"].startswith(f"{number} ")
                    number += 1
            received = b"?"
            with suppress(ConnectionResetError):
                async with asyncio.timeout(60):
                    while piece := await loop.sock_recv(stuck, 65536):
                        received = piece
            assert not received.endswith(b"0\r\n\r\n")
        assert number < 1024
    assert capfd.readouterr().err == ""


async def test_a_subscriber_with_a_full_queue_reads_that_and_is_at_the_end(
    served: ServedAgent, agent: FakeAgent
) -> None:
    async with served.events() as events:
        await take(events, 2)
        for number in range(1030):
            agent.change(m0=str(number))
        seen = [data["message"] async for _, data in events]
    assert 1024 <= len(seen) < 1030
    assert seen == [str(number) for number in range(len(seen))]
    async with served.events() as events:
        assert (await anext(events))[1]["message"] == "1029"


async def test_streams_end_at_once_and_in_order_when_the_server_ends(
    agent: FakeAgent, tmp_path: Path
) -> None:
    async with serving(agent, tmp_path) as served, connected(served.base_url) as (reader, writer):
        async with asyncio.timeout(60):
            writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while b"status_change" not in await reader.readline():
                continue
            served.end()
            assert (await reader.read()).endswith(b"0\r\n\r\n")


async def test_what_others_add_is_behind_the_same_hosts_and_origins(agent: FakeAgent, tmp_path: Path) -> None:
    extra = Route("/internal/terminal", lambda request: PlainTextResponse("bytes"))
    async with serving(agent, tmp_path, extra_routes=[extra]) as served:
        answer = await served.http.get("/internal/terminal")
        assert (answer.text, answer.headers["vary"]) == ("bytes", "Origin")
        answer = await served.http.get("/internal/terminal", headers={"host": "elsewhere.example"})
        assert answer.status_code == 400


async def test_messages_have_the_agents_own_times(served: ServedAgent, agent: FakeAgent) -> None:
    async with served.events() as events:
        (_, first), _ = await take(events, 2)
    assert BEGAN == 1775820880.123456
    assert ":40.123456" in first["time"]
