"""Agents of other vendors over the API: started, told something, ended and started again."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ostler.schema.errors import UsageError
from tests.drivers.protocol_agents import acp_agent
from tests.drivers.screen_agents import at_work, echo_agent, wait_until_gone
from tests.server.agents_served import (
    ECHO,
    ask,
    process_of,
    said_in,
    serving_agents,
    start,
    until,
    watching,
)
from tests.server.serve_process import serve_process
from tests.server.served import text
from tests.support.command import Ostler, wait_until


async def test_an_agent_is_started_answers_a_prompt_and_is_ended(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        made = await served.post("sessions", {"agent": ECHO, "title": "Echo"}, 201)
        session, agent = made["id"], made["agent"]
        assert (made["driver"], made["title"], made["cwd"]) == ("terminal", "Echo", str(served.work))
        assert (agent["type"], agent["transport"], agent["remembered"]) == ("custom", "pty", True)
        shown = await until(served, session)
        assert shown["holder"]["here"] is True
        await ask(served, session, "one")
        assert (await said_in(served, session))[1:] == ["one", "you said: one"]
        (row,) = (await served.get("sessions"))["sessions"]
        assert row["agent"]["status"] == "stable"
        process = process_of(served, session)
        assert (await served.http.delete(f"sessions/{session}")).status_code == 409
        assert (await served.http.delete(f"sessions/{session}/agent")).status_code == 204
        assert wait_until_gone(process)
        assert served.server.agents.get(session) is None
        shown = await served.get(f"sessions/{session}")
        assert (shown["agent"]["status"], shown["holder"]) == ("ended", None)
        assert (await served.http.delete(f"sessions/{session}")).status_code == 204


async def test_an_agent_that_asks_is_shown_as_asking_and_answered_over_the_api(tmp_path: Path) -> None:
    dialogs = str(Path(ECHO["command"][-1]).with_name("dialog_agent.py"))
    command = [*ECHO["command"][:-1], dialogs, "claude"]
    async with serving_agents(tmp_path) as served:
        session = await start(served, command=command, type="claude")
        await until(served, session)
        wish = [{"type": "text", "text": "/write file"}]
        assert (await served.ask(session, "prompt", content=wish))["state"] == "settled"
        shown = await until(served, session, "asking")
        assert (shown["run"]["status"], shown["run"]["waiting"]) == ("waiting", "question")
        (row,) = (await served.get("sessions"))["sessions"]
        assert row["agent"]["status"] == "asking"
        refused = await served.ask(session, "prompt", content=[{"type": "text", "text": "yes"}])
        assert refused["state"] == "refused"
        assert "it asks a question" in str(refused)
        (question,) = shown["questions"]
        assert question["asked"]["question"]["choices"][0] == "Yes"
        answered = await served.ask(session, "answer", question=question["asked"]["id"], answer="No")
        assert answered["state"] == "settled"
        shown = await until(served, session)
        assert (shown["questions"], shown["run"]) == ([], None)
        assert not (served.work / "file").exists()


async def test_it_is_started_with_what_was_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    agent = {
        "command": ["sh", "-c", 'printf "%s in %s\\n\\nready" "$NAME" "${PWD##*/}"; exec cat'],
        "type": "goose",
        "columns": 120,
        "rows": 20,
        "environment": {"NAME": "ada"},
        "initial_prompt": "hello",
        "ready_regex": "ready",
    }
    async with serving_agents(tmp_path) as served:
        made = await served.post("sessions", {"cwd": str(folder), "agent": agent}, 201)
        session = made["id"]
        assert made["agent"]["type"] == "goose"
        async with served.stream(f"sessions/{session}/events") as events:
            async for event in events:
                if event["type"] == "user_message":
                    break
        assert event["content"][0]["text"] == "hello"
        screen = await served.get(f"sessions/{session}/terminal")
        assert screen["columns"] == 120
        assert "ada in elsewhere" in screen["text"]
        facts = json.dumps((await served.get(f"sessions/{session}/events"))["facts"])
        assert "environment" not in facts


async def test_the_first_prompt_of_a_new_session_waits_until_its_agent_is_ready(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        made = await served.post("sessions", {"agent": ECHO, "prompt": text("first")}, 201)
        async with served.stream(f"sessions/{made['id']}/events") as events:
            async for event in events:
                if event["type"] == "run_ended":
                    break
        assert event["status"] == "completed"
        assert (await said_in(served, made["id"]))[1:] == ["first", "you said: first"]


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ({"command": ["no-such-agent"]}, "no such program"),
        ({"command": []}, "command"),
        ({"command": ["true"], "type": "nobody"}, "invalid agent type"),
        ({"command": ["true"], "rows": 1}, "rows"),
        ({"command": ["true"], "ready_regex": "("}, "regular expression"),
        ({"command": ["true"], "environment": {"A=B": "1"}}, "'A=B'"),
        ({"command": ["true", "\0"]}, "NUL"),
        ({"command": ["true"], "colour": "red"}, "colour"),
    ],
)
async def test_an_agent_that_cannot_be_started_leaves_no_session(
    tmp_path: Path, agent: dict[str, Any], reason: str
) -> None:
    async with serving_agents(tmp_path) as served:
        answer = await served.post("sessions", {"agent": agent}, 400)
        assert reason in answer["detail"]
        assert (await served.get("sessions"))["sessions"] == []


async def test_a_model_is_not_chosen_for_another_vendors_agent(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        answer = await served.post("sessions", {"agent": ECHO, "model": "demo"}, 400)
        assert "`model`" in answer["detail"]


async def test_a_start_that_is_sent_twice_starts_one_agent(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        key = {"Idempotency-Key": "once"}
        asked = [served.http.post("sessions", json={"agent": ECHO}, headers=key) for _ in range(2)]
        first, second = await asyncio.gather(*asked)
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.json() == second.json()
        assert len(served.server.agents) == 1
        reused = await served.http.post("sessions", json={"agent": {**ECHO, "rows": 41}}, headers=key)
        assert reused.status_code == 422


async def test_an_ended_agent_gets_no_prompts_and_can_be_restarted(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        session = await start(served, initial_prompt="one")
        await until(served, session)
        at_work = await served.post(f"sessions/{session}/agent", {}, 409)
        assert "is running" in at_work["detail"]
        await served.http.delete(f"sessions/{session}/agent")
        for request in ({"type": "prompt", "content": text("two")}, {"type": "continue"}):
            answer = await served.post(f"sessions/{session}/requests", request, 409)
            assert "has ended: start it again" in answer["detail"]
        for type, fields in (("keys", {"keys": "x"}), ("resize", {"columns": 80, "rows": 24}), ("steer", {})):
            fields = {"content": text("two")} if type == "steer" else fields
            assert (await served.ask(session, type, **fields))["state"] == "refused"
        renamed = await served.ask(session, "rename", title="Echo")
        assert renamed["state"] == "settled", "the log is enough for it"
        assert (await served.get(f"sessions/{session}"))["waiting"] == []
        again = await served.post(f"sessions/{session}/agent", {}, 201)
        assert again["id"] == session
        await until(served, session)
        await ask(served, session, "two")
        said = await said_in(served, session)
        assert said[1:] == ["one", "you said: one", "two", "you said: two"]


async def test_a_server_that_did_not_start_the_agent_needs_its_command(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        async with at_work(echo_agent(served.work), served.store) as agent:
            session = agent.session.id
            await agent.until_stable()
        shown = await served.get(f"sessions/{session}")
        assert shown["agent"] == {"type": "custom", "status": "ended", "transport": "", "remembered": False}
        answer = await served.post(f"sessions/{session}/agent", {}, 400)
        assert "pass `agent`" in answer["detail"]
        again = await served.post(f"sessions/{session}/agent", {"agent": ECHO}, 201)
        assert again["agent"]["remembered"] is True
        await until(served, session)


async def test_what_is_typed_to_it_and_uploaded_for_it_is_its_own_to_understand(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        session = await start(served)
        await until(served, session)
        asked = {"type": "prompt", "content": text("/size @nobody")}
        answer = await served.post(f"sessions/{session}/requests?typed=true&wait=10", asked)
        assert answer["fact"]["content"][0]["text"] == "/size @nobody"
        await until(served, session)
        uploaded = await served.http.post("uploads?name=red.png", content=b"\x89PNG\r\n\x1a\n not really one")
        image = {"type": "image", "media_type": "image/png", "url": f"upload:{uploaded.json()['id']}"}
        told = await served.ask(session, "prompt", content=[*text("look"), image])
        (said,) = told["fact"]["content"]
        assert said["text"].startswith("look\nthe file red.png (")
        assert str(served.home / "uploads") in said["text"]


async def test_an_agent_that_speaks_a_protocol_is_driven_in_the_same_way(tmp_path: Path) -> None:
    command = [*acp_agent(tmp_path).command]
    async with serving_agents(tmp_path) as served:
        made = await served.post("sessions", {"agent": {"command": command, "transport": "acp"}}, 201)
        session = made["id"]
        assert (made["driver"], made["agent"]["transport"]) == ("acp", "acp")
        await ask(served, session, "one")
        assert (await said_in(served, session))[0] == "one"
        screen = await served.get(f"sessions/{session}/terminal", 409)
        assert "speaks acp" in screen["detail"]
        assert (await served.http.delete(f"sessions/{session}/agent")).status_code == 204
        answer = await served.post(f"sessions/{session}/requests", {"type": "continue"}, 409)
        assert "has ended" in answer["detail"]
        again = await served.post(f"sessions/{session}/agent", {"agent": {"command": command}}, 201)
        assert (again["agent"]["transport"], again["agent"]["remembered"]) == ("acp", True)
        await ask(served, session, "recall")
        assert (await said_in(served, session))[-1] == "one\nrecall\n"


async def test_five_agents_work_side_by_side_and_end_with_the_server(tmp_path: Path) -> None:
    async with serving_agents(tmp_path) as served:
        sessions = await asyncio.gather(*(start(served) for _ in range(5)))
        await asyncio.gather(*(until(served, session) for session in sessions))
        await asyncio.gather(*(ask(served, session, f"I am {session}") for session in sessions))
        for session in sessions:
            assert (await said_in(served, session))[1:] == [f"I am {session}", f"you said: I am {session}"]
        ready = await served.get("ready")
        assert ready
        processes = [process_of(served, session) for session in sessions]
        begin = time.monotonic()
    assert time.monotonic() - begin < 12, "they ended one after the other"
    assert all(wait_until_gone(process) for process in processes)
    with pytest.raises(UsageError, match="shutting down"):
        await served.server.agents.start(echo_agent(tmp_path))


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
async def test_however_the_server_ends_no_agent_is_left(ostler: Ostler, by: signal.Signals) -> None:
    with serve_process(ostler, "--model", "demo") as server:
        noted = ostler.work / "pid"
        script = "trap '' HUP; echo $$ > pid; cat"
        async with server.client() as http:
            made = await http.post("sessions", json={"agent": {"command": ["sh", "-c", script]}})
            assert made.status_code == 201, made.text
            await asyncio.to_thread(wait_until, lambda: noted.exists() and noted.read_text())
            async with watching(http, made.json()["id"]) as terminal:
                await terminal.until(lambda: terminal.sizes)
                ending = asyncio.ensure_future(asyncio.to_thread(server.end, by))
                try:
                    await terminal.to_the_end()
                except httpx2.RemoteProtocolError:
                    assert by == signal.SIGKILL
                code, said = await ending
        assert wait_until_gone(int(noted.read_text()))
        if by == signal.SIGTERM:
            assert (code, [line for line in said.splitlines() if "open http" not in line]) == (0, [])
