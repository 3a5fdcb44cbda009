"""What a confined command can do: read, compute, write to its own temporary folder, and nothing else."""

from __future__ import annotations

import gc
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import pytest

from ostler.core import confinement
from ostler.core.confinement import LandlockConfinement, confinement_status, landlock_abi, remove_abandoned
from ostler.core.processes import OwnedGroup
from ostler.schema.errors import UsageError

status = confinement_status()
needs_landlock = pytest.mark.skipif(not status.is_active, reason=f"no confinement here: {status.text}")
LINUX_UNTIL_ABI = [1, 2, 3, 4, 5, 6, 7]


def run(script: str, cwd: Path, *, abi: int | None = None) -> tuple[int, str]:
    """Runs a script confined; its exit code and output."""
    confined = LandlockConfinement(abi=abi)
    group = OwnedGroup(
        [sys.executable, "-c", script] if script.startswith("import ") else ["bash", "-c", script],
        cwd=cwd,
        stderr=subprocess.STDOUT,
        confinement=confined,
    )
    out, _ = group.process.communicate(timeout=60)
    group.kill()
    return group.process.returncode, out.decode(errors="replace")


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file, outside of every temporary folder that a command gets."""
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    yield tmp_path


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (about.st_mode, about.st_uid, about.st_mtime_ns, about.st_size, content)
    return found


PYTHON_CHANGES = {
    "write": "open('file', 'w')",
    "append": "open('file', 'a')",
    "read and write": "os.open('file', os.O_RDWR)",
    "truncate on opening": "os.open('file', os.O_RDONLY | os.O_TRUNC)",
    "truncate": "os.truncate('file', 0)",
    "create": "os.open('new', os.O_RDONLY | os.O_CREAT)",
    "remove": "os.remove('file')",
    "remove a folder": "os.rmdir('folder')",
    "make a folder": "os.mkdir('new')",
    "rename": "os.rename('file', 'new')",
    "move": "os.rename('file', 'folder/new')",
    "move into the temporary folder": "os.rename('file', os.environ['TMPDIR'] + '/new')",
    "link": "os.link('file', 'new')",
    "link from the temporary folder": "os.link('file', os.environ['TMPDIR'] + '/new')",
    "symbolic link": "os.symlink('file', 'new')",
    "pipe": "os.mkfifo('new')",
    "mode": "os.chmod('file', 0o600)",
    "mode of a descriptor": "os.fchmod(os.open('file', os.O_RDONLY), 0o600)",
    "owner": "os.chown('file', os.getuid(), os.getgid())",
    "owner of a link": "os.lchown('link', os.getuid(), os.getgid())",
    "owner of a descriptor": "os.fchown(os.open('file', os.O_RDONLY), os.getuid(), os.getgid())",
    "times": "os.utime('file', (1, 1))",
    "times of a descriptor": "os.utime(os.open('file', os.O_RDONLY), (1, 1))",
    "attribute": "os.setxattr('file', 'user.note', b'x')",
    "attribute of a link": "os.setxattr('link', 'user.note', b'x', follow_symlinks=False)",
    "attribute of a descriptor": "os.setxattr(os.open('file', os.O_RDONLY), 'user.note', b'x')",
    "remove an attribute": "os.removexattr('file', 'user.note')",
    "flags": "fcntl.ioctl(os.open('file', os.O_RDONLY), 0x40086602, b'\\0' * 8)",
    "socket": "socket.socket()",
    "local socket": "socket.socket(socket.AF_UNIX)",
    "network by packets": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a pair of datagram sockets": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "io_uring": "call(425, 1, 0)",
    "fchmodat2": "call(452, -100, b'file', 0o600, 0)",
    "setxattrat": "call(463, -100, b'file', 0, b'user.note', 0, 0)",
    "removexattrat": "call(466, -100, b'file', 0, b'user.note')",
    "message queue": "call(NUMBERS[0], b'ostler-test', 0o101, 0o600, 0)",
    "shared memory": "call(NUMBERS[1], 77, 4096, 0o1600)",
    "limits of another process": "resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0))",
}

PRELUDE = """\
import ctypes, fcntl, os, platform, resource, socket
NUMBERS = (240, 29) if platform.machine() == "x86_64" else (180, 194)
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
try:
    %s
except OSError as error:
    print("refused", error.errno)
else:
    print("done")
