"""Process extensions with real processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.core.children import ChildRequest
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.tool import ToolContext
from ostler.extensions.loader.discovery import ExtensionSearch
from ostler.extensions.loader.extension_loader import load_into
from ostler.extensions.protocol.client import Limits
from ostler.extensions.protocol.process_extension import ProcessExtension, load_process_extension
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.messages import as_content
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from tests.support import needed
from tests.support.extension_session import facts_of, session_with
from tests.support.process_extension import EXAMPLES, WAIT, Watch, loaded, with_tool, written


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"


# --- the examples -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "program", "bad", "own", "said", "output", "command"),
    [
        (
            "python",
            "python3",
            {"command": "rm -rf /"},
            Call("word_count", {"text": "one two"}),
            "2 words",
            "1 one\n2 two\n",
            "/refused",
        ),
        (
            "node",
            "node",
            {"path": "a/.git/config"},
            Call("sum", {"numbers": [1, 2.5]}),
            "3.5",
            "1\n3.5\n",
            "/refused-paths",
        ),
    ],
    ids=["python", "node"],
)
async def test_an_any_language_guard_refuses_counts_and_brings_a_tool(
    language: str, program: str, bad: Any, own: Call, said: str, output: str, command: str
) -> None:
    needed.program(program)
    extension = await load_process_extension(EXAMPLES / language, "host")
    assert (extension.status, extension.problem, extension.version) == ("loaded", "", "1.0.0")
    model = ScriptedModel([[Call("shell", bad), Call("shell", {"command": "ls"})], own, "done"])
    session, host = await session_with(model, extension, **with_tool())
    watch = Watch(session)
    await session.prompt(as_content("go"))
    results = await facts_of(session, "tool_result")
    assert [result.failed for result in results] == ["call_refused", None, None]
    assert results[2].content[0].text == said
    outputs = [one.text for one in watch.seen if isinstance(one, events.ToolOutput)]
    assert "".join(outputs) == output
    assert await host.run_command(session, command, "") == "1 refused"
    assert session.state.extension_state == {f"{language}-guard": {"refused": 1}}
    await session.close()


# --- the start --------------------------------------------------------------------------------------


async def test_an_extension_gets_its_folders_and_the_session(tmp_path: Path, home: Path) -> None:
    extension = await loaded(
        tmp_path, "tell(ack=hello())\nsend('ready')\nread('shutdown')\nsend('shutdown_ack')"
    )
    session, _ = await session_with(ScriptedModel([]), extension)
    watch = Watch(session)
    (ack,) = [one["ack"] for one in [await watch.until_told()]]
    assert ack.pop("ostler_version")
    assert ack == {
        "type": "hello_ack",
        "protocol_version": 1,
        "cwd": str(Path.cwd()),
        "extension_dir": str(tmp_path / "script"),
        "data_dir": str(home / "extension-data" / "script"),
    }
    assert (home / "extension-data" / "script").is_dir()
    await session.close()


async def test_the_answer_to_hello_is_the_first_that_an_extension_reads(tmp_path: Path) -> None:
    script = """
        sys.stdout.write('{"type": "hello", "capabilities": ["ready"]}\\nnonsense\\n{"type": "ready"}\\n')
        sys.stdout.flush()
        tell(types=[read()["type"], read()["type"]])
        read("x")
    """
    extension = await loaded(tmp_path, script)
    session, _ = await session_with(ScriptedModel([]), extension)
    await Watch(session).until_told(types=["hello_ack", "problem"])
    await session.close()


async def test_a_data_folder_that_cannot_be_made_is_a_problem_of_that_extension(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    extension = await load_process_extension(written(tmp_path, "hello(); send('ready'); read('x')"), "user")
    problem = f"its folder {tmp_path}/home/extension-data/script cannot be created: Not a directory"
    assert (extension.status, extension.problem) == ("failed", problem)


async def test_an_extension_without_ready_is_ready_after_a_silence(tmp_path: Path) -> None:
    script = (
        "send('hello', name='script')\nsend('register_command', name='/hi', description='Greets')\nread('x')"
    )
    extension = await loaded(tmp_path, script)
    assert extension.registered.commands["hi"].description == "Greets"
    await extension.close()


async def test_an_extension_with_the_ready_capability_is_awaited(tmp_path: Path) -> None:
    script = """
        hello()
        time.sleep(0.1)
        send("register_command", name="late")
        send("ready")
        read("x")
    """
    extension = await loaded(tmp_path, script, limits=Limits(silence=0.01))
    assert "late" in extension.registered.commands
    await extension.close()


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ('{"name": "a", "exec": "no-such-program-anywhere"}', "in PATH"),
        ('{"name": "a", "exec": "./missing"}', "executable"),
        ('{"name": "a", "exec": ""}', "exec"),
        ('{"name": "../a", "exec": "sh"}', "name"),
        ('{"exec": "sh"}', "name"),
        ("[", "extension.json"),
    ],
)
async def test_an_invalid_manifest_is_reported(tmp_path: Path, manifest: str, problem: str) -> None:
    (tmp_path / "extension.json").write_text(manifest)
    extension = await load_process_extension(tmp_path, "user")
    assert extension.status == "failed"
    assert problem in extension.problem
    assert "\n" not in extension.problem


async def test_a_folder_without_a_manifest_is_no_extension(tmp_path: Path) -> None:
    extension = await load_process_extension(tmp_path, "user")
    assert (extension.status, extension.problem) == (
        "failed",
        f"{tmp_path / 'extension.json'} does not exist",
    )


async def test_a_disabled_extension_is_not_started(tmp_path: Path) -> None:
    extension = await load_process_extension(written(tmp_path, "open('ran', 'w')", enabled=False), "user")
    assert extension.status == "disabled"
    assert not (tmp_path / "script" / "ran").exists()


async def test_a_program_beside_the_manifest_runs_in_its_folder(tmp_path: Path) -> None:
    program = tmp_path / "run"
    hello = '{"type":"hello","name":"a","version":"7"}'
    program.write_text(f"#!/bin/sh\ntouch here\necho '{hello}'\nread ack\nread shutdown\n")
    program.chmod(0o755)
    (tmp_path / "extension.json").write_text('{"name": "a", "exec": "./run"}')
    extension = await load_process_extension(tmp_path, "user")
    assert (extension.status, extension.problem, extension.version) == ("loaded", "", "7")
    assert (tmp_path / "here").exists()
    assert isinstance(extension, ProcessExtension)
    await extension.close()


# --- events -----------------------------------------------------------------------------------------


async def test_events_arrive_in_order_with_their_fields_and_the_whole_event(tmp_path: Path) -> None:
    script = """
        hello()
        names = ["session_start", "turn_start", "tool_call", "assistant_message", "turn_end",
                 "tool_result", "run_ended", "run_started"]
        send("subscribe", events=names)
        send("ready")
        while True:
            event = read("event")
            tell(**{name: value for name, value in event.items() if name not in ("type", "data")})
            if event["event"] in ("session_start", "tool_result", "run_ended"):
                tell(whole=event["data"])
    """
    extension = await loaded(tmp_path, script)
    model = ScriptedModel([Turn(text="I look.", calls=(Call("shell", {"command": "ls"}, id="c1"),)), "done"])
    session, _ = await session_with(model, extension, **with_tool())
    watch = Watch(session)
    await session.prompt(as_content("go"))
    await watch.until(lambda: [one for one in watch.told if one.get("whole", {}).get("status")])
    brief = [one for one in watch.told if "event" in one]
    assert {one.pop("session") for one in brief} == {session.id}
    assert brief == [
        {"event": "session_start"},
        {"event": "run_started"},
        {"event": "turn_start", "step": 1},
        {"event": "assistant_message", "text": "I look."},
        {
            "event": "tool_call",
            "step": 1,
            "tool_id": "c1",
            "tool_name": "shell",
            "tool_args": {"command": "ls"},
        },
        {"event": "tool_result"},
        {"event": "turn_end", "step": 1, "stop": "tool_calls"},
        {"event": "turn_start", "step": 2},
        {"event": "assistant_message", "text": "done"},
        {"event": "turn_end", "step": 2, "stop": "end"},
        {"event": "run_ended"},
    ]
    start, result, ended = [one["whole"] for one in watch.told if "whole" in one]
    assert start == {
        "session": session.id,
        "reason": "open",
        "cwd": str(Path.cwd()),
        "model": "scripted/model",
        "parent_run": "",
    }
    assert (result["type"], result["call"], result["content"]) == (
        "tool_result",
        "c1",
        [{"type": "text", "text": "ran ls"}],
    )
    assert (ended["type"], ended["status"]) == ("run_ended", "completed")
    await session.close()


async def test_an_event_that_does_not_exist_is_named_to_the_extension(tmp_path: Path) -> None:
    script = """
        hello()
        send("subscribe", events=["turn_begin", "turn_start"])
        send("ready")
        tell(problem=read("problem")["message"])
        tell(event=read("event")["event"])
    """
    extension = await loaded(tmp_path, script)
    session, _ = await session_with(ScriptedModel(["done"]), extension)
    watch = Watch(session)
    await session.prompt(as_content("go"))
    await watch.until_told(event="turn_start")
    assert "turn_begin" in watch.told[0]["problem"]
    await session.close()


async def test_a_failed_turn_reports_its_error(tmp_path: Path) -> None:
    script = """
        hello()
        send("subscribe", events=["turn_end"])
        send("ready")
        tell(error=read("event")["error"])
        read("x")
    """
    extension = await loaded(tmp_path, script)
    session, _ = await session_with(ScriptedModel([]), extension)
    watch = Watch(session)
    await session.prompt(as_content("go"))
    assert "script is over" in (await watch.until_told())["error"]
    await session.close()


async def test_one_process_serves_a_session_and_its_children(tmp_path: Path) -> None:
    script = """
        hello()
        send("subscribe", events=["session_start"], intercept=["tool_call"])
        send("ready")
        while True:
            frame = read("event", "event_intercept")
            if frame["type"] == "event":
                tell(pid=os.getpid(), session=frame["session"], parent=frame["data"]["parent_run"])
            else:
                block = frame["tool_args"].get("command") == "bad"
                send("event_intercept_response", id=frame["id"], block=block, reason=f"in {frame['session']}")
    """

    @tool
    async def hand_out(context: ToolContext) -> str:
        "Has a child."
        result = await context.run_child(ChildRequest(as_content("go")))
        return result.text

    extension = await loaded(tmp_path, script)
    model = ScriptedModel([Call("hand_out"), Call("shell", {"command": "bad"}), "from the child", "done"])
    session, _ = await session_with(model, extension, **with_tool(hand_out))
    watch = Watch(session)
    await session.prompt(as_content("go"))
    (result,) = await facts_of(session, "tool_result")
    assert result.content[0].text == "from the child"
    (child,) = [one.child for one in await facts_of(session, "child_started")]
    assert f"in {child}" in str(model.requests[2].transcript[-1].content)
    reports = await watch.until(lambda: len(watch.told) == 2 and watch.told)
    (run,) = [fact.run for fact in await session.journal.history() if fact.type == "run_started"]
    assert [(one["session"], one["parent"]) for one in reports] == [(session.id, ""), (child, run)]
    assert reports[0]["pid"] == reports[1]["pid"]
    await session.close()


# --- the end, and restarts --------------------------------------------------------------------------


async def test_an_extension_shuts_down_when_its_session_is_closed(tmp_path: Path) -> None:
    script = """
        hello()
        send("ready")
        read("shutdown")
        send("shutdown_ack")
        open("ended", "w").write(repr(sys.stdin.read()))
    """
    extension = await loaded(tmp_path, script)
    session, _ = await session_with(ScriptedModel([]), extension)
    await session.close()
    assert (tmp_path / "script" / "ended").read_text() == "''"
    assert extension.client.problem


_STAYS = """
    def ask(*_):
        open("asked", "w").close()
        if LEAVES:
            os._exit(0)
    signal.signal(signal.SIGTERM, ask)
    hello()
    send("ready")
    while True:
        signal.pause()
