"""The socket of an open session: other processes of the same user see what happens in it, as it happens.

Its name is that of the opening, which stands in the session's lease. Only facts and live events go out;
nothing comes in: whoever wants something of a session asks its inbox.
"""
# MERGED: What happens in a session that somebody else drives: from its owner's socket, or from the log.

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
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
"""Bytes: the system's limit for the address of a socket is 104 or 108."""

MOST_UNREAD = 4_000_000
"""Bytes that one reader may leave unread: beyond, it is left to the log."""

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
    """The first message: whose version this is, the last fact so far, and the open tail."""

    version: str
    last_seq: int
    tail: list[bytes]


_encode = msgspec.msgpack.Encoder().encode


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Made when somebody listens: most only speak."""
    return msgspec.msgpack.Decoder(kind)


def socket_of(folder: Path | None, owner: ProcessId) -> Path | None:
    """Where an opening of a session listens; None where there is no such place."""
    if folder is None or not owner.opening:
        return None
    path = folder / f"{owner.opening}.sock"
    if len(os.fsencode(path)) <= LONGEST_PATH:
        return path
    import hashlib

    short = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    # One folder, not one in another: its parents would get whatever mode the umask leaves.
    return Path(f"/tmp/ostler-{os.getuid()}-{short}", path.name)


def _make_private(folder: Path) -> None:
    """Raises `OSError` where somebody else could put something there, or look into it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not only ours")


class _ListeningSocket(socket.socket):
    """Closes when it is dropped: a session may end with its event loop, without having been given back."""

    def __init__(self, path: Path) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self.bind(str(path))
        self.listen()
        self.setblocking(False)

    def __del__(self) -> None:
        self.close()


class LiveSocket:
    """Of a session that is open here, from its first run until it is closed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tail = LiveTail()
        self._tail.last_seq = journal.state.last_seq
        self._readers: set[asyncio.StreamWriter] = set()
        self._path: Path | None = None
        self._server: asyncio.Server | None = None
        self._stop_seeing = journal.subscribe(self._see)

    async def open(self) -> None:
        """Listens. Where that cannot be, others see the facts only."""
        store, owner = self._journal.store, self._journal.lease.owner
        path = socket_of(store.socket_folder, owner)
        if path is None:
            return
        try:
            _make_private(path.parent)
            listening = _ListeningSocket(path)
            self._server = await asyncio.start_unix_server(self._welcome, sock=listening)
        except OSError:
            return
        self._path = path

    def _see(self, batch: Sequence[Fact | Event]) -> None:
        self._tail.see(batch)
        if not self._readers:
            return
        message = _framed([_packed(one) for one in batch])
        for reader in tuple(self._readers):
            if reader.transport.get_write_buffer_size() > MOST_UNREAD:
                self._drop(reader)
            else:
                reader.write(message)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tail = [encode_event(event) for event in self._tail.events()]
        writer.write(_framed(Greeting(__version__, self._tail.last_seq, tail)))
        self._readers.add(writer)
        try:
            await reader.read()  # to the end: it only listens
        except (ConnectionError, asyncio.CancelledError):
            pass  # cancelled with its loop, which in Python 3.11 would complain of that in the terminal
        finally:
            self._drop(writer)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._readers.discard(writer)
        writer.close()

    def close(self) -> None:
        self._stop_seeing()
        for reader in tuple(self._readers):
            self._drop(reader)
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _packed(one: Fact | Event) -> PackedFact | bytes:
    if isinstance(one, Fact):
        return PackedFact(one.seq, one.run, one.time_ms, one.type, one.body, one.parent, one.origin)
    return encode_event(one)


def _framed(message: object) -> bytes:
    packed = _encode(message)
    return struct.pack(">I", len(packed)) + packed


class LiveConnection:
    """A connection to the process that drives a session. `hello` says where its stream begins."""

    def __init__(
        self, session: str, hello: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.last_seq = hello.last_seq
        self.tail = [event for event in map(_live_event, hello.tail) if event is not None]
        self._session = session
        self._reader = reader
        self._writer = writer

    async def batches(self) -> AsyncIterator[list[Fact | Event]]:
        """Until the other side ends."""
        try:
            while message := await _message(self._reader):
                seen = [self._unpacked(one) for one in _decoder(list[PackedFact | bytes]).decode(message)]
                yield [one for one in seen if one is not None]
        except (ConnectionError, msgspec.MsgspecError):
            return  # the log has the rest
        finally:
            self.close()

    def _unpacked(self, one: PackedFact | bytes) -> Fact | Event | None:
        if isinstance(one, bytes):
            return _live_event(one)
        return Fact(one.seq, self._session, one.run, one.time_ms, one.body, one.type, one.parent, one.origin)

    def close(self) -> None:
        self._writer.close()


def _live_event(body: bytes) -> Event | None:
    """None for one of a newer version: it cannot be joined to anything."""
    event = decode_event(body)
    return None if isinstance(event, UnknownEvent) else event


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The next one; empty at the end."""
    try:
        (size,) = struct.unpack(">I", await reader.readexactly(4))
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        return b""


