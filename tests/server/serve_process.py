"""A real `ostler serve`, in a process of its own."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from ostler.server.tokens import TokenStore
from tests.server.cut_stream import CutStream
from tests.support.command import PATIENCE, Ostler


class ServeProcess:
    def __init__(self, process: subprocess.Popen[bytes], home: Path) -> None:
        self.process = process
        assert process.stderr is not None
        said = ""
        while not (listening := re.search(r"listening at (http://127.0.0.1:\d+)", said)):
            line = process.stderr.readline().decode()
            assert line, said
            said += line
        self.base_url = listening[1]
        self.token = TokenStore(home / "tokens.json").new(f"test {process.pid}", "admin")

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=f"{self.base_url}/api/v1/",
            headers=self.headers,
            timeout=20,
            limits=httpx2.Limits(max_connections=None),
        )

    def follower(self, session: str) -> CutStream:
        return CutStream(self.base_url, f"/api/v1/sessions/{session}/events", self.token)

    def end(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """How it ended, and what it said."""
        self.process.send_signal(by)
        said = self.process.communicate(timeout=PATIENCE)[1]
        return self.process.returncode, said.decode()


@contextmanager
def serve_process(ostler: Ostler, *options: str, descriptors: int = 0) -> Iterator[ServeProcess]:
    """With a limit for its descriptors, if one is given."""
    limit: Callable[[], Any] | None = None
    if descriptors:

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors // 2, descriptors))

    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "ostler", "serve", "--port", "0", *options],
        cwd=ostler.work,
        env=ostler.environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=limit,
    )
    try:
        yield ServeProcess(process, ostler.home)
    finally:
        process.kill()
        process.communicate()
