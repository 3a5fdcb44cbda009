"""The contracts of storage: log, lease, inbox, blobs. `testkit` has one conformance suite for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ostler.core.processes import ProcessId
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef
from ostler.schema.requests import AnyRequest

NO_REQUESTS: Mapping[str, int] = {}


class Lease(msgspec.Struct, frozen=True):
    """The right to append to a session. `generation` grows with every change of owner."""

    session: str
    generation: int
    owner: ProcessId
    expires_ms: int
    taken_from: ProcessId | None = None
    """The owner before, when that had not given it back: it died, or was too long away."""


class SessionSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of the list of sessions: an index over the log, rebuilt from it at will."""

    id: str
    cwd: str
    created_ms: int
    updated_ms: int
    last_seq: int
    title: str = ""
    preview: str = ""
    """The beginning of the first prompt."""
    status: str = ""
    """Of the last run: `running`, `waiting`, or how it ended; empty before the first."""
    driver: str = "agent"
    forked_from: str = ""
    child_of: str = ""


class Hit(msgspec.Struct, frozen=True):
    """A message that a search found."""

    session: str
    seq: int
    snippet: str
    time_ms: int


class BlobPart(msgspec.Struct, frozen=True):
    """The next bytes of a blob."""

    blob: str
    data: bytes
    media_type: str = "text/plain"


class Log(Protocol):
    """Facts, numbered 1, 2, 3 … in each session in order of commit.

    - `append` is atomic: all of its facts and settled requests, or none. The facts carry the numbers
      that follow the last one; a gap, a repeat or a stale lease is refused and nothing is written.
    - Nobody, in any process, sees a fact before it is committed.
    - `follow` yields everything after `after` and then everything new, with no gap and no duplicate.
    - The bytes of a fact are returned as they were given, whatever their type.
    """

    async def create(self, first: Fact, owner: ProcessId) -> Lease:
        """A new session that begins with this fact, held by `owner`."""

    async def append(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> None:
        """`settled` maps the ids of requests that these facts settle to the number of the fact."""

    def append_now(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> bool | asyncio.Future[None]:
        """`append` without a task of its own: True when it was done on the spot; False when nothing happened.

        A future when it goes together with others: it is done when the append is, also if nobody waits.
        """

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> list[Fact]: ...

    async def read_opening(self, session: str) -> list[Fact]:
        """The facts that opening needs (`governance.is_opening`), and all of a run that has not ended.

        A value that an extension has set anew later may be left out.
        """

    def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]: ...

    async def last_seq(self, session: str) -> int: ...

    async def summary(self, session: str) -> SessionSummary:
        """Raises `NotFound`."""

    async def changes(self, seen: int) -> int:
        """Waits until a fact may have been committed, in any session, since `seen`; returns what to pass the
        next time. Also wakes for those of other processes, within 100 ms."""

    async def sessions(
        self, *, cwd: str | None = None, limit: int | None = None, prefix: str = "", since_ms: int = 0
    ) -> list[SessionSummary]:
        """Newest activity first; with `since_ms`, only where something happened since then."""

    async def search(self, query: str, *, limit: int = 50) -> list[Hit]:
        """Messages that hold all the words of the query, best first."""

    async def usages(self, *, since_ms: int = 0, session: str = "") -> list[Fact]:
        """The `usage` facts of all sessions, or of one (or `NotFound`), in order of time.

        Without copies that name their origin: what they tell of was counted there.
        """

    async def import_session(self, facts: Sequence[Fact], blobs: Sequence[BlobPart] = ()) -> None:
        """A whole session at once, such as a fork or a file; refused if its id exists."""

    async def delete(self, session: str, owner: ProcessId) -> None:
        """With its blobs and requests; refused while another living process holds it."""


class Leases(Protocol):
    """One writer a session, by the store's clock.

    - `acquire` succeeds when the lease is free, expired, our own, or its owner's process is gone.
    - After a take-over the former owner can write nothing: every append checks the generation.
    - The process groups of running tools are rows beside the lease; a `tool_result` removes its call's.
    """

    async def acquire(self, session: str, owner: ProcessId) -> Lease:
        """Raises `SessionHeld`, which says by whom."""

    async def holder(self, session: str) -> ProcessId | None:
        """Who holds it, and is alive as far as can be told from here."""

    async def renew(self, lease: Lease) -> Lease:
        """Raises `LeaseLost`."""

    async def suspend(self, lease: Lease) -> Lease:
        """Lets it end now, without giving it back: whoever wants the session gets it, and until somebody does
        its owner may still write, and renew it. Raises `LeaseLost`."""

    async def release(self, lease: Lease) -> None: ...

    async def own_process(self, lease: Lease, call: str, process: ProcessId) -> None: ...

    async def owned_processes(self, session: str) -> list[tuple[str, ProcessId]]: ...


class Inbox(Protocol):
    """Requests not yet taken up. Anyone may submit; nothing has happened until a fact says so."""

    async def submit(self, session: str, request: AnyRequest) -> bool:
        """False when a request with this id is known already; the first one counts."""

    async def pending(self, session: str) -> list[AnyRequest]:
        """In the order to take them up: `cancel`, `answer` and `take_back` first, then by arrival."""

    async def settlement(self, session: str, request: str) -> int | None:
        """The number of the fact that settled a request."""

    async def arrivals(self, session: str, seen: int) -> int:
        """Waits until a request may have arrived since `seen`; returns what to pass the next time.

        Also wakes for requests from other processes, within 100 ms.
        """


class Blobs(Protocol):
    """Bytes too large for a fact. Written in pieces; what was written before a crash can be read.

    A blob's name is its session's own: names come from call ids, which vendors count anew in every session.
    """

    async def append_blob(self, session: str, blob: str, data: bytes, media_type: str = "text/plain") -> None:
        """Adds to a blob, durable when this returns."""

    async def blob(self, session: str, blob: str) -> BlobRef | None: ...

    async def read_blob(self, session: str, blob: str, start: int = 0, size: int | None = None) -> bytes:
        """Raises `NotFound`."""


class Store(Log, Leases, Inbox, Blobs, Protocol):
    """One place for all four."""

    socket_folder: Path | None
    """A folder where the processes of this user that work on this store find each other's sockets."""

    async def checkpoint(self) -> None:
        """Before a process leaves without closing: puts in order what would make the next opening slow."""

    async def close(self) -> None: ...
