"""A program in a pseudo-terminal: it sees a real terminal, and nothing of it outlives its owner."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ostler.core.processes import kill_processes_of
from ostler.drivers import pty_process
from ostler.drivers.pty_process import MOST_UNWRITTEN, PtyProcess
from ostler.schema.errors import SessionBusy, UsageError
from ostler.schema.ids import new_id
from tests.drivers.screen_agents import PATIENCE, wait_until_gone


class Started:
    def __init__(self) -> None:
        self.output = b""
        self.stirred = asyncio.Event()
        self.process: PtyProcess

    def take(self, data: bytes) -> None:
        self.output += data
        self.stirred.set()

    async def until_shown(self, text: bytes, times: int = 1) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.output.count(text) < times:
                await self.stirred.wait()
                self.stirred.clear()


@asynccontextmanager
async def started(script: str, cwd: Path, **options: Any) -> AsyncIterator[Started]:
    one = Started()
    settings = {"session": new_id("ses"), "columns": 90, "rows": 30, **options}
    one.process = PtyProcess(["sh", "-c", script], cwd=cwd, on_output=one.take, **settings)
    try:
        yield one
    finally:
        await one.process.stop()


@pytest.fixture(params=["posix_spawn", "setsid"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the session of a program is made. Not every Python can let `posix_spawn` do it."""
    spawn = os.posix_spawn

    def cannot(*arguments: Any, setsid: bool, **options: Any) -> int:
        if setsid:
            raise NotImplementedError("posix_spawn: setsid unavailable on this platform")
        return spawn(*arguments, **options)

    if request.param == "setsid":
        monkeypatch.setattr(os, "posix_spawn", cannot)


both_ways = pytest.mark.usefixtures("way")


@both_ways
async def test_a_program_gets_a_controlling_terminal_of_its_own(tmp_path: Path) -> None:
    leads = '[ "$(ps -o sid= -p $$)" -eq $$ ] && echo leads >/dev/tty'
    script = f'stty size; pwd; echo "$TERM $OF_MINE"; {leads}'
    async with started(script, tmp_path, environment={"OF_MINE": "x y"}) as one:
        async with asyncio.timeout(PATIENCE):
            assert await one.process.ended == 0
        lines = one.output.decode().split("\r\n")
        assert lines == ["30 90", str(tmp_path), "xterm-256color x y", "leads", ""]


async def test_variables_of_our_own_terminal_are_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMUX", "TERM_PROGRAM", "COLUMNS", "OF_MINE"):
        monkeypatch.setenv(name, "ours")
    async with started("env", tmp_path, environment={"TERM_PROGRAM": "named"}) as one:
        async with asyncio.timeout(PATIENCE):
            await one.process.ended
        lines = one.output.decode().split("\r\n")
    assert {"OF_MINE=ours", "TERM_PROGRAM=named", "TERM=xterm-256color"} <= set(lines)
    assert not any(line.startswith(("TMUX", "COLUMNS")) for line in lines)


@both_ways
async def test_only_the_terminal_is_inherited(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        async with started(f"[ -e /proc/self/fd/{writing} ] && echo leaked || echo clean", tmp_path) as one:
            await one.process.ended
            assert one.output == b"clean\r\n"
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15)])
@both_ways
async def test_the_exit_status_is_reported(tmp_path: Path, script: str, status: int) -> None:
    async with started(script, tmp_path) as one, asyncio.timeout(PATIENCE):
        assert await one.process.ended == status


@both_ways
async def test_all_output_is_given_out_before_the_end(tmp_path: Path) -> None:
    async with started("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end", tmp_path) as one:
        async with asyncio.timeout(PATIENCE):
            assert await one.process.ended == 0
        assert one.output.count(b"x") == 3_000_000
        assert one.output.endswith(b"the end\r\n")


@both_ways
async def test_a_resize_reaches_the_program(tmp_path: Path) -> None:
    async with started(
        "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done", tmp_path
    ) as one:
        await one.until_shown(b"ready")
        one.process.resize(120, 50)
        await one.until_shown(b"50 120")


async def test_a_program_that_does_not_read_is_sent_no_more_than_a_bound(tmp_path: Path) -> None:
    async with started("stty raw -echo; echo ready; exec sleep 1000", tmp_path) as one:
        await one.until_shown(b"ready")
        one.process.write(b"x" * (MOST_UNWRITTEN + 100_000))
        with pytest.raises(SessionBusy, match="does not read"):
            one.process.write(b"more")


