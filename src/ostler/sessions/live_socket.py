"""Live events between processes: the owner of a session publishes them on a socket, and a relay reads them.

The socket's name is the id of the opening in the session's lease. It only sends facts and live events;
requests go through the inbox. A relay reads the log if there is no owner or no socket.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ostler import __version__
from ostler.core.journal import Journal
from ostler.core.processes import ProcessId
from ostler.core.store import Store
from ostler.schema.events import Event, ToolInputStarted
from ostler.schema.facts import Fact, UnknownEvent, decode_event, encode_event
from ostler.sessions.live_tail import Key, LiveTail, key_of

LONGEST_PATH = 100
"""Bytes; the system's limit for the address of a socket is 104 or 108."""

MAX_UNREAD = 4_000_000
"""A reader that leaves more bytes unread is disconnected, and reads the log instead."""

PATIENCE = 2.0
"""Seconds for an owner to answer."""


class PackedFact(msgspec.Struct, array_like=True):
    seq: int
    run: str
    time_ms: int
    type: str
    body: bytes
    parent: int | None
    origin: str


class Greeting(msgspec.Struct, array_like=True):
    """The first message: the owner's version, the last fact so far, and the open tail."""

    version: str
    last_seq: int
    tail: list[bytes]


_encode = msgspec.msgpack.Encoder().encode


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Made on first use, because most processes only send."""
    return msgspec.msgpack.Decoder(kind)


def socket_of(folder: Path | None, owner: ProcessId) -> Path | None:
    """The path of the owner's socket; None if it can have none."""
    if folder is None or not owner.opening:
        return None
    path = folder / f"{owner.opening}.sock"
    if len(os.fsencode(path)) <= LONGEST_PATH:
        return path
    import hashlib

    short = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    # Not a nested folder, because the umask would decide about the mode of its parents.
    return Path(f"/tmp/ostler-{os.getuid()}-{short}", path.name)


def _make_private(folder: Path) -> None:
    """Raises `OSError` if other users can read or write the folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is accessible to other users")


class _ListeningSocket(socket.socket):
    """Closes when it is garbage-collected, because a session may end with its event loop without `close`."""

    def __init__(self, path: Path) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self.bind(str(path))
        self.listen()
        self.setblocking(False)

    def __del__(self) -> None:
        self.close()


class LiveSocket:
    """The owner's side: publishes a session that is open here, from its first run until it is closed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tail = LiveTail()
        self._tail.last_seq = journal.state.last_seq
        self._readers: set[asyncio.StreamWriter] = set()
        self._path: Path | None = None
        self._server: asyncio.Server | None = None
        self._unsubscribe = journal.subscribe(self._publish)

    async def open(self) -> None:
        """Starts to listen. If that fails, other processes see facts only."""
        store, owner = self._journal.store, self._journal.lease.owner
        path = socket_of(store.socket_folder, owner)
        if path is None:
            return
        with suppress(OSError):
            _make_private(path.parent)
            self._server = await asyncio.start_unix_server(self._accept, sock=_ListeningSocket(path))
            self._path = path

    def _publish(self, batch: Sequence[Fact | Event]) -> None:
        self._tail.see(batch)
        if not self._readers:
            return
        message = _frame([_pack(item) for item in batch])
        for reader in tuple(self._readers):
            if reader.transport.get_write_buffer_size() > MAX_UNREAD:
                self._drop(reader)
            else:
                reader.write(message)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tail = [encode_event(event) for event in self._tail.events()]
        writer.write(_frame(Greeting(__version__, self._tail.last_seq, tail)))
        self._readers.add(writer)
        try:
            await reader.read()  # until the end of the connection: readers send nothing
        except (ConnectionError, asyncio.CancelledError):
            pass  # cancelled with its loop, which Python 3.11 would report in the terminal
        finally:
            self._drop(writer)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._readers.discard(writer)
        writer.close()

    def close(self) -> None:
        self._unsubscribe()
        for reader in tuple(self._readers):
            self._drop(reader)
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _pack(one: Fact | Event) -> PackedFact | bytes:
    if isinstance(one, Fact):
        return PackedFact(one.seq, one.run, one.time_ms, one.type, one.body, one.parent, one.origin)
    return encode_event(one)


