"""What the catalogue offers: models, files, usage, and what the model was told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.context.session_context import SessionContext
from ostler.core.harness import Harness
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.events import LiveValue
from ostler.schema.messages import as_content
from ostler.sessions.session import create_session
from tests.server.served import serving, text


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine counts: no keys, no configuration."""
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "own"))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OSTLER_MODEL"):
        monkeypatch.delenv(name, raising=False)


async def test_models_say_whether_there_is_a_key_and_never_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-ant-not-to-be-seen"
    monkeypatch.setenv("ANTHROPIC_API_KEY", secret)
    async with serving(tmp_path) as served:
        found = await served.get("models")
        assert secret not in str(found)
        ready = [one for one in found["models"] if one["ready"]]
        assert {one["provider"] for one in ready} >= {"anthropic"}
        assert found["default"].startswith("anthropic/")
        assert found["looked_for"] == []
        (default,) = [one for one in ready if one["name"] == found["default"]]
        assert default["default"] and default["window"] > 100_000
        assert default["prices"]["input"] > 0 and "high" in default["reasoning"]
        (other,) = [one for one in found["models"] if one["provider"] == "openai"][:1]
        assert "ostler key set openai" in other["to_do"] and not other["ready"]


async def test_without_a_model_the_searched_sources_are_listed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        found = await served.get("models")
        if found["default"]:
            pytest.skip(f"a model of this machine answers: {found['because']}")
        kinds = {one["kind"] for one in found["looked_for"]}
        assert kinds >= {"key", "gguf"}
        assert any("ANTHROPIC_API_KEY" in one["to_do"] for one in found["looked_for"])
        assert "no model can answer" in found["notice"]


async def test_files_are_found_by_their_letters_and_nothing_outside_of_the_folder_is(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as served:
        (served.work / "src").mkdir()
        (served.work / "src" / "kite_maker.py").write_text("")
        (served.work / "my notes.txt").write_text("")
        (served.work / ".gitignore").write_text("built/\n")
        (served.work / "built").mkdir()
        (served.work / "built" / "kite.o").write_text("")
        (tmp_path / "outside.txt").write_text("")
        (served.work / "way-out").symlink_to(tmp_path)

        async def paths(q: str, **query: str) -> list[str]:
            found = await served.get("files", q=q, **query)
            assert found["complete"]
            return [one["path"] for one in found["files"]]

        assert await paths("kite") == ["src/kite_maker.py"]
        assert "src/" in await paths("")
        for way in ("../", "..", "~/", "/etc/", f"{tmp_path}/", "way-out/", "src/../../", "../outside"):
            found = await paths(way)
            assert not [one for one in found if "outside" in one or one.startswith(("/", "..", "~"))], way
        (notes,) = (await served.get("files", q="notes"))["files"]
        assert (notes["mention"], notes["positions"]) == ('@"my notes.txt"', [3, 4, 5, 6, 7])
        refused = await served.get("files", 403, q="p", cwd="/etc")
        assert refused["kind"] == "forbidden"
        assert await paths("kite", cwd=str(served.work)) == ["src/kite_maker.py"]
        session_folder = tmp_path / "elsewhere"
        session_folder.mkdir()
        (session_folder / "kite.md").write_text("")
        await served.get("files", 403, q="kite", cwd=str(session_folder))
        await served.post("sessions", {"cwd": str(session_folder)}, 201)
        assert await paths("kite", cwd=str(session_folder)) == ["kite.md"]
        await served.get("tools", 403, cwd="/etc")


async def test_usage_is_summed_up_by_session_model_and_day(tmp_path: Path) -> None:
    async with serving(tmp_path, "one", "two") as served:
        first, second = await served.new_session("a"), await served.new_session("b")
        for session in (first, second):
            await served.rest(session)
        by_session = await served.get("usage", by="session")
        assert [group["session"] for group in by_session["groups"]] == [first, second]
        assert by_session["own"]["calls"] == 2
        (of_first,) = (await served.get(f"sessions/{first}/usage"))["groups"]
        assert (of_first["model"], of_first["own"]["calls"]) == ("scripted/model", 1)
        (today,) = (await served.get("usage", since="today"))["groups"]
        assert today["own"]["calls"] == 2
        assert (await served.get("usage", since="2999-01-01"))["groups"] == []
        wrong = await served.get("usage", 400, since="yesterday")
        assert "is not a day" in wrong["detail"]
        await served.get("sessions/ses_nobody/usage", 404)


async def test_the_context_of_a_step_has_the_parts_of_a_meter(tmp_path: Path) -> None:
    def counted(harness: Harness) -> None:
        harness.context = SessionContext()

    async with serving(tmp_path, Call("hold"), "done", change=counted) as served:
        served.go_on.set()
        session = await served.new_session()
        missing = await served.get(f"sessions/{session}/context", 404)
        assert "no model was called in this session" in missing["detail"]
        await served.ask(session, "prompt", content=text("go"))
        await served.rest(session)
        step = await served.get(f"sessions/{session}/context")
        assert (step["step"], step["last"], step["model"]) == (2, 2, "scripted/model")
        assert step["used"] > 0
        assert sum(part["tokens"] for part in step["parts"]) == step["window"] == step["tokens"]["window"]
        first = await served.get(f"sessions/{session}/context", step=1)
        assert first["step"] == 1
        await served.get(f"sessions/{session}/context", 404, step=3)
        between = await served.get(f"sessions/{session}/context/difference", before=1, after=2)
        assert [entry["type"] for entry in between["added"]][-1] == "tool_result"


async def test_the_live_values_of_a_session_elsewhere_are_its_owner_s(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        harness = Harness(ScriptedModel(["tea"]), cwd=served.work)
        other = await create_session(served.store, harness)
        await other.prompt(as_content("tea, please"))
        other.journal.publish([LiveValue("status:x/y", {"text": "brewing"})])
        live = await served.get(f"sessions/{other.id}/live")
        assert live == {"values": {"status:x/y": {"text": "brewing"}}, "open": True}
        await other.close()
        assert (await served.get(f"sessions/{other.id}/live")) == {"values": {}, "open": False}
