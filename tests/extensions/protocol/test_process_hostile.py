"""Process extensions that misbehave: the run stays correct."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.core import line_process
from ostler.core.line_process import LineSplitter
from ostler.core.processes import ProcessLimits
from ostler.extensions.protocol import client, frames, process
from ostler.extensions.protocol.client import Limits
from ostler.extensions.protocol.process import FellBehind, Outbox
from ostler.extensions.protocol.process_extension import load_process_extension
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.messages import as_content
from tests.support.extension_session import facts_of, session_with
from tests.support.process_end import has_ended
from tests.support.process_extension import WAIT, Watch, loaded, with_tool, written

LONG = Limits(intercept=60.0)
"""What is refused under it was not refused because time was up."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"


# --- the handshake ----------------------------------------------------------------------------------

_SILENT = "time.sleep(60)"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (_SILENT, "it did not send hello within 0.05 s; see "),
        ("print('Welcome!', flush=True); time.sleep(60)", "its first line is not hello: a line is not JSON"),
        ("send('ready'); time.sleep(60)", "its first line is not hello: it is another frame"),
        ("sys.exit(4)", "it ended with exit status 4 before it sent hello"),
        ("send('hello', name='script', capabilities=['ready']); read(); sys.exit(5)", "before it was ready"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "it was ended by SIGSEGV before"),
        ("print('x' * 5_000_000, flush=True); time.sleep(60)", "longer than 4194304 bytes"),
    ],
)
async def test_an_extension_with_a_bad_handshake_has_failed(
    tmp_path: Path, script: str, problem: str
) -> None:
    limits = Limits(hello=0.05 if script == _SILENT else WAIT)
    extension = await load_process_extension(written(tmp_path, script), "user", limits=limits)
    assert extension.status == "failed"
    assert problem in extension.problem
    assert "\n" not in extension.problem


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux has prlimit")
async def test_an_extension_that_starts_too_many_processes_is_ended(tmp_path: Path) -> None:
    script = "for _ in range(6): os.fork()\ntime.sleep(60)"
    limits = Limits(hello=WAIT, processes=ProcessLimits(processes=40))
    extension = await load_process_extension(written(tmp_path, script), "user", limits=limits)
    assert extension.status == "failed"
    assert "it started more than 40 processes (tool_limits.processes)" in extension.problem


async def test_extensions_are_started_concurrently(tmp_path: Path) -> None:
    script = """
        open("../" + OWN, "w").close()
        while not os.path.exists("../" + OTHER):
            time.sleep(0.001)
        hello()
        send("ready")
        read("x")
    """
    places = [
        written(tmp_path, script, name=one, values={"OWN": f"{one}-began", "OTHER": f"{other}-began"})
        for one, other in ("ab", "ba")
    ]
    both = await asyncio.gather(*(load_process_extension(place, "user") for place in places))
    assert [one.problem for one in both] == ["", ""]
    await asyncio.gather(*(one.close() for one in both))


async def test_extensions_are_ended_concurrently(tmp_path: Path) -> None:
    script = """
        hello()
        send("ready")
        read("shutdown")
        open("../" + OWN, "w").close()
        while not os.path.exists("../" + OTHER):
            time.sleep(0.001)
        send("notify", message="both")
    """
    both = [
        await loaded(
            tmp_path,
            script,
            name=one,
            values={"OWN": f"{one}-ends", "OTHER": f"{other}-ends"},
            limits=Limits(shutdown=WAIT),
        )
        for one, other in ("ab", "ba")
    ]
    session, _ = await session_with(ScriptedModel([]), *both)
    watch = Watch(session)
    await session.close()
    assert watch.printed == ["both", "both"]


# --- lines ------------------------------------------------------------------------------------------


