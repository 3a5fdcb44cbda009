"""Follows idle sessions in this process, and prints how many bytes of memory it occupies then.

Arguments: where the sessions come from, a SQLite file, and how many they are. `file`: they are in the file
already. `supervisor`: this process drives them first, two runs each, and its supervisor is still there.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
from pathlib import Path

from bench.supervised import echo
from ostler.core.harness import Harness
from ostler.core.store import Store
from ostler.models.scripted import Call, ScriptedModel
from ostler.sessions.supervisor import Supervisor
from ostler.store.sqlite import SqliteStore

STATM = Path("/proc/self/statm")


def main() -> None:
    _, source, path, count = sys.argv
    print(json.dumps(asyncio.run(_occupied(source, Path(path), int(count)))))


async def _occupied(source: str, path: Path, count: int) -> int:
    store = SqliteStore(path)
    supervisor = Supervisor(store, _equip)
    if source == "supervisor":
        sessions = [await _driven(supervisor) for _ in range(count)]
    else:
        sessions = [summary.id for summary in await store.sessions(limit=count)]
    assert len(sessions) == count, len(sessions)
    waiting = asyncio.Semaphore(0)
    followers = [asyncio.ensure_future(_follow(store, session, waiting)) for session in sessions]
    for _ in followers:
        await asyncio.wait_for(waiting.acquire(), 30)
    size = _resident()
    for follower in followers:
        follower.cancel()
    await asyncio.gather(*followers, return_exceptions=True)
    await supervisor.close()
    await store.close()
    return size


def _equip(cwd: Path) -> Harness:
    harness = Harness(ScriptedModel([Call("echo", {"text": "hi"}), "It said hi."]), cwd=cwd)
    harness.set_tools([echo])
    return harness


async def _driven(supervisor: Supervisor) -> str:
    first = await supervisor.start("Say hi.")
    await first.result()
    await (await supervisor.start("And once more.", session=first.session)).result()
    return first.session


async def _follow(store: Store, session: str, waiting: asyncio.Semaphore) -> None:
    last = await store.last_seq(session)
    async for facts in store.follow(session):
        if facts[-1].seq == last:
            waiting.release()


def _resident() -> int:
    gc.collect()
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # the peak, in bytes: what macOS tells
