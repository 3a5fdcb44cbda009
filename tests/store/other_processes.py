"""Real processes that use a store, with requests over their pipes; they end with the block."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

BOUND = 20.0

LOCKS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("locked", flush=True)
sys.stdin.readline()
db.execute("rollback")
print("unlocked", flush=True)
sys.stdin.readline()
"""

WRITES = """
import asyncio, os, sys
from pathlib import Path
from ostler.core.processes import current_process
from ostler.store.sqlite import SqliteStore
from ostler.schema import events, requests
from ostler.schema.errors import StoreError
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content

async def main(path, durability="process"):
    store = SqliteStore(Path(path), durability=durability)
    print("open", flush=True)
    lease = seq = None
    while line := sys.stdin.readline().split():
        match line:
            case ["create", session]:
                first = Fact.of(events.SessionStarted("/", "0"), seq=1, session=session, run="", time_ms=1)
                lease, seq = await store.create(first, current_process()), 1
            case ["acquire", session]:
                try:
                    lease = await store.acquire(session, current_process())
                    seq = await store.last_seq(session)
                except StoreError as error:
                    print(type(error).__name__, error, flush=True)
                    continue
            case ["append", text]:
                seq += 1
                event = events.UserMessage(as_content(text))
                fact = Fact.of(event, seq=seq, session=lease.session, run="", time_ms=1, parent=0)
                await store.append(lease, [fact])
            case ["submit", session, request]:
                await store.submit(session, requests.Pause(id=request))
            case ["vanish"]:
                os._exit(0)
        print("done", flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


class OtherProcess:
    """A process that answers one line with another."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def read_line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(BOUND):
            return (await self._process.stdout.readline()).decode().strip()

    async def request(self, line: str) -> str:
        """Sends a line, and returns the line of the answer."""
        self.send(line)
        return await self.read_line()

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def wait(self) -> None:
        async with asyncio.timeout(BOUND):
            await self._process.wait()

    async def kill(self) -> None:
        self._process.kill()
        await self.wait()


@asynccontextmanager
async def other_process(script: str, path: Path, *arguments: str) -> AsyncIterator[OtherProcess]:
    """It has printed its first line when the block begins."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        str(path),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    other = OtherProcess(process)
    try:
        assert await other.read_line() in ("locked", "open")
        yield other
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
