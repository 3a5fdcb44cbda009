"""A `Store` over the HTTP API of a server. Its live relay delivers each fact once, in order."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from ostler.app.default_model import Candidate
from ostler.core.processes import ProcessId
from ostler.core.questions import OpenQuestion
from ostler.core.store import NO_REQUESTS, BlobPart, Hit, Lease, SessionSummary
from ostler.models.sse import Frame
from ostler.remote.client import API, Remote, ServerUnreachable
from ostler.schema.errors import LeaseLost, NotFound, SessionHeld, UsageError
from ostler.schema.events import CaughtUp, QuestionAsked, StreamIncomplete, Warned
from ostler.schema.facts import Fact, UnknownEvent, decode_event
from ostler.schema.messages import BlobRef
from ostler.schema.requests import AnyRequest, Prompt, Steer, decode_request
from ostler.sessions.live_socket import Batch
from ostler.store.portable import read_line

RECONNECT_DELAY = (0.1, 0.3, 1.0, 2.0, 5.0)
_FACT = re.compile(rb'\{"type":"[^"]+","seq":\d+,"session":"')
Learn = Callable[[str, Sequence[Fact]], None]


class RemoteRelay:
    """See `Relay`. Reconnects to the server until it is closed."""

    def __init__(self, remote: Remote, session: str, after: int, owner: ProcessId, learn: Learn) -> None:
        self._remote = remote
        self._session = session
        self._learn = learn
        self.last_seq = after
        self.owner: ProcessId | None = owner
        """The server: which process drives the session is not known here."""
        self.problem = ""

    async def batches(self) -> AsyncGenerator[Batch, None]:
        attempt, is_away = 0, False
        while True:
            try:
                async with aclosing(self._stream()) as batches:
                    async for batch in batches:
                        attempt = 0
                        if is_away:
                            is_away = False
                            yield [Warned(f"{self._remote.host} is back", about="store")]
                        if batch:
                            yield batch
            except ServerUnreachable as error:
                if not is_away and attempt >= 2:  # not for a restart of the server
                    is_away = True
                    warning = f"{self._remote.host} is away; reconnecting until you leave: {error.message}"
                    yield [Warned(warning, about="store")]
            yield []
            await asyncio.sleep(RECONNECT_DELAY[min(attempt, len(RECONNECT_DELAY) - 1)])
            attempt += 1

    async def _stream(self) -> AsyncGenerator[Batch, None]:
        path = f"{API}/sessions/{quote(self._session, safe='')}/events?after={self.last_seq}"
        async with aclosing(self._remote.frames(path)) as batches:
            async for frames in batches:
                batch = self._batch(frames)
                if facts := [one for one in batch if isinstance(one, Fact)]:
                    self._learn(self._session, facts)
                yield batch

    def _batch(self, frames: Sequence[Frame]) -> Batch:
        batch: Batch = []
        for _, data in frames:
            if _FACT.match(data):
                fact = read_line(data, self._session)
                if fact.seq > self.last_seq:
                    self.last_seq = fact.seq
                    batch.append(fact)
                continue
            match decode_event(data):
                case StreamIncomplete(reason=reason):
                    self.problem = reason
                case CaughtUp() | UnknownEvent():
                    continue
                case event:
                    batch.append(event)
        return batch


PAGE = 5000
LISTED = 1000

WAIT = 20
"""Seconds that the server waits for something new before it answers."""

RETRY_DELAYS = (0.1, 0.3, 1.0, 2.0)
SEND_ATTEMPTS = 4
Made = TypeVar("Made")


class _Page(msgspec.Struct):
    facts: list[msgspec.Raw]
    has_more: bool


class _Sessions(msgspec.Struct):
    sessions: list[SessionSummary]
    next: str = ""


class _Questions(msgspec.Struct):
    questions: list[OpenQuestion]


class _Requests(msgspec.Struct):
    requests: list[msgspec.Raw]


class _RequestState(msgspec.Struct):
    state: str
    seq: int = 0


class _SearchResults(msgspec.Struct):
    hits: list[Hit]


class RemoteStore:
    """See `Store`. Sessions can be read and followed, but not held.

    Reading waits while the server is away; requests are retried only for a short time.
    """

    socket_folder: Path | None = None
    id = ""

    def consent_problem(self, process: int | None = None) -> str:
        """The server looks at the process that sends a request."""
        return ""

    def __init__(self, remote: Remote, *, read_only: bool = False) -> None:
        self.host = remote.host
        self._remote = remote
        self._read_only = read_only
        self._owner = ProcessId(0, "", "", remote.host, opening="server")
        self._facts: dict[str, list[Fact]] = {}
        """The facts of each session from the first one on; they never change."""
        self._drivers: dict[str, str] = {}

    # --- the log --------------------------------------------------------------------------------------

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> list[Fact]:
        cached = self._facts.setdefault(session, [])
        if limit is None or after + limit > len(cached):
            await self._fetch(session, cached)
        return cached[after : None if limit is None else after + limit]

    async def _fetch(self, session: str, cached: list[Fact], wait: int = 0) -> None:
        while True:
            after = len(cached)
            path = f"{_path(session)}/events"
            try:
                page: _Page = await self._read(path, _Page, after=after, limit=PAGE, wait=wait or None)
            except UsageError:  # the server has fewer facts now, for instance from a backup
                cached.clear()
                raise
            self.learn(session, [read_line(bytes(line), session) for line in page.facts])
            if not page.has_more:
                return

    def learn(self, session: str, facts: Sequence[Fact]) -> None:
        cached = self._facts.setdefault(session, [])
        for fact in facts:
            if fact.seq == len(cached) + 1:
                cached.append(fact)

    async def read_opening(self, session: str) -> list[Fact]:
        return await self.read(session)

    async def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]:
        while True:
            if facts := await self.read(session, after):
                after = facts[-1].seq
                yield facts
            else:
                await self._fetch(session, self._facts[session], WAIT)

    async def last_seq(self, session: str) -> int:
        return (await self.summary(session)).last_seq

    async def summary(self, session: str) -> SessionSummary:
        summary = await self._read(_path(session), SessionSummary)
        self._drivers[session] = summary.driver
        return summary

    async def sessions(
        self, *, cwd: str | None = None, limit: int | None = None, prefix: str = "", since_ms: int = 0
    ) -> list[SessionSummary]:
        matches: list[SessionSummary] = []
        before: str | None = None
        while limit is None or len(matches) < limit:
            query = {"cwd": cwd, "limit": LISTED, "children": "true", "before": before}
            page = await self._read(f"{API}/sessions", _Sessions, **query)
            for one in page.sessions:
                self._drivers[one.id] = one.driver
                if one.id.startswith(prefix) and one.updated_ms >= since_ms:
                    matches.append(one)
            if not (before := page.next):
                break
        return matches[:limit]

    async def search(self, query: str, *, limit: int = 50) -> list[Hit]:
        return (await self._read(f"{API}/sessions/search", _SearchResults, q=query, limit=limit)).hits

    async def usages(self, *, since_ms: int = 0, session: str = "") -> list[Fact]:
        if not session:
            raise UsageError(f"the usage of all sessions of {self.host} is on its web page")
        facts = await self.read(session)
        return [one for one in facts if one.type == "usage" and not one.origin and one.time_ms >= since_ms]

    async def changes(self, seen: int) -> int:
        raise self._not_from_here()

    async def delete(self, session: str, owner: ProcessId) -> None:
        await self._remote.ask("DELETE", _path(session))
        self._facts.pop(session, None)

    async def question(self, session: str, asked: QuestionAsked) -> QuestionAsked:
        """The question as the server shows it: with the diff of a file there."""
        page = await self._read(f"{_path(session)}/questions", _Questions)
        return next((one.asked for one in page.questions if one.asked.id == asked.id), asked)

    # --- requests -------------------------------------------------------------------------------------

    async def submit(self, session: str, request: AnyRequest) -> bool:
        """Sends it until it arrives; because of its id it is one request."""
        if self._read_only:
            raise UsageError("this is read-only: attach without --read-only to take part")
        is_typed = isinstance(request, Prompt | Steer) and self._drivers.get(session, "agent") == "agent"
        path, typed = f"{_path(session)}/requests", str(is_typed).lower()
        await self._retry(lambda: self._remote.ask("POST", path, request, typed=typed), SEND_ATTEMPTS)
        return True

    async def pending(self, session: str) -> list[AnyRequest]:
        page = await self._read(f"{_path(session)}/requests", _Requests)
        return [one for one in map(decode_request, map(bytes, page.requests)) if one is not None]

    async def settlement(self, session: str, request: str) -> int | None:
        """Waits for it for a while."""
        path = f"{_path(session)}/requests/{quote(request, safe='')}"
        try:
            state = await self._read(path, _RequestState, wait=WAIT)
        except NotFound:
            return None
        return state.seq or None

    async def arrivals(self, session: str, seen: int) -> int:
        raise self._held()

    # --- blobs ----------------------------------------------------------------------------------------

    async def blob(self, session: str, blob: str) -> BlobRef | None:
        try:
            answer = await self._retry(lambda: self._blob(session, blob, {}))
        except NotFound:
            return None
        return BlobRef(blob, len(answer.content), answer.headers.get("content-type", "text/plain"))

    async def read_blob(self, session: str, blob: str, start: int = 0, size: int | None = None) -> bytes:
        if size == 0:
            return b""
        byte_range = f"bytes={start}-{'' if size is None else start + size - 1}"
        headers = {"Range": byte_range} if start or size is not None else {}
        content: bytes = (await self._retry(lambda: self._blob(session, blob, headers))).content
        return content

    async def _blob(self, session: str, blob: str, headers: dict[str, str]) -> Any:
        path = f"{_path(session)}/blobs/{quote(blob, safe='')}"
        return await self._remote.answer("GET", path, None, headers, {})

    async def append_blob(self, session: str, blob: str, data: bytes, media_type: str = "text/plain") -> None:
        raise self._not_from_here()

    # --- the server -----------------------------------------------------------------------------------

    def relay(self, session: str, after: int) -> RemoteRelay:
        return RemoteRelay(self._remote, session, after, self._owner, self.learn)

    async def begin(self, cwd: Path, model: str = "", reasoning: str = "") -> str:
        body = {"cwd": str(cwd), "model": model, "reasoning": reasoning if model else ""}
        return str((await self._remote.ask("POST", f"{API}/sessions", body))["id"])

    async def candidates(self) -> list[Candidate]:
        models = (await self._remote.get(f"{API}/models"))["models"]
        return [
            Candidate(one["name"], one["provider"], aliases=tuple(one.get("aliases", ())))
            for one in models
            if one["ready"]
        ]

    # --- what only the server does --------------------------------------------------------------------

    async def acquire(self, session: str, owner: ProcessId) -> Lease:
        raise self._held()

    async def holder(self, session: str) -> ProcessId | None:
        return self._owner

    async def renew(self, lease: Lease) -> Lease:
        raise LeaseLost(self._held().message)

    async def suspend(self, lease: Lease) -> Lease:
        raise LeaseLost(self._held().message)

    async def release(self, lease: Lease) -> None:
        """It was never held."""

    async def own_process(self, lease: Lease, call: str, process: ProcessId) -> None:
        raise self._not_from_here()

    async def owned_processes(self, session: str) -> list[tuple[str, ProcessId]]:
        return []

    async def create(self, first: Fact, owner: ProcessId) -> Lease:
        raise self._not_from_here()

    async def append(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> None:
        raise self._not_from_here()

    def append_now(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> bool:
        raise self._not_from_here()

    async def import_session(self, facts: Sequence[Fact], blobs: Sequence[BlobPart] = ()) -> None:
        raise self._not_from_here()

    async def checkpoint(self) -> None:
        """The server does that."""

    async def close(self) -> None:
        """The owner of `Remote` closes the connection."""

    def _held(self) -> SessionHeld:
        return SessionHeld(f"the session runs at {self.host}: this can only be done there")

    def _not_from_here(self) -> UsageError:
        return UsageError(f"this cannot be done from here: the session runs at {self.host}")

    async def _read(self, path: str, kind: type[Made], **query: Any) -> Made:
        async def read() -> Made:
            answer = await self._remote.answer("GET", path, None, {}, query)
            return msgspec.json.decode(answer.content, type=kind)

        return await self._retry(read)

    async def _retry(self, call: Callable[[], Awaitable[Made]], attempts: float = math.inf) -> Made:
        """Repeats a call while the server is away."""
        attempt = 0
        while True:
            try:
                return await call()
            except ServerUnreachable:
                attempt += 1
                if attempt >= attempts:
                    raise
                await asyncio.sleep(RETRY_DELAYS[min(attempt, len(RETRY_DELAYS)) - 1])


def _path(session: str) -> str:
    return f"{API}/sessions/{quote(session, safe='')}"
