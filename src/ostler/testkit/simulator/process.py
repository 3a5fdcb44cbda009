"""A simulated process: an event loop with a virtual clock, and a store that fails at a chosen operation."""

from __future__ import annotations

import asyncio
import collections
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any, Literal

import msgspec

from ostler.core.journal import World
from ostler.core.processes import ProcessId, boot_id, host_name
from ostler.core.store import NO_REQUESTS, Lease
from ostler.schema.errors import LeaseLost, StoreBusy, StoreFull
from ostler.schema.facts import Fact
from ostler.schema.ids import base32
from ostler.schema.requests import AnyRequest
from ostler.store.memory import MemoryStore
from ostler.testkit.simulator.ledger import Ledger


class LoopStuck(BaseException):
    """Everything waits, and nothing will ever happen: a deadlock."""


class ProcessKilled(BaseException):
    """The moment at which the simulated process dies."""


class _NoInput:
    """A selector that never has input: waiting moves the clock instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise LoopStuck
        self._loop.clock += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Time passes only when everybody waits; who goes first is drawn by lot; it stops at a chosen turn."""

    def __init__(self, random: Random, start: float = 1_000.0) -> None:
        super().__init__()
        self.clock = start
        self.turns = 0
        self.dies_at: int | None = None
        """The number of the turn before which the process dies."""
        self._random = random
        self._selector = _NoInput(self)

    def time(self) -> float:
        return self.clock

    def run_turn(self) -> None:
        """One more turn after a cut, whatever had been asked of the loop before."""
        self.dies_at = None
        self._stopping = True
        self.run_forever()

    def _run_once(self) -> None:
        self.turns += 1
        if self.dies_at is not None and self.turns >= self.dies_at:
            self.dies_at = None
            raise ProcessKilled
        ready: collections.deque[Any] = self._ready  # type: ignore[attr-defined]
        if len(ready) > 1:
            # Which of the tasks that can go on goes first is nobody's promise.
            shuffled = list(ready)
            self._random.shuffle(shuffled)
            ready.clear()
            ready.extend(shuffled)
        super()._run_once()  # type: ignore[misc]

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


SESSION = "ses_simulated"
"""The one that is prompted; all others are its children's."""


_WRITES = ("create", "acquire", "append", "renew", "release", "own_process", "submit", "append_blob")

_READS = ("read", "read_opening", "owned_processes", "pending", "settlement", "arrivals", "blob", "read_blob")

_RIGHTS = ("append", "renew", "own_process")


class Fault(msgspec.Struct, frozen=True):
    """What goes wrong, and at which operation of the store; without one, at any turn of the loop."""

    kind: Literal["dies", "dies_before", "dies_after", "fails", "hangs", "loses_lease"]
    at: str = ""


FAULTS: tuple[Fault, ...] = (
    Fault("dies"),
    *(Fault("dies_before", operation) for operation in (*_WRITES, *_READS)),
    *(Fault("dies_after", operation) for operation in _WRITES),
    *(Fault("fails", operation) for operation in (*_WRITES, *_READS)),
    *(Fault("loses_lease", operation) for operation in _RIGHTS),
    Fault("hangs", "renew"),
)


_OPENING = ("acquire", "read_opening", "owned_processes")

_WEIGHTS = {"": 12, "append": 6, "create": 4, "read": 3, "read_opening": 2, "acquire": 2}

_LATEST = {"append": 14, "pending": 8, "arrivals": 4, "append_blob": 3, "submit": 3, "read_opening": 2}
"""The most often that an operation succeeds before it is struck, where that is more than never."""


class SimulatedProcess:
    """One process of a simulation: who it is, what it draws, what is to befall it, whether it lives."""

    def __init__(
        self, seed: int, number: int, fault: Fault | None, ledger: Ledger, store: SharedStore
    ) -> None:
        self.random = Random(f"{seed}.{number}")
        self.number = number
        self.fault = fault
        self.fault_at = self.random.randint(1, _LATEST.get(fault.at, 1) if fault else 1)
        self.lasts = fault is not None and fault.kind in ("fails", "hangs") and self.random.random() < 0.5
        """Whether an operation that fails goes on failing."""
        self.struck = False
        self.dead = False
        self.ledger = ledger
        self.shared = store
        self.leanings = ("delegate", "survey", "outsource") * self.random.choice((0, 0, 1, 4))
        """Tools that are called more often."""
        self.running_keys: set[str] = set()
        """Of the idempotent calls that run now."""
        self.loop: VirtualLoop
        self._ids = number * 100_000

    def now_ms(self) -> int:
        return int(self.loop.clock * 1000)

    def outlived_its_lease(self, session: str) -> bool:
        lease = self.shared.lease(session)
        return self.holds(session) and lease is not None and lease.expires_ms <= self.now_ms()

    def holds(self, session: str) -> bool:
        lease = self.shared.lease(session)
        return lease is not None and isinstance(lease.owner, _Living) and lease.owner.process is self

    def world(self, pid: int = 9_000_000) -> World:
        """As this process sees it, or another one beside it, whose life is as long."""
        return World(
            now_ms=self.now_ms,
            new_id=self.new_id,
            random=self.random,
            kill_processes_of=self._end_processes,
            process=lambda: _Living(pid + self.number, "then", boot_id(), host_name(), process=self),
        )

    def new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}_{base32(self._ids, 8)}"

    def die(self) -> None:
        """From here on nothing of this process happens; its loop stops at its next turn."""
        self.dead = True
        self.loop.dies_at = 0
        raise LeaseLost("the process is dead")

    def new_tool_process(self, session: str) -> ProcessId:
        self._ids += 1
        return _ToolProcess(
            self._ids, "then", boot_id(), host_name(), session=session, alive=self.ledger.tool_processes
        )

    def _end_processes(self, session: str) -> int:
        if not self.ledger.sees_environments or self.dead:
            return 0
        found = {process for process in self.ledger.tool_processes if process.session == session}
        self.ledger.tool_processes -= found
        return len(found)


