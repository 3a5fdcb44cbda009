"""Our server with sessions in which things happen when it is told so.

Arguments: a folder, and how many sessions. It prints its port, a token and the sessions.
`publish` lets a number of batches happen in the first session, every so often, each `facts_every`th a fact;
`together` lets deltas and facts happen in all of them, so many a second, for a time.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import uvicorn

from bench.talking import answer_lines
from ostler.app.session_choice import enable_gc
from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.models.scripted import ScriptedModel
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
from ostler.store.sqlite import SqliteStore

WORDS = "a few words of an answer "


class Talk:
    """A session that streams messages, as a run does."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._messages = 0
        self._offset = 0

    def say(self, text: str = WORDS) -> None:
        self.journal.publish([events.TextDelta(f"call_{self._messages}", 0, self._offset, text)])
        self._offset += len(text)

    async def close_message(self) -> None:
        text = f"at_ns {perf_counter_ns()} " + WORDS * (self._offset // len(WORDS))
        message = events.AssistantMessage(f"call_{self._messages}", (Text(text),), "end")
        self._messages, self._offset = self._messages + 1, 0
        self.journal.record(message)
        await self.journal.commit()


class Stage:
    def __init__(self, server: ServerState, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._talks: list[Talk] = []

    async def open(self, count: int) -> list[str]:
        for _ in range(count):
            harness = Harness(ScriptedModel([]), cwd=self._folder)
            session = await create_session(self._server.store, harness)
            self._server.watch.attend(session.journal)
            await LiveSocket(session.journal).open()
            self._talks.append(Talk(session.journal))
        return [talk.journal.session for talk in self._talks]

    async def answer(self, asked: dict[str, Any]) -> Any:
        if asked["do"] == "publish":
            return await self._publish(
                asked["batches"], asked["facts_every"], asked["pause"], WORDS * asked.get("times", 1)
            )
        return await self._together(asked["seconds"], asked["deltas"])

    async def _publish(self, batches: int, facts_every: int, pause: float, text: str) -> dict[str, Any]:
        seen: list[Any] = []
        talk = self._talks[0]
        stop = talk.journal.subscribe(seen.extend)
        for number in range(1, batches + 1):
            if number % facts_every:
                talk.say(text)
            else:
                await talk.close_message()
            await asyncio.sleep(pause)
        stop()
        frames = self._folder / "frames"
        frames.write_bytes(as_frames(seen))
        return {"seq": talk.journal.state.last_seq, "frames": str(frames)}

    async def _together(self, seconds: float, deltas: int) -> dict[str, Any]:
        """Those of one session are spread over its second, and the sessions over each other's."""
        loop = asyncio.get_running_loop()
        begin = loop.time()

        async def act(talk: Talk, place: float) -> None:
            due = begin + place
            for _ in range(int(seconds)):
                for _ in range(deltas):
                    await asyncio.sleep(due - loop.time())
                    talk.say()
                    due += 1 / deltas
                await talk.close_message()

        await asyncio.gather(
            *(act(talk, number / len(self._talks)) for number, talk in enumerate(self._talks))
        )
        return {"seq": self._talks[0].journal.state.last_seq, "seconds": loop.time() - begin}


async def _serve(folder: Path, sessions: int) -> None:
    tokens = TokenStore(folder / "tokens.json")
    token = tokens.new("bench", "all")

    async def equip(cwd: Path) -> Harness:
        return Harness(ScriptedModel([]), cwd=cwd)

    server = ServerState(SqliteStore(folder / "ostler.db"), equip, folder, tokens)
    stage = Stage(server, folder)
    raise_descriptor_limit()
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        create_app(server), log_level="warning", access_log=False, server_header=False, ws="none"
    )
    http = HttpServer(config, server)
    names = await stage.open(sessions)
    enable_gc()
    asking = asyncio.ensure_future(answer_lines(stage.answer))
    print(json.dumps([listening.getsockname()[1], token, names]), flush=True)
    await http.serve(sockets=[listening])
    asking.cancel()


def main() -> None:
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
