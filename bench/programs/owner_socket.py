"""Prints what the socket of a session costs a run without followers, in milliseconds of CPU time.

The best of several rounds: the deltas without the socket, with it, and to open and close it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from time import process_time

from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.models.scripted import ScriptedModel
from ostler.schema import events
from ostler.sessions.live_socket import LiveSocket
from ostler.sessions.session import create_session
from ostler.store.sqlite import SqliteStore

DELTAS, ROUNDS = 10_000, 7


def main() -> None:
    print(json.dumps(asyncio.run(_measured(Path(sys.argv[1])))))


async def _measured(path: Path) -> list[float]:
    store = SqliteStore(path)
    session = await create_session(store, Harness(ScriptedModel([])))
    session.journal.subscribe(lambda batch: None)
    results: list[tuple[float, float, float]] = []
    for number in range(ROUNDS):
        without = _publish(session.journal, f"a{number}")
        begin = process_time()
        live_socket = LiveSocket(session.journal)
        await live_socket.open()
        opened = process_time()
        with_socket = _publish(session.journal, f"b{number}")
        closing = process_time()
        live_socket.close()
        results.append((without, with_socket, opened - begin + process_time() - closing))
    await session.close()
    await store.close()
    return [min(column) * 1000 for column in zip(*results, strict=True)]


def _publish(journal: Journal, message: str) -> float:
    begin = process_time()
    for number in range(DELTAS):
        journal.publish([events.TextDelta(message, 0, number * 5, "words")])
    return process_time() - begin
