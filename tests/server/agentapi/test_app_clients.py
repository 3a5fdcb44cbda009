"""The clients that exist read what is served, by their own rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.server.agentapi import events
from tests.server.agentapi.readers import EventSourceLike, GaveUp, attached, events_of, go_client
from tests.server.agentapi.served_agent import FakeAgent, ServedAgent, serving, take

BOXES = "─│╭╮╰╯█▌" * 10


@pytest.fixture
async def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
async def served(
    agent: FakeAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ServedAgent]:
    monkeypatch.setattr(events, "KEEP_ALIVE", 0.02)  # so that comments are among what they read
    async with serving(agent, tmp_path) as served:
        yield served


async def test_the_go_client_reads_messages_and_status_between_comments(
    served: ServedAgent, agent: FakeAgent
) -> None:
    async with asyncio.timeout(60), served.http.stream("GET", "/events") as answer:
        events = go_client(answer.aiter_raw())
        assert [event.get("message", event.get("status")) for event in await take(events, 2)] == [
            "",
            "stable",
        ]
        for number in range(3):
            agent.change(m0=str(number))
            assert (await anext(events))["message"] == str(number)


async def test_the_go_client_reads_a_screen_full_of_boxes_and_gets_all_of_it_from_the_history(
    served: ServedAgent, agent: FakeAgent
) -> None:
    full = "\n".join([BOXES] * 1000)
    agent.change(m0=full)
    async with asyncio.timeout(60), served.http.stream("GET", "/events") as answer:
        events = go_client(answer.aiter_raw())
        shown = (await anext(events))["message"]
        assert shown.startswith(BOXES) and shown.endswith(BOXES) and len(shown) < len(full)
        agent.change(m0=full + "\nmore")
        while "status" in (event := await anext(events)):
            continue
        assert event["message"].endswith("more")
    assert await served.texts() == [full + "\nmore"]


async def test_an_attached_client_reads_a_screen_full_of_boxes(served: ServedAgent, agent: FakeAgent) -> None:
    agent.change(screen="\n".join([BOXES] * 3000) + "\n> ")
    assert (await served.http.get("/status")).json()["transport"] == "pty"
    async with asyncio.timeout(60), served.http.stream("GET", "/internal/screen") as answer:
        screens = attached(answer.aiter_raw())
        assert (await anext(screens)).endswith(BOXES + "\n>")
        agent.change(screen="next")
        assert await anext(screens) == "next"
    assert (await served.say("\x1b[A", "raw")).status_code == 200


async def test_a_page_makes_its_list_from_the_replay_and_what_follows(
    served: ServedAgent, agent: FakeAgent
) -> None:
    agent.change(m0="Hello", m1="hi")
    served.emitter.warn("careful")
    page = EventSourceLike()
    async with asyncio.timeout(60), served.http.stream("GET", "/events") as answer:
        reading = asyncio.ensure_future(page.read(answer.aiter_raw(), lambda page: 2 in page.messages))
        while not page.problems:
            await served.status()
        assert page.status == "stable"
        agent.change(status="changing", m2="first")
        await reading
    assert page.messages == {0: "Hello", 1: "hi", 2: "first"}
    assert (page.status, page.problems) == ("running", [("warning", "careful")])


async def test_these_readers_do_give_up() -> None:
    async def pieces(*frames: bytes) -> AsyncIterator[bytes]:
        for frame in frames:
            yield frame

    with pytest.raises(GaveUp, match="unknown event type"):
        await anext(go_client(pieces(b"event: agent_error\ndata: {}\n\n")))
    with pytest.raises(GaveUp, match="too long"):
        await anext(go_client(pieces(b"event: message_update\ndata: " + b"x" * 131072 + b"\n\n")))
    assert [event async for event in events_of(pieces(b":\n", b"\n: x\n\n"), 10)] == []
