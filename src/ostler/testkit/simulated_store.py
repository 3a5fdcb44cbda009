"""A simulated process and the store as it sees it: at a chosen operation something goes wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any, Literal

import msgspec

from ostler.kernel.journal import World
from ostler.kernel.processes import ProcessId, boot_id, host_name
from ostler.kernel.store import NO_REQUESTS, Lease
from ostler.log.memory import MemoryStore
from ostler.testkit.simulated_ledger import Ledger
from ostler.testkit.virtual_loop import VirtualLoop
from ostler.vocabulary.errors import LeaseLost, StoreBusy, StoreFull
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.ids import base32
from ostler.vocabulary.requests import AnyRequest

SESSION = "ses_simulated"

_WRITES = ("create", "acquire", "append", "renew", "release", "own_process", "submit", "append_blob")
_READS = ("read", "read_opening", "owned_processes", "pending", "settled", "arrivals", "blob", "read_blob")
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
        self.owner = _identity(9_000_000 + number)
        self.loop: VirtualLoop
        self._ids = number * 100_000

    def now_ms(self) -> int:
        return int(self.loop.clock * 1000)

    def outlived_its_lease(self) -> bool:
        lease = self.shared.lease()
        return lease is not None and lease.owner == self.owner and lease.expires_ms <= self.now_ms()

    def world(self) -> World:
        return World(
            now_ms=self.now_ms,
            new_id=self.new_id,
            random=self.random,
            kill_processes_of=self._end_children,
        )

    def new_id(self, prefix: str) -> str:
        self._ids += 1
        return f"{prefix}_{base32(self._ids, 8)}"

    def die(self) -> None:
        """From here on nothing of this process happens; its loop stops at its next turn."""
        self.dead = True
        self.loop.dies_at = 0
        raise LeaseLost("the process is dead")

    def new_child(self) -> ProcessId:
        self._ids += 1
        return _Child(self._ids, "then", boot_id(), host_name(), ledger=self.ledger)

    def _end_children(self, session: str) -> int:
        if not self.ledger.sees_environments or self.dead:
            return 0
        ended = len(self.ledger.children)
        self.ledger.children.clear()
        return ended


def choose_fault(random: Random, *, is_first: bool) -> Fault:
    """One that can come about: the first process creates the session, and the others open it."""
    beyond = _OPENING if is_first else ("create",)
    possible = [fault for fault in FAULTS if fault.at not in beyond]
    return random.choices(possible, [_WEIGHTS.get(fault.at, 1) for fault in possible])[0]


def _identity(pid: int) -> ProcessId:
    """Of a process that is not alive, as far as anybody can tell: its lease is free for the next one."""
    return ProcessId(pid=pid, started="then", boot=boot_id(), host=host_name())


class _Child(ProcessId, frozen=True, kw_only=True):
    """A tool's process, which exists only in the ledger."""

    ledger: Any

    def kill_group(self) -> bool:
        self.ledger.children.discard(self)
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

    async def submit(self, session: str, request: AnyRequest) -> bool:
        accepted = await super().submit(session, request)
        self._ledger.submitted(request, accepted)
        return accepted

    def facts(self) -> list[Fact]:
        return self._sessions[SESSION].facts if SESSION in self._sessions else []

    def blob_sizes(self) -> dict[str, int]:
        return {name: len(data) for (_, name), (_, data) in self._blobs.items()}

    def lease(self) -> Lease | None:
        return self._sessions[SESSION].lease


class FaultyStore:
    """The shared store as one process sees it: calls take turns, and one of them may be the last."""

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
            self._befall(fault)
            result = await method(*arguments, **options)
            if fault == "dies_after":
                self._process.die()
            return result

        return call

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
        self._befall(fault)
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

    def _befall(self, kind: str) -> None:
        if kind == "dies_before":
            self._process.die()
        if kind in ("fails", "hangs"):
            raise self._process.random.choice((StoreFull, StoreBusy))("it failed in the simulation")
        if kind == "loses_lease":
            self._lose_lease()

    def _lose_lease(self) -> None:
        """Another process takes the session over; it gives it back, or dies with a child still alive."""
        session = self._store._sessions[SESSION]
        self._store._grant(session, _identity(8_000_000 + self._process.number))
        if self._process.random.random() < 0.5:
            session.lease = None
        else:
            child = self._process.new_child()
            session.processes["call_elsewhere"] = [child]
            self._process.ledger.children.add(child)

    def _refuse_the_dead(self) -> None:
        if self._process.dead:
            raise LeaseLost("the process is dead")
