"""The simulator: whole sessions under a seeded scheduler and a virtual clock, with faults injected.

`simulate(seed)` runs a session and those of its children in one simulated process after the other. Each of
them may die at any turn of its event loop, and die, fail or lose a lease at any operation of the store; the
next one takes over, as a real one would after `kill -9`. Meanwhile people answer, steer, pause and cancel in
all of these sessions, and hooks do what hooks may do. Afterwards every session must be at rest and every
invariant hold, no effect may have been repeated or lost, no tree of runs may have spent more than it may,
and every request must have been answered once. The same seed gives the same run.
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
from ostler.testkit.simulator.agent import harness_of, limits_by_lot
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
"""How many prompts a process goes on for while what is to befall it does not come about."""


MOST_TURNS = 200
"""How often whatever waits is seen to, until that is called endless."""


class Report(msgspec.Struct, frozen=True):
    """What a simulation came to. `problems` is empty when everything held."""

    seed: int
    faults: tuple[Fault, ...]
    facts: tuple[Fact, ...]
    """Of the session that was prompted."""
    children: dict[str, tuple[Fact, ...]]
    """Those of its children's sessions, and of their children's."""
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
        """Then nobody drives a child on his own: what it spends meanwhile is not its parent's."""
        self.limits = limits_by_lot(self.random) if self.has_limits else Limits()
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
            self._live(process)
            if fault and process.struck:
                injected.append(fault)
        logs = {session: tuple(facts) for session, facts in self.store.logs().items()}
        problems = self.ledger.check(logs, self.store.blob_sizes())
        facts = logs.pop(SESSION)
        return Report(self.seed, tuple(injected), facts, logs, dict(self.ledger.effects), tuple(problems))

    def _live(self, process: SimulatedProcess) -> None:
        loop = process.loop = VirtualLoop(process.random, self.clock)
        loop.set_exception_handler(lambda loop, context: None)  # the dead do not mind what became of tasks
        if process.fault and not process.fault.at:
            loop.dies_at = process.random.randint(3, 180)
        try:
            loop.run_until_complete(_Life(self, process).main())
        except ProcessKilled:
            process.struck = True
        except StoreError as error:
            if not process.struck:
                self.ledger.problems.append(f"process {process.number} met {error!r} unasked")
        finally:
            self.clock = loop.clock + process.random.choice((0.0, 1.0, 100.0))
            _bury(process, loop)


def _bury(process: SimulatedProcess, loop: VirtualLoop) -> None:
    """Nothing a dead process still does has any effect; its tasks are only cleared away."""
    process.dead = True
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_turn()
    loop.close()


