"""The tree of processes: marks, ancestors, and the orphans of tools."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ostler.core import process_tree
from ostler.core.process_tree import (
    INSIDE_VARIABLE,
    ancestors,
    local_user,
    reap_orphans,
    why_inside,
)
from ostler.core.processes import OwnedGroup, ProcessId, current_process, inside_mark, mark_children
from ostler.store.memory import MemoryStore

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="uses /proc")


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore()
    mark_children(store)
    yield store


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        os.sched_yield()


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@on_linux
def test_a_process_of_a_session_carries_the_mark(store: MemoryStore, tmp_path: Path) -> None:
    with OwnedGroup(["cat"], cwd=tmp_path, stdin=subprocess.PIPE) as child:
        assert store.id.encode() in environment_of(child.pid)
        assert why_inside(store.id, [], child.pid).startswith(f"process {child.pid} was started by an agent,")
        assert why_inside("store_of_another", [], child.pid) == ""


def test_the_marks_of_an_outer_session_are_kept(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIDE_VARIABLE, "store_outer")
    assert {"store_outer", store.id} <= set(inside_mark()[INSIDE_VARIABLE].split(":"))
    assert why_inside("store_outer", []) != "" and why_inside(store.id, []) == ""


def test_the_mark_of_a_store_ends_with_it() -> None:
    store = MemoryStore()
    name = store.id
    mark_children(store)
    assert name in inside_mark()[INSIDE_VARIABLE]
    del store
    assert name not in inside_mark().get(INSIDE_VARIABLE, "")


@on_linux
def test_a_process_below_a_lease_holder_is_inside_and_the_holder_is_not(tmp_path: Path) -> None:
    own = current_process()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert list(ancestors(child.pid))[:2] == [child.pid, os.getpid()]
        assert f"below process {own.pid}" in why_inside("", [own], child.pid)
        assert why_inside("", [own]) == ""
        other = ProcessId(own.pid, "1", own.boot, own.host)
        assert why_inside("", [other], child.pid) == "", "another process had this pid"
        child.communicate()


@on_linux
def test_a_detached_process_stays_below_us_and_is_reaped(store: MemoryStore, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"echo $$ > {note}.part; mv {note}.part {note}; exec cat {tmp_path}/gate"
    detach = f"setsid sh -c '{script}' >/dev/null 2>&1 &"
    os.mkfifo(tmp_path / "gate")
    with OwnedGroup(["sh", "-c", detach], cwd=tmp_path) as child:
        child.communicate()
        wait_until(note.exists)  # before that, it is in the group that is killed below
    orphan = int(note.read_text())
    assert list(ancestors(orphan))[:2] == [orphan, os.getpid()]
    reap_orphans()  # sees that it is not ours
    (tmp_path / "gate").write_text("")

    def is_reaped() -> bool:
        reap_orphans()
        return not Path(f"/proc/{orphan}").exists()

    wait_until(is_reaped)


@on_linux
def test_reaping_leaves_the_exit_status_of_our_own_children_alone(store: MemoryStore, tmp_path: Path) -> None:
    ours = OwnedGroup(["sh", "-c", "exit 3"], cwd=tmp_path)
    plain = subprocess.Popen(["sh", "-c", "exit 4"])
    apart = subprocess.Popen(["sh", "-c", "exit 5"], start_new_session=True)
    for pid in (ours.process.pid, plain.pid, apart.pid):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    for _ in range(3):
        reap_orphans()
    assert (ours.process.wait(), plain.wait(), apart.wait()) == (3, 4, 5)
    ours.close()


@on_linux
def test_members_of_a_group_that_outlive_its_leader_are_reaped(store: MemoryStore, tmp_path: Path) -> None:
    with OwnedGroup(["sh", "-c", "cat >/dev/null & echo $!"], cwd=tmp_path, stdin=subprocess.PIPE) as child:
        assert child.stdout is not None
        member = int(child.stdout.readline())

    def is_reaped() -> bool:
        reap_orphans()
        return not Path(f"/proc/{member}").exists()

    wait_until(is_reaped)


def test_the_local_user_is_not_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    process_tree.local_user.cache_clear()
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.setenv(name, "eve")
    assert local_user().startswith("user:") and "eve" not in local_user()
