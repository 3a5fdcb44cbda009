"""What the conformance suite of stores is written with: a clock, a session to write, real processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from ostler.core.journal import World
from ostler.core.processes import ProcessId, boot_id, current_process
from ostler.core.store import NO_REQUESTS, Lease, Store
from ostler.schema import events
from ostler.schema.events import Entry, Event
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content

BOUND = 10.0
"""Seconds after which something that should have happened has not."""


HERE = current_process()

ELSEWHERE = ProcessId(pid=4711, started="then", boot=boot_id(), host="another-host.invalid")
"""A process of which only its lease's expiry can tell whether it lives."""

DEAD = ProcessId(pid=HERE.pid, started="before this one", boot=HERE.boot, host=HERE.host)
"""A process that was here and is gone: its pid belongs to another one now."""


Refusal = TypeVar("Refusal", bound=BaseException)

Value = TypeVar("Value")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms

    def pass_seconds(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


class StoreTestCase:
    """Where a store under test comes from."""

    clock: Clock

    async def make_store(self, world: World) -> Store:
        """A new, empty store whose clock is the world's."""
        raise NotImplementedError

    async def another_handle(self, store: Store, world: World) -> Store:
        """The same data as another process sees it. A store that no other process can see returns itself."""
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

    async def begun(self, store: Store, session: str = "ses_1", cwd: str = "/home/ada") -> SessionWriter:
        """A new session, held by this process."""
        writing = SessionWriter(store, session, self.clock)
        writing.lease = await store.create(writing.fact(events.SessionStarted(cwd, "0")), HERE)
        return writing


class SessionWriter:
    """One session of a store, and what is known of it: every fact that was appended."""

    lease: Lease

    def __init__(self, store: Store, session: str, clock: Clock) -> None:
        self.store = store
        self.session = session
        self.facts: list[Fact] = []
        self._clock = clock

    def fact(self, event: Event, *, run: str = "") -> Fact:
        """The next fact, which the caller appends."""
        fact = Fact.of(
            event,
            seq=len(self.facts) + 1,
            session=self.session,
            run=run,
            time_ms=self._clock(),
            parent=self._leaf() if isinstance(event, Entry) else None,
        )
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
        """A run for each prompt, from its beginning to its end."""
        for number, prompt in enumerate(prompts):
            run = f"run_{len(self.facts)}_{number}"
            await self.append(
                events.RunStarted("0", "/home/ada", "scripted/model"), user_message(prompt), run=run
            )
            await self.append(events.RunEnded("completed"), run=run)

    async def is_unchanged(self) -> None:
        """Raises AssertionError when the store holds anything else than was appended here."""
        assert await self.store.read(self.session) == self.facts
        assert await self.store.last_seq(self.session) == len(self.facts)

    def _leaf(self) -> int:
        return next((fact.seq for fact in reversed(self.facts) if fact.parent is not None), 0)


def user_message(text: str, **options: bool) -> events.UserMessage:
    return events.UserMessage(as_content(text), **options)  # type: ignore[arg-type]


def assistant_message(text: str) -> events.AssistantMessage:
    return events.AssistantMessage("mc_1", as_content(text), "end")


def renumbered(facts: Sequence[Fact], session: str) -> list[Fact]:
    """The same facts as another session."""
    return [
        Fact(
            fact.seq,
            session,
            fact.run,
            fact.time_ms,
            fact.body,
            type=fact.type,
            parent=fact.parent,
            origin=fact.origin,
        )
        for fact in facts
    ]


async def assert_raises(kind: type[Refusal], work: Awaitable[object]) -> Refusal:
    """The error that `work` ends with."""
    try:
        got = await soon(work)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised; the result was {got!r}")


async def soon(work: Awaitable[Value]) -> Value:
    """The result of `work`, which must be there in good time."""
    async with asyncio.timeout(BOUND):
        return await work


class OtherProcess:
    """A living process on this machine that is not ours."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.id = ProcessId.of(process.pid)

    async def die(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def other_process() -> AsyncIterator[OtherProcess]:
    """It ends with the block, and with us: it waits for its standard input to close."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", "import sys; sys.stdin.read()", stdin=asyncio.subprocess.PIPE
    )
    other = OtherProcess(process)
    try:
        yield other
    finally:
        await other.die()
