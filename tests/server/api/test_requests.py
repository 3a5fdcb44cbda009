"""Requests over HTTP: the closed union, what becomes of them, taking them back, secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ostler.core.call_context import CallContext
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.models.scripted import Call
from ostler.schema.outcomes import NeedUser, Question
from ostler.sessions.lease import new_owner
from tests.server.served import Served, serving, text


async def facts_of(served: Served, session: str) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = (await served.get(f"sessions/{session}/events"))["facts"]
    return facts


async def test_a_request_without_an_id_gets_one_and_the_same_id_twice_is_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()
        made = await served.ask(session, "rename", title="one")
        assert made["id"].startswith("req_")
        assert made["fact"]["type"] == "session_renamed"
        for _ in range(2):
            again = await served.ask(session, "rename", title="two", id="mine")
            assert (again["id"], again["state"]) == ("mine", "settled")
        renamed = [fact for fact in await facts_of(served, session) if fact["type"] == "session_renamed"]
        assert [fact["title"] for fact in renamed] == ["one", "two"]
        shown = await served.get(f"sessions/{session}/requests/mine")
        assert shown["fact"] == renamed[-1]
        await served.get(f"sessions/{session}/requests/other", status=404)


async def test_a_request_that_is_none_is_refused_with_a_reason(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()
        for body in (
            {"type": "dance"},
            {"type": "rename"},
            {"type": "prompt", "content": []},
            {"type": "rename", "title": "x", "titel": "y"},
            {"type": "navigate", "entry": "three"},
            [],
        ):
            problem = await served.post(f"sessions/{session}/requests", body, 400)
            assert problem["kind"] == "usage_error"
        assert (await served.get(f"sessions/{session}/requests"))["requests"] == []
        await served.post("sessions/nothing/requests", {"type": "rename", "title": "x"}, 404)


async def test_a_request_that_cannot_be_is_refused_by_a_fact(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()
        for asked in (
            {"type": "navigate", "entry": 7},
            {"type": "navigate", "entry": 10**18},
            {"type": "cancel"},
            {"type": "steer", "content": text("x")},
        ):
            made = await served.post(f"sessions/{session}/requests?wait=10", asked, 200)
            assert made["state"] == "refused"
            assert made["fact"]["type"] == "request_refused"


async def test_a_prompt_and_a_steer_can_be_taken_back_until_they_are_taken_up(tmp_path: Path) -> None:
    async with serving(tmp_path, Call("hold"), "done") as served:
        session = await served.new_session("go")
        await served.busy.wait()
        queued = await served.ask(session, "prompt", content=text("later"), wait=0)
        steered = await served.ask(session, "steer", content=text("left"), wait=0)
        waiting = (await served.get(f"sessions/{session}/requests"))["requests"]
        assert [one["type"] for one in waiting] == ["prompt", "steer"]
        for request in (queued, steered):
            answer = await served.http.delete(f"sessions/{session}/requests/{request['id']}")
            assert answer.status_code == 204, answer.text
            state = await served.get(f"sessions/{session}/requests/{request['id']}")
            assert state["state"] == "refused"
            assert "taken back" in state["fact"]["reason"]
        assert (await served.get(f"sessions/{session}/requests"))["requests"] == []
        answer = await served.http.delete(f"sessions/{session}/requests/{queued['id']}")
        assert answer.status_code == 409
        assert (await served.http.delete(f"sessions/{session}/requests/unknown")).status_code == 404
        served.go_on.set()
        await served.rest(session)
        said = [fact for fact in await facts_of(served, session) if fact["type"] == "user_message"]
        assert [fact["content"][0]["text"] for fact in said] == ["go"]


async def test_held_prompts_are_taken_back_where_nobody_drives_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path, Call("hold")) as served:
        session = await served.new_session("go")
        await served.busy.wait()
        queued = await served.ask(session, "prompt", content=text("later"), wait=0)
        await served.ask(session, "cancel")
        await served.rest(session)
        await served.server.supervisor.unload(session)
        answer = await served.http.delete(f"sessions/{session}/requests/{queued['id']}")
        assert answer.status_code == 204, answer.text
        assert (await served.get(f"sessions/{session}"))["waiting"] == []


async def test_what_is_asked_of_a_session_that_another_process_holds_waits_in_its_inbox(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, "done") as served:
        session = await served.new_session()
        lease = await served.store.acquire(session, new_owner(served.server.supervisor._world))
        made = await served.post(
            f"sessions/{session}/requests", {"type": "prompt", "content": text("hello")}, 202
        )
        assert made == {"id": made["id"], "state": "waiting"}
        (waiting,) = (await served.get(f"sessions/{session}/requests"))["requests"]
        assert (waiting["id"], waiting["by"]) == (made["id"], "api")
        await served.store.release(lease)


async def test_a_secret_is_handed_to_its_call_and_stored_nowhere(tmp_path: Path) -> None:
    told: list[Any] = []

    @tool
    async def unlock(context: CallContext) -> str | NeedUser:
        if context.answer is None:
            return NeedUser(Question("Password?", secret=True), resume="again")
        told.append(context.answer)
        return "open"

    def bring_lock(harness: Harness) -> None:
        harness.set_tools([unlock])

    async with serving(tmp_path, Call("unlock"), "done", change=bring_lock) as served:
        session = await served.new_session("open it")
        await served.rest(session)
        (question,) = (await served.get(f"sessions/{session}/questions"))["questions"]
        settled = await served.ask(
            session, "answer", question=question["asked"]["id"], answer="sesame-4711", id="pass"
        )
        assert settled["state"] == "settled"
        await served.rest(session)
        assert told == ["sesame-4711"]
        for file in served.home.iterdir():
            if file.is_file():
                assert b"sesame-4711" not in file.read_bytes()


async def test_a_secret_for_another_process_is_refused(tmp_path: Path) -> None:
    @tool
    async def unlock() -> NeedUser:
        return NeedUser(Question("Password?", secret=True))

    def bring_lock(harness: Harness) -> None:
        harness.set_tools([unlock])

    async with serving(tmp_path, Call("unlock"), "done", change=bring_lock) as served:
        session = await served.new_session("open it")
        await served.rest(session)
        (question,) = (await served.get(f"sessions/{session}/questions"))["questions"]
        await served.server.supervisor.unload(session)
        lease = await served.store.acquire(session, new_owner(served.server.supervisor._world))
        body = {"type": "answer", "question": question["asked"]["id"], "answer": "sesame"}
        problem = await served.post(f"sessions/{session}/requests", body, 409)
        assert problem["kind"] == "session_held"
        assert "secret" in problem["detail"]
        assert (await served.get(f"sessions/{session}/requests"))["requests"] == []
        await served.store.release(lease)
