"""A child process that is told what to do, one line of JSON at a time, and answers with one."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from bench.processes import BenchError

SECONDS = 120.0

Answer = Callable[[dict[str, Any]], Awaitable[Any]]


class Child:
    """Open it with `with`. Its first line says that it is ready."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._process = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.ready: Any = self._answer()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def ask(self, do: str, **more: Any) -> Any:
        self.tell(do, **more)
        return self._answer()

    def tell(self, do: str, **more: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        return self._answer()

    def _answer(self) -> Any:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], SECONDS)[0] or not (line := stdout.readline()):
            raise BenchError(f"a child did not answer ({self._process.poll()})")
        return json.loads(line)

    def resident_mib(self) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise BenchError("the system does not say how much memory the program takes")

    def end(self) -> float:
        """Seconds from SIGTERM to the end of the process."""
        begin = perf_counter()
        self._process.terminate()
        self._process.wait(SECONDS)
        return perf_counter() - begin


async def answer_lines(answer: Answer) -> None:
    """For the child: until nobody asks any more. `cpu` is answered by itself."""
    import asyncio

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        asked = json.loads(line)
        said = process_time() if asked["do"] == "cpu" else await answer(asked)
        print(json.dumps(said), flush=True)
