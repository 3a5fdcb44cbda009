"""What subscribers are told, and when they are dropped: without any server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ostler.drivers.driver import AgentMessage
from ostler.server.agentapi import events
from ostler.server.agentapi.events import Emitter, Subscription
from tests.server.agentapi.served_agent import parsed


def message(id: int, text: str, time: float = 0.0) -> AgentMessage:
    return AgentMessage(id, "user" if id % 2 else "agent", text, time)


def queued(subscription: Subscription) -> list[tuple[str, Any]]:
    """The changes that can be read without waiting."""
    subscription.state.clear()
    seen = []
    while True:
        reading = subscription.next()
        try:
            reading.send(None)
        except StopIteration as stopped:
            if stopped.value is None:
                return [*seen, ("closed", None)]
            seen.append(parsed(stopped.value))
        else:
            reading.close()
            return seen


def state(subscription: Subscription) -> list[tuple[str, Any]]:
    frames = b"".join(subscription.state).split(b"\n\n")[:-1]
    return [parsed(frame + b"\n\n") for frame in frames]


async def test_a_first_subscriber_gets_the_status_and_the_empty_screen() -> None:
    subscription = Emitter("claude").subscribe()
    assert state(subscription) == [
        ("status_change", {"status": "running", "agent_type": "claude"}),
        ("screen", {"screen": ""}),
    ]
    assert queued(subscription) == []


async def test_each_change_is_published_once() -> None:
    emitter = Emitter("claude")
    subscription = emitter.subscribe()
    emitter.emit_messages([message(0, "Hello")])
    emitter.emit_messages([message(0, "Hello")])
    emitter.emit_status("initializing")
    emitter.emit_status("changing")
    emitter.emit_status("stable")
    emitter.emit_status("stable")
    assert [(name, data.get("message"), data.get("status")) for name, data in queued(subscription)] == [
        ("message_update", "Hello", None),
        ("status_change", None, "stable"),
    ]


async def test_messages_are_compared_place_by_place_and_in_all_their_fields() -> None:
    emitter = Emitter("claude")
    emitter.emit_messages([message(0, "a"), message(1, "b"), message(2, "c")])
    subscription = emitter.subscribe()
    emitter.emit_messages([message(0, "a", 5.0), message(1, "b"), message(2, "d"), message(3, "e")])
    assert [(data["id"], data["message"]) for _, data in queued(subscription)] == [
        (0, "a"),
        (2, "d"),
        (3, "e"),
    ]
    emitter.emit_messages([message(0, "a", 5.0)])
    assert queued(subscription) == []
    assert [data["id"] for name, data in state(emitter.subscribe()) if name == "message_update"] == [0]


async def test_a_screen_is_compared_untrimmed_and_sent_trimmed() -> None:
    emitter = Emitter("claude")
    subscription = emitter.subscribe()
    emitter.emit_screen("one  \n")
    emitter.emit_screen("one  \n")
    emitter.emit_screen("one")
    assert queued(subscription) == [("screen", {"screen": "one"})] * 2


async def test_the_state_comes_in_its_order() -> None:
    emitter = Emitter("codex", now=lambda: 0.5)
    emitter.emit_error("late", "error")
    emitter.emit_screen("s")
    emitter.emit_status("stable")
    emitter.emit_messages([message(0, "a"), message(1, "b")])
    names = [name for name, _ in state(emitter.subscribe())]
    assert names == ["message_update", "message_update", "status_change", "screen", "agent_error"]


async def test_errors_keep_their_level_and_time_and_are_never_taken_for_the_same() -> None:
    times = iter([1.25, 2.0])
    emitter = Emitter("claude", now=lambda: next(times))
    subscription = emitter.subscribe()
    emitter.warn("twice")
    emitter.emit_error("twice")
    live = queued(subscription)
    assert [(data["message"], data["level"]) for _, data in live] == [
        ("twice", "warning"),
        ("twice", "error"),
    ]
    assert live[0][1]["time"] != live[1][1]["time"]
    assert state(emitter.subscribe())[-2:] == live


async def test_the_last_hundred_errors_are_stored() -> None:
    emitter = Emitter("claude")
    for number in range(150):
        emitter.emit_error(f"error {number}")
    kept = [data["message"] for name, data in state(emitter.subscribe()) if name == "agent_error"]
    assert kept == [f"error {number}" for number in range(50, 150)]


async def test_all_subscribers_share_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[AgentMessage] = []
    message_frame = events.message_frame

    def counted(one: AgentMessage) -> bytes:
        made.append(one)
        return message_frame(one)

    monkeypatch.setattr(events, "message_frame", counted)
    emitter = Emitter("claude")
    emitter.emit_messages([message(0, "nobody is here")])
    assert made == []
    subscriptions = [emitter.subscribe() for _ in range(10)]
    emitter.emit_messages([message(0, "Hello")])
    assert len({id(one._queue[0]) for one in subscriptions}) == 1
    for one in subscriptions:
        assert [data["message"] for _, data in queued(one)] == ["Hello"]
    assert len(made) == 2


async def test_a_subscriber_that_is_too_far_behind_is_dropped_and_nobody_else() -> None:
    emitter = Emitter("claude", most_queued=1)
    slow, quick = emitter.subscribe(), emitter.subscribe()
    for number in range(5):
        emitter.emit_messages([message(0, str(number))])
        assert [data["message"] for _, data in queued(quick)] == [str(number)]
    assert [data and data["message"] for _, data in queued(slow)] == ["0", None]
    slow.unsubscribe()
    slow.unsubscribe()


async def test_a_subscriber_is_only_charged_for_what_it_wants() -> None:
    emitter = Emitter("claude", most_queued=1)
    subscription = emitter.subscribe(("status_change",))
    for number in range(5):
        emitter.emit_screen(str(number))
    emitter.emit_status("stable")
    assert queued(subscription) == [("status_change", {"status": "stable", "agent_type": "claude"})]


async def test_a_waiting_subscriber_wakes_at_an_event_and_at_the_end() -> None:
    emitter = Emitter("claude")
    subscription = emitter.subscribe(("status_change",))
    assert parsed(await subscription.next() or b"")[1]["status"] == "running"
    waiting = asyncio.ensure_future(subscription.next())
    await asyncio.sleep(0)
    emitter.emit_status("stable")
    assert parsed(await asyncio.wait_for(waiting, 60) or b"")[0] == "status_change"
    waiting = asyncio.ensure_future(subscription.next())
    await asyncio.sleep(0)
    emitter.close_streams()
    assert await asyncio.wait_for(waiting, 60) is None
    late = emitter.subscribe(("status_change",))
    assert [parsed(data)[1]["status"] async for data in late.stream()] == ["stable"]


@pytest.mark.parametrize("character", ["x", "█", "<", "\x01", "😀", '"'])
def test_no_event_is_larger_than_its_readers_take(character: str) -> None:
    long = AgentMessage(3, "agent", "begin" + character * 300_000 + "end", 0.0)
    frame = events.message_frame(long)
    assert 100 * 1024 < len(frame) < 128 * 1024
    shown = parsed(frame)[1]["message"]
    assert shown.startswith("begin") and shown.endswith("end") and events.LEFT_OUT in shown
    rows = [f"{number:04} {character * 100}" for number in range(3000)]
    frame = events.screen_frame("\n".join(rows))
    assert 200 * 1024 < len(frame) < 256 * 1024
    assert parsed(frame)[1]["screen"].endswith(rows[-1])


def test_a_message_that_fits_is_whole() -> None:
    text = "x" * (126 * 1024)
    assert parsed(events.message_frame(AgentMessage(0, "agent", text, 0.0)))[1]["message"] == text


def test_a_frame_is_one_line_of_json_with_markup_escaped() -> None:
    frame = events.message_frame(AgentMessage(0, "agent", "Welcome <3 & \u2028\n", 0.0))
    assert b'"message":"Welcome \\u003c3 \\u0026 \\u2028\\n"' in frame
    assert list(json.loads(frame.split(b"data: ")[1])) == ["id", "role", "message", "time"]
