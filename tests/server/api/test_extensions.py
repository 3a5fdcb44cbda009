"""Extensions in sessions that the server drives: their commands, dialogs, widgets, and what they print."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.app import extension_setup
from ostler.cli.permissions import extensions_to_trust
from ostler.core.harness import Harness
from ostler.extensions.idle_host import active_host
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.messages import as_content
from ostler.sessions.session import open_session
from tests.server.extended import extended_server, until
from tests.server.served import Served, serving, text

ASKING = '''
from ostler.extensions import Content, Widget

def setup(ostler):
    @ostler.command("ask", description="asks everything", complete=lambda typed: ["one", "two"])
    async def ask(arguments, context):
        ui = context.ui
        said = [
            (await ui.confirm("Sure?")).value,
            (await ui.select("Which?", ["red", "blue"])).value,
            (await ui.multi_select("Which ones?", ["a", "b", "c"])).values,
            (await ui.input("Your name?")).value,
            (await ui.input("Your word?", secret=True)).value == "sesame",
        ]
        return f"{arguments}: {said}"

    @ostler.command("show", description="shows something")
    def show(arguments, context):
        context.ui.set_widget(Widget("w", Content(text=arguments)))
        context.print_info(f"showing {arguments}")
        return context.face.name

    @ostler.command("leave")
    async def leave(arguments, context):
        return await context.new_session(arguments)

    @ostler.command("write")
    def write(arguments, context):
        context.ui.set_editor_text(arguments)

    @ostler.tool
    def shout(word: str) -> str:
        """Says it louder."""
        return word.upper()
'''

ANSWERS: dict[str, Any] = {
    "Sure?": "yes",
    "Which?": "blue",
    "Which ones?": ["a", "c"],
    "Your name?": "Ada",
    "Your word?": "sesame",
}


async def answer_all(served: Served, session: str) -> dict[str, Any]:
    """Answers every question of a stream by a request, until the command has run."""
    async with served.stream(f"sessions/{session}/events") as events:
        async for event in events:
            if event["type"] == "question_asked":
                answer = ANSWERS[event["question"]["text"]]
                settled = await served.ask(session, "answer", question=event["id"], answer=answer)
                assert settled["state"] == "settled", settled
            if event["type"] == "command_ran":
                return event
    raise AssertionError("the command did not run")


async def test_a_command_of_an_idle_session_runs_and_its_dialogs_are_answered_by_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, code=ASKING) as served:
        session = await served.new_session()
        await served.ask(session, "run_command", name="ask", arguments="well", wait=0)
        ran = await asyncio.wait_for(answer_all(served, session), 60)
        assert ran["text"] == "well: [True, 'blue', ('a', 'c'), 'Ada', True]"
        facts = await served.get(f"sessions/{session}/events")
        assert "Ada" in str(facts) and "sesame" not in str(facts)


async def test_a_command_beside_a_run_asks_and_outlives_it_and_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, Call("hold"), "done", code=ASKING) as served:
        session = await served.new_session("go")
        await asyncio.wait_for(served.busy.wait(), 60)
        await served.ask(session, "run_command", name="ask", arguments="now", wait=0)
        async with served.stream(f"sessions/{session}/events") as events:
            await asyncio.wait_for(until(events, "question_asked"), 60)
            served.go_on.set()
            await asyncio.wait_for(until(events, "run_ended"), 60)
        ran = await asyncio.wait_for(answer_all(served, session), 60)
        assert ran["text"] == "now: [True, 'blue', ('a', 'c'), 'Ada', True]"
        facts = (await served.get(f"sessions/{session}/events"))["facts"]
        assert [fact["type"] for fact in facts].count("command_ran") == 1
        assert [fact["type"] for fact in facts].count("question_asked") == 5


async def test_what_an_extension_shows_and_prints_arrives_by_the_stream_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, code=ASKING) as served:
        session = await served.new_session()
        async with served.stream(f"sessions/{session}/events") as events:
            await until(events, "caught_up")
            ran = await served.ask(session, "run_command", name="show", arguments="a kite")
            assert ran["fact"]["text"] == "web"
            shown = await asyncio.wait_for(until(events, "live_value"), 60)
            assert shown["value"]["text"] == "a kite"
            printed = await asyncio.wait_for(until(events, "printed"), 60)
            assert printed["text"] == "showing a kite"
        live = await served.get(f"sessions/{session}/live")
        assert live["values"]["widget:helper/w"]["text"] == "a kite"
        assert live["open"] is True


async def test_an_extension_can_lead_the_page_to_a_new_session_and_write_into_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, "I am elsewhere", code=ASKING) as served:
        session = await served.new_session()
        async with served.stream(f"sessions/{session}/events") as events:
            await until(events, "caught_up")
            await served.ask(session, "run_command", name="write", arguments="dear diary", wait=0)
            written = await asyncio.wait_for(until(events, "live_value", name="editor"), 60)
            assert written["value"]["text"] == "dear diary"
            await served.ask(session, "run_command", name="leave", arguments="begin", wait=0)
            switched = await asyncio.wait_for(until(events, "live_value", name="switch"), 60)
        other = switched["value"]["session"]
        await served.rest(other)
        assert (await served.get(f"sessions/{other}"))["preview"] == "begin"


async def test_the_catalogue_names_commands_tools_and_extensions_before_and_after_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, code=ASKING) as served:
        session = await served.new_session()
        for _ in ("as it would be", "as it is"):
            listed = (await served.get(f"sessions/{session}/commands"))["commands"]
            (ask,) = [one for one in listed if one["name"] == "ask"]
            assert (ask["kind"], ask["description"]) == ("command", "asks everything")
            tools = (await served.get(f"sessions/{session}/tools"))["tools"]
            (shout,) = [one for one in tools if one["name"] == "shout"]
            assert (shout["extension"], shout["description"]) == ("helper", "Says it louder.")
            assert shout["parameters"]["properties"]["word"] == {"type": "string"}
            (row,) = (await served.get(f"sessions/{session}/extensions"))["extensions"]
            assert (row["name"], row["state"], row["tools"]) == ("helper", "loaded", ["shout"])
            await served.ask(session, "run_command", name="show", arguments="x")
        assert "shout" in [one["name"] for one in (await served.get("tools"))["tools"]]
        completed = await served.get(f"sessions/{session}/commands/ask/arguments", typed="o")
        assert completed["arguments"] == ["one", "two"]


async def test_an_untrusted_project_extension_is_left_out_with_one_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension_setup, "has_terminal", lambda: True)
    monkeypatch.setattr(extension_setup, "ask_consent", pytest.fail)
    async with extended_server(tmp_path, monkeypatch, "one", "two", project=ASKING) as served:
        session = await served.new_session("go")
        await served.rest(session)
        await served.server.supervisor.unload(session)
        await served.ask(session, "prompt", content=text("again"))
        await served.rest(session)
        facts = (await served.get(f"sessions/{session}/events"))["facts"]
        (warned,) = [fact for fact in facts if fact["type"] == "warned"]
        assert "ostler trust" in warned["text"] and "brought" in warned["text"]
        found = await served.get(f"sessions/{session}/extensions")
        assert found["extensions"][0]["state"] == "untrusted"
        assert found["notices"] == [warned["text"]]
        refused = await served.ask(session, "run_command", name="ask")
        assert refused["state"] == "refused"


GREETING = """
def setup(ostler):
    @ostler.input
    async def hear(draft, context):
        await context.ui.confirm("Shall it begin?")
