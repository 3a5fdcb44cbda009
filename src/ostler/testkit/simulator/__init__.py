"""The simulator: whole sessions under a seeded scheduler and a virtual clock, with injected faults.

`simulate(seed)` runs a session and its children in one simulated process after another. Each process may die
at any turn of its event loop, and die, fail or lose a lease at any operation of the store; the next one takes
over, as a real one would after `kill -9`. Meanwhile people answer, steer, pause and cancel in all of these
sessions, and hooks change and refuse things. At the end every session must be idle and every invariant hold,
no effect may be repeated or lost, no tree of runs may have exceeded its limits, and every request must have
been answered once. The same seed gives the same run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from ostler.core.harness import Harness
from ostler.core.journal import World
from ostler.core.state import fold
from ostler.schema.errors import SessionHeld, StoreError, UsageError
from ostler.schema.events import Limits
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.sessions.session import RunOutcome, Session, create_session, open_session
from ostler.store.rules import LEASE_MS
from ostler.testkit.simulator.agent import harness_of, random_limits
from ostler.testkit.simulator.ledger import Ledger
from ostler.testkit.simulator.people import People
from ostler.testkit.simulator.process import (
    SESSION,
    Fault,
    FaultyStore,
    ProcessKilled,
    SharedStore,
    SimulatedProcess,
    VirtualLoop,
    choose_fault,
)

MOST_PROMPTS = 12
"""How many prompts a process runs while its fault does not happen."""

MOST_TURNS = 200
"""After so many turns a session counts as endless."""


class Report(msgspec.Struct, frozen=True):
    """The result of a simulation. `problems` is empty if everything held."""

    seed: int
    faults: tuple[Fault, ...]
    facts: tuple[Fact, ...]
    """Of the session that was prompted."""
    children: dict[str, tuple[Fact, ...]]
    """Of the sessions of all its descendants."""
    effects: dict[str, int]
    problems: tuple[str, ...]


def simulate(seed: int, *, most_faults: int = 4) -> Report:
    """One session from its first prompt to its end, through up to `most_faults` injected faults."""
    return _Simulation(seed).run(most_faults)


class _Simulation:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = 1_000.0
        self.has_limits = self.random.random() < 0.6
        """With limits nobody drives a child separately, because its parent would not count that usage."""
        self.limits = random_limits(self.random) if self.has_limits else Limits()
        self.ledger = Ledger(sees_environments=self.random.random() < 0.5, counts_use=self.has_limits)
        self.store = SharedStore(World(now_ms=lambda: self.process.now_ms()), self.ledger)
        self.prompts_left = self.random.randint(1, 3)
        self.process: SimulatedProcess

    def run(self, most_faults: int) -> Report:
        injected: list[Fault] = []
        last = self.random.randint(0, most_faults)
        for number in range(last + 1):
            is_first = not self.store.facts()
            fault = choose_fault(self.random, is_first=is_first) if number < last else None
            process = self.process = SimulatedProcess(self.seed, number, fault, self.ledger, self.store)
            self._run_process(process)
            if fault and process.is_struck:
                injected.append(fault)
        logs = {session: tuple(facts) for session, facts in self.store.logs().items()}
        problems = self.ledger.check(logs, self.store.blob_sizes())
        facts = logs.pop(SESSION)
        return Report(self.seed, tuple(injected), facts, logs, dict(self.ledger.effects), tuple(problems))

    def _run_process(self, process: SimulatedProcess) -> None:
        loop = process.loop = VirtualLoop(process.random, self.clock)
        loop.set_exception_handler(lambda loop, context: None)  # errors of a dead process do not matter
        if process.fault and not process.fault.at:
            loop.dies_at = process.random.randint(3, 180)
        try:
            loop.run_until_complete(_Driver(self, process).main())
        except ProcessKilled:
            process.is_struck = True
        except StoreError as error:
            if not process.is_struck:
                self.ledger.problems.append(f"process {process.number} met {error!r} without a fault")
        finally:
            self.clock = loop.clock + process.random.choice((0.0, 1.0, 100.0))
            process.is_dead = True  # so cancelling its tasks has no effect on the store
            while tasks := asyncio.all_tasks(loop):
                for task in tasks:
                    task.cancel()
                loop.run_turn()
            loop.close()


class _Driver:
    """Drives the session in one simulated process."""

    def __init__(self, simulation: _Simulation, process: SimulatedProcess) -> None:
        self._simulation = simulation
        self._problems = simulation.ledger.problems
        self._process = process
        self._random = process.random
        self._store: Any = FaultyStore(process, simulation.store)
        self._people = People(process, self._store, None if simulation.has_limits else self._harness)
        self._prompts = 0

    async def main(self) -> None:
        session = await self._open()
        self._expect_no_processes()
        requesting = asyncio.ensure_future(self._people.send_requests(session))
        if self._random.random() < 0.6:
            await self._drive(session, session.advance())
        for _ in range(MOST_TURNS):
            if not await self._take_turn(session):
                break
            self._expect_no_processes()
            await asyncio.sleep(self._random.choice((0.0, 0.0, 6.0, 40.0)))
        else:
            self._problems.append("the session never becomes idle")
        await requesting
        if self._process.fault is None:
            await self._drain_inbox(session)
        if not session.journal.failed and not session.journal.is_moved:
            self._compare_state(session)
        await session.close()
        if self._process.fault is None:
            await self._drain_children()

    def _harness(self) -> Harness:
        harness = harness_of(self._process, self._simulation.limits)
        if self._random.random() < 0.6:
            harness.asker = self._people.ask
        return harness

    async def _open(self) -> Session:
        harness, world = self._harness(), self._process.world()
        if self._simulation.store.facts():
            return await open_session(self._store, SESSION, harness, world=world)
        return await create_session(self._store, harness, world=world, session=SESSION)

    async def _take_turn(self, session: Session) -> bool:
        """Does the next thing; False if there is nothing left."""
        if _waits(session):
            await self._people.answer_waiting(session.state)
            await self._drive(session, session.advance())
            return True
        if not self._has_more_prompts():
            outcome = await self._drive(session, session.advance())
            return outcome is not None or session.state.run is not None
        self._prompts += 1
        self._simulation.prompts_left -= 1
        if self._random.random() < 0.3:
            await self._people.prompt()
            await self._drive(session, session.advance())
        else:
            prompt = as_content(f"prompt {self._process.number}.{self._prompts}")
            await self._drive(session, session.prompt(prompt))
        return True

    async def _drive(self, session: Session, work: Coroutine[Any, Any, RunOutcome]) -> RunOutcome:
        """Runs `work`. The caller may lose patience and cancel it, and may retry what the store refused."""
        driving = asyncio.ensure_future(work)
        if self._random.random() < 0.08:
            asyncio.get_running_loop().call_later(self._random.choice((0.0, 0.1, 10.0)), driving.cancel)
        try:
            await asyncio.wait({driving})
            return driving.result()
        except asyncio.CancelledError:
            if self._process.is_dead or not driving.cancelled():
                raise
        except UsageError:
            # A prompt that waited in the inbox ran first, and its run waits for an answer.
            if session.state.run is None or session.state.run.waiting is None:
                raise
            return session.state.run.waiting
        except StoreError:
            if self._process.is_dead or self._random.random() < 0.5:
                raise
        await asyncio.sleep(self._random.choice((0.0, 40.0)))
        return await session.advance() if self._random.random() < 0.7 else None

    def _has_more_prompts(self) -> bool:
        """A process with a fault works until it happens."""
        awaits_fault = self._process.fault is not None and not self._process.is_struck
        return self._simulation.prompts_left > 0 or (awaits_fault and self._prompts < MOST_PROMPTS)

    async def _drain_inbox(self, session: Session) -> None:
        """The last process handles all requests that are left."""
        for _ in range(MOST_TURNS):
            if session.state.run is None and not await self._store.pending(session.id):
                return
            if session.state.held:
                await self._people.release_prompts(session.id)
            elif _waits(session):
                await self._people.answer_waiting(session.state)
            await self._drive(session, session.advance())
        self._problems.append(f"the inbox of {session.id} never becomes empty")

    async def _drain_children(self) -> None:
        """Handles the requests to children after their runs, which may start more children."""
        seen: set[str] = set()
        while left := [child for child in self._simulation.store.children() if child not in seen]:
            seen.add(left[0])
            session = await self._open_child(left[0])
            await self._drain_inbox(session)
            await session.close()

    async def _open_child(self, child: str) -> Session:
        """If an earlier attempt to open it failed half-way, its lease must expire first."""
        while True:
            with suppress(SessionHeld):
                world = self._process.world()
                return await open_session(self._store, child, self._harness(), world=world)
            await asyncio.sleep(LEASE_MS / 1000)

    def _expect_no_processes(self) -> None:
        """While no tool runs, no process of a tool may be alive, if we hold the session."""
        ledger = self._simulation.ledger
        left = {process for process in ledger.tool_processes if process.session == SESSION}
        if left and not self._process.is_dead and self._process.holds(SESSION):
            self._problems.append("a tool's process is alive, and no tool runs")
            ledger.tool_processes -= left

    def _compare_state(self, session: Session) -> None:
        folded = fold(self._simulation.store.facts()).snapshot()
        for name, value in session.state.snapshot().items():
            if folded[name] != value:
                self._problems.append(f"the live {name} {value!r} is not the log's {folded[name]!r}")


def _waits(session: Session) -> bool:
    return session.state.run is not None and session.state.run.waiting is not None
