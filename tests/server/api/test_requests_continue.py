"""What goes on, and what waits, behind a run that did not complete, or when its process is gone."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx2

from ostler.core.harness import Harness
from ostler.core.processes import start_time
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.messages import as_content
from ostler.sessions.lease import new_owner
from ostler.sessions.session import open_session
from ostler.testkit.vendors import Trouble, call, say, turn
from tests.server.serve_process import serve_process
from tests.server.served import Served, serving, text
from tests.support.command import Ostler, use, wait_until
from tests.support.fixtures import Serve


async def facts(served: Served, session: str, type: str) -> list[dict[str, Any]]:
    page = await served.get(f"sessions/{session}/events", limit=1000)
    return [fact for fact in page["facts"] if fact["type"] == type]


async def test_a_new_prompt_behind_a_run_that_was_stopped_starts(tmp_path: Path) -> None:
    async with serving(tmp_path, Call("hold"), "fine") as served:
        session = await served.new_session("go")
        await served.busy.wait()
        await served.ask(session, "cancel")
        assert (await served.get(f"sessions/{session}"))["held"]
        asked = await served.ask(session, "prompt", content=text("something else"))
        assert asked["state"] == "settled", asked
        assert (await served.rest(session)).status == "completed"


async def test_a_new_prompt_does_not_let_those_start_that_are_held(tmp_path: Path) -> None:
    async with serving(tmp_path, Call("hold"), "fine", "fine") as served:
        session = await served.new_session("go")
        await served.busy.wait()
        await served.ask(session, "prompt", content=text("queued"), wait=0)
        await served.ask(session, "cancel")
        asked = await served.ask(session, "prompt", content=text("new"), wait=0)
        assert asked["state"] == "waiting"
        shown = await served.get(f"sessions/{session}")
        assert shown["held"] and len(shown["waiting"]) == 2
        assert not await facts(served, session, "prompts_released")


async def test_a_prompt_that_another_process_has_left_in_the_inbox_starts_here(tmp_path: Path) -> None:
    async with serving(tmp_path, "fine") as served:
        session = await served.new_session()
        lease = await served.store.acquire(session, new_owner(served.server.supervisor._world))
        asked = await served.ask(session, "prompt", content=text("hello"), wait=0)
        assert asked["state"] == "waiting"
        await served.store.release(lease)
        settled = await served.get(f"sessions/{session}/requests/{asked['id']}", wait=10)
        assert settled["fact"]["type"] == "user_message"
        assert (await served.rest(session)).status == "completed"


async def test_an_idle_open_session_can_be_taken_by_another_process(tmp_path: Path) -> None:
    async with serving(tmp_path, "mine") as served, asyncio.timeout(60):
        session = await served.new_session("go")
        await served.rest(session)
        while (await served.get(f"sessions/{session}"))["holder"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert served.server.supervisor.get(session) is not None
        other = await open_session(served.store, session, Harness(ScriptedModel(["theirs"])))
        await other.prompt(as_content("go on"))
        await other.close()
        asked = await served.ask(session, "rename", title="Both")
        assert asked["state"] == "settled"


def test_what_tools_still_do_for_a_server_that_was_killed_is_ended_by_the_next(
    ostler: Ostler, serve: Serve
) -> None:
    vendor = serve(turn(call("bash", {"command": "echo $$ > pid; exec sleep 1000"})))
    with serve_process(ostler, *use(vendor), "--yes") as server:
        made = httpx2.post(
            f"{server.base_url}/api/v1/sessions", headers=server.headers, json={"prompt": text("go")}
        )
        assert made.status_code == 201, made.text
        noted = ostler.work / "pid"
        wait_until(lambda: noted.exists() and noted.read_text())
        server.end(signal.SIGKILL)
    working = int(noted.read_text())
    with serve_process(ostler, *use(vendor)) as server:
        wait_until(lambda: not start_time(working))
        (session,) = httpx2.get(f"{server.base_url}/api/v1/sessions", headers=server.headers).json()[
            "sessions"
        ]
        assert session["status"] == "cut"


async def test_a_run_of_a_killed_server_continues_on_request(ostler: Ostler, serve: Serve) -> None:
    silent = turn(say("half of "), trouble=Trouble("silence", after=2))
    vendor = serve(silent, turn("all of it"))
    with serve_process(ostler, *use(vendor)) as server:
        async with server.client() as http:
            made = await http.post("sessions", json={"prompt": text("go")})
            session = str(made.json()["id"])
        follower = server.follower(session)
        reading = asyncio.ensure_future(follower.read())
        await follower.reader.until(lambda: "half of" in str(follower.events))
        server.end(signal.SIGKILL)
        await reading
    with serve_process(ostler, *use(vendor)) as server:
        async with server.client() as http:
            shown = (await http.get(f"sessions/{session}")).json()
            assert shown["run"]["status"] == "cut"
            asked = await http.post(f"sessions/{session}/requests?wait=10", json={"type": "resume"})
            assert asked.json()["state"] == "settled", asked.text
            after = asked.json()["seq"]
            while True:
                page = (await http.get(f"sessions/{session}/events?after={after}&wait=10")).json()
                after = page["last_seq"]
                if any(fact["type"] == "run_ended" for fact in page["facts"]):
                    break
            assert (await http.get(f"sessions/{session}")).json()["status"] == "completed"