"""


async def test_a_prompt_that_an_extension_asks_about_first_is_answered_by_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, "begun", code=GREETING) as served:
        session = await served.new_session()
        await asyncio.wait_for(served.ask(session, "prompt", content=text("go"), wait=0), 60)
        async with served.stream(f"sessions/{session}/events") as events:
            asked = await asyncio.wait_for(until(events, "question_asked"), 60)
            await asyncio.wait_for(served.ask(session, "answer", question=asked["id"], answer="yes"), 60)
            ended = await asyncio.wait_for(until(events, "run_ended"), 60)
            assert ended["status"] == "completed"


async def test_a_project_s_extension_runs_in_an_open_session_once_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, Call("hold"), "done", project=ASKING) as served:
        session = await served.new_session("go")
        await asyncio.wait_for(served.busy.wait(), 60)
        for one in extensions_to_trust(served.work):
            one.trust()
        served.go_on.set()
        await served.rest(session)
        opened = served.server.supervisor.get(session)
        assert opened is not None
        host = active_host(opened.harness)
        assert host is not None
        loaded, apply = asyncio.Event(), host.apply

        def see_it_applied() -> None:
            apply()
            loaded.set()

        monkeypatch.setattr(host, "apply", see_it_applied)
        if (await served.get(f"sessions/{session}/extensions"))["extensions"][0]["state"] != "loaded":
            await asyncio.wait_for(loaded.wait(), 60)
        found = (await served.get(f"sessions/{session}/extensions"))["extensions"]
        assert [(one["name"], one["state"]) for one in found] == [("brought", "loaded")]


async def test_what_is_typed_is_a_command_a_template_a_skill_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = tmp_path / "own" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "greet.md").write_text("Say hello to $1.\n")
    skill = tmp_path / "own" / "skills" / "knots"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: knots\ndescription: how to tie\n---\nUse a bowline.\n")
    async with extended_server(tmp_path, monkeypatch, "a", "b", "c", "d", code=ASKING) as served:
        (served.work / "notes.txt").write_text("buy milk\n")
        session = await served.new_session()

        async def said(words: str, **query: str) -> Any:
            asked = {"type": "prompt", "content": text(words)}
            answer = await served.http.post(
                f"sessions/{session}/requests", json=asked, params={"wait": "10", "typed": "true", **query}
            )
            await served.rest(session)
            return answer.json()

        assert (await said("/show x"))["fact"]["type"] == "command_ran"
        greeted = await said("/greet Ada")
        assert greeted["fact"]["content"] == text("Say hello to Ada.")
        tied = await said("/skill:knots")
        assert "Use a bowline." in tied["fact"]["content"][0]["text"]
        mentioned = await said("read @notes.txt")
        assert mentioned["fact"]["content"][0] == text("read @notes.txt")[0]
        assert "buy milk" in mentioned["fact"]["content"][1]["text"]
        wrong = await said("/gret Ada")
        assert (wrong["status"], "/greet" in wrong["detail"]) == (400, True)
        assert (await said("/greet Ada", typed="false"))["fact"]["content"] == text("/greet Ada")
        listed = (await served.get(f"sessions/{session}/commands"))["commands"]
        assert {"greet": "template", "skill:knots": "skill"}.items() <= {
            one["name"]: one["kind"] for one in listed
        }.items()


async def test_a_followed_session_stays_open_and_is_left_when_nobody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with extended_server(tmp_path, monkeypatch, code=ASKING) as served:
        supervisor = served.server.supervisor
        monkeypatch.setattr(supervisor, "keep_open", 0.05)
        session = await served.new_session()
        looks: list[bool] = []
        twice = asyncio.Event()
        is_wanted = supervisor.is_wanted

        def look(session: str) -> bool:
            looks.append(is_wanted(session))
            if len(looks) > 1:
                twice.set()
            return looks[-1]

        monkeypatch.setattr(supervisor, "is_wanted", look)
        async with served.stream(f"sessions/{session}/events") as events:
            await until(events, "caught_up")
            await served.ask(session, "run_command", name="show", arguments="still here")
            await asyncio.wait_for(twice.wait(), 60)
            live = await served.get(f"sessions/{session}/live")
            assert live["values"]["widget:helper/w"]["text"] == "still here"
        opened = supervisor.get(session)
        if opened is not None:
            left = asyncio.Event()
            opened.journal.on_close.append(left.set)
            await asyncio.wait_for(left.wait(), 60)
        assert (await served.get(f"sessions/{session}/live")) == {"values": {}, "open": False}


async def test_a_session_that_another_process_continues_is_left_to_it(tmp_path: Path) -> None:
    async with serving(tmp_path, "mine") as served:
        session = await served.new_session("go")
        await served.rest(session)
        opened = served.server.supervisor.get(session)
        assert opened is not None
        await served.store.release(opened.journal.lease)  # as if it had run out
        async with served.stream(f"sessions/{session}/events") as events:
            await until(events, "run_ended")
            other = await open_session(served.store, session, Harness(ScriptedModel(["theirs"])))
            await other.prompt(as_content("go on"))
            said = await asyncio.wait_for(until(events, "assistant_message"), 60)
            assert said["content"] == text("theirs")
            await asyncio.wait_for(until(events, "run_ended"), 60)
            await other.close()