async def test_an_invalid_frame_is_skipped_and_reported(tmp_path: Path) -> None:
    script = r"""
        hello()
        out = sys.stdout.buffer
        for line in (b"not json", b"[1]", b"{}", b'{"type":"dance"}', b'{"type":"register_tool"}',
                     b"\xff\xfe", b"[" * 100_000, b'{"type":"notify","message":7}', b"", b'{"type":"hello"}',
                     b'{"type":"register_tool","name":"a","schema":{"$ref":"#"}}', b"x" * 5_000_000):
            out.write(line + b"\n")
            out.flush()
        send("register_command", name="hi")
        send("ready")
        tell(problems=[read("problem")["message"] for _ in range(11)])
        read("x")
    """
    extension = await loaded(tmp_path, script, limits=Limits(ready=WAIT))
    assert set(extension.registered.commands) == {"hi"}
    assert not extension.registered.tools
    session, _ = await session_with(ScriptedModel([]), extension)
    watch = Watch(session)
    problems = (await watch.until_told())["problems"]
    assert "there is no frame of the type 'dance'" in problems
    assert "a line is longer than 4194304 bytes" in problems
    assert "hello must be sent once, in the first line" in problems
    log = extension.client.log.path.read_text()
    assert all(problem.replace("\n", " ") in log for problem in problems)
    await session.close()


async def test_an_event_that_would_be_too_long_is_cut_and_a_call_that_would_be_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_LINE", 5_000)
    script = """
        hello()
        send("register_tool", name="do")
        send("subscribe", events=["tool_call"])
        send("ready")
        while True:
            event = read("event")
            tell(**event)
    """
    extension = await loaded(tmp_path, script)
    model = ScriptedModel([Call("do", {"text": "x" * 6_000}, id="big"), "done"])
    session, _ = await session_with(model, extension)
    watch = Watch(session)
    await session.prompt(as_content("go"))
    event = await watch.until_told(event="tool_call")
    assert (event["cut"], event["tool_id"], "data" in event, "tool_args" in event) == (
        True,
        "big",
        False,
        False,
    )
    (result,) = await facts_of(session, "tool_result")
    assert "the limit is 5000" in result.content[0].text
    await session.close()


@given(st.lists(st.binary(max_size=30)), st.integers(1, 12), st.randoms())
def test_lines_are_the_same_however_they_arrive(parts: list[bytes], limit: int, random: Any) -> None:
    whole = b"\n".join(parts)
    splitter, extension = LineSplitter(limit), []
    rest = whole
    while rest:
        size = random.randint(1, len(rest))
        extension += splitter.feed(rest[:size])
        rest = rest[size:]
    expected = [one.removesuffix(b"\r") if len(one) <= limit else None for one in whole.split(b"\n")[:-1]]
    assert extension == expected


# --- guards fail closed -----------------------------------------------------------------------------

_GUARD = """
    hello()
    send("subscribe", intercept=POINTS, guard=GUARD)
    send("ready")
    while True:
        asked = read("event_intercept")
        exec(ANSWER)
"""


async def _run_guarded(
    tmp_path: Path, answer: str, limits: Limits, guard: bool = True
) -> tuple[Any, list[str]]:
    values = {"ANSWER": answer, "GUARD": guard, "POINTS": ["tool_call"]}
    extension = await loaded(tmp_path, _GUARD, limits=limits, values=values)
    session, _ = await session_with(
        ScriptedModel([Call("shell", {"command": "ls"}), "done"]), extension, **with_tool()
    )
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    (result,) = await facts_of(session, "tool_result")
    warned = [one.text for one in await facts_of(session, "warned")]
    await session.close()
    return result, warned


@pytest.mark.parametrize(
    ("answer", "limits", "problem"),
    [
        ("pass", Limits(intercept=0.05), "did not answer within 0.05 s"),
        ("os._exit(9)", LONG, "it ended with exit status 9"),
        ("os.kill(os.getpid(), 9)", LONG, "it was ended by SIGKILL"),
        ('send("event_intercept_response", id=asked["id"], block="no")', LONG, "malformed"),
        ('send("event_intercept_response", id=asked["id"], modified_args=[])', LONG, "malformed"),
        ('send("event_intercept_response", id=asked["id"], modified_args="{}")', LONG, "malformed"),
        (
            'send("event_intercept_response", id=asked["id"], replace_text="x")',
            LONG,
            "only for assistant_message",
        ),
        ('send("tool_result", id=asked["id"])', LONG, "it answered with 'tool_result'"),
        ('send("event_intercept_response", id="another")', Limits(intercept=0.05), "did not answer"),
    ],
)
async def test_a_guard_without_a_valid_answer_refuses(
    tmp_path: Path, answer: str, limits: Limits, problem: str
) -> None:
    result, warned = await _run_guarded(tmp_path, answer, limits)
    assert result.failed == "call_refused"
    assert problem in result.content[0].text
    assert any(problem in one for one in warned)


