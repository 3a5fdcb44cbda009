"""Running shell commands among tripwires: programs, files and variables that must not be touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ostler.permissions.plain_shell import word_set
from tests.support import needed

TRIPWIRES = sorted(
    word_set(
        "a b c p x y PROGRAM touch sh tee rm mv cp ln dd mkdir chmod install xargs env awk perl python "
        "python3 ruby node ssh less more pager man gpg gpg2 pr gzip gunzip zcat bzip2 xz vi vim ed make sudo "
        "su nohup timeout setsid nice strace flock script unshare busybox time exec coproc if then evil src "
        "git-lfs ksh zsh"
    )
)


class Tripped(msgspec.Struct, frozen=True):
    """A command that ran or wrote something, and how that was noticed."""

    shell: str
    command: str
    notice: str


_DRIVER = """
for c do
    ( eval "$c"
      [ "$HOME" = "$SAFE_HOME" ] && [ "$PATH" = "$SAFE_PATH" ] && [ "$IFS" = "$SAFE_IFS" ] &&
          [ -z "$x$y$p$a$b" ] ||
          echo "a variable changed" >> "$TRIPPED"
    ) < /dev/null > /dev/null 2>&1
done
"""
SHELLS = ("bash", "dash")


class Tripwires:
    """An empty working directory in a repository, a home, and programs that notice when they are run."""

    def __init__(self, root: Path) -> None:
        self.work, self.home = root / "work", root / "home"
        self._root, self._bin = root, root / "bin"
        self._log = root / "tripped"
        for folder in (self.work, self.home, root / "tmp", self._bin):
            folder.mkdir()
        for name in (".bashrc", ".profile", ".gitconfig"):
            (self.home / name).touch()
        (root / "a.txt").write_text("a\n")
        for name in TRIPWIRES:
            path = self._bin / name
            path.write_text(f'#!/bin/sh\necho "ran {name} $*" >> "$TRIPPED"\n')
            path.chmod(0o755)
        self._git("init", "-q")
        self._git("add", "a.txt")
        self._git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first")
        if os.geteuid() == 0:
            for path in (root, *root.rglob("*")):
                if not path.is_relative_to(self._bin):
                    os.chown(path, 65534, 65534)

    def _git(self, *words: str) -> None:
        environment = {**os.environ, "HOME": str(self.home)}
        subprocess.run(["git", *words], cwd=self._root, check=True, env=environment, capture_output=True)

    def check(self, commands: Sequence[str]) -> list[Tripped]:
        """Runs the commands in each shell; what was noticed, by the command that caused it."""
        tripped: list[Tripped] = []
        for shell in SHELLS:
            if not self._run(shell, commands):
                continue
            for command in commands:
                if notice := self._run(shell, [command]):
                    tripped.append(Tripped(shell, command, notice))
        return tripped

    def _run(self, shell: str, commands: Sequence[str]) -> str:
        before = self._state()
        path = f"{self._bin}:/usr/bin:/bin"
        environment = {
            "HOME": str(self.home),
            "PATH": path,
            "TMPDIR": str(self._root / "tmp"),
            "LC_ALL": "C.UTF-8",
        }
        safe = {
            "SAFE_HOME": str(self.home),
            "SAFE_PATH": path,
            "SAFE_IFS": " \t\n",
            "TRIPPED": str(self._log),
        }
        unprivileged = (
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        )
        subprocess.run(
            [*unprivileged, f"/bin/{shell}", "-c", _DRIVER, shell, *commands],
            cwd=self.work,
            env=environment | safe,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=600,
            check=False,
        )
        notice = self._log.read_text() if self._log.exists() else ""
        self._log.unlink(missing_ok=True)
        after = self._state()
        if before != after:
            changed = sorted(str(path) for path in before.items() ^ after.items())
            notice += f"files changed: {changed[:3]}"
        return notice

    def _state(self) -> dict[str, tuple[int, int, int]]:
        """Size, mode and time of every file. git renews its index; `sort` and `tac` use temporary files."""
        state = {}
        for folder, _, names in os.walk(self._root):
            if folder.startswith(str(self._bin)):
                continue
            for path in (folder, *(f"{folder}/{name}" for name in names)):
                status = os.lstat(path)
                is_expected = "/.git" in path or path == str(self._root / "tmp")
                state[path] = (
                    (0, 0, 0) if is_expected else (status.st_size, status.st_mode, status.st_mtime_ns)
                )
        return {path: one for path, one in state.items() if not re.search(r"/\.git/index(\.lock)?\Z", path)}


def need_shells() -> None:
    """Skips a test where the programs are missing that it needs to run commands among tripwires."""
    for name in ("bash", "dash", "git", *(["setpriv"] if os.geteuid() == 0 else [])):
        needed.program(name)


@contextmanager
def tripwires() -> Iterator[Tripwires]:
    """In a folder that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="tripwires-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        yield Tripwires(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def batches(commands: Sequence[str], size: int = 100) -> Iterator[Sequence[str]]:
    for start in range(0, len(commands), size):
        yield commands[start : start + size]
