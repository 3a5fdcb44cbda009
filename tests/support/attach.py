"""`ostler attach` in a real terminal, with a real server in another process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.command import Ostler
from tests.support.paths import ROOT
from tests.tui.terminal import Terminal

OSTLER = (sys.executable, "-W", "error", "-m", "ostler")
Attach = Callable[..., Terminal]


class FakeServer:
    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.remote.stand_in", str(folder), *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.address = f"localhost:{self.port}"

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(by)
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def fake_server(
    folder: Path, wire: str = "bytes", columns: int = 80, rows: int = 1000, port: int = 0
) -> Iterator[FakeServer]:
    server = FakeServer(folder, wire, str(columns), str(rows), str(port))
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


@contextmanager
def attaching(ostler: Ostler) -> Iterator[Attach]:
    with ExitStack() as stack:

        def attach(*arguments: str, columns: int = 80, rows: int = 24, **more: str) -> Terminal:
            environment = ostler.environment({"LANG": "C.UTF-8", "COLORTERM": "truecolor", **more})
            command = [*OSTLER, "attach", *arguments]
            terminal = Terminal(command, environment=environment, cwd=ostler.work, columns=columns, rows=rows)
            return stack.enter_context(terminal)

        yield attach
