"""Decisions, tools and panels of process extensions."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.core.harness import Harness
from ostler.extensions.extension_session import TerminalResized
from ostler.extensions.host import ExtensionHost
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.messages import as_content
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from tests.support.extension_session import extension, facts_of, session_with
from tests.support.process_extension import Watch, loaded, with_tool


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"


# --- intercepts -------------------------------------------------------------------------------------

_JUDGE = """
    hello()
    send("subscribe", intercept=["tool_call", "turn_start", "assistant_message"])
    send("ready")
    while True:
        asked = read("event_intercept")
        send("event_intercept_response", id=asked["id"], **ANSWERS.get(asked["event"], {}))
"""


async def test_an_intercept_rewrites_the_arguments_of_a_call(tmp_path: Path) -> None:
    extension = await loaded(
        tmp_path, _JUDGE, values={"ANSWERS": {"tool_call": {"modified_args": {"command": "ls -a"}}}}
    )
    model = ScriptedModel([Call("shell", {"command": "ls"}), "done"])
    session, _ = await session_with(model, extension, **with_tool())
    await session.prompt(as_content("go"))
    (result,) = await facts_of(session, "tool_result")
    assert result.content[0].text == "ran ls -a"
    await session.close()


async def test_an_intercept_replaces_or_suppresses_the_displayed_text(tmp_path: Path) -> None:
    extension = await loaded(
        tmp_path, _JUDGE, values={"ANSWERS": {"assistant_message": {"replace_text": "[secret]"}}}
    )
    session, _ = await session_with(ScriptedModel(["a key"]), extension)
    await session.prompt(as_content("go"))
    (message,) = await facts_of(session, "assistant_message")
    assert (message.content[0].text, message.shown[0].text) == ("a key", "[secret]")
    await session.close()

    extension = await loaded(
        tmp_path, _JUDGE, name="other", values={"ANSWERS": {"assistant_message": {"block": True}}}
    )
    session, _ = await session_with(ScriptedModel(["a key"]), extension)
    await session.prompt(as_content("go"))
    (message,) = await facts_of(session, "assistant_message")
    assert message.suppressed
    await session.close()


async def test_an_intercept_refuses_a_turn(tmp_path: Path) -> None:
    extension = await loaded(
        tmp_path, _JUDGE, values={"ANSWERS": {"turn_start": {"block": True, "reason": "enough"}}}
    )
    session, _ = await session_with(ScriptedModel([]), extension)
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert (ended.status, ended.reason) == ("refused", "enough")
    await session.close()


async def test_rewrites_chain_in_the_order_of_the_extensions_and_the_first_block_wins(tmp_path: Path) -> None:
    adding = """
        hello()
        send("subscribe", intercept=["tool_call"])
        send("ready")
        while True:
            asked = read("event_intercept")
            command = asked["tool_args"]["command"]
            answer = {"modified_args": {"command": command + NAME}}
            if command == "stop":
                answer = {"block": True, "reason": NAME}
            send("event_intercept_response", id=asked["id"], **answer)
    """
    both = [await loaded(tmp_path, adding, name=name, values={"NAME": name}) for name in "ab"]
    model = ScriptedModel([[Call("shell", {"command": "x"}), Call("shell", {"command": "stop"})], "done"])
    session, _ = await session_with(model, *both, **with_tool())
    await session.prompt(as_content("go"))
    results = await facts_of(session, "tool_result")
    assert [result.content[0].text for result in results] == ["ran xab", "a"]
    await session.close()


# --- tools ------------------------------------------------------------------------------------------

_PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n0000").decode()


@pytest.mark.parametrize(
    ("result", "failed", "told"),
    [
        ({"content": [{"type": "text", "text": "fine"}]}, None, "fine"),
        ({"content": [{"type": "text", "text": "bad"}], "is_error": True}, "tool_failed", "bad"),
        ({}, None, "returned no content"),
        ({"content": None}, None, "returned no content"),
        ({"content": [{"type": "video"}]}, None, "unknown type 'video'"),
        ({"content": [{"type": "image", "mime_type": "image/png", "data": _PICTURE}]}, None, "image/png"),
        ({"content": [{"type": "image", "data": "not base64!"}]}, "tool_failed", "not base64"),
        ({"content": [{"type": "image", "data": "AAAA"}]}, "tool_failed", "not PNG"),
        ({"content": "text"}, "tool_failed", "malformed"),
    ],
)
async def test_a_tool_result_has_the_content_of_the_extension(
    tmp_path: Path, result: Any, failed: str | None, told: str
) -> None:
    script = f"""
        hello()
        send("register_tool", name="do", description="Does it.", schema={{"type": "object"}})
        send("ready")
        send("tool_result", id=read("tool_call")["id"], **{result!r})
        read("x")
    """
    extension = await loaded(tmp_path, script)
    session, _ = await session_with(ScriptedModel([Call("do"), "done"]), extension)
    await session.prompt(as_content("go"))
    (got,) = await facts_of(session, "tool_result")
    assert got.failed == failed
    assert told in str(got.content)
    await session.close()


async def test_the_arguments_of_a_tool_are_checked_before_the_extension_sees_them(tmp_path: Path) -> None:
    script = """
        hello()
        schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
        send("register_tool", name="do", schema=schema, kind="read", parallel=True)
        send("register_tool", name="broken", schema={"type": "nonsense"})
        send("register_tool", name="no blanks", schema={})
        send("ready")
        call = read("tool_call")
        send("tool_result", id=call["id"], content=[{"type": "text", "text": str(call["args"])}])
        read("x")
    """
    extension = await loaded(tmp_path, script)
    assert set(extension.registered.tools) == {"do"}
    spec = extension.registered.tools["do"].spec
    assert (spec.kind, spec.parallel, spec.timeout) == ("read", True, 60.0)
    model = ScriptedModel([[Call("do", {"n": "x"}), Call("do", {"n": 1})], "done"])
    session, _ = await session_with(model, extension)
    await session.prompt(as_content("go"))
    first, second = await facts_of(session, "tool_result")
    assert (first.failed, second.failed) == ("invalid_arguments", None)
    assert second.content[0].text == "{'n': 1}"
    log = extension.client.log.path.read_text()
    assert "nonsense" in log
    assert "register_tool" in log
    await session.close()


async def test_a_timed_out_tool_gets_a_cancel_and_its_late_result_is_ignored(tmp_path: Path) -> None:
    script = """
        hello()
        send("register_tool", name="do", timeout=0.05)
        send("ready")
        call = read("tool_call")
        cancel = read("tool_cancel")
        tell(cancelled=cancel["id"] == call["id"])
        send("tool_result", id=call["id"])
        read("x")
    """
    extension = await loaded(tmp_path, script)
    session, _ = await session_with(ScriptedModel([Call("do"), "done"]), extension)
    watch = Watch(session)
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    (result,) = await facts_of(session, "tool_result")
    assert result.failed == "tool_timed_out"
    await watch.until_told(cancelled=True)
    await session.close()


async def test_a_tool_that_is_registered_later_is_on_offer_at_the_next_step(tmp_path: Path) -> None:
    script = """
        hello()
        send("register_tool", name="more")
        send("ready")
        call = read("tool_call")
        send("register_tool", name="late")
        send("subscribe", events=["tool_result"])
        send("tool_result", id=call["id"])
        while True:
            frame = read("tool_call", "event")
            if frame["type"] == "tool_call":
                send("tool_result", id=frame["id"], content=[{"type": "text", "text": frame["name"]}])
            else:
                tell(seen=frame["data"]["name"])
    """
    extension = await loaded(tmp_path, script)
    model = ScriptedModel([Call("more"), Call("late"), "done"])
    session, _ = await session_with(model, extension)
    watch = Watch(session)
    await session.prompt(as_content("go"))
    assert [one.tools for one in await facts_of(session, "step_started")] == [
        ("more",),
        ("late", "more"),
        ("late", "more"),
    ]
    assert [one.content[0].text for one in await facts_of(session, "tool_result")][1] == "late"
    await watch.until_told(seen="late")
    await session.close()


async def test_a_taken_name_is_reported_to_the_user_and_the_extension(tmp_path: Path) -> None:
    script = """
        hello()
        send("register_tool", name="shell")
        send("register_command", name="hi")
        send("ready")
        tell(problem=read("problem")["message"])
        send("register_command", name="later")
        tell(problem=read("problem")["message"])
        read("x")
    """
    found = await loaded(tmp_path, script)
    first = extension("first", lambda ostler: ostler.command("hi")(lambda arguments: "mine"))
    notices: list[str] = []
    host = ExtensionHost([first, found], say=notices.append)
    harness = Harness(model=ScriptedModel([]), **with_tool())
    host.install_into(harness)
    session = await create_session(MemoryStore(), harness)
    watch = Watch(session)
    await watch.until(lambda: len(watch.told) == 2)
    assert notices == ["the extension script registers a tool 'shell', but that name is taken"]
    problems = [one["problem"] for one in watch.told]
    assert problems == [
        "its tool shell is not used: that name is taken",
        "its command /hi is not used: that name is taken",
    ]
    assert await host.run_command(session, "hi", "") == "mine"
    assert "script: its command /hi is not used: that name is taken" in watch.printed
    await session.close()


# --- commands and panels ----------------------------------------------------------------------------


def _commands(**answers: Any) -> str:
    return f"""
        hello()
        ANSWERS = {answers!r}
        for name in ANSWERS:
            send("register_command", name=name)
        send("ready")
        while True:
            frame = read("command_invoked", "panel_key", "panel_resize", "panel_close")
            if frame["type"] == "command_invoked":
                send("command_response", id=frame["id"], **ANSWERS[frame["name"]])
            else:
                tell(**frame)
                if frame.get("key") == "down":
                    send("panel_render", panel_id="p", lines=["two"])
                if frame.get("key") == "esc":
                    send("panel_close", panel_id="p")
    """


async def test_a_command_answers_with_an_action(tmp_path: Path) -> None:
    script = _commands(
        show={"action": "display", "display": "hello"},
        ask={"action": "prompt", "prompt": "do it"},
        put={"action": "insert", "insert": "text"},
        quiet={"action": "noop"},
        wrong={"action": "dance"},
        bad={"action": "display", "display": "x", "error": "it is broken"},
    )
    extension = await loaded(tmp_path, script)
    session, host = await session_with(ScriptedModel(["done"]), extension)
    assert await host.run_command(session, "/show", "") == "hello"
    assert await host.run_command(session, "quiet", "") == ""
    assert await host.run_command(session, "put", "") == "text"
    assert await host.run_command(session, "ask", "") == ""
    (request,) = await session.journal.store.pending(session.id)
    assert request.content[0].text == "do it"
    for name, problem in (("wrong", "unknown action: 'dance'"), ("bad", "it is broken")):
        with pytest.raises(Exception, match=problem):
            await host.run_command(session, name, "")
    await session.close()


async def test_a_panel_is_a_live_value_and_gets_keys_esc_among_them(tmp_path: Path) -> None:
    panel = {"id": "p", "title": "List", "lines": ["one"], "footer": None}
    extension = await loaded(tmp_path, _commands(open={"action": "open_panel", "open_panel": panel}))
    session, host = await session_with(ScriptedModel([]), extension)
    watch = Watch(session)
    assert not host.ui.panel_key(session.id, "panel:script/p", "down")
    await host.run_command(session, "open", "")

    def values() -> list[Any]:
        return [
            one.value
            for one in watch.seen
            if isinstance(one, events.LiveValue) and one.name == "panel:script/p"
        ]

    host.sessions[session.id].notify(TerminalResized(80, 24))
    await watch.until_told(type="panel_resize", width=80, height=24, session=session.id)
    assert host.ui.panel_key(session.id, "panel:script/p", "down")
    await watch.until_told(type="panel_key", key="down", panel_id="p")
    await watch.until(lambda: len(values()) == 2)
    assert host.ui.panel_key(session.id, "panel:script/p", "esc")
    await watch.until(lambda: len(values()) == 3)
    assert values() == [
        {"title": "List", "lines": ["one"], "footer": ""},
        {"title": "List", "lines": ["two"], "footer": ""},
        None,
    ]
    await host.run_command(session, "open", "")
    assert host.ui.live_values(session.id).keys() == {"panel:script/p"}
    assert host.ui.panel_key(session.id, "panel:script/p", "ctrl+c")
    assert host.ui.live_values(session.id) == {}
    await watch.until_told(type="panel_close", panel_id="p", session=session.id)
    await session.close()


async def test_notifications_are_printed_with_the_name_of_the_extension(tmp_path: Path) -> None:
    script = """
        hello()
        for level in ("info", "success", "warn", "error"):
            send("notify", level=level, message=level)
        send("log", level="debug", message="to the log")
        send("ready")
        read("x")
    """
    extension = await loaded(tmp_path, script)
    session, _ = await session_with(ScriptedModel([]), extension)
    watch = Watch(session)
    await watch.until(lambda: len(watch.printed) == 4)
    assert [(one.text, one.level, one.extension) for one in watch.seen] == [
        ("info", "info", "script"),
        ("success", "info", "script"),
        ("Warning: warn", "info", "script"),
        ("error", "error", "script"),
    ]
    assert "[debug] to the log" in extension.client.log.path.read_text()
    await session.close()


async def test_messages_and_state_at_the_end_of_a_session_are_recorded(tmp_path: Path) -> None:
    script = """
        hello()
        send("subscribe", events=["run_ended"])
        send("ready")
        read("shutdown")
        send("notify", message="it was a good run")
        send("state_set", key="runs", value=1)
    """
    extension = await loaded(tmp_path, script)
    session, _ = await session_with(ScriptedModel(["Done."]), extension)
    watch = Watch(session)
    await session.prompt(as_content("go"))
    await session.close()
    assert watch.printed == ["it was a good run"]
    assert session.state.extension_state == {"script": {"runs": 1}}


async def test_state_is_stored_in_the_session(tmp_path: Path) -> None:
    script = """
        hello()
        send("subscribe", events=["session_start"])
        send("ready")
        session = read("event")["session"]
        def ask(type, **frame):
            send(type, id="1", **frame)
            answer = read("state_result")
            return {name: value for name, value in answer.items() if name not in ("type", "id")}
        tell(
            missing=ask("state_get", key="a"),
            set=ask("state_set", key="a", value={"n": [1]}, session=session),
            get=ask("state_get", key="a"),
            null=ask("state_set", key="b", value=None),
            keys=ask("state_list"),
            gone=ask("state_delete", key="a"),
            after=ask("state_list"),
            elsewhere=ask("state_get", key="a", session="ses_none"),
        )
        send("state_set", key="kept", value=1)
        tell(last=ask("state_get", key="kept"))
        read("x")
    """
    extension = await loaded(tmp_path, script)
    session, _ = await session_with(ScriptedModel([]), extension)
    watch = Watch(session)
    await watch.until_told(last={"value": 1})
    problems = watch.told[0]
    assert problems.pop("null")["error"] == "null cannot be stored under 'b': send state_delete instead"
    assert problems.pop("elsewhere")["error"] == "there is no open session ses_none"
    assert problems == {
        "missing": {},
        "set": {},
        "get": {"value": {"n": [1]}},
        "keys": {"keys": ["a"]},
        "gone": {},
        "after": {"keys": []},
    }
    await session.close()
    assert session.state.extension_state == {"script": {"kept": 1}}
