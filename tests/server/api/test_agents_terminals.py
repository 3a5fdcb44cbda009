"""The live terminal of an agent, over HTTP: watched by several, resized, typed to, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.drivers.screen_stream import MAX_UNSEEN
from ostler.server import auth
from ostler.store.sqlite import SqliteStore
from tests.drivers.screen_agents import at_work, echo_agent
from tests.server import agents_served
from tests.server.agents_served import ask, serving_agents, start, until, watching


async def test_several_watch_the_same_terminal_from_its_present_screen_on(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        session = await start(served)
        await until(served, session)
        async with watching(served.http, session) as first:
            await first.until(lambda: "Hello, I repeat things." in first.text)
            assert first.frames[:2] == ["size", "bytes"]
            assert first.sizes == [(80, 40)]
            await served.ask(session, "keys", keys="typed by hand\r")
            await first.until(lambda: "you said: typed by hand" in first.text)
            async with watching(served.http, session) as second:
                await second.until(lambda: "you said: typed by hand" in second.text)
                await ask(served, session, "one")
                for terminal in (first, second):
                    await terminal.until(lambda terminal=terminal: "you said: one" in terminal.text)  # type: ignore[misc]
                shown = await served.get(f"sessions/{session}/terminal")
                assert first.text == second.text == shown["text"]
        while served.server.terminal_streams:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_another_size_is_for_all_who_watch_and_for_the_agent(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        session = await start(served)
        await until(served, session)
        async with watching(served.http, session) as terminal:
            await terminal.until(lambda: terminal.text)
            settled = await served.ask(session, "resize", columns=100, rows=30)
            assert settled["fact"]["decision"] == "terminal.resize"
            await terminal.until(lambda: len(terminal.sizes) == 2)
            assert terminal.sizes == [(80, 40), (100, 30)]
            await until(served, session)
            await ask(served, session, "/size")
            await terminal.until(lambda: "100x30" in terminal.text)
            shown = await served.get(f"sessions/{session}/terminal")
            assert (shown["columns"], shown["rows"]) == (100, 30)
        refused = await served.ask(session, "resize", columns=0, rows=30)
        assert refused["state"] == "refused"
        assert "10 to 5000" in refused["fact"]["reason"]


async def test_a_stream_ends_with_the_agent_and_says_how(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        session = await start(served)
        await until(served, session)
        async with watching(served.http, session) as terminal:
            await terminal.until(lambda: terminal.text)
            await served.ask(session, "keys", keys="/exit 3\r", wait=0)
            await terminal.to_the_end()
            assert terminal.exit_status == 3
            assert terminal.frames[-1] == "end"
        await until(served, session, "ended")
        for accept in ("text/event-stream", "application/json"):
            answer = await served.http.get(f"sessions/{session}/terminal", headers={"Accept": accept})
            assert answer.status_code == 409
            assert "has ended: start it again" in answer.json()["detail"]


async def test_a_slow_viewer_gets_the_whole_screen_again(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        session = await start(served)
        await until(served, session)
        async with watching(served.http, session) as slow:
            await slow.until(lambda: slow.text)
            await ask(served, session, f"/flood {MAX_UNSEEN * 12}")  # more than the system holds for it
            await slow.until(lambda: slow.drawn_anew)
            await slow.until(lambda: "flooded" in slow.text)


async def test_an_observer_can_watch_until_the_token_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "CHECK_INTERVAL", 0.05)
    async with serving_agents(tmp_path) as served:
        session = await start(served)
        observer = {"Authorization": f"Bearer {served.tokens.new('look', 'observe')}"}
        for path, method in (("sessions", "POST"), (f"sessions/{session}/agent", "DELETE")):
            answer = await served.http.request(method, path, headers=observer, json={})
            assert answer.status_code == 403
        async with watching(served.http, session, **observer) as terminal:
            await terminal.until(lambda: terminal.text)
            served.tokens.revoke("look")
            await terminal.to_the_end()
            assert terminal.exit_status is None
        assert served.server.agents.get(session) is not None


async def test_a_silent_stream_shows_that_it_is_alive_and_ends_at_once_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ostler.server.state.KEEP_ALIVE", 0.02)
    async with serving_agents(tmp_path) as served:
        session = await start(served)
        await until(served, session)
        asked = {"Accept": "text/event-stream"}
        async with served.http.stream("GET", f"sessions/{session}/terminal", headers=asked) as answer:
            lines = answer.aiter_lines()
            await _until_line(lines, ":")
            served.server.close_streams()
            async with asyncio.timeout(60):
                rest = [line async for line in lines]
        assert "event: end" not in rest, "the agent has not ended"


async def _until_line(lines: AsyncIterator[str], wanted: str) -> None:
    async for line in lines:
        if line == wanted:
            return


async def test_a_question_for_the_headers_does_not_wait_for_the_end(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        session = await start(served)
        await until(served, session)
        assert (await served.http.head(f"sessions/{session}/terminal")).status_code == 200


async def test_of_an_agent_of_another_process_the_screen_is_seen_and_keys_and_size_go_through(
    tmp_path: Path,
) -> None:
    async with serving_agents(tmp_path) as served:
        theirs = SqliteStore(served.home / "ostler.db")
        async with at_work(echo_agent(served.work), theirs) as agent:
            await agent.until_stable()
            session = agent.session.id
            shown = await served.get(f"sessions/{session}")
            assert (shown["agent"]["status"], shown["holder"]["here"]) == ("elsewhere", False)
            screen = await served.get(f"sessions/{session}/terminal")
            assert "Hello, I repeat things." in screen["text"]
            asked = {"Accept": "text/event-stream"}
            answer = await served.http.get(f"sessions/{session}/terminal", headers=asked)
            assert answer.status_code == 409
            assert "`terminal:screen`" in answer.json()["detail"]
            for type, wanted in (
                ("keys", {"keys": "from afar"}),
                ("resize", {"columns": 90, "rows": 25}),
            ):
                settled = await served.ask(session, type, **wanted)
                assert settled["state"] == "settled"
            assert agent.session.driver.screen.columns == 90
            assert (await served.http.delete(f"sessions/{session}/agent")).status_code == 409
            again = await served.http.post(f"sessions/{session}/agent", json={"agent": agents_served.ECHO})
            assert again.status_code == 409
        await theirs.close()


async def test_a_session_of_a_model_has_no_terminal_and_no_agent(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        session = await served.new_session()
        for method, path in (("GET", "terminal"), ("POST", "agent"), ("DELETE", "agent")):
            answer = await served.http.request(method, f"sessions/{session}/{path}")
            assert answer.status_code == 409, answer.text
            assert "another vendor" in answer.json()["detail"]
            answer = await served.http.request(method, f"sessions/ses_none/{path}")
            assert answer.status_code == 404
        refused = await served.ask(session, "resize", columns=80, rows=24)
        assert refused["fact"]["reason"] == "no terminal agent runs in this session"
        assert "agent" not in (await served.get("sessions"))["sessions"][0]