async def test_what_is_written_in_a_piece_arrives_whole_and_in_order(tmp_path: Path) -> None:
    async with started("stty raw -echo; echo ready; head -c 300003 | md5sum", tmp_path) as one:
        await one.until_shown(b"ready")
        one.process.write(b"ab" * 150_000)
        one.process.write(b"end")
        await one.process.ended
        assert hashlib.md5(b"ab" * 150_000 + b"end").hexdigest().encode() in one.output


@both_ways
async def test_stopping_ends_also_what_does_not_listen_and_what_left_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pty_process, "_STOP_SIGNALS", ((signal.SIGINT, 0.1), (signal.SIGHUP, 0.1)))
    daemon_script = "setsid sh -c 'echo daemon $$; exec sleep 1000' &"
    script = f"trap '' INT HUP TERM; {daemon_script} echo ready $$; while :; do sleep 1; done"
    async with started(script, tmp_path) as one:
        await one.until_shown(b"ready")
        await one.until_shown(b"daemon")
        await one.until_shown(b"\n", 2)
        words = one.output.split()
        daemon, leader = int(words[words.index(b"daemon") + 1]), int(words[words.index(b"ready") + 1])
        await one.process.stop()
        assert one.process.ended.result() == -signal.SIGKILL
    assert wait_until_gone(daemon) and wait_until_gone(leader)


@both_ways
async def test_what_a_program_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    async with started("trap '' HUP; sleep 1000 & echo left $!; exit 0", tmp_path) as one:
        await one.process.ended
        assert wait_until_gone(int(one.output.split()[-1]))


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["no-such-agent"], "cannot start no-such-agent: there is no such program on PATH"),
        (["./agent"], "cannot start ./agent: there is no such program"),
        (["./notes"], "cannot start ./notes: it is not executable"),
        ([], "no command was given"),
        (["sh", "-c", "\0"], "NUL"),
    ],
)
@both_ways
async def test_a_program_that_cannot_be_started_is_a_one_line_error(
    tmp_path: Path, command: list[str], problem: str
) -> None:
    (tmp_path / "notes").write_text("no program")
    with pytest.raises(UsageError, match=problem):
        PtyProcess(command, session="ses_x", cwd=tmp_path, columns=80, rows=24, on_output=bytes)
    with pytest.raises(UsageError, match="does not exist"):
        PtyProcess(["sh"], session="ses_x", cwd=tmp_path / "gone", columns=80, rows=24, on_output=bytes)


OWNER = """
import asyncio, sys
from pathlib import Path
from ostler.drivers import pty_process
from ostler.drivers.pty_process import PtyProcess

SCRIPT = "trap '' HUP INT TERM; sleep 1000 & member=$!; setsid sleep 1000 & echo $$ $member $!; wait"

async def main():
    PtyProcess(["sh", "-c", SCRIPT], session=sys.argv[1], cwd=Path.cwd(), columns=80, rows=24,
               on_output=lambda data: (sys.stdout.buffer.write(data), sys.stdout.flush()))
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def test_nothing_of_the_group_survives_the_kill_of_its_owner(tmp_path: Path) -> None:
    session = new_id("ses")
    owner = subprocess.Popen([sys.executable, "-c", OWNER, session], cwd=tmp_path, stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        leader, member, daemon = owner.stdout.readline().split()
        owner.kill()
        owner.wait()
        assert wait_until_gone(int(leader)) and wait_until_gone(int(member))
        # A daemon is found by the session's name, by whoever opens the session next.
        kill_processes_of(session)
        assert wait_until_gone(int(daemon))
        assert kill_processes_of(session) == 0
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()  # type: ignore[union-attr]
        kill_processes_of(session)


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def test_where_no_session_can_be_made_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*arguments: Any, **options: Any) -> int:
        raise NotImplementedError("posix_spawn: setsid unavailable on this platform")

    monkeypatch.setattr(os, "posix_spawn", cannot)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "agent").touch(mode=0o700)
    before = open_descriptors()
    with pytest.raises(UsageError, match="needs the program setsid to start agents: install util-linux"):
        PtyProcess(["agent"], session="ses_x", cwd=tmp_path, columns=80, rows=24, on_output=bytes)
    assert open_descriptors() == before