async def listen(session: str, folder: Path | None, owner: ProcessId) -> LiveConnection | str:
    """A connection to the owner of a session, or why there is none."""
    path = socket_of(folder, owner)
    if path is None or not owner.is_here():
        return f"process {owner.pid} on {owner.host} drives it, which cannot be reached from here"
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                return LiveConnection(
                    session, _decoder(Greeting).decode(await _message(reader)), reader, writer
                )
            except BaseException:
                writer.close()
                raise
    except (OSError, TimeoutError, msgspec.MsgspecError) as error:
        return f"process {owner.pid} drives it, and does not answer ({type(error).__name__})"


def remove_stale_sockets(folder: Path | None) -> None:
    """Removes the sockets that processes left which are gone."""
    nobody = ProcessId(0, "", "", "", opening="own")
    example = socket_of(folder, nobody)
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
"""Seconds of silence until it is looked again who drives a session."""

A_MOMENT = 0.01
"""Seconds before an owner is asked again whose stream has ended."""


class Relay:
    """Each fact comes exactly once, in order. Live events are those of the owner that was found last: whoever
    joins them passes what came before through `DeltaFilter`."""

    def __init__(self, store: Store, session: str, after: int, *, look_again: float = LOOK_AGAIN) -> None:
        self._store = store
        self._session = session
        self.last_seq = after
        self._look_again = look_again
        self.owner: ProcessId | None = None
        """Who held it when it was looked last."""
        self.problem = ""
        """Why there are only facts, although a run is under way."""

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """An empty one whenever it was looked anew, or an owner's stream has ended: then what it showed live
        and never closed is gone."""
        while True:
            self.owner = await self._store.holder(self._session)
            place = self._store.socket_folder
            heard = await listen(self._session, place, self.owner) if self.owner else ""
            if isinstance(heard, LiveConnection):
                self.problem = ""
                async with aclosing(self._heard(heard)) as batches:
                    async for batch in batches:
                        yield batch
                yield []
                await asyncio.sleep(A_MOMENT)
                continue
            is_running = heard and (await self._store.summary(self._session)).status == "running"
            self.problem = heard if is_running else ""
            if facts := await self._written():
                yield facts
            yield []
            await self._silence()

    async def _heard(self, owner: LiveConnection) -> AsyncGenerator[Batch, None]:
        coming: asyncio.Future[Batch | None] | None = None
        try:
            if owner.last_seq < self.last_seq:  # it has committed what it has not told yet: its tail is older
                return
            if facts := await self._written(owner.last_seq):
                yield facts
            if owner.tail:
                yield [*owner.tail]
            batches = owner.batches()
            while True:
                coming = coming or asyncio.ensure_future(_next(batches))
                await asyncio.wait({coming}, timeout=self._look_again)
                if not coming.done():
                    if await self._is_taken_over():
                        return
                    continue
                batch, coming = coming.result(), None
                if batch is None:
                    return
                first = next((one.seq for one in batch if isinstance(one, Fact)), 0)
                if facts := await self._written(first - 1):
                    yield facts
                if fresh := [one for one in batch if self._is_fresh(one)]:
                    yield fresh
        finally:
            owner.close()
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})

    def _is_fresh(self, one: Fact | Event) -> bool:
        if not isinstance(one, Fact):
            return True
        if one.seq <= self.last_seq:
            return False
        self.last_seq = one.seq
        return True

    async def _is_taken_over(self) -> bool:
        """An owner that rests keeps its socket, also when others have the session meanwhile."""
        holder = await self._store.holder(self._session)
        if holder is not None:
            return holder != self.owner
        return await self._store.last_seq(self._session) > self.last_seq

    async def _written(self, last_seq: int | None = None) -> Batch:
        """Facts that were not seen yet, up to a number."""
        if last_seq is not None and last_seq <= self.last_seq:
            return []
        limit = None if last_seq is None else last_seq - self.last_seq
        facts = await self._store.read(self._session, self.last_seq, limit)
        if facts:
            self.last_seq = facts[-1].seq
        return [*facts]

    async def _silence(self) -> None:
        """Until something is written, or it is time to look again."""
        async with aclosing(self._store.follow(self._session, self.last_seq)) as followed:  # type: ignore[type-var]
            try:
                async with asyncio.timeout(self._look_again):
                    await anext(followed)
            except TimeoutError:
                return


async def _next(batches: Any) -> Batch | None:
    """A future can hold no `StopAsyncIteration`."""
    return await anext(batches, None)


class DeltaFilter:
    """Passes on what is new of live events: an owner that is found again tells all that is open once more."""

    def __init__(self) -> None:
        self._reached: dict[Key, int] = {}

    def among(self, batch: Sequence[Fact | Event]) -> Batch:
        fresh = [one if isinstance(one, Fact) else self._fresh(one) for one in batch]
        if any(isinstance(one, Fact) and one.type == "run_ended" for one in batch):
            self._reached.clear()
        return [one for one in fresh if one is not None]

    def _fresh(self, event: Any) -> Event | None:
        key = key_of(event)
        if isinstance(event, ToolInputStarted):
            return None if key in self._reached else self._at(key, 0, event)
        if not hasattr(event, "offset"):
            return event  # type: ignore[no-any-return]
        seen = self._reached.get(key, 0)
        end = event.offset + len(event.text)
        if end <= seen and event.text:
            return None
        if event.offset >= seen:
            return self._at(key, end, event)
        rest = event.text[seen - event.offset :]
        return self._at(key, end, msgspec.structs.replace(event, offset=seen, text=rest))

    def _at(self, key: Key, reached: int, event: Event) -> Event:
        self._reached[key] = reached
        return event
