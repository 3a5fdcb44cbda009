"""Requests to a session that nobody drives: every one is taken up, with no more than it needs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, get_args

from ostler.core.harness import Harness
from ostler.core.model import AbsentModel
from ostler.models.scripted import ScriptedModel
from ostler.schema.requests import AnyRequest
from ostler.sessions.session import create_session
from tests.server.served import serving, text

SETTLED: dict[str, dict[str, Any]] = {
    "prompt": {"content": text("more")},
    "continue": {},
    "fork": {"entry": 3},
    "navigate": {"entry": 0},
    "set_model": {"model": "other/model"},
    "rename": {"title": "A kite"},
    "label": {"entry": 3, "label": "here"},
    "release_prompts": {},
}
REFUSED: dict[str, dict[str, Any]] = {
    "steer": {"content": text("left")},
    "answer": {"question": "q_1", "answer": "yes"},
    "cancel": {},
    "pause": {},
    "resume": {},
    "compact": {},
    "undo_compaction": {"compaction": 1},
    "collapse_branch": {"leaf": 3},
    "revoke_permission": {"rule": "bash"},
    "take_back": {"request": "req_1"},
    "finish_call": {"call": "call_1", "outcome": {"status": "ok", "content": text("done")}},
    "run_command": {"name": "nobody-has-it"},
    "keys": {"keys": "x"},
    "resize": {"columns": 80, "rows": 24},
}
WITHOUT_HARNESS = {
    *("navigate", "rename", "label", "steer", "answer", "cancel", "pause", "resume"),
    *("undo_compaction", "revoke_permission", "take_back", "finish_call", "keys", "resize"),
}


def test_every_request_of_the_vocabulary_is_tried_here() -> None:
    kinds = {kind.__struct_config__.tag for kind in get_args(AnyRequest)}
    assert kinds == {*SETTLED, *REFUSED}


async def test_each_is_taken_up_with_no_more_than_it_needs(tmp_path: Path) -> None:
    made: list[Harness] = []

    def count(harness: Harness) -> None:
        made.append(harness)
        harness.make_model = lambda name: ScriptedModel(["from another one"])

    async with serving(tmp_path, *["said"] * 40, change=count) as served:
        for kind, fields in (SETTLED | REFUSED).items():
            session = await served.new_session("go")
            await served.rest(session)
            await served.server.supervisor.unload(session)
            made.clear()
            settled = await served.ask(session, kind, **fields)
            assert settled.get("state") == ("settled" if kind in SETTLED else "refused"), (kind, settled)
            assert len(made) == (kind not in WITHOUT_HARNESS), kind


async def test_many_requests_at_once_open_a_session_once(tmp_path: Path) -> None:
    made: list[Harness] = []
    async with serving(tmp_path, "one", "two", "three", change=made.append) as served:
        session = await served.new_session()
        asked = [
            served.ask(session, "prompt", content=text("a")),
            served.ask(session, "rename", title="together"),
            served.ask(session, "prompt", content=text("b")),
            served.ask(session, "label", entry=1, label="no entry"),
            served.ask(session, "prompt", content=text("c")),
        ]
        settled = await asyncio.gather(*asked)
        assert [one["state"] for one in settled] == ["settled", "settled", "settled", "refused", "settled"]
        assert len(made) == 1


async def test_without_a_model_a_prompt_is_not_taken_and_a_model_can_be_chosen(tmp_path: Path) -> None:
    def without_model(harness: Harness) -> None:
        harness.model = AbsentModel("no model can answer: set a key")
        harness.make_model = lambda name: ScriptedModel(["here I am"])

    async with serving(tmp_path, change=without_model) as served:
        session = await served.new_session()
        for _ in ("while it is closed", "while it is open"):
            problem = await served.ask(session, "prompt", content=text("hello"))
            assert (problem["kind"], problem["detail"]) == ("no_model", "no model can answer: set a key")
            assert (await served.get(f"sessions/{session}/requests"))["requests"] == []
            await served.ask(session, "fork", entry=0)
        await served.ask(session, "set_model", model="other/model")
        assert (await served.ask(session, "prompt", content=text("hello")))["state"] == "settled"
        await served.rest(session)
        facts = (await served.get(f"sessions/{session}/events"))["facts"]
        assert facts[-1]["status"] == "completed"


async def test_a_session_keeps_its_model_and_its_reasoning_when_it_is_opened_again(tmp_path: Path) -> None:
    made: list[Harness] = []

    def models(harness: Harness) -> None:
        made.append(harness)
        harness.make_model = lambda name: ScriptedModel(["ok", "ok"], name=name)

    async with serving(tmp_path, change=models) as served:
        session = await served.new_session()
        await served.ask(session, "set_model", model="other/model", reasoning="high")
        await served.server.supervisor.unload(session)
        await served.ask(session, "prompt", content=text("hello"))
        await served.rest(session)
        assert (made[-1].model.name, made[-1].reasoning) == ("other/model", "high")


async def test_what_is_typed_for_a_session_elsewhere_is_expanded_before_it_waits_there(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as served:
        (served.work / "notes.txt").write_text("buy milk\n")
        other = await create_session(served.store, Harness(ScriptedModel(["read"]), cwd=served.work))
        asked = {"type": "prompt", "content": text("read @notes.txt")}
        waiting = await served.post(f"sessions/{other.id}/requests?typed=true", asked, 202)
        (request,) = (await served.get(f"sessions/{other.id}/requests"))["requests"]
        assert request["id"] == waiting["id"]
        assert "buy milk" in request["content"][1]["text"]
        await other.advance()
        await other.close()
        assert (await served.ask(other.id, "rename", title="read"))["state"] == "settled"
