"""Limits of tool processes: how many there are, memory, CPU time and file size."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest

from ostler.core import process_limits
from ostler.core.process_limits import LimitedProcesses, ProcessGroup, group_folder, limits_status, members
from ostler.core.processes import OwnedGroup, ProcessId, ProcessLimits
from ostler.schema.outcomes import Failed, Ok
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools.bash import bash
from ostler.tools.child_process import stop_background

needs_prlimit = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux has prlimit")
NOBODY = 65534

BOUNDED_BOMB = "bomb() { [ $1 -gt 0 ] || exec sleep 30; bomb $(($1 - 1)) | bomb $(($1 - 1)) & }; bomb 7"
"""A few hundred processes for a while; the first one exits at once, as that of a real fork bomb."""

PYTHON = shlex.quote(sys.executable)


def context_with(tmp_path: Path, **limits: int) -> FakeToolContext:
    context = FakeToolContext(tmp_path)
    context.process_limits = ProcessLimits(**limits)
    return context


async def until_gone(context: FakeToolContext) -> None:
    mark = f"OSTLER_CALL={context.call}".encode()
    async with asyncio.timeout(30):
        while members(context.processes[0], mark):  # noqa: ASYNC110 - they are killed, which takes a moment
            await asyncio.sleep(0.01)


@needs_prlimit
@pytest.mark.parametrize("bomb", [BOUNDED_BOMB, f"{BOUNDED_BOMB}; wait; sleep 60"], ids=["left", "waits"])
async def test_a_fork_bomb_ends_as_a_failed_call(bomb: str, tmp_path: Path) -> None:
    context = context_with(tmp_path, processes=100)
    outcome = await run_tool(bash, {"command": bomb}, context)
    assert isinstance(outcome, Failed), outcome
    assert "it started more than 100 processes (tool_limits.processes)" in result_text(outcome)
    assert outcome.details is not None and not outcome.details["left_running"]
    await until_gone(context)


@needs_prlimit
async def test_processes_that_leave_the_session_of_a_fork_bomb_are_ended_too(tmp_path: Path) -> None:
    """Each starts a session of its own and its parent exits, so that it is an orphan."""
    script = dedent(
        """
        import os, time
        for depth in range(4):
            if os.fork() == 0:
                os.setsid()
            if os.fork() == 0:
                os.setsid()
        time.sleep(30)
        """
    )
    (tmp_path / "bomb.py").write_text(script)
    context = context_with(tmp_path, processes=60)
    outcome = await run_tool(bash, {"command": f"{PYTHON} -S bomb.py & sleep 60"}, context)
    assert isinstance(outcome, Failed), outcome
    assert "more than 60 processes" in result_text(outcome)
    await until_gone(context)


UNPRIVILEGED = """
import asyncio, json, os, resource, sys
from pathlib import Path
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(100_000 + os.getpid())  # a user without other processes
ceiling = 3000  # if nothing else stops the bomb
hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
if hard == resource.RLIM_INFINITY or hard > ceiling:
    resource.setrlimit(resource.RLIMIT_NPROC, (ceiling, ceiling))
from ostler.core.processes import ProcessLimits
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools.bash import bash

async def main():
    context = FakeToolContext(Path("/"))
    context.process_limits = ProcessLimits(processes=100)
    wait = "until [ $(ulimit -u) -lt 3000 ]; do :; done; ulimit -u"  # it is set just after the start
    limits = await run_tool(bash, {"command": wait, "timeout": 60}, context)
    outcome = await run_tool(bash, {"command": sys.argv[1], "timeout": 60}, context)
    print(json.dumps([os.getuid(), result_text(limits).strip(), outcome.kind, outcome.summary]))

