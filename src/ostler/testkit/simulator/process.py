"""A simulated process: an event loop with a virtual clock, and a store that fails at a chosen operation."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
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
    """A deadlock: everything waits."""


class ProcessKilled(BaseException):
    """The simulated process dies here."""


class _NoInput:
    """A selector that never has input; waiting moves the clock instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise LoopStuck
        self._loop.clock += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Time passes only when all tasks wait; tasks run in random order; the loop stops at a chosen turn."""

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
        """Runs one more turn after the process has died."""
        self.dies_at = None
        self._stopping = True
        self.run_forever()

    def _run_once(self) -> None:
        self.turns += 1
        if self.dies_at is not None and self.turns >= self.dies_at:
            self.dies_at = None
            raise ProcessKilled
        ready: deque[Any] = self._ready  # type: ignore[attr-defined]
        if len(ready) > 1:
            # asyncio promises no order among the tasks that are ready.
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
"""The session that is prompted; all others are its descendants."""

_WRITES = ("create", "acquire", "append", "renew", "release", "own_process", "submit", "append_blob")
_READS = ("read", "read_opening", "owned_processes", "pending", "settlement", "arrivals", "blob", "read_blob")
_NEED_LEASE = ("append", "renew", "own_process")


class Fault(msgspec.Struct, frozen=True):
    """What goes wrong, and at which operation of the store; without an operation, at any turn of the loop."""

    kind: Literal["dies", "dies_before", "dies_after", "fails", "hangs", "loses_lease"]
    at: str = ""


FAULTS: tuple[Fault, ...] = (
    Fault("dies"),
    *(Fault("dies_before", operation) for operation in (*_WRITES, *_READS)),
    *(Fault("dies_after", operation) for operation in _WRITES),
    *(Fault("fails", operation) for operation in (*_WRITES, *_READS)),
    *(Fault("loses_lease", operation) for operation in _NEED_LEASE),
    Fault("hangs", "renew"),
)

_OPENING = ("acquire", "read_opening", "owned_processes")

_WEIGHTS = {"": 12, "append": 6, "create": 4, "read": 3, "read_opening": 2, "acquire": 2}

_LATEST = {"append": 14, "pending": 8, "arrivals": 4, "append_blob": 3, "submit": 3, "read_opening": 2}
"""The latest call of an operation at which a fault happens; the first for all others."""


class SimulatedProcess:
    """One process of a simulation, with its fault."""

    def __init__(
        self, seed: int, number: int, fault: Fault | None, ledger: Ledger, store: SharedStore
    ) -> None:
        self.random = Random(f"{seed}.{number}")
        self.number = number
        self.fault = fault
        self.fault_at = self.random.randint(1, _LATEST.get(fault.at, 1) if fault else 1)
        is_error = fault is not None and fault.kind in ("fails", "hangs")
        self.is_permanent = is_error and self.random.random() < 0.5
        """Whether an operation that fails continues to fail."""
        self.is_struck = False
        """Whether the fault has happened."""
        self.is_dead = False
        self.ledger = ledger
        self.shared = store
        self.favourite_tools = ("delegate", "survey", "outsource") * self.random.choice((0, 0, 1, 4))
        self.running_keys: set[str] = set()
        """Those of the idempotent calls that run now."""
        self.loop: VirtualLoop
        self._ids = number * 100_000

    def now_ms(self) -> int:
        return int(self.loop.clock * 1000)

    def has_expired_lease(self, session: str) -> bool:
        lease = self.shared.lease(session)
        return self.holds(session) and lease is not None and lease.expires_ms <= self.now_ms()

    def holds(self, session: str) -> bool:
        lease = self.shared.lease(session)
        return lease is not None and isinstance(lease.owner, _Owner) and lease.owner.process is self

    def world(self, pid: int = 9_000_000) -> World:
        """The world of this process, or of another one that lives as long."""
        return World(
            now_ms=self.now_ms,
            new_id=self.new_id,
            random=self.random,
            kill_processes_of=self._end_processes,
            process=lambda: _Owner(pid + self.number, "then", boot_id(), host_name(), process=self),
        )

    def new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}_{base32(self._ids, 8)}"

    def die(self) -> None:
        """From now on the process has no effects; its loop stops at its next turn."""
        self.is_dead = True
        self.loop.dies_at = 0
        raise LeaseLost("the process is dead")

    def new_tool_process(self, session: str) -> ProcessId:
        self._ids += 1
        alive = self.ledger.tool_processes
        return _ToolProcess(self._ids, "then", boot_id(), host_name(), session=session, alive=alive)

    def _end_processes(self, session: str) -> int:
        if not self.ledger.sees_environments or self.is_dead:
            return 0
        processes = {process for process in self.ledger.tool_processes if process.session == session}
        self.ledger.tool_processes -= processes
        return len(processes)


def choose_fault(random: Random, *, is_first: bool) -> Fault:
    """A fault that can happen: the first process creates the session, and the others open it."""
    impossible = _OPENING if is_first else ("create",)
    possible = [fault for fault in FAULTS if fault.at not in impossible]
    return random.choices(possible, [_WEIGHTS.get(fault.at, 1) for fault in possible])[0]


class _Owner(ProcessId, frozen=True, kw_only=True):
    """The owner of a lease, which is free once its process is dead."""

    process: Any

    def is_alive(self) -> bool:
        return not self.process.is_dead


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
    """The store of all processes of a simulation. It reports to the ledger what it accepts."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        super().__init__(world)
        self.id = "store_simulated"
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
    """The shared store as one process sees it: calls yield to other tasks, and a fault may happen at one."""

    socket_folder = None

    def __init__(self, process: SimulatedProcess, store: SharedStore) -> None:
        self.id, self.consent_problem = store.id, store.consent_problem
        self._process = process
        self._store = store
        self._counts: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._store, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            self._require_alive()
            if name != "arrivals" and self._process.random.random() < 0.3:
                await asyncio.sleep(0)
                self._require_alive()
            fault = self._due(name)
            if fault == "hangs":
                await asyncio.sleep(60)
            self._inject(fault, arguments[0])
            result = await method(*arguments, **options)
            if fault == "dies_after":
                self._process.die()
            return result

        return call

    async def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]:
        async for facts in self._store.follow(session, after):
            self._require_alive()
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
        self._require_alive()
        fault = self._due("append")
        self._inject(fault, lease)
        self._store.append_now(lease, facts, settled)
        if fault == "dies_after":
            self._process.die()

    def _due(self, operation: str) -> str:
        """The kind of the fault that happens at this operation, if one does."""
        fault, process = self._process.fault, self._process
        if fault is None or fault.at != operation:
            return ""
        self._counts[operation] += 1
        if self._counts[operation] < process.fault_at or (process.is_struck and not process.is_permanent):
            return ""
        process.is_struck = True
        return fault.kind

    def _inject(self, kind: str, subject: Any) -> None:
        if kind == "dies_before":
            self._process.die()
        if kind in ("fails", "hangs"):
            raise self._process.random.choice((StoreFull, StoreBusy))("it failed in the simulation")
        if kind == "loses_lease":
            self._lose_lease(subject)

    def _lose_lease(self, lease: Lease) -> None:
        """Another process takes the session over, and releases it or dies while a tool's process is alive."""
        session = self._store._sessions[lease.session]
        session.lease = None
        self._store._grant(session, ProcessId(8_000_000, "then", boot_id(), host_name()))
        if self._process.random.random() < 0.5:
            session.lease = None
        else:
            left = self._process.new_tool_process(lease.session)
            session.processes["call_elsewhere"] = [left]
            self._process.ledger.tool_processes.add(left)

    def _require_alive(self) -> None:
        if self._process.is_dead:
            raise LeaseLost("the process is dead")
