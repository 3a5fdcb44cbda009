"""`Idempotency-Key`: a POST that a client repeats, because it does not know whether it arrived, happens once.

Responses are stored for a day and sent again. The ids of what a request creates are derived from its key, so
that a server that died before its response finds what it had created.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from ostler.schema.errors import UsageError
from ostler.schema.ids import base32
from ostler.server.problems import KeyReused
from ostler.server.tokens import Principal
from ostler.store.sqlite_connection import translate_errors

HEADER = "idempotency-key"
LONGEST_KEY = 255
KEPT_SECONDS = 24 * 3600

REPLAYED = "idempotency-replayed"
"""The header of a repeated response."""

_SCHEMA = """
create table if not exists answers (
    name blob primary key, request blob not null, time integer not null, answer blob not null
) without rowid;
create index if not exists answers_by_time on answers (time);
"""


class StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def response(self) -> Response:
        response = Response(self.body, self.status)
        response.raw_headers = [*self.headers, (REPLAYED.encode(), b"true")]
        return response


class KeyedRequest:
    """A request with a key. Its body is hashed while it is read; neither key nor body is stored."""

    def __init__(self, key: str, principal: Principal, request: Request, receive: Receive) -> None:
        self.name = hashlib.sha256(f"{principal.token}\n{key}".encode()).digest()
        line = f"{request.method} {request.url.path}?{request.url.query}\n"
        self._digest = hmac.new(key.encode(), line.encode(), "sha256")
        self._receive = receive
        self._is_whole = False

    def new_id(self, prefix: str) -> str:
        """The id of something that the request creates: the same for the same key."""
        number = int.from_bytes(hashlib.sha256(self.name + prefix.encode()).digest()[:17])
        return f"{prefix}_{base32(number, 26)}"

    async def receive(self) -> Message:
        message = await self._receive()
        self._digest.update(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        return message

    async def digest(self) -> bytes:
        """The digest of the whole request; reads the rest of the body."""
        while not self._is_whole:
            await self.receive()
        return self._digest.digest()


def keyed(request: Request, principal: Principal | None, receive: Receive) -> KeyedRequest | None:
    """None for a request without a key. Raises `UsageError` for an invalid one."""
    key = request.headers.get(HEADER)
    if key is None or principal is None or request.method != "POST":
        return None
    if not key or len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise UsageError(f"an Idempotency-Key has 1 to {LONGEST_KEY} printable ASCII characters")
    return KeyedRequest(key, principal, request, receive)


class IdempotencyStore:
    """The responses of the last day, in a file of their own."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._db: sqlite3.Connection | None = None
        self._under_way: dict[bytes, asyncio.Future[None]] = {}

    async def once(self, keyed: KeyedRequest, work: Callable[[], Awaitable[Response]]) -> Response:
        """The response of `work`, or the stored one. Errors are not stored: the request can be repeated.

        A second request with the same key waits for the first. Raises `KeyReused` for a different request.
        """
        while (first := self._under_way.get(keyed.name)) is not None:
            await asyncio.wait({first})
        if (stored := self._find(keyed.name)) is not None:
            digest, answer = stored
            if not hmac.compare_digest(digest, await keyed.digest()):
                raise KeyReused("this Idempotency-Key was used for another request: use a new one")
            return answer.response()
        done = self._under_way[keyed.name] = asyncio.get_running_loop().create_future()
        try:
            response = await work()
            if (status := response.status_code) < 300:
                answer = StoredResponse(status, response.raw_headers, bytes(response.body))
                self._store(keyed.name, await keyed.digest(), answer)
            return response
        finally:
            del self._under_way[keyed.name]
            done.set_result(None)

    def _find(self, name: bytes) -> tuple[bytes, StoredResponse] | None:
        since = int(self._now()) - KEPT_SECONDS
        query = "select request, answer from answers where name = ? and time >= ?"
        with translate_errors(self._path):
            row = self._connection().execute(query, (name, since)).fetchone()
        return (row[0], msgspec.msgpack.decode(row[1], type=StoredResponse)) if row else None

    def _store(self, name: bytes, digest: bytes, answer: StoredResponse) -> None:
        now, packed = int(self._now()), msgspec.msgpack.encode(answer)
        with translate_errors(self._path), self._connection() as db:
            db.execute("delete from answers where time < ?", (now - KEPT_SECONDS,))
            db.execute("insert or replace into answers values (?, ?, ?, ?)", (name, digest, now, packed))

    def _connection(self) -> sqlite3.Connection:
        """Opened at the first use."""
        if self._db is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.touch(mode=0o600)
            self._db = sqlite3.connect(self._path)
            self._db.executescript("pragma journal_mode = wal; pragma synchronous = normal;" + _SCHEMA)
        return self._db

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