asyncio.run(main())
"""


@needs_prlimit
def test_a_fork_bomb_of_an_unprivileged_user_ends_as_a_failed_call(tmp_path: Path) -> None:
    before = process_limits.thread_count()
    ran = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, ":(){ :|:& };:"],
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "Permission denied" in ran.stderr:
        pytest.skip("an unprivileged user cannot read the interpreter or the sources here")
    assert ran.returncode == 0, ran.stderr[-2000:]
    user, limit, kind, summary = json.loads(ran.stdout)
    assert user != 0
    assert before // 2 < int(limit) < before + 1000  # above the user's present count, by no more than needed
    assert (kind, summary) == (
        "tool_failed",
        "ended, because it started more than 100 processes (tool_limits.processes)",
    )


@needs_prlimit
async def test_many_processes_below_the_limit_stay(tmp_path: Path) -> None:
    context = context_with(tmp_path, processes=1000)
    outcome = await run_tool(
        bash, {"command": "for i in $(seq 50); do sleep 0.3 & done; wait; echo done"}, context
    )
    assert isinstance(outcome, Ok) and result_text(outcome) == "done\n"


@needs_prlimit
async def test_a_file_cannot_grow_beyond_the_limit(tmp_path: Path) -> None:
    context = context_with(tmp_path, file_size_mb=1)
    limited = "until [ $(ulimit -f) != unlimited ]; do :; done"  # it is set just after the start
    outcome = await run_tool(bash, {"command": f"{limited}; exec head -c 3000000 /dev/zero > big"}, context)
    assert isinstance(outcome, Failed)
    assert "a file grew beyond 1 MB (tool_limits.file_size_mb)" in result_text(outcome)
    assert (tmp_path / "big").stat().st_size == 1024 * 1024
    within = await run_tool(bash, {"command": f"{limited}; head -c 3000000 /dev/zero > other"}, context)
    assert isinstance(within, Failed) and "a file grew beyond" in result_text(within)


@needs_prlimit
async def test_a_process_cannot_use_more_cpu_time_than_the_limit(tmp_path: Path) -> None:
    context = context_with(tmp_path, cpu_seconds=1)
    outcome = await run_tool(bash, {"command": "while :; do :; done", "timeout": 60}, context)
    assert isinstance(outcome, Failed)
    assert "it used more than 1 s of CPU time (tool_limits.cpu_seconds)" in result_text(outcome)


@needs_prlimit
async def test_a_process_cannot_have_more_memory_than_the_limit(tmp_path: Path) -> None:
    if group_folder():
        pytest.skip("the memory is limited by a cgroup here")
    context = context_with(tmp_path, memory_mb=256)
    script = "import mmap; mmap.mmap(-1, 10**10, flags=mmap.MAP_SHARED); print('reserved'); bytearray(10**9)"
    limited = "until [ $(ulimit -d) != unlimited ]; do :; done"
    outcome = await run_tool(bash, {"command": f'{limited}; {PYTHON} -c "{script}"'}, context)
    assert isinstance(outcome, Failed)
    assert "reserved" in result_text(outcome) and "MemoryError" in result_text(outcome)


@needs_prlimit
async def test_zero_means_no_limit_and_ours_are_never_raised(tmp_path: Path) -> None:
    none = dict.fromkeys(("processes", "memory_mb", "cpu_seconds", "file_size_mb"), 0)
    context = context_with(tmp_path, **none)
    kinds = [resource.RLIMIT_NPROC, resource.RLIMIT_DATA, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE]
    show = f"import resource; print([resource.getrlimit(kind) for kind in {kinds}])"
    own = [resource.getrlimit(kind) for kind in kinds]
    shown = await run_tool(bash, {"command": f"{PYTHON} -c '{show}'"}, context)
    assert result_text(shown) == f"{own}\n"


@needs_prlimit
def test_a_limit_that_we_have_ourselves_is_never_raised(tmp_path: Path) -> None:
    script = """
import resource, subprocess
from ostler.core.process_limits import LimitedProcesses
from ostler.core.processes import ProcessId, ProcessLimits
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 6000))
with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
    LimitedProcesses(ProcessId.of(process.pid), ProcessLimits(file_size_mb=10)).close()
    print(resource.prlimit(process.pid, resource.RLIMIT_FSIZE))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    shown = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert shown.stdout == "(5000, 6000)\n", shown.stderr


@needs_prlimit
async def test_children_from_before_the_limits_were_set_are_limited_too(tmp_path: Path) -> None:
    with OwnedGroup(["bash", "-c", "sleep 60 & echo $!; wait"], cwd=tmp_path) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        limited = LimitedProcesses(ProcessId.of(process.pid), ProcessLimits(cpu_seconds=77))
        await limited.until_steady(0.01)
        for pid in (process.pid, child):
            assert resource.prlimit(pid, resource.RLIMIT_CPU)[0] == 77
        limited.close()


