from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from shlex import quote

import pytest

from ostler.core import secrets
from ostler.core.processes import ProcessId, kill_processes_of, start_time
from ostler.core.secrets import MASK
from ostler.schema.outcomes import Failed, Ok
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools import child_process
from ostler.tools.bash import BashTool, bash
from ostler.tools.child_process import ChildProcess, group_is_alive, stop_background
from ostler.tools.read import read


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Waits for something another process does; fails when it does not."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - no event comes from another process
            await asyncio.sleep(0.005)


def is_gone(pid: int) -> bool:
    return start_time(pid) == ""


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def pids_in(file: Path) -> list[int]:
    return [int(word) for word in file.read_text().split()] if file.exists() else []


async def test_the_result_of_a_command_is_its_output(context: FakeToolContext) -> None:
    outcome = await run_tool(bash, {"command": "echo hi; echo oops >&2"}, context)
    assert isinstance(outcome, Ok)
    assert result_text(outcome) == "hi\noops\n"
    assert context.output_text == "hi\noops\n"
    assert outcome.details is not None
    assert outcome.details["duration_ms"] >= 0
    assert outcome.details | {"duration_ms": 0} == {
        "exit_code": 0,
        "signal": None,
        "timed_out": False,
        "truncated": False,
        "lines": 2,
        "bytes": 8,
        "duration_ms": 0,
        "left_running": False,
    }


async def test_a_command_runs_in_the_working_directory(context: FakeToolContext) -> None:
    assert result_text(await run_tool(bash, {"command": "pwd"}, context)) == f"{context.cwd.resolve()}\n"


async def test_a_command_without_output_returns_a_note(context: FakeToolContext) -> None:
    assert result_text(await run_tool(bash, {"command": "true"}, context)) == "(no output)"


async def test_another_exit_code_than_zero_is_a_failure_with_the_output(context: FakeToolContext) -> None:
    outcome = await run_tool(bash, {"command": "printf why; exit 3"}, context)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "tool_failed"
    assert result_text(outcome) == "why\n[exit code 3]"
    assert outcome.details and outcome.details["exit_code"] == 3
    assert result_text(await run_tool(bash, {"command": "false"}, context)) == "(no output)\n[exit code 1]"


async def test_a_signal_is_named(context: FakeToolContext) -> None:
    outcome = await run_tool(bash, {"command": "kill -KILL $$"}, context)
    assert result_text(outcome) == "(no output)\n[ended by SIGKILL]"
    assert isinstance(outcome, Failed) and outcome.details
    assert (outcome.details["exit_code"], outcome.details["signal"]) == (None, "SIGKILL")


async def test_bash_itself_is_used(context: FakeToolContext) -> None:
    assert result_text(await run_tool(bash, {"command": "x=(a b); echo ${x[1]}"}, context)) == "b\n"


