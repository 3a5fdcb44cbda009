"""Sessions over HTTP: list, search, show, begin, delete; what is asked of people."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.processes import current_process
from ostler.models.scripted import Call
from ostler.schema.errors import NoModel
from ostler.schema.outcomes import NeedUser, Question
from ostler.sessions.lease import new_owner
from tests.server.served import Served, serving, text


async def finished(served: Served, prompt: str) -> str:
    session = await served.new_session(prompt)
    await served.rest(session)
    return session


async def test_sessions_are_listed_newest_first_in_pages_that_a_cursor_joins(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = [await served.new_session() for _ in range(5)]
        first = await served.get("sessions", limit=2)
        second = await served.get("sessions", limit=2, before=first["next"])
        third = await served.get("sessions", limit=2, before=second["next"])
        listed = [one["id"] for page in (first, second, third) for one in page["sessions"]]
        assert sorted(listed) == sorted(made)
        assert third["next"] == ""
        await served.get("sessions", status=400, before="nothing")


async def test_a_list_can_be_searched_by_title_and_first_prompt(tmp_path: Path) -> None:
    async with serving(tmp_path, "yes", "no") as served:
        asked = await finished(served, "Where is the Ferry?")
        titled = (await served.post("sessions", {"title": "A ferry tale"}, 201))["id"]
        await finished(served, "something else")
        found = (await served.get("sessions", q="ferry"))["sessions"]
        assert {one["id"] for one in found} == {asked, titled}
        elsewhere = await served.get("sessions", cwd=str(tmp_path / "elsewhere"))
        assert elsewhere["sessions"] == []


async def test_a_list_that_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.new_session()
        first = await served.http.get("sessions")
        again = await served.http.get("sessions", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        await served.new_session()
        changed = await served.http.get("sessions", headers={"If-None-Match": first.headers["etag"]})
        assert changed.status_code == 200


async def test_messages_are_searched_and_name_their_session(tmp_path: Path) -> None:
    async with serving(tmp_path, "the lighthouse stands in the north") as served:
        session = await finished(served, "where?")
        (hit,) = (await served.get("sessions/search", q="lighthouse north"))["hits"]
        assert (hit["session"], hit["title"]) == (session, "where?")
        assert "lighthouse" in hit["snippet"]
        await served.get("sessions/search", status=400)


async def test_a_session_shows_its_run_and_what_waits(tmp_path: Path) -> None:
    async with serving(tmp_path, Call("hold"), "done", "done") as served:
        session = await served.new_session("first")
        await served.busy.wait()
        await served.ask(session, "prompt", content=text("second"), wait=0)
        seen = await served.get(f"sessions/{session}")
        assert seen["status"] == "running"
        assert seen["preview"] == "first"
        assert (seen["run"]["status"], seen["run"]["step"]) == ("running", 1)
        assert seen["holder"]["here"] is True
        assert seen["holder"]["pid"] == current_process().pid
        assert [one["content"][0]["text"] for one in seen["waiting"]] == ["second"]
        assert seen["model"] == served.model.name
        assert not seen["held"]
        await served.ask(session, "cancel")
        seen = await served.get(f"sessions/{session}")
        assert seen["run"] is None
        assert seen["held"]
        assert seen["totals"]["calls"] == 1
        assert seen["leaf"] > 1


async def test_what_people_are_asked_is_listed_for_a_session_and_for_all(tmp_path: Path) -> None:
    @tool
    async def ask() -> NeedUser:
        return NeedUser(Question("Which colour?"))

    def bring_question(harness: Harness) -> None:
        harness.set_tools([ask])

    async with serving(tmp_path, Call("ask"), "blue it is", change=bring_question) as served:
        session = await served.new_session("paint")
        await served.rest(session)
        (question,) = (await served.get("questions"))["questions"]
        assert question["session"] == session
        assert question["asked"]["question"]["text"] == "Which colour?"
        assert (await served.get(f"sessions/{session}/questions"))["questions"] == [question]
        seen = await served.get(f"sessions/{session}")
        assert seen["questions"] == [question]
        assert (seen["run"]["status"], seen["run"]["waiting"]) == ("waiting", "question")
        await served.ask(session, "answer", question=question["asked"]["id"], answer="blue")
        await served.rest(session)
        assert (await served.get("questions"))["questions"] == []


async def test_ids_are_exact(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()
        problem = await served.get(f"sessions/{session[:-1]}", status=404)
        assert problem["kind"] == "not_found"
        assert problem["status"] == 404
        await served.get("sessions/nothing/tree", status=404)
        await served.get("sessions/nothing/requests", status=404)


async def test_a_session_begins_with_a_title_and_in_a_folder(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        other = tmp_path / "other"
        other.mkdir()
        made = await served.post("sessions", {"title": " two \n words ", "cwd": str(other)}, 201)
        assert (made["title"], made["cwd"]) == ("two words", str(other))
        await served.post("sessions", {"cwd": "other"}, 400)
        await served.post("sessions", {"cwd": str(tmp_path / "gone")}, 400)
        await served.post("sessions", {"cwd": "a\0b"}, 400)
        await served.post("sessions", {"colour": "blue"}, 400)


async def test_without_a_model_a_prompt_fails_and_leaves_nothing(tmp_path: Path) -> None:
    def no_model(harness: Harness) -> None:
        raise NoModel("nobody can answer: set a key")

    async with serving(tmp_path, change=no_model) as served:
        problem = await served.post("sessions", {"prompt": text("hello")}, 503)
        assert problem["kind"] == "no_model"
        assert (await served.get("sessions"))["sessions"] == []
        session = await served.new_session()
        body = {"type": "prompt", "content": text("hello")}
        problem = await served.post(f"sessions/{session}/requests", body, 503)
        assert problem["kind"] == "no_model"
        assert (await served.get(f"sessions/{session}/requests"))["requests"] == []
        renamed = await served.ask(session, "rename", title="still possible")
        assert renamed["state"] == "settled"


async def test_a_deleted_session_is_gone_and_its_streams_end(tmp_path: Path) -> None:
    async with serving(tmp_path, "done") as served:
        session = await finished(served, "go")
        idle = await served.new_session()
        for one in (session, idle):
            async with asyncio.timeout(60), served.stream(f"sessions/{one}/events") as events:
                async for event in events:
                    if event["type"] == "caught_up":
                        answer = await served.http.delete(f"sessions/{one}")
                        assert answer.status_code == 204, answer.text
            await served.get(f"sessions/{one}", status=404)
        assert (await served.http.delete(f"sessions/{session}")).status_code == 404


async def test_a_session_at_work_or_held_elsewhere_is_not_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path, Call("hold"), "done") as served:
        session = await served.new_session("go")
        await served.busy.wait()
        answer = await served.http.delete(f"sessions/{session}")
        assert (answer.status_code, answer.json()["kind"]) == (409, "session_busy")
        other = await served.new_session()
        lease = await served.store.acquire(other, new_owner(served.server.supervisor._world))
        answer = await served.http.delete(f"sessions/{other}")
        assert (answer.status_code, answer.json()["kind"]) == (409, "session_held")
        await served.store.release(lease)
        assert (await served.http.delete(f"sessions/{other}")).status_code == 204


async def test_the_stream_of_all_sessions_reports_forks_imports_and_deletions(tmp_path: Path) -> None:
    async with serving(tmp_path, "done") as served:
        session = await finished(served, "go")
        exported = (await served.http.get(f"sessions/{session}/export")).content
        told: list[tuple[str, str]] = []
        async with asyncio.timeout(60), served.stream("events") as events:
            async for event in events:
                if event["type"] == "caught_up":
                    fork = (await served.post(f"sessions/{session}/fork", {}, 201))["id"]
                    headers = {"Content-Type": "application/x-ndjson"}
                    made = await served.http.post("sessions/import", content=exported, headers=headers)
                    copy = made.json()["id"]
                    assert (await served.http.delete(f"sessions/{copy}")).status_code == 204
                elif event["type"] in ("session_started", "session_listed"):
                    told.append((event["session"], event.get("change", "")))
                if len(told) == 3:
                    break
        assert sorted(told) == sorted([(fork, ""), (copy, "imported"), (copy, "deleted")])
