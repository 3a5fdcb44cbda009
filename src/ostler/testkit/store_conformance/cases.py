"""Helpers of the conformance suite for stores: a clock, a session to write, real processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec.structs import replace

from ostler.core.journal import World
from ostler.core.processes import ProcessId, boot_id, current_process
from ostler.core.store import NO_REQUESTS, Lease, Store
from ostler.schema import events
from ostler.schema.events import Entry, Event
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content

TIMEOUT = 10.0
"""Seconds after which a test fails instead of waiting longer."""

HERE = current_process()

ELSEWHERE = ProcessId(pid=4711, started="then", boot=boot_id(), host="another-host.invalid")
"""A process on another machine: only the expiry of its lease shows that it is dead."""

DEAD = ProcessId(pid=HERE.pid, started="before this one", boot=HERE.boot, host=HERE.host)
"""A process that has ended; another one has its pid now."""

Error = TypeVar("Error", bound=BaseException)
Value = TypeVar("Value")


class Clock:
    """A clock that only tests move."""

    ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms

    def pass_seconds(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


class StoreTestCase:
    """Makes the store under test."""

    clock: Clock

    async def make_store(self, world: World) -> Store:
        """A new, empty store whose clock is the world's."""
        raise NotImplementedError

    async def another_handle(self, store: Store, world: World) -> Store:
        """The same data, opened as another process would; the store itself if no other process can see it."""
        return store

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        self.clock = Clock()
        store = await self.make_store(World(now_ms=self.clock))
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def opened_twice(self) -> AsyncIterator[tuple[Store, Store]]:
        async with self.opened() as store:
            other = await self.another_handle(store, World(now_ms=self.clock))
            try:
                yield store, other
            finally:
                if other is not store:
                    await other.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[tuple[Store, SessionWriter]]:
        """A store with the session `ses_1`."""
        async with self.opened() as store:
            yield store, await self.new_session(store)

    @asynccontextmanager
    async def shared_session(self) -> AsyncIterator[tuple[Store, Store, SessionWriter]]:
        """Two handles of a store with the session `ses_1`."""
        async with self.opened_twice() as (store, other):
            yield store, other, await self.new_session(store)

    async def new_session(
        self, store: Store, session: str = "ses_1", cwd: str = "/home/ada"
    ) -> SessionWriter:
        """A new session, held by this process."""
        writer = SessionWriter(store, session, self.clock)
        writer.lease = await store.create(writer.fact(events.SessionStarted(cwd, "0")), HERE)
        return writer


class SessionWriter:
    """Writes to one session of a store, and keeps every fact that it appended."""

    lease: Lease

    def __init__(self, store: Store, session: str, clock: Clock) -> None:
        self.store = store
        self.session = session
        self.facts: list[Fact] = []
        self._clock = clock

    def fact(self, event: Event, *, run: str = "") -> Fact:
        """The next fact, which the caller appends."""
        leaf = next((fact.seq for fact in reversed(self.facts) if fact.parent is not None), 0)
        parent, seq = leaf if isinstance(event, Entry) else None, len(self.facts) + 1
        fact = Fact.of(event, seq=seq, session=self.session, run=run, time_ms=self._clock(), parent=parent)
        self.facts.append(fact)
        return fact

    async def append(self, *added: Event, run: str = "", settled: dict[str, int] | None = None) -> list[Fact]:
        facts = [self.fact(event, run=run) for event in added]
        await self.store.append(self.lease, facts, settled or NO_REQUESTS)
        return facts

    async def append_bodies(self, *bodies: bytes) -> None:
        """Facts of any type, from their bytes."""
        for body in bodies:
            self.facts.append(Fact(len(self.facts) + 1, self.session, "", self._clock(), body))
        await self.store.append(self.lease, self.facts[-len(bodies) :])

    async def run(self, *prompts: str) -> None:
        """Appends a whole run for each prompt."""
        for number, prompt in enumerate(prompts):
            run = f"run_{len(self.facts)}_{number}"
            started = events.RunStarted("0", "/home/ada", "scripted/model")
            await self.append(started, user_message(prompt), run=run)
            await self.append(events.RunEnded("completed"), run=run)

    async def hand_over(self, owner: ProcessId) -> Lease:
        """Releases the lease; `owner` acquires it."""
        await self.store.release(self.lease)
        return await self.store.acquire(self.session, owner)

    async def assert_unchanged(self) -> None:
        """The session has exactly the facts that were appended here."""
        assert await self.store.read(self.session) == self.facts
        assert await self.store.last_seq(self.session) == len(self.facts)


def user_message(text: str, **options: bool) -> events.UserMessage:
    return events.UserMessage(as_content(text), **options)  # type: ignore[arg-type]


def assistant_message(text: str) -> events.AssistantMessage:
    return events.AssistantMessage("mc_1", as_content(text), "end")


def message_fact(seq: int, session: str = "ses_1") -> Fact:
    return Fact.of(user_message("x"), seq=seq, session=session, run="", time_ms=1, parent=0)


def moved_to(session: str, facts: Sequence[Fact]) -> list[Fact]:
    """The same facts in another session."""
    return [replace(fact, session=session) for fact in facts]


async def assert_raises(kind: type[Error], work: Awaitable[object]) -> Error:
    """The error that `work` raises."""
    try:
        result = await soon(work)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised; the result was {result!r}")


async def soon(work: Awaitable[Value]) -> Value:
    """The result of `work`; fails after 10 seconds."""
    async with asyncio.timeout(TIMEOUT):
        return await work


async def waiting(work: Awaitable[Value]) -> asyncio.Future[Value]:
    """Starts `work`, which must wait for something."""
    future = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    assert not future.done()
    return future


class OtherProcess:
    """Another living process on this machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.id = ProcessId.of(process.pid)

    async def die(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def other_process() -> AsyncIterator[OtherProcess]:
    """Ends with the block, or with us: it waits for its standard input to close."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", "import sys; sys.stdin.read()", stdin=asyncio.subprocess.PIPE
    )
    other = OtherProcess(process)
    try:
        yield other
    finally:
        await other.die()
