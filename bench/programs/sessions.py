"""Sessions in one process: `idle` measures the memory of idle ones, `served` is a server with active ones."""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import uvicorn

from bench.child import serve_commands
from bench.programs.supervised import echo
from ostler.app.session_choice import enable_gc
from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.core.store import Store
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.messages import Text
from ostler.server.app import create_app
from ostler.server.http_server import HttpServer
from ostler.server.main import listen
from ostler.server.middleware import raise_descriptor_limit
from ostler.server.state import ServerState
from ostler.server.streams import as_frames
from ostler.server.tokens import TokenStore
from ostler.sessions.live_socket import LiveSocket
from ostler.sessions.session import create_session
from ostler.sessions.supervisor import Supervisor
from ostler.store.sqlite import SqliteStore

STATM = Path("/proc/self/statm")
TEXT = "a few words of an answer "


# --- idle sessions ----------------------------------------------------------------------------------


def idle() -> None:
    """Follows idle sessions and prints the resident memory of this process in bytes.

    Arguments: the source of the sessions, a SQLite file, and their number. With the source `file`, the
    sessions exist in the file; with `supervisor`, a supervisor in this process first drives two runs in each.
    """
    _, source, path, count = sys.argv
    print(json.dumps(asyncio.run(_memory_of_idle(source, Path(path), int(count)))))


async def _memory_of_idle(source: str, path: Path, count: int) -> int:
    store = SqliteStore(path)
    supervisor = Supervisor(store, _make_harness)
    if source == "supervisor":
        sessions = [await _run_twice(supervisor) for _ in range(count)]
    else:
        sessions = [summary.id for summary in await store.sessions(limit=count)]
    assert len(sessions) == count, len(sessions)
    caught_up = asyncio.Semaphore(0)
    followers = [asyncio.ensure_future(_follow(store, session, caught_up)) for session in sessions]
    for _ in followers:
        await asyncio.wait_for(caught_up.acquire(), 30)
    size = _resident()
    for follower in followers:
        follower.cancel()
    await asyncio.gather(*followers, return_exceptions=True)
    await supervisor.close()
    await store.close()
    return size


def _make_harness(cwd: Path) -> Harness:
    harness = Harness(ScriptedModel([Call("echo", {"text": "hi"}), "It said hi."]), cwd=cwd)
    harness.set_tools([echo])
    return harness


async def _run_twice(supervisor: Supervisor) -> str:
    first = await supervisor.start("Say hi.")
    await first.result()
    await (await supervisor.start("And once more.", session=first.session)).result()
    return first.session


async def _follow(store: Store, session: str, caught_up: asyncio.Semaphore) -> None:
    last = await store.last_seq(session)
    async for facts in store.follow(session):
        if facts[-1].seq == last:
            caught_up.release()


def _resident() -> int:
    gc.collect()
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # on macOS: the peak, in bytes


# --- a server with active sessions ------------------------------------------------------------------


def served() -> None:
    """Ostler's server with sessions that publish on command. Arguments: a folder, the number of sessions.

    It prints its port, a token and the sessions. `publish` publishes a number of batches in the first session
    at an interval, each `facts_every`th of them a fact; `publish_all` publishes deltas and facts in all
    sessions at a rate, for a time.
    """
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))


class Stream:
    """Publishes messages in a session, as a run does."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._messages = 0
        self._offset = 0

    def publish_delta(self, text: str = TEXT) -> None:
        self.journal.publish([events.TextDelta(f"call_{self._messages}", 0, self._offset, text)])
        self._offset += len(text)

    async def commit_message(self) -> None:
        text = f"at_ns {perf_counter_ns()} " + TEXT * (self._offset // len(TEXT))
        message = events.AssistantMessage(f"call_{self._messages}", (Text(text),), "end")
        self._messages, self._offset = self._messages + 1, 0
        self.journal.record(message)
        await self.journal.commit()


class Publisher:
    def __init__(self, server: ServerState, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._streams: list[Stream] = []

    async def open(self, count: int) -> list[str]:
        for _ in range(count):
            harness = Harness(ScriptedModel([]), cwd=self._folder)
            session = await create_session(self._server.store, harness)
            self._server.watch.attach(session.journal)
            await LiveSocket(session.journal).open()
            self._streams.append(Stream(session.journal))
        return [stream.journal.session for stream in self._streams]

    async def handle(self, command: dict[str, Any]) -> Any:
        if command["command"] == "publish":
            text = TEXT * command.get("times", 1)
            return await self._publish(command["batches"], command["facts_every"], command["pause"], text)
        return await self._publish_all(command["seconds"], command["deltas"])

    async def _publish(self, batches: int, facts_every: int, pause: float, text: str) -> dict[str, Any]:
        published: list[Any] = []
        stream = self._streams[0]
        stop = stream.journal.subscribe(published.extend)
        for number in range(1, batches + 1):
            if number % facts_every:
                stream.publish_delta(text)
            else:
                await stream.commit_message()
            await asyncio.sleep(pause)
        stop()
        frames = self._folder / "frames"
        frames.write_bytes(as_frames(published))
        return {"seq": stream.journal.state.last_seq, "frames": str(frames)}

    async def _publish_all(self, seconds: float, deltas: int) -> dict[str, Any]:
        """Spreads the deltas of a session over each second, and the sessions over one another's deltas."""
        loop = asyncio.get_running_loop()
        begin = loop.time()

        async def publish(stream: Stream, delay: float) -> None:
            due = begin + delay
            for _ in range(int(seconds)):
                for _ in range(deltas):
                    await asyncio.sleep(due - loop.time())
                    stream.publish_delta()
                    due += 1 / deltas
                await stream.commit_message()

        await asyncio.gather(
            *(publish(stream, number / len(self._streams)) for number, stream in enumerate(self._streams))
        )
        return {"seq": self._streams[0].journal.state.last_seq, "seconds": loop.time() - begin}


async def _serve(folder: Path, sessions: int) -> None:
    tokens = TokenStore(folder / "tokens.json")
    token = tokens.new("bench", "all")

    async def make_harness(cwd: Path) -> Harness:
        return Harness(ScriptedModel([]), cwd=cwd)

    server = ServerState(SqliteStore(folder / "ostler.db"), make_harness, folder, tokens)
    publisher = Publisher(server, folder)
    raise_descriptor_limit()
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        create_app(server), log_level="warning", access_log=False, server_header=False, ws="none"
    )
    http = HttpServer(config, server)
    ids = await publisher.open(sessions)
    enable_gc()
    commands = asyncio.ensure_future(serve_commands(publisher.handle))
    print(json.dumps([listening.getsockname()[1], token, ids]), flush=True)
    await http.serve(sockets=[listening])
    commands.cancel()