async def test_a_rewrite_that_does_not_fit_the_tool_refuses(tmp_path: Path) -> None:
    answer = 'send("event_intercept_response", id=asked["id"], modified_args={"command": 7})'
    result, _ = await _run_guarded(tmp_path, answer, LONG)
    assert result.failed == "call_refused"


@pytest.mark.parametrize("answer", ["pass", 'send("event_intercept_response", id=asked["id"], block=7)'])
async def test_an_intercept_that_is_no_guard_is_skipped_when_it_fails(tmp_path: Path, answer: str) -> None:
    result, warned = await _run_guarded(tmp_path, answer, Limits(intercept=0.2), guard=False)
    assert (result.failed, result.content[0].text) == (None, "ran ls")
    assert len(warned) == 1


async def test_guards_refuse_while_their_process_is_down(tmp_path: Path) -> None:
    values = {
        "ANSWER": "sys.exit(2)",
        "GUARD": True,
        "POINTS": ["tool_call", "turn_start", "assistant_message"],
    }
    extension = await loaded(tmp_path, _GUARD, limits=Limits(backoff=30.0), values=values)
    session, _ = await session_with(ScriptedModel([]), extension, **with_tool())
    watch = Watch(session)
    for _ in range(2):
        ended = await session.prompt(as_content("go"))
        assert isinstance(ended, events.RunEnded)
        assert ended.status == "refused"
        assert "it ended with exit status 2" in ended.reason
        assert str(extension.client.log.path) not in ended.reason
        await watch.until_warned(f"it is restarted in 30 s; see {extension.client.log.path}")
    await session.close()


async def test_a_second_answer_changes_nothing(tmp_path: Path) -> None:
    answer = """
for block in (True, False):
    send("event_intercept_response", id=asked["id"], block=block, reason="first")
"""
    result, _ = await _run_guarded(tmp_path, answer, LONG)
    assert result.content[0].text == "first"


# --- pipes ------------------------------------------------------------------------------------------


async def test_a_flood_of_output_does_not_stop_a_run(tmp_path: Path) -> None:
    script = """
        hello()
        send("register_tool", name="do")
        send("ready")
        def flood():
            while True:
                sys.stdout.write("garbage\\n" * 1000)
                sys.stderr.write("garbage\\n" * 1000)
        call = read("tool_call")
        threading.Thread(target=flood, daemon=True).start()
        time.sleep(60)
    """
    extension = await loaded(tmp_path, script, limits=Limits(shutdown=0.05, terminate=0.05))
    session, _ = await session_with(
        ScriptedModel([[Call("do"), Call("shell", {"command": "ls"})], "done"]), extension, **with_tool()
    )
    running = asyncio.ensure_future(session.prompt(as_content("go")))
    watch = Watch(session)
    await watch.until(lambda: any(isinstance(one, events.ToolStarted) for one in watch.seen))
    session.cancel("enough")
    ended = await asyncio.wait_for(running, WAIT)
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "cancelled"
    await session.close()
    sizes = [path.stat().st_size for path in extension.client.log.path.parent.iterdir()]
    assert max(sizes) <= process.MAX_LOG_BYTES + process.ExtensionProcess.read_size
    assert len(sizes) <= 2


async def test_an_extension_that_does_not_read_is_restarted_and_gets_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MAX_BYTES", 300_000)
    script = """
        hello()
        send("subscribe", events=["session_start"])
        send("ready")
        if read("event")["data"]["reason"] == "open":
            tell(begun=True)
            time.sleep(60)
        tell(gap=read("gap"))
        read("x")
    """
    extension = await loaded(tmp_path, script, limits=Limits(backoff=0.001))
    session, _ = await session_with(ScriptedModel([]), extension)
    watch = Watch(session)
    await watch.until_told(begun=True)
    for _ in range(8):
        extension.client.send(frames.Event("tool_result", session.id, data="x" * 60_000))
    await watch.until_warned("it does not read its input")
    gap = await watch.until(lambda: next((one["gap"] for one in watch.told if "gap" in one), None))
    assert gap["lost"] == "any"
    assert gap["count"] >= 4
    await session.close()