"""


@needs_landlock
@pytest.mark.parametrize("what", PYTHON_CHANGES)
def test_a_confined_command_changes_nothing(what: str, victim: Path) -> None:
    before = snapshot(victim)
    code, out = run(PRELUDE % PYTHON_CHANGES[what], victim)
    assert (code, out.split()[:1]) == (0, ["refused"]), out
    assert snapshot(victim) == before


@needs_landlock
@pytest.mark.parametrize("abi", LINUX_UNTIL_ABI)
def test_every_version_of_landlock_refuses_changes_of_files(abi: int, victim: Path) -> None:
    if abi > landlock_abi():
        pytest.skip(f"the kernel has ABI {landlock_abi()}")
    before = snapshot(victim)
    script = PRELUDE.split("try:")[0] + "".join(
        f"try:\n    {change}\nexcept OSError: pass\nelse: print({what!r}, 'was done')\n"
        for what, change in PYTHON_CHANGES.items()
        if "socket" not in change and "call(" not in change and "prlimit" not in change
    )
    assert run(script, victim, abi=abi) == (0, "")
    assert snapshot(victim) == before


@needs_landlock
def test_a_confined_command_reads_and_runs_programs_and_writes_to_its_own_folder(victim: Path) -> None:
    script = (
        "cat file; echo x > /dev/null; cat file 2>/dev/null | tr k K; cat <<< here; cat < <(echo there); "
        'mkdir "$TMPDIR/a" && echo own > "$TMPDIR/a/b" && mv "$TMPDIR/a/b" "$TMPDIR/c" && cat "$TMPDIR/c"; '
        "echo $((1 + 1)); kill -0 $$ && sleep 0 & wait; head -c 300000 /dev/zero | sort | wc -c"
    )
    code, out = run(script, victim)
    assert out == "keptKepthere\nthere\nown\n2\n300001\n"
    assert code == 0


@needs_landlock
def test_the_temporary_folder_is_private_and_removed_afterwards(victim: Path) -> None:
    confined = LandlockConfinement(folder=victim / "folder")
    folder = Path(confined.environment["TMPDIR"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    group = OwnedGroup(
        ["bash", "-c", 'mkdir "$TMPDIR/a"; echo b > "$TMPDIR/a/b"'], cwd=victim, confinement=confined
    )
    group.process.wait(60)
    assert (folder / "a" / "b").read_text() == "b\n"
    group.kill()
    assert not folder.exists()


@needs_landlock
def test_one_command_cannot_write_to_the_folder_of_another(victim: Path) -> None:
    other = LandlockConfinement()
    folder = other.environment["TMPDIR"]
    try:
        code, out = run(f"echo x > {quote(folder)}/x", victim)
        assert code == 1
        assert "Permission denied" in out
    finally:
        other.remove()


@needs_landlock
def test_a_program_that_is_not_found_is_reported_as_ever(tmp_path: Path) -> None:
    confined = LandlockConfinement(folder=tmp_path)
    with pytest.raises(UsageError, match="there is no such program"):
        OwnedGroup(["/no/such/program"], cwd=tmp_path, confinement=confined)
    assert list(tmp_path.iterdir()) == []


@needs_landlock
def test_our_own_process_keeps_its_rights(tmp_path: Path) -> None:
    run("true", tmp_path)
    (tmp_path / "mine").write_text("written")
    (tmp_path / "mine").chmod(0o600)
    socket.socket().close()
    written: list[bool] = []
    thread = threading.Thread(target=lambda: written.append(bool((tmp_path / "thread").write_text("x"))))
    thread.start()
    thread.join(60)
    assert written == [True]
    own = Path("/proc/thread-self/status").read_text()
    before = "NoNewPrivs:\t1" in Path(f"/proc/{os.getppid()}/status").read_text()
    assert ("NoNewPrivs:\t1" in own) == before
    assert gc.isenabled()


@needs_landlock
@pytest.mark.skipif(landlock_abi() < 6, reason="before ABI 6, Landlock does not refuse signals")
def test_a_confined_command_cannot_signal_other_processes(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        code, _ = run(f"kill {other.pid}", tmp_path)
        assert code == 1
        assert other.poll() is None
        other.kill()


@needs_landlock
def test_programs_of_another_architecture_and_x32_calls_are_refused(tmp_path: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("only x86-64 has x32 calls")
    code, out = run(PRELUDE % "call(0x40000000 + 39)", tmp_path)  # getpid
    assert (code, out) == (0, "refused 1\n")


@needs_landlock
def test_a_pair_of_connected_sockets_is_allowed(tmp_path: Path) -> None:
    script = "import socket\na, b = socket.socketpair()\na.send(b'x')\nprint(b.recv(1))"
    assert run(script, tmp_path) == (0, "b'x'\n")


@needs_landlock
def test_a_folder_that_a_killed_process_left_is_removed_and_a_used_one_stays(tmp_path: Path) -> None:
    used = LandlockConfinement(folder=tmp_path)
    left = tmp_path / "ostler-command-left"
    new = tmp_path / "ostler-command-new"
    for folder in (left, new):
        folder.mkdir()
        (folder / "file").write_text("x")
    long_ago = time.time() - 3600
    os.utime(left, (long_ago, long_ago))
    os.utime(used.environment["TMPDIR"], (long_ago, long_ago))
    remove_abandoned(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([Path(used.environment["TMPDIR"]), new])
    used.remove()


def test_without_landlock_there_is_no_confinement_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "landlock_abi", lambda: 0)
    confinement_status.cache_clear()
    try:
        assert confinement.new_confinement() is None
        assert "Landlock" in confinement_status().text
    finally:
        monkeypatch.undo()
        confinement_status.cache_clear()


@needs_landlock
def test_a_command_that_cannot_be_confined_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(libc: object, program: bytes) -> None:
        raise OSError(22, "seccomp: Invalid argument")

    monkeypatch.setattr(confinement.seccomp, "install", fail)
    with pytest.raises(UsageError, match="cannot be confined: seccomp"):
        OwnedGroup(["touch", "made"], cwd=tmp_path, confinement=LandlockConfinement(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


@needs_landlock
def test_a_confined_command_is_killed_with_its_group(tmp_path: Path) -> None:
    group = OwnedGroup(
        ["bash", "-c", "sleep 60 & echo $!; wait"], cwd=tmp_path, confinement=LandlockConfinement()
    )
    assert group.process.stdout
    child = int(group.process.stdout.readline())
    group.kill()
    assert group.process.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() < deadline