def _frame(message: object) -> bytes:
    packed = _encode(message)
    return struct.pack(">I", len(packed)) + packed


class LiveConnection:
    """The reader's side: a connection to the process that drives a session, after its greeting."""

    def __init__(
        self, session: str, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.last_seq = greeting.last_seq
        self.tail = [event for event in map(_live_event, greeting.tail) if event is not None]
        self._session = session
        self._reader = reader
        self._writer = writer

    async def batches(self) -> AsyncIterator[list[Fact | Event]]:
        """Until the owner closes the connection."""
        try:
            while message := await _message(self._reader):
                items = [self._unpack(item) for item in _decoder(list[PackedFact | bytes]).decode(message)]
                yield [item for item in items if item is not None]
        except (ConnectionError, msgspec.MsgspecError):
            return  # the log has everything else
        finally:
            self.close()

    def _unpack(self, one: PackedFact | bytes) -> Fact | Event | None:
        if isinstance(one, bytes):
            return _live_event(one)
        return Fact(one.seq, self._session, one.run, one.time_ms, one.body, one.type, one.parent, one.origin)

    def close(self) -> None:
        self._writer.close()


def _live_event(body: bytes) -> Event | None:
    """None for an event of a newer version, which cannot be joined to anything."""
    event = decode_event(body)
    return None if isinstance(event, UnknownEvent) else event


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The next message; empty at the end."""
    try:
        (size,) = struct.unpack(">I", await reader.readexactly(4))
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        return b""


async def listen(session: str, folder: Path | None, owner: ProcessId) -> LiveConnection | str:
    """A connection to the owner of a session, or the reason why there is none."""
    path = socket_of(folder, owner)
    if path is None or not owner.is_here():
        return f"process {owner.pid} on {owner.host} drives it, which cannot be reached from here"
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                greeting = _decoder(Greeting).decode(await _message(reader))
                return LiveConnection(session, greeting, reader, writer)
            except BaseException:
                writer.close()
                raise
    except (OSError, TimeoutError, msgspec.MsgspecError) as error:
        return f"process {owner.pid} drives it, and does not answer ({type(error).__name__})"


def remove_stale_sockets(folder: Path | None) -> None:
    """Removes sockets of processes that no longer exist."""
    example = socket_of(folder, ProcessId(0, "", "", "", opening="own"))
    if example is None or not example.parent.is_dir():
        return
    for path in example.parent.glob("*.sock"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(0.2)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:
                continue


Batch = list[Fact | Event]

LOOK_AGAIN = 5.0
"""Seconds without events until the relay checks again who owns the session."""

RECONNECT_DELAY = 0.01
"""Seconds before the next connection to an owner whose stream has ended."""

EXIT_DELAY = 0.5
"""Seconds before such an owner counts as unreachable."""


class Relay:
    """A session that another process drives, from its owner's socket or from the log.

    Each fact comes exactly once, in order. Live events come from the current owner, which repeats what is
    open: pass them through `DeltaFilter` to join them."""

    def __init__(self, store: Store, session: str, after: int, *, look_again: float = LOOK_AGAIN) -> None:
        self._store = store
        self._session = session
        self.last_seq = after
        self._check_interval = look_again
        self.owner: ProcessId | None = None
        self.problem = ""
        """Why there are no live events although a run is open."""

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """An empty batch means that the owner was checked again or its stream has ended: the open live events
        are gone."""
        closed: ProcessId | None = None
        while True:
            self.owner = await self._store.holder(self._session)
            folder = self._store.socket_folder
            connection = await listen(self._session, folder, self.owner) if self.owner else ""
            if isinstance(connection, LiveConnection):
                self.problem = ""
                async with aclosing(self._follow_owner(connection)) as batches:
                    async for batch in batches:
                        yield batch
                yield []
                closed = self.owner
                await asyncio.sleep(RECONNECT_DELAY)
                continue
            if self.owner is not None and self.owner == closed:  # an exiting process closes its socket first
                closed = None
                await asyncio.sleep(EXIT_DELAY)
                continue
            is_running = connection and (await self._store.summary(self._session)).status == "running"
            self.problem = connection if is_running else ""
            if facts := await self._read_log():
                yield facts
            yield []
            await self._wait()

    async def _follow_owner(self, owner: LiveConnection) -> AsyncGenerator[Batch, None]:
        next_batch: asyncio.Future[Batch | None] | None = None
        try:
            if owner.last_seq < self.last_seq:  # it has not published its last commits: its tail is older
                return
            if facts := await self._read_log(owner.last_seq):
                yield facts
            if owner.tail:
                yield [*owner.tail]
            batches = owner.batches()
            while True:
                next_batch = next_batch or asyncio.ensure_future(_next(batches))
                await asyncio.wait({next_batch}, timeout=self._check_interval)
                if not next_batch.done():
                    if await self._is_taken_over():
                        return
                    continue
                batch, next_batch = next_batch.result(), None
                if batch is None:
                    return
                first = next((one.seq for one in batch if isinstance(one, Fact)), 0)
                if facts := await self._read_log(first - 1):
                    yield facts
                if fresh := [one for one in batch if self._is_fresh(one)]:
                    yield fresh
        finally:
            owner.close()
            if next_batch is not None:
                next_batch.cancel()
                await asyncio.wait({next_batch})

    def _is_fresh(self, one: Fact | Event) -> bool:
        if isinstance(one, Fact):
            is_fresh = one.seq > self.last_seq
            self.last_seq = max(self.last_seq, one.seq)
            return is_fresh
        return True

    async def _is_taken_over(self) -> bool:
        """An idle owner keeps its socket open, even while another process has the session."""
        holder = await self._store.holder(self._session)
        if holder is not None:
            return holder != self.owner
        return await self._store.last_seq(self._session) > self.last_seq

    async def _read_log(self, last_seq: int | None = None) -> Batch:
        """New facts from the log, up to a number."""
        if last_seq is not None and last_seq <= self.last_seq:
            return []
        limit = None if last_seq is None else last_seq - self.last_seq
        facts = await self._store.read(self._session, self.last_seq, limit)
        if facts:
            self.last_seq = facts[-1].seq
        return [*facts]

    async def _wait(self) -> None:
        """Until something is written, or it is time to check again."""
        async with aclosing(self._store.follow(self._session, self.last_seq)) as batches:  # type: ignore[type-var]
            with suppress(TimeoutError):
                async with asyncio.timeout(self._check_interval):
                    await anext(batches)


async def _next(batches: Any) -> Batch | None:
    """Because a future cannot raise `StopAsyncIteration`."""
    return await anext(batches, None)


class DeltaFilter:
    """Removes the live events that an owner repeats after a reconnect."""

    def __init__(self) -> None:
        self._offsets: dict[Key, int] = {}

    def among(self, batch: Sequence[Fact | Event]) -> Batch:
        fresh = [one if isinstance(one, Fact) else self._new_part(one) for one in batch]
        if any(isinstance(one, Fact) and one.type == "run_ended" for one in batch):
            self._offsets.clear()
        return [one for one in fresh if one is not None]

    def _new_part(self, event: Any) -> Event | None:
        key = key_of(event)
        if isinstance(event, ToolInputStarted):
            return None if key in self._offsets else self._at(key, 0, event)
        if not hasattr(event, "offset"):
            return event  # type: ignore[no-any-return]
        seen = self._offsets.get(key, 0)
        end = event.offset + len(event.text)
        if end <= seen and event.text:
            return None
        if event.offset >= seen:
            return self._at(key, end, event)
        text = event.text[seen - event.offset :]
        return self._at(key, end, msgspec.structs.replace(event, offset=seen, text=text))

    def _at(self, key: Key, reached: int, event: Event) -> Event:
        self._offsets[key] = reached
        return event