async def test_an_extension_without_an_output_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_process, "_EXIT_WAIT", 0.01)
    script = """
        hello()
        send("subscribe", events=["session_start"])
        send("ready")
        read("event")
        os.close(1)
        time.sleep(60)
    """
    extension = await loaded(tmp_path, script, limits=Limits(backoff=30.0))
    session, _ = await session_with(ScriptedModel([]), extension)
    await Watch(session).until_warned("it closed its standard output")
    await session.close()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 400))))
def test_the_outbox_keeps_order_and_drops_only_live_lines(put: list[tuple[bool, int]]) -> None:
    box, expected, taken = Outbox(), [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "LIVE_FRAMES", 5)
        patch.setattr(process, "LIVE_BYTES", 1000)
        for number, (live, size) in enumerate(put):
            line = json.dumps({"type": "event", "live": live, "number": number, "pad": "x" * size}).encode()
            box.put(line, live=live)
            if not live:
                expected.append(number)
            if size % 3 == 0:
                taken.append(json.loads(box.take())) if box else None
    while box:
        taken.append(json.loads(box.take()))
    numbers = [one["number"] for one in taken if one["type"] == "event"]
    assert numbers == sorted(numbers)
    assert [one["number"] for one in taken if one["type"] == "event" and not one["live"]] == expected
    last = max(expected, default=-1)
    before_last = [one for one in taken if one["type"] == "gap" or one["number"] <= last]
    lost = sum(one["count"] for one in before_last if one["type"] == "gap")
    told = len([one for one in before_last if one["type"] == "event"])
    assert told + lost >= last + 1


def test_live_lines_are_dropped_before_the_extension_counts_as_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_FRAMES", 4)
    box = Outbox()
    for number in range(6):
        box.put(b"%d\n" % number, live=number < 3)
    taken = []
    while box:
        taken.append(box.take())
    assert taken == [b'{"type":"gap","lost":"live","count":3}\n', b"3\n", b"4\n", b"5\n"]
    with pytest.raises(FellBehind):
        for number in range(6):
            box.put(b"%d\n" % number)


# --- processes --------------------------------------------------------------------------------------

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")


def _wait_for_end(pid: int) -> None:
    assert has_ended(pid, WAIT), f"process {pid} lives on"


_WITH_CHILD = """
    import subprocess
    for number in (signal.SIGTERM, signal.SIGIO, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    hello()
    send("register_command", name="end")
    open("pids", "w").write(f"{os.getpid()} {child.pid}")
    send("ready")
    read(*TYPES)
"""


@linux_only
async def test_processes_of_an_extension_end_with_it(tmp_path: Path) -> None:
    extension = await loaded(
        tmp_path, _WITH_CHILD, values={"TYPES": ["command_invoked"]}, limits=Limits(backoff=30)
    )
    pids = [int(one) for one in (tmp_path / "script" / "pids").read_text().split()]
    session, host = await session_with(ScriptedModel([]), extension)
    with pytest.raises(Exception, match="it ended with exit status 0"):
        await host.run_command(session, "end", "")
    for pid in pids:
        await asyncio.to_thread(_wait_for_end, pid)
    await session.close()


@linux_only
def test_an_extension_dies_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    place = written(tmp_path, _WITH_CHILD + "    time.sleep(60)\n", values={"TYPES": ["nothing"]})
    owner = tmp_path / "owner.py"
    owner.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from ostler.extensions.protocol.process_extension import load_process_extension\n"
        "async def main():\n"
        "    found = await load_process_extension(Path(sys.argv[1]), 'user')\n"
        "    print(found.problem, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    running = subprocess.Popen([sys.executable, str(owner), str(place)], stdout=subprocess.PIPE)
    with running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"\n"
        pids = [int(one) for one in (place / "pids").read_text().split()]
        running.kill()
    for pid in pids:
        _wait_for_end(pid)