async def test_without_bash_commands_run_in_sh(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (context.cwd / "bin").mkdir()
    (context.cwd / "bin/sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(context.cwd / "bin"))
    assert result_text(await run_tool(bash, {"command": "echo hi"}, context)) == "hi\n"


async def test_there_is_no_input_and_no_terminal(context: FakeToolContext) -> None:
    outcome = await run_tool(bash, {"command": "cat; test -t 0 || echo none; (: < /dev/tty) 2>&1"}, context)
    assert result_text(outcome).startswith("none\n")
    assert "/dev/tty" in result_text(outcome)


async def test_the_process_is_known_by_its_call_and_leads_its_group(tmp_path: Path) -> None:
    class WatchingContext(FakeToolContext):
        group = 0

        async def own_process(self, process: ProcessId) -> None:
            await super().own_process(process)
            self.group = os.getpgid(process.pid)

    context = WatchingContext(tmp_path)
    outcome = await run_tool(bash, {"command": "sleep 0.1; echo $OSTLER_CALL $$"}, context)
    assert result_text(outcome).split() == [context.call, str(context.group)]
    assert context.group == context.processes[0].pid != os.getpgid(0)


async def test_output_is_published_while_the_command_runs(context: FakeToolContext) -> None:
    task = asyncio.create_task(
        run_tool(bash, {"command": "echo first; until test -e go; do sleep 0.01; done; echo second"}, context)
    )
    await until(lambda: context.output_text == "first\n")
    assert not task.done()
    (context.cwd / "go").touch()
    assert result_text(await task) == "first\nsecond\n"


async def test_a_character_split_between_two_writes_stays_one(context: FakeToolContext) -> None:
    command = r"printf '\xf0\x9f'; until test -e go; do sleep 0.01; done; printf '\x98\x80'; printf '\xff'"
    task = asyncio.create_task(run_tool(bash, {"command": command}, context))
    await until(lambda: bool(context.processes))
    (context.cwd / "go").touch()
    assert result_text(await task) == "\U0001f600\ufffd"
    assert context.output_text == "\U0001f600\ufffd"


async def test_long_output_keeps_its_end_and_is_stored_in_full(context: FakeToolContext) -> None:
    outcome = await run_tool(bash, {"command": "seq 1 30000"}, context)
    header, *rows = result_text(outcome).splitlines()
    assert rows[-1] == "30000"
    assert rows == [str(n) for n in range(30001 - len(rows), 30001)]
    assert len(rows) == 2000
    assert header.startswith("[the last 2000 of 30000 lines, 11.7 KiB of 164.9 KiB")
    assert header.endswith(f"; read blob:out_{context.call} for all of it]")
    assert isinstance(outcome, Ok) and outcome.details and outcome.details["truncated"]
    whole = "".join(f"{n}\n" for n in range(1, 30001))
    assert context.output_text == whole
    again = await run_tool(read, {"path": f"blob:out_{context.call}", "limit": 1}, context)
    assert result_text(again) == "1\t1\n[lines 1-1 of 30000; use offset=2 to continue]"


async def test_the_result_stays_within_its_limits(context: FakeToolContext) -> None:
    command = f"{quote(sys.executable)} -c \"print(('\\\\U0001f600' * 3000 + '\\\\n') * 40)\""
    text = result_text(await run_tool(bash, {"command": command}, context))
    body = text.split("\n", 1)[1]
    assert len(body.encode()) <= 50 * 1024
    assert "\U0001f600… [+1000 characters]\n" in body
    assert "\ufffd" not in body


async def test_nul_characters_are_replaced_for_the_model(context: FakeToolContext) -> None:
    assert result_text(await run_tool(bash, {"command": r"printf 'a\0b'"}, context)) == "a\ufffdb"


class ForgetfulContext(FakeToolContext):
    """Counts its output and notes the largest piece, without keeping any."""

    def __init__(self, cwd: Path) -> None:
        super().__init__(cwd)
        self.characters = 0
        self.largest = 0

    def output(self, text: str, stream: str = "out") -> None:
        self.characters += len(text)
        self.largest = max(self.largest, len(text))


@pytest.mark.parametrize("command", ["yes | head -c 20000000", "head -c 20000000 /dev/zero | tr '\\0' x"])
async def test_memory_stays_bounded_however_much_a_command_prints(tmp_path: Path, command: str) -> None:
    context = ForgetfulContext(tmp_path)
    tracemalloc.start()
    try:
        outcome = await run_tool(bash, {"command": command}, context)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(outcome, Ok) and outcome.details
    assert outcome.details["bytes"] == context.characters == 20_000_000
    assert context.largest <= 64 * 1024
    assert peak < 8_000_000


async def test_endless_output_of_a_command_does_not_block_the_event_loop(tmp_path: Path) -> None:
    context = ForgetfulContext(tmp_path)
    task = asyncio.create_task(run_tool(bash, {"command": "yes"}, context))
    await until(lambda: context.characters > 1_000_000)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_call_leaves_no_process_of_its_group(context: FakeToolContext) -> None:
    pids = context.cwd / "pids"
    command = "sleep 60 & echo $! >> pids; sleep 60 & echo $! >> pids; echo $$ >> pids; wait"
    task = asyncio.create_task(run_tool(bash, {"command": command}, context))
    await until(lambda: len(pids_in(pids)) == 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(is_gone(pid) for pid in pids_in(pids))


async def test_a_process_group_that_ignores_sigterm_is_killed(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "GRACE", 0.1)
    pids = context.cwd / "pids"
    command = "trap '' TERM; sleep 60 & echo $! $$ > pids; while true; do sleep 60; done"
    task = asyncio.create_task(run_tool(bash, {"command": command}, context))
    await until(lambda: len(pids_in(pids)) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await task
    assert all(is_gone(pid) for pid in pids_in(pids))


async def test_a_second_cancellation_skips_the_grace_period(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "GRACE", 90.0)
    pids = context.cwd / "pids"
    command = "trap '' TERM; echo $$ > pids; while true; do sleep 0.05; done"
    task = asyncio.create_task(run_tool(bash, {"command": command}, context))
    await until(lambda: len(pids_in(pids)) == 1)
    task.cancel()
    await asyncio.sleep(0)
    began = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() - began < child_process.GRACE
    assert is_gone(pids_in(pids)[0])


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
async def test_a_process_that_left_the_group_does_not_survive_a_cancellation(
    context: FakeToolContext,
) -> None:
    pids = context.cwd / "pids"
    task = asyncio.create_task(
        run_tool(bash, {"command": "setsid sh -c 'echo $$ > pids; exec sleep 60' & wait"}, context)
    )
    await until(lambda: len(pids_in(pids)) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: is_gone(pids_in(pids)[0]))


OWNER = """
import asyncio, sys
from pathlib import Path
from ostler.tools.child_process import ChildProcess

SCRIPT = "trap '' HUP INT TERM; sleep 1000 & echo $$ $!; wait"

async def main():
    ChildProcess(["sh", "-c", SCRIPT], session="ses_owner", call="call_1", cwd=Path.cwd(),
                 on_output=lambda data: (sys.stdout.buffer.write(data), sys.stdout.flush()))
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the group")
async def test_a_command_does_not_outlive_the_kill_of_its_owner() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as owner:  # noqa: ASYNC220
        assert owner.stdout is not None
        leader, member = map(int, owner.stdout.readline().split())
        owner.kill()
        await until(lambda: is_gone(leader) and is_gone(member))


async def test_a_call_cancelled_before_its_process_is_recorded_leaves_none(tmp_path: Path) -> None:
    class SlowContext(FakeToolContext):
        async def own_process(self, process: ProcessId) -> None:
            await super().own_process(process)
            await asyncio.Event().wait()

    context = SlowContext(tmp_path)
    task = asyncio.create_task(run_tool(bash, {"command": "sleep 60"}, context))
    await until(lambda: bool(context.processes))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_gone(context.processes[0].pid)


async def test_a_timed_out_command_is_ended_and_its_output_returned(context: FakeToolContext) -> None:
    outcome = await run_tool(bash, {"command": "echo begun; sleep 60", "timeout": 1}, context)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "tool_timed_out"
    assert result_text(outcome) == "begun\n[timed out after 1 s]"
    assert outcome.details and outcome.details["timed_out"] is True
    assert is_gone(context.processes[0].pid)


async def test_the_timeout_of_a_command_has_a_maximum(context: FakeToolContext) -> None:
    limited = BashTool(default_timeout=0.2, max_timeout=0.3)
    outcome = await run_tool(limited, {"command": "sleep 60", "timeout": 500}, context)
    assert result_text(outcome).endswith("[timed out after 0.3 s]")
    default = await run_tool(limited, {"command": "sleep 60"}, context)
    assert result_text(default).endswith("[timed out after 0.2 s]")


async def test_a_background_process_with_an_open_output_does_not_block_the_call(
    context: FakeToolContext,
) -> None:
    async with asyncio.timeout(60):
        outcome = await run_tool(bash, {"command": "sleep 60 & echo $! started"}, context)
    assert isinstance(outcome, Ok) and outcome.details
    pid = int(result_text(outcome).split()[0])
    assert outcome.details["left_running"] is True
    assert not is_gone(pid)
    await stop_background(context.memory)
    assert is_gone(pid)


async def test_a_background_process_with_its_own_output_is_detected(context: FakeToolContext) -> None:
    outcome = await run_tool(bash, {"command": "sleep 60 > /dev/null 2>&1 & echo $!"}, context)
    assert isinstance(outcome, Ok) and outcome.details and outcome.details["left_running"]
    await stop_background(context.memory)
    assert is_gone(int(result_text(outcome)))


async def test_background_processes_that_ended_elsewhere_are_ignored(context: FakeToolContext) -> None:
    command = "setsid sleep 60 > /dev/null 2>&1 & sleep 60 & echo $!"
    pids = [int(result_text(await run_tool(bash, {"command": command}, context))) for _ in range(2)]
    assert not any(map(is_gone, pids))
    assert kill_processes_of(context.session) == 4
    async with asyncio.timeout(60):
        await stop_background(context.memory)
    assert all(map(is_gone, pids))
    assert kill_processes_of(context.session) == 0
    await stop_background(context.memory)


async def test_background_processes_may_be_stopped_twice_at_once(context: FakeToolContext) -> None:
    outcome = await run_tool(bash, {"command": "trap '' TERM; sleep 60 & echo $!"}, context)
    async with asyncio.timeout(60):
        await asyncio.gather(
            stop_background(context.memory), asyncio.to_thread(kill_processes_of, context.session)
        )
    assert is_gone(int(result_text(outcome)))


async def test_a_background_process_can_print_after_its_call(context: FakeToolContext) -> None:
    wait = "until test -e go; do sleep 0.01; done"
    command = f"({wait}; head -c 1000000 /dev/zero && touch done; sleep 60) & echo up"
    outcome = await run_tool(bash, {"command": command}, context)
    assert result_text(outcome) == "up\n"
    (context.cwd / "go").touch()
    await until(lambda: (context.cwd / "done").exists())
    assert context.output_text == "up\n"


async def test_a_process_that_ended_by_itself_is_dropped(context: FakeToolContext) -> None:
    await run_tool(bash, {"command": "(until test -e go; do sleep 0.01; done) & echo one"}, context)
    first = context.processes[0].pid
    (context.cwd / "go").touch()
    await until(lambda: not group_is_alive(first))
    await run_tool(bash, {"command": "sleep 60 & echo two"}, context)
    processes: list[ChildProcess] = next(iter(v for k, v in context.memory.items() if "child_process" in k))
    await until(lambda: not [child for child in processes if child.id.pid == first and child.is_running])
    await run_tool(bash, {"command": "sleep 60 & echo three"}, context)
    assert first not in [child.id.pid for child in processes]


async def test_an_error_in_showing_output_ends_the_command(tmp_path: Path) -> None:
    class BrokenContext(FakeToolContext):
        def output(self, text: str, stream: str = "out") -> None:
            raise RuntimeError("the log is gone")

    context = BrokenContext(tmp_path)
    outcome = await run_tool(bash, {"command": "echo hi; sleep 60"}, context)
    assert result_text(outcome) == "RuntimeError: the log is gone"
    assert is_gone(context.processes[0].pid)


@pytest.mark.parametrize("lacks_it", ["the kernel", "Python"])
async def test_a_child_is_watched_by_a_thread_where_there_is_no_pidfd(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch, lacks_it: str
) -> None:
    def unknown(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    if lacks_it == "Python":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    else:
        monkeypatch.setattr(os, "pidfd_open", unknown, raising=False)
    assert result_text(await run_tool(bash, {"command": "echo hi; exit 2"}, context)) == "hi\n[exit code 2]"
    outcome = await run_tool(bash, {"command": "sleep 60", "timeout": 0.2}, context)
    assert result_text(outcome).endswith("[timed out after 0.2 s]")


async def test_no_descriptors_are_left_open(context: FakeToolContext) -> None:
    await run_tool(bash, {"command": "true"}, context)
    before = open_descriptors()
    for command in ("true", "false", "sleep 60"):
        await run_tool(bash, {"command": command, "timeout": 0.3}, context)
    assert open_descriptors() == before


async def test_a_missing_working_directory_is_a_clear_failure(context: FakeToolContext) -> None:
    context.cwd = context.cwd / "gone"
    outcome = await run_tool(bash, {"command": "true"}, context)
    assert isinstance(outcome, Failed)
    assert result_text(outcome) == f"the working directory {context.cwd} does not exist"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({}, "command"), ({"command": "x", "timeout": 0}, "timeout"), ({"command": "x", "shell": 1}, "shell")],
)
async def test_invalid_arguments_are_reported(
    context: FakeToolContext, arguments: dict[str, object], word: str
) -> None:
    outcome = await run_tool(bash, arguments, context)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "invalid_arguments"
    assert word in result_text(outcome)


async def test_a_nul_in_a_command_is_a_clear_failure(context: FakeToolContext) -> None:
    assert (
        result_text(await run_tool(bash, {"command": "a\0b"}, context))
        == "the command contains a NUL character"
    )


async def test_the_hint_at_the_full_output_appears_only_if_it_is_stored(context: FakeToolContext) -> None:
    outcome = await run_tool(bash, {"command": "yes '' | head -n 2001"}, context)
    header, _, body = result_text(outcome).partition("\n")
    assert header == "[the last 2000 of 2001 lines, 2.0 KiB of 2.0 KiB]"
    assert body == "\n" * 2000


async def test_with_its_notes_a_result_stays_within_fifty_kibibytes(context: FakeToolContext) -> None:
    outcome = await run_tool(
        bash, {"command": "yes 123456789012345678901234567890 | head -n 9999; exit 7"}, context
    )
    assert result_text(outcome).endswith("\n[exit code 7]")
    assert 49 * 1024 < len(result_text(outcome)) <= 50 * 1024


@pytest.mark.parametrize(("keeps_keys", "printed"), [(False, b"[]\n"), (True, b"[sk-canary-0123456789]\n")])
async def test_only_a_persons_own_command_gets_the_variables_with_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_keys: bool, printed: bytes
) -> None:
    monkeypatch.setenv("CANARY_API_KEY", "sk-canary-0123456789")
    secrets.hide_variables(["CANARY_API_KEY"])
    pieces: list[bytes] = []
    command = ["sh", "-c", 'echo "[$CANARY_API_KEY]"']
    child = ChildProcess(
        command, session="s", call="c", cwd=tmp_path, on_output=pieces.append, keeps_keys=keeps_keys
    )
    await child.wait()
    child.close()
    assert b"".join(pieces) == printed


async def test_a_key_in_the_output_is_masked_although_it_arrives_in_pieces(context: FakeToolContext) -> None:
    key = "sk-canary-0123456789"
    secrets.add(key)
    halves = f"printf %s {key[:7]}; printf %s {key[7:]}; printf ' and s'"
    result = await run_tool(bash, {"command": halves}, context)
    assert result_text(result) == context.output_text == f"{MASK} and s"