class _Life:
    """What one simulated process does with the session."""

    def __init__(self, simulation: _Simulation, process: SimulatedProcess) -> None:
        self._simulation = simulation
        self._process = process
        self._random = process.random
        self._store: Any = FaultyStore(process, simulation.store)
        self._people = People(process, self._store, None if simulation.has_limits else self._harness)
        self._prompts = 0

    async def main(self) -> None:
        session = await self._open()
        self._expect_no_processes()
        pestering = asyncio.ensure_future(self._people.pester(session))
        if self._random.random() < 0.6:
            await self._in_peace(session, session.advance())
        turns = 0
        while await self._go_on(session):
            self._expect_no_processes()
            await asyncio.sleep(self._random.choice((0.0, 0.0, 6.0, 40.0)))
            turns += 1
            if turns > MOST_TURNS:
                self._simulation.ledger.problems.append("the session never comes to rest")
                break
        await pestering
        if self._process.fault is None:
            await self._empty_the_inbox(session)
        if not session.journal.failed and not session.journal.is_moved:
            self._compare(session)
        await session.close()
        if self._process.fault is None:
            await self._empty_the_childrens()

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

    async def _go_on(self, session: Session) -> bool:
        """The next thing that this process does; False when there is nothing left."""
        run = session.state.run
        if run is not None and run.waiting is not None:
            await self._people.settle_waiting(session.state)
            await self._in_peace(session, session.advance())
            return True
        if not self._has_more_to_ask():
            quiet = await self._in_peace(session, session.advance())
            return quiet is not None or session.state.run is not None
        self._prompts += 1
        self._simulation.prompts_left -= 1
        if self._random.random() < 0.3:
            await self._people.prompt()
            await self._in_peace(session, session.advance())
        else:
            words = as_content(f"prompt {self._process.number}.{self._prompts}")
            await self._in_peace(session, session.prompt(words))
        return True

    async def _in_peace(self, session: Session, work: Coroutine[Any, Any, RunOutcome]) -> RunOutcome:
        """Does it, unless whoever waits for it loses patience. What the store refuses may be tried again."""
        driving = asyncio.ensure_future(work)
        if self._random.random() < 0.08:
            asyncio.get_running_loop().call_later(self._random.choice((0.0, 0.1, 10.0)), driving.cancel)
        try:
            await asyncio.wait({driving})
            return driving.result()
        except asyncio.CancelledError:
            if self._process.dead or not driving.cancelled():
                raise
            return await self._try_again(session)
        except UsageError:
            # A prompt that waited in the inbox ran first, and its run waits for somebody.
            if session.state.run is None or session.state.run.waiting is None:
                raise
            return session.state.run.waiting
        except StoreError:
            if self._process.dead or self._random.random() < 0.5:
                raise
            return await self._try_again(session)

    async def _try_again(self, session: Session) -> RunOutcome:
        await asyncio.sleep(self._random.choice((0.0, 40.0)))
        return await session.advance() if self._random.random() < 0.7 else None

    def _has_more_to_ask(self) -> bool:
        """A process that is to meet a fault works until it does."""
        waits = self._process.fault is not None and not self._process.struck
        return self._simulation.prompts_left > 0 or (waits and self._prompts < MOST_PROMPTS)

    async def _empty_the_inbox(self, session: Session) -> None:
        """The last process leaves nothing behind that somebody has asked for."""
        for _ in range(MOST_TURNS):
            if session.state.run is None and not await self._store.pending(session.id):
                return
            if session.state.held:
                await self._people.release_prompts(session.id)
            elif session.state.run is not None and session.state.run.waiting is not None:
                await self._people.settle_waiting(session.state)
            await self._in_peace(session, session.advance())
        self._simulation.ledger.problems.append(f"the inbox of {session.id} never becomes empty")

    async def _empty_the_childrens(self) -> None:
        """What was asked of children's sessions after their runs; that may bring about more children."""
        seen: set[str] = set()
        while left := [child for child in self._simulation.store.children() if child not in seen]:
            seen.add(left[0])
            session = await self._open_child(left[0])
            await self._empty_the_inbox(session)
            await session.close()

    async def _open_child(self, child: str) -> Session:
        """When an opening failed half-way, its lease must run out first."""
        while True:
            with suppress(SessionHeld):
                world = self._process.world()
                return await open_session(self._store, child, self._harness(), world=world)
            await asyncio.sleep(LEASE_MS / 1000)

    def _expect_no_processes(self) -> None:
        """While no tool runs none of a session that we hold may have a process."""
        ledger = self._simulation.ledger
        if not self._process.dead and self._process.holds(SESSION):
            left = {process for process in ledger.tool_processes if process.session == SESSION}
            if left:
                ledger.problems.append("a tool's process is alive, and no tool runs")
                ledger.tool_processes -= left

    def _compare(self, session: Session) -> None:
        live = session.state.snapshot()
        folded = fold(self._simulation.store.facts()).snapshot()
        for name, value in live.items():
            if folded[name] != value:
                problem = f"the live {name} {value!r} is not the log's {folded[name]!r}"
                self._simulation.ledger.problems.append(problem)