"""


async def test_an_extension_that_does_not_exit_is_terminated(tmp_path: Path) -> None:
    limits = Limits(shutdown=0.01, terminate=WAIT)
    extension = await loaded(tmp_path, _STAYS, values={"LEAVES": True}, limits=limits)
    await extension.close()
    assert (tmp_path / "script" / "asked").exists()


async def test_an_extension_that_does_not_terminate_is_killed(tmp_path: Path) -> None:
    limits = Limits(shutdown=0.01, terminate=0.01)
    extension = await loaded(tmp_path, _STAYS, values={"LEAVES": False}, limits=limits)
    pid = extension.client.pid
    await extension.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_the_process_starts_again_with_the_next_session(tmp_path: Path) -> None:
    script = """
        hello()
        send("register_command", name="pid")
        send("ready")
        send("command_response", id=read("command_invoked")["id"], action="display", display=str(os.getpid()))
        read("shutdown")
    """
    extension = await loaded(tmp_path, script)
    messages = []
    for _ in range(2):
        session, host = await session_with(ScriptedModel([]), extension)
        await host.sessions[session.id].drain()
        messages.append(await host.run_command(session, "pid", ""))
        await session.close()
    assert messages[0] != messages[1]


async def test_a_crashed_extension_restarts_registers_again_and_gets_a_gap(
    tmp_path: Path,
) -> None:
    script = """
        hello()
        send("register_tool", name="do")
        send("subscribe", events=["session_start", "tool_called"])
        send("ready")
        while True:
            frame = read()
            if frame["type"] == "tool_call":
                os._exit(3)
            frame.setdefault("data", {})
            tell(**frame)
    """
    extension = await loaded(tmp_path, script, limits=Limits(backoff=0.01))
    session, _ = await session_with(
        ScriptedModel([Call("do", id="a"), Call("do", id="b"), "done"]), extension
    )
    watch = Watch(session)
    await session.prompt(as_content("go"))
    results = await facts_of(session, "tool_result")
    assert {result.failed for result in results} == {"tool_failed"}
    assert "it ended with exit status 3" in results[0].content[0].text
    assert "it is restarted in 0.01 s" in await watch.until_warned("it ended with exit status 3")
    restarted = await watch.until(
        lambda: [one for one in watch.told if one.get("data", {}).get("reason") == "restart"]
    )
    assert restarted[0]["event"] == "session_start"
    await watch.until_told(type="gap", lost="any")
    await session.close()


async def test_an_extension_that_always_crashes_is_not_restarted_forever(tmp_path: Path) -> None:
    script = """
        hello()
        send("register_command", name="hi")
        send("subscribe", events=["session_start"])
        send("ready")
        read("event")
        sys.exit(1)
    """
    extension = await loaded(tmp_path, script, limits=Limits(backoff=0.001, restarts=2))
    session, host = await session_with(ScriptedModel([]), extension)
    watch = Watch(session)
    await watch.until_warned("not restarted until it is reloaded")
    assert len(watch.warned) == 3
    with pytest.raises(Exception, match="not restarted"):
        await host.run_command(session, "hi", "")
    await session.close()


async def test_a_reload_ends_the_old_process_and_the_new_one_goes_on(tmp_path: Path) -> None:
    script = """
        hello()
        send("subscribe", events=["session_start"])
        send("ready")
        tell(reason=read("event")["data"]["reason"], number=NUMBER)
        read("shutdown")
    """
    old = await loaded(tmp_path, script, values={"NUMBER": 1})
    session, host = await session_with(ScriptedModel([]), old)
    watch = Watch(session)
    await watch.until_told(number=1, reason="open")
    (tmp_path / "next").mkdir()
    new = await loaded(tmp_path / "next", script, values={"NUMBER": 2})
    extension_session = host.sessions[session.id]
    await extension_session.remove("script", "reload")
    assert old.client.problem
    host.extensions["script"] = new
    host.apply()
    extension_session.add(new, "reload")
    await watch.until_told(number=2, reason="reload")
    await session.close()
    assert new.client.problem


async def test_an_edited_process_extension_is_reloaded(tmp_path: Path) -> None:
    script = """
        hello()
        send("register_command", name="number")
        send("ready")
        while True:
            id = read("command_invoked")["id"]
            send("command_response", id=id, action="display", display=NUMBER)
    """
    place = written(tmp_path, script, values={"NUMBER": "one"})
    harness = Harness(model=ScriptedModel([]))
    messages: list[str] = []
    host = await load_into(
        harness, ExtensionSearch(tmp_path, named=(place,), automatic=False), say=messages.append
    )
    assert host is not None
    assert host.reloading is not None
    session = await create_session(MemoryStore(), harness)
    assert await host.run_command(session, "number", "") == "one"
    first = host.extensions["script"]
    program = place / "main.py"
    program.write_text(program.read_text().replace("'one'", "'two'"))
    await (await host.reloading.reload())
    assert await host.run_command(session, "number", "") == "two"
    assert isinstance(first, ProcessExtension)
    assert first.client.problem
    assert messages == []
    await session.close()
