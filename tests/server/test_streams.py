"""Live streams over HTTP: cut anywhere, read slowly, without a gap and without a repetition."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.models.scripted import Call, Turn
from ostler.server import http_server
from ostler.server import state as server_module
from tests.server.cut_stream import CutStream
from tests.server.served import Served, serving, text

STEPS = 12


def follower(served: Served, session: str) -> CutStream:
    return CutStream(served.base_url, f"/api/v1/sessions/{session}/events", served.token)


@pytest.mark.parametrize("seed", range(6))
async def test_a_stream_cut_anywhere_resumes_without_gap_or_repetition(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    turns = asyncio.Semaphore(0)

    @tool
    async def step() -> str:
        await asyncio.wait_for(turns.acquire(), 60)
        return "stepped"

    def bring(harness: Harness) -> None:
        harness.set_tools([step])

    said = "a few words, and then some more. " * 4
    script = [Turn(said, (Call("step"),), pause=0.0005) for _ in range(STEPS)]
    async with serving(tmp_path, *script, said, change=bring) as served:
        session = await served.new_session("go")
        client = follower(served, session)
        cuts = 0
        while "run_ended" not in client.reader.kinds:
            turns.release()
            cuts += 1
            await client.read(most=random.randint(1, 6_000), until=lambda: "run_ended" in client.reader.kinds)
            assert cuts < 1_000
        page = await served.get(f"sessions/{session}/events", limit=5000)
        assert client.reader.facts == page["facts"]
        assert client.cursors == [str(fact["seq"]) for fact in page["facts"]]
        assert not client.reader.open
        assert all(said.startswith(text) or text == "{}" for text in client.reader.whole.values())


async def test_the_stream_of_all_sessions_resumes_at_its_cursor_even_before_the_first_fact(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, "one", "two", "three") as served:
        client = CutStream(served.base_url, "/api/v1/events", served.token)
        await client.read(until=lambda: client.events)
        assert client.events[0]["type"] == "caught_up" and client.events[0]["after"] == client.last_id
        sessions = [await served.new_session("go") for _ in range(3)]
        for session in sessions:
            await served.rest(session)

        def facts() -> list[tuple[str, int]]:
            return [(event["session"], event["seq"]) for event in client.events if "seq" in event]

        expected = []
        for session in sessions:
            page = await served.get(f"sessions/{session}/events")
            expected += [(session, fact["seq"]) for fact in page["facts"]]
        random = Random(1)
        while len(facts()) < len(expected):
            await client.read(most=random.randint(100, 3_000), until=lambda: len(facts()) == len(expected))
        assert sorted(facts()) == sorted(expected)


async def test_a_stream_cannot_start_after_a_fact_that_does_not_exist(tmp_path: Path) -> None:
    async with serving(tmp_path, "hello") as served:
        session = await served.new_session()
        for after in ("99", "9" * 5_000, "-1", "x"):
            asked = {"Accept": "text/event-stream", "Last-Event-ID": after}
            answer = await served.http.get(f"sessions/{session}/events", headers=asked)
            assert answer.status_code == 400, after
            assert answer.json()["kind"] == "usage_error"
        assert (await served.http.get(f"sessions/{session}/events?after={10**30}")).status_code == 400
        last = (await served.get(f"sessions/{session}/events"))["last_seq"]
        assert (await served.get(f"sessions/{session}/events", after=last))["facts"] == []
        for wait in (0, 60):
            refused = await served.get(f"sessions/{session}/events", status=400, after=last + 1, wait=wait)
            assert refused["detail"] == f"the session has no fact {last + 1}: its last one is {last}"


async def test_a_stream_says_what_proxies_must_know_and_is_never_compressed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()
        asked = {"Accept": "text/event-stream", "Accept-Encoding": "gzip, br"}
        async with served.http.stream("GET", f"sessions/{session}/events", headers=asked) as answer:
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert answer.headers["cache-control"] == "no-cache, no-transform"
            assert answer.headers["x-accel-buffering"] == "no"
            assert "content-encoding" not in answer.headers


async def test_silence_is_broken_by_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "KEEP_ALIVE", 0.02)
    async with serving(tmp_path) as served:
        session = await served.new_session()
        for path in (f"sessions/{session}/events", "events"):
            asked = {"Accept": "text/event-stream"}
            async with asyncio.timeout(60), served.http.stream("GET", path, headers=asked) as answer:
                lines = answer.aiter_lines()
                comments = 0
                while comments < 3:
                    comments += await anext(lines) == ":"


async def raw_request(served: Served, first: str, path: str) -> tuple[asyncio.StreamReader, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.base_url.rpartition(":")[2]))
    lines = [f"{first.replace('PATH', path)}", "Host: 127.0.0.1", "Accept: text/event-stream"]
    writer.write("\r\n".join([*lines, f"Authorization: Bearer {served.token}", "", ""]).encode())
    return reader, writer


async def test_neither_head_nor_an_old_client_hangs(tmp_path: Path) -> None:
    async with serving(tmp_path, "hello") as served:
        session = await served.new_session("go")
        path = f"/api/v1/sessions/{session}/events"
        async with asyncio.timeout(60):
            reader, writer = await raw_request(served, "HEAD PATH HTTP/1.1", path)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            assert (await reader.readuntil(b"\r\n\r\n")).endswith(b"\r\n\r\n")
            writer.write(b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()
            reader, writer = await raw_request(served, "GET PATH HTTP/1.0", path)
            assert b"chunked" not in await reader.readuntil(b"\r\n\r\n")
            assert (await reader.readuntil(b'"run_ended"')).startswith(b"id: 1\ndata: ")
            served.server.close_streams()
            assert (await reader.read()).endswith(b"}\n\n")  # and the connection is closed
            writer.close()


async def test_a_client_that_disconnects_is_unsubscribed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()
        client = follower(served, session)
        for _ in range(3):
            await client.read(until=lambda: client.reader.caught_up)
        async with asyncio.timeout(30):
            while served.server.streams.streams():  # noqa: ASYNC110
                await asyncio.sleep(0)


SAID = "word " * 60_000
LONG = [*(Turn(SAID, (Call("hold"),), piece=4_000) for _ in range(30)), "the end"]
"""Megabytes of deltas and facts: more than sockets hold."""


async def beside_one_that_reads_nothing(served: Served, session: str, writer: asyncio.StreamWriter) -> int:
    """A long run, seen by somebody else; the number of its last fact."""
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    served.go_on.set()
    await served.ask(session, "prompt", content=text("go"), wait=0)
    prompt = follower(served, session)
    await prompt.read(until=lambda: "run_ended" in prompt.reader.kinds)
    return prompt.reader.seq


async def test_one_who_does_not_read_slows_nobody_and_gets_everything_later(tmp_path: Path) -> None:
    async with serving(tmp_path, *LONG) as served:
        session = await served.new_session()
        reader, writer = await raw_request(served, "GET PATH HTTP/1.1", f"/api/v1/sessions/{session}/events")
        data = await reader.readuntil(b'"caught_up"')
        last = await beside_one_that_reads_nothing(served, session, writer)
        (stream,) = served.server.streams.streams()
        assert max(one._size for one in stream.subscribers) <= 1_100_000
        writer.transport.resume_reading()
        async with asyncio.timeout(60):
            while b'"run_ended"' not in data[-2_000_000:]:
                data += await reader.read(1_000_000)
        writer.close()
        numbers = [int(line[4:]) for line in data.splitlines() if line.startswith(b"id: ")]
        assert numbers == list(range(1, last + 1))
        assert len(data) < 30 * 2 * len(SAID), "deltas of what is closed need not be sent"


async def test_one_who_does_not_read_keeps_no_server_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "RESPONSE_GRACE", 90.0)
    async with serving(tmp_path, *LONG) as served:
        session = await served.new_session()
        reader, writer = await raw_request(served, "GET PATH HTTP/1.1", f"/api/v1/sessions/{session}/events")
        await reader.readuntil(b'"caught_up"')
        await beside_one_that_reads_nothing(served, session, writer)
        begin = time.monotonic()
    assert time.monotonic() - begin < 60
    writer.transport.abort()


async def test_a_session_that_is_deleted_ends_its_streams(tmp_path: Path) -> None:
    async with serving(tmp_path, "hello") as served:
        session = await served.new_session()
        client = follower(served, session)
        reading = asyncio.ensure_future(client.read())
        async with asyncio.timeout(60):
            await client.reader.until(lambda: client.reader.caught_up)
            assert (await served.http.delete(f"sessions/{session}")).status_code == 204
            await reading
            assert client.is_ended
            asked = {"Accept": "text/event-stream"}
            answer = await served.http.get(f"sessions/{session}/events", headers=asked)
            assert answer.status_code == 404


async def test_polling_waits_on_the_same_cursor_and_ends_with_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path, Call("hold"), "done") as served:
        session = await served.new_session("go")
        await served.busy.wait()
        after, seen = 0, []
        while True:
            waiting = asyncio.ensure_future(served.get(f"sessions/{session}/events", after=after, wait=30))
            if after:
                served.go_on.set()
            page = await waiting
            seen += [fact["seq"] for fact in page["facts"]]
            after = seen[-1]
            if page["facts"][-1]["type"] == "run_ended":
                break
        assert seen == list(range(1, after + 1))
        everywhere = (await served.get("events"))["after"]
        waiting = [
            asyncio.ensure_future(served.get(f"sessions/{session}/events", after=after, wait=60)),
            asyncio.ensure_future(served.get("events", after=everywhere, wait=60)),
        ]
        while len(served.server.deadlines) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        served.server.close_streams()
        async with asyncio.timeout(30):
            assert [page["facts"] for page in await asyncio.gather(*waiting)] == [[], []]