@needs_prlimit
async def test_an_orphan_from_before_the_limits_were_set_is_limited_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine, where the command runs before we do."""
    limit = LimitedProcesses._limit

    def late(self: LimitedProcesses, pid: int) -> None:
        monkeypatch.undo()
        while not (tmp_path / "orphan").exists():
            os.sched_yield()
        limit(self, pid)

    monkeypatch.setattr(LimitedProcesses, "_limit", late)
    context = context_with(tmp_path, cpu_seconds=99)
    command = "(sleep 60 & echo $! > new; mv new orphan); while ! [ -e done ]; do sleep 0.01; done"
    call = asyncio.ensure_future(run_tool(bash, {"command": command}, context))
    async with asyncio.timeout(30):
        while not (tmp_path / "orphan").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        pid = int((tmp_path / "orphan").read_text())
        while resource.prlimit(pid, resource.RLIMIT_CPU)[0] != 99:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    (tmp_path / "done").touch()
    await call
    await stop_background(context.memory)


@needs_prlimit
async def test_background_processes_keep_their_limits(tmp_path: Path) -> None:
    context = context_with(tmp_path, cpu_seconds=88)
    outcome = await run_tool(bash, {"command": "sleep 60 & echo $!"}, context)
    pid = int(result_text(outcome))
    assert resource.prlimit(pid, resource.RLIMIT_CPU)[0] == 88
    await stop_background(context.memory)


@needs_prlimit
async def test_a_background_process_that_turns_into_a_fork_bomb_is_ended(tmp_path: Path) -> None:
    context = context_with(tmp_path, processes=100)
    command = f"{{ while ! [ -e go ]; do sleep 0.05; done; {BOUNDED_BOMB}; }} & echo started"
    outcome = await run_tool(bash, {"command": command}, context)
    assert isinstance(outcome, Ok) and outcome.details and outcome.details["left_running"]
    (tmp_path / "go").touch()
    await until_gone(context)
    await stop_background(context.memory)


@needs_prlimit
def test_a_process_that_got_the_pid_of_a_dead_leader_is_no_member(tmp_path: Path) -> None:
    with OwnedGroup(["sleep", "60"], cwd=tmp_path) as process:
        leader = ProcessId.of(process.pid)
        assert [one.pid for one in members(leader)] == [process.pid]
        assert members(msgspec.structs.replace(leader, started="1")) == []


def made_group(path: Path) -> ProcessGroup:
    """A folder like a cgroup: the kernel makes the files of a real one."""
    path.mkdir()
    (path / "pids.events").write_text("max 0\n")
    (path / "memory.events").write_text("low 0\nmax 3\noom 0\noom_kill 0\n")
    return ProcessGroup(path)


def test_a_group_gets_its_limits_and_reports_which_was_reached(tmp_path: Path) -> None:
    limits = ProcessLimits(processes=7, memory_mb=2)
    group = made_group(tmp_path / "group")
    group.set_limits(limits)
    group.add(4711)
    assert (group.path / "pids.max").read_text() == "7"
    assert (group.path / "memory.max").read_text() == str(2 * 1024 * 1024)
    assert (group.path / "cgroup.procs").read_text() == "4711"
    assert group.exceeded(limits) == ""
    (group.path / "memory.events").write_text("max 3\noom_kill 1\n")
    assert group.exceeded(limits) == "it used more than 2 MB of memory (tool_limits.memory_mb)"
    (group.path / "pids.events").write_text("max 12\n")
    assert group.exceeded(limits) == "it started more than 7 processes (tool_limits.processes)"
    unlimited = made_group(tmp_path / "unlimited")
    unlimited.set_limits(ProcessLimits(processes=0, memory_mb=0))
    assert (unlimited.path / "pids.max").read_text() == (unlimited.path / "memory.max").read_text() == "max"


async def test_a_call_in_a_real_cgroup_cannot_have_more_processes(tmp_path: Path) -> None:
    if group_folder() is None:
        pytest.skip("no cgroup v2 that counts processes and memory can be made here")
    context = context_with(tmp_path, processes=60)
    outcome = await run_tool(bash, {"command": BOUNDED_BOMB}, context)
    assert isinstance(outcome, Failed) and "more than 60 processes" in result_text(outcome)
    await until_gone(context)


def test_the_status_names_each_limit_and_its_means() -> None:
    limits = ProcessLimits(processes=0, memory_mb=512, cpu_seconds=60, file_size_mb=10)
    status = {one.name: one.text for one in limits_status(limits)}
    assert list(status) == ["processes", "memory", "CPU time", "file size"]
    assert status["processes"] == "no limit"
    if hasattr(resource, "prlimit"):
        assert "512 MB" in status["memory"]
        assert status["CPU time"] == "60 s for each process, by RLIMIT_CPU"
        assert status["file size"] == "10 MB, by RLIMIT_FSIZE"
