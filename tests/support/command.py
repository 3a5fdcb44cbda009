"""The real `ostler`, in its own process, home and directory."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from ostler.testkit.vendors import FakeVendor

PATIENCE = 60.0
KEY = "sk-canary-0123456789abcdef"
"""The command's API key, which must appear in no output and no file."""


@dataclass
class Ran:
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON objects, one a line."""
        objects = [json.loads(line) for line in self.out.splitlines()]
        assert all(isinstance(one, dict) for one in objects)
        return objects

    @property
    def types(self) -> list[str]:
        return [line["type"] for line in self.lines]

    @property
    def facts(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "seq" in line]

    def all(self, event_type: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == event_type]


class Ostler:
    """Runs the command: `ostler("-p", "hello")`. Settings of the machine do not reach it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.work.mkdir()
        (self.work / ".git").mkdir()

    @property
    def store(self) -> Path:
        return self.home / "ostler.db"

    def configure(self, text: str) -> None:
        """The user's own configuration."""
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(dedent(text))

    def environment(self, variables: dict[str, str]) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OSTLER_", "LC_")) and not name.endswith(("_API_KEY", "_BASE_URL"))
        }
        inherited.pop("LANGUAGE", None)  # it and LC_ALL would override the LANG of a test
        inherited.pop("PYTHONUNBUFFERED", None)  # it hides output that is never flushed
        own = {"HOME": str(self.home), "OSTLER_HOME": str(self.home), "TMPDIR": str(self.home.parent)}
        return {**inherited, **own, **variables}

    def start(
        self,
        *arguments: str | bytes,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        **variables: str,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-X", "warn_default_encoding", "-W", "error", "-m", "ostler", *arguments],
            cwd=cwd or self.work,
            env=self.environment(variables),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    def __call__(self, *arguments: str | bytes, piped: bytes | None = None, **options: Any) -> Ran:
        process = self.start(
            *arguments, stdin=subprocess.DEVNULL if piped is None else subprocess.PIPE, **options
        )
        return finish(process, piped)

    def on_terminal(self, *arguments: str, typed: bytes = b"", columns: int = 80, after: bytes = b"") -> Ran:
        """With a terminal for input and output; `out` is the content of the terminal. The keys are typed at
        once, or when standard error has the text `after`."""
        ours, theirs = pty.openpty()
        try:
            process = self.start(*arguments, stdin=theirs, stdout=theirs, COLUMNS=str(columns))
            os.close(theirs)
            assert process.stderr is not None
            seen = b""
            while after and after not in seen and (piece := os.read(process.stderr.fileno(), 65536)):
                seen += piece
            os.write(ours, typed)
            output = read_terminal(ours)
            err = seen + process.communicate(timeout=PATIENCE)[1]
        finally:
            os.close(ours)
        return Ran(process.returncode, output.decode().replace("\r\n", "\n"), err.decode())


def read_terminal(descriptor: int) -> bytes:
    output = b""
    deadline = time.monotonic() + PATIENCE
    while select.select([descriptor], [], [], deadline - time.monotonic())[0]:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # on Linux: the other side was closed
            return output
        if not piece:
            return output
        output += piece
    raise TimeoutError("the command did not end")


def finish(process: subprocess.Popen[bytes], piped: bytes | None = None) -> Ran:
    try:
        out, err = process.communicate(piped, timeout=PATIENCE)
    finally:
        process.kill()
    return Ran(process.returncode, (out or b"").decode(), err.decode())


def use(vendor: FakeVendor) -> tuple[str, ...]:
    """The options for a command to use this vendor."""
    return ("--model", "openai/fake", "--base-url", vendor.chat_url, "--api-key", KEY)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("what the test waits for did not happen")
        time.sleep(0.005)