def choose_fault(random: Random, *, is_first: bool) -> Fault:
    """One that can come about: the first process creates the session, and the others open it."""
    beyond = _OPENING if is_first else ("create",)
    possible = [fault for fault in FAULTS if fault.at not in beyond]
    return random.choices(possible, [_WEIGHTS.get(fault.at, 1) for fault in possible])[0]


class _Living(ProcessId, frozen=True, kw_only=True):
    """Whoever holds a lease. When it is dead, its lease is free for the next one."""

    process: Any

    def is_alive(self) -> bool:
        return not self.process.dead


class _ToolProcess(ProcessId, frozen=True, kw_only=True):
    """A tool's process, which exists only in the ledger."""

    session: str
    alive: Any

    def kill_group(self) -> bool:
        self.alive.discard(self)
        return True

    def __hash__(self) -> int:
        return self.pid

    def __eq__(self, other: object) -> bool:
        return self is other


class SharedStore(MemoryStore):
    """What all processes of a simulation share. It tells the ledger what it accepts."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        super().__init__(world)
        self._ledger = ledger

    def append_now(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> bool:
        super().append_now(lease, facts, settled)
        self._ledger.appended(facts, settled)
        return True

    async def create(self, first: Fact, owner: ProcessId) -> Lease:
        lease = await super().create(first, owner)
        self._ledger.appended([first], NO_REQUESTS)
        return lease

    async def submit(self, session: str, request: AnyRequest) -> bool:
        accepted = await super().submit(session, request)
        self._ledger.submitted(session, request, accepted)
        return accepted

    def facts(self) -> list[Fact]:
        return self._sessions[SESSION].facts if SESSION in self._sessions else []

    def logs(self) -> dict[str, list[Fact]]:
        """The facts of all sessions, parents before their children."""
        return {name: session.facts for name, session in self._sessions.items()}

    def children(self) -> list[str]:
        return [name for name in self._sessions if name != SESSION]

    def depth(self, session: str) -> int:
        depth = 0
        while parent := self._sessions[session].summary.child_of:
            session, depth = parent, depth + 1
        return depth

    def blob_sizes(self) -> dict[str, int]:
        return {name: len(data) for (_, name), (_, data) in self._blobs.items()}

    def lease(self, session: str) -> Lease | None:
        return self._sessions[session].lease


class FaultyStore:
    """The shared store as one process sees it: calls take turns, and one of them may be the last."""

    socket_folder = None

    def __init__(self, process: SimulatedProcess, store: SharedStore) -> None:
        self._process = process
        self._store = store
        self._counts: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._store, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            self._refuse_the_dead()
            if name != "arrivals" and self._process.random.random() < 0.3:
                await asyncio.sleep(0)
                self._refuse_the_dead()
            fault = self._due(name)
            if fault == "hangs":
                await asyncio.sleep(60)
            self._befall(fault, arguments[0])
            result = await method(*arguments, **options)
            if fault == "dies_after":
                self._process.die()
            return result

        return call

    async def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]:
        async for facts in self._store.follow(session, after):
            self._refuse_the_dead()
            yield facts

    async def append(self, lease: Any, facts: Any, settled: Any = NO_REQUESTS) -> None:
        await asyncio.sleep(0)
        self._append(lease, facts, settled)

    def append_now(self, lease: Any, facts: Any, settled: Any = NO_REQUESTS) -> bool | asyncio.Future[None]:
        draw = self._process.random.random()
        if draw < 0.2:
            return False
        if draw < 0.4:
            return asyncio.ensure_future(self.append(lease, facts, settled))
        self._append(lease, facts, settled)
        return True

    def _append(self, lease: Any, facts: Any, settled: Any) -> None:
        self._refuse_the_dead()
        fault = self._due("append")
        self._befall(fault, lease)
        self._store.append_now(lease, facts, settled)
        if fault == "dies_after":
            self._process.die()

    def _due(self, operation: str) -> str:
        """The kind of the fault that is due at this operation, if one is."""
        fault, process = self._process.fault, self._process
        if fault is None or fault.at != operation:
            return ""
        self._counts[operation] += 1
        if self._counts[operation] < process.fault_at or (process.struck and not process.lasts):
            return ""
        process.struck = True
        return fault.kind

    def _befall(self, kind: str, subject: Any) -> None:
        if kind == "dies_before":
            self._process.die()
        if kind in ("fails", "hangs"):
            raise self._process.random.choice((StoreFull, StoreBusy))("it failed in the simulation")
        if kind == "loses_lease":
            self._lose_lease(subject)

    def _lose_lease(self, lease: Lease) -> None:
        """Another process takes the session over; it gives it back, or dies with a tool's still alive."""
        session = self._store._sessions[lease.session]
        session.lease = None
        self._store._grant(session, ProcessId(8_000_000, "then", boot_id(), host_name()))
        if self._process.random.random() < 0.5:
            session.lease = None
        else:
            left = self._process.new_tool_process(lease.session)
            session.processes["call_elsewhere"] = [left]
            self._process.ledger.tool_processes.add(left)

    def _refuse_the_dead(self) -> None:
        if self._process.dead:
            raise LeaseLost("the process is dead")
