"""The contracts of storage: log, lease, inbox, blobs. `testkit` has one conformance suite for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ostler.core.process_tree import local_user
from ostler.core.processes import ProcessId
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef
from ostler.schema.requests import Answer, AnyRequest, RevokePermission

NO_REQUESTS: Mapping[str, int] = {}


def accepted(request: AnyRequest) -> AnyRequest:
    """The request as a store takes it: one that gives consent names who does. The server has set the token;
    otherwise it is the user of this process."""
    if isinstance(request, Answer | RevokePermission) and not request.identity:
        return msgspec.structs.replace(request, identity=local_user())
    return request


class Lease(msgspec.Struct, frozen=True):
    """The right to append to a session. `generation` grows with every change of owner."""

    session: str
    generation: int
    owner: ProcessId
    expires_ms: int
    taken_from: ProcessId | None = None
    """The former owner, if it did not release the lease: it died, or did not renew it in time."""


class SessionSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of the list of sessions: an index of the log, which can be rebuilt from it."""

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

    - `append` is atomic: all of its facts and settled requests, or none. The facts have the numbers that
      follow the last one; a gap, a repeat or a stale lease is refused and nothing is written.
    - No process sees a fact before it is committed.
    - `follow` yields everything after `after` and then everything new, with no gap and no duplicate.
    - The bytes of a fact are returned unchanged, whatever its type.
    """

    async def create(self, first: Fact, owner: ProcessId) -> Lease:
        """Creates a session that begins with this fact, and gives `owner` its lease."""

    async def append(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> None:
        """`settled` maps the ids of requests that these facts settle to the number of the fact."""

    def append_now(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> bool | asyncio.Future[None]:
        """`append` without a task of its own: True if it was done at once; False if nothing happened. A
        future if it is written together with others: it is done when the append is."""

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> list[Fact]: ...

    async def read_opening(self, session: str) -> list[Fact]:
        """The facts that opening needs (`visibility.is_opening`), and all of a run that has not ended. A
        value that an extension replaced later may be left out."""

    def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]: ...

    async def last_seq(self, session: str) -> int: ...

    async def summary(self, session: str) -> SessionSummary:
        """Raises `NotFound`."""

    async def changes(self, seen: int) -> int:
        """Waits until a fact may have been committed in any session since `seen`; returns the next `seen`.
        Also wakes for facts of other processes, within 100 ms."""

    async def sessions(
        self, *, cwd: str | None = None, limit: int | None = None, prefix: str = "", since_ms: int = 0
    ) -> list[SessionSummary]:
        """Newest activity first; with `since_ms`, only where something happened since then."""

    async def search(self, query: str, *, limit: int = 50) -> list[Hit]:
        """Messages that contain all words of the query, best first."""

    async def usages(self, *, since_ms: int = 0, session: str = "") -> list[Fact]:
        """The `usage` facts of all sessions, or of one (or `NotFound`), in order of time. Without copies,
        because the originals are counted."""

    async def import_session(self, facts: Sequence[Fact], blobs: Sequence[BlobPart] = ()) -> None:
        """Adds a whole session, such as a fork or an export; refused if its id exists."""

    async def delete(self, session: str, owner: ProcessId) -> None:
        """Deletes its blobs and requests, too; refused while another living process holds it."""


class Leases(Protocol):
    """One writer for each session, by the store's clock.

    - `acquire` succeeds if the lease is free, expired or our own, or if its owner's process is gone.
    - After that the former owner can write nothing: every append checks the generation.
    - The process groups of running tools are rows beside the lease; a `tool_result` removes its call's.
    """

    async def acquire(self, session: str, owner: ProcessId) -> Lease:
        """Raises `SessionHeld`, which names the holder."""

    async def holder(self, session: str) -> ProcessId | None:
        """The process that holds it, if it is alive as far as this process can tell."""

    async def renew(self, lease: Lease) -> Lease:
        """Raises `LeaseLost`."""

    async def suspend(self, lease: Lease) -> Lease:
        """Lets it expire now without a release: any process can acquire the session, and until one does, its
        owner may still write and renew it. Raises `LeaseLost`."""

    async def release(self, lease: Lease) -> None: ...

    async def own_process(self, lease: Lease, call: str, process: ProcessId) -> None: ...

    async def owned_processes(self, session: str) -> list[tuple[str, ProcessId]]: ...


class Inbox(Protocol):
    """Requests that are not handled yet. Any process may submit one."""

    async def submit(self, session: str, request: AnyRequest) -> bool:
        """False if a request with this id exists already; the first one counts. Stores what `accepted`
        returns. Raises `ConsentRefused` for a request in `CONSENT` if an agent has started this process."""

    async def pending(self, session: str) -> list[AnyRequest]:
        """In the order to handle them: `cancel`, `answer` and `take_back` first, then by arrival."""

    async def settlement(self, session: str, request: str) -> int | None:
        """The number of the fact that settled a request."""

    async def arrivals(self, session: str, seen: int) -> int:
        """Waits until a request may have arrived since `seen`; returns the next `seen`. Also wakes for
        requests from other processes, within 100 ms."""


class Blobs(Protocol):
    """Bytes too large for a fact, written in pieces; what was written before a crash can be read. Names are
    unique only within a session, because they come from call ids."""

    async def append_blob(self, session: str, blob: str, data: bytes, media_type: str = "text/plain") -> None:
        """Appends to a blob; the data is durable when this returns."""

    async def blob(self, session: str, blob: str) -> BlobRef | None: ...

    async def read_blob(self, session: str, blob: str, start: int = 0, size: int | None = None) -> bytes:
        """Raises `NotFound`."""


class Store(Log, Leases, Inbox, Blobs, Protocol):
    """A log, leases, an inbox and blobs in one."""

    @property
    def id(self) -> str:
        """The store's own id, made once. Consent counts only in the store that it was given in; a copy of the
        store keeps the id. Empty where the store is not here."""

    def consent_problem(self, process: int | None = None) -> str:
        """Why a process, by default this one, must not answer, allow or trust in this store: it was started
        by one of its agents. Empty if it may."""

    socket_folder: Path | None
    """The folder for the sockets of this user's processes that use this store."""

    async def checkpoint(self) -> None:
        """Before a process exits without closing: finishes work that would make the next opening slow."""

    async def close(self) -> None: ...
