"""The simulator: whole sessions under a seeded scheduler and a virtual clock, with faults injected.

`simulate(seed)` runs a session in one simulated process after the other. Each of them may die at any
turn of its event loop, and die, fail or lose its lease at any operation of the store; the next one takes
over, as a real one would after `kill -9`. Meanwhile people answer, steer and cancel, and hooks do what
hooks may do. Afterwards every invariant must hold, no effect may have been repeated or lost, and every
request must have been answered once. The same seed gives the same run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import msgspec

from ostler.kernel.journal import World
from ostler.kernel.state import fold
from ostler.runs.session import Quiet, Session, create_session, open_session
from ostler.testkit.simulated_agent import harness_of
from ostler.testkit.simulated_ledger import Ledger
from ostler.testkit.simulated_people import People
from ostler.testkit.simulated_store import (
    SESSION,
    Fault,
    FaultyStore,
    SharedStore,
    SimulatedProcess,
    choose_fault,
)
from ostler.testkit.virtual_loop import Cut, VirtualLoop
from ostler.vocabulary.errors import StoreError, UsageError
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import as_content

MOST_PROMPTS = 12
"""How many prompts a process goes on for while what is to befall it does not come about."""


class Report(msgspec.Struct, frozen=True):
    """What a simulation came to. `problems` is empty when everything held."""

    seed: int
    faults: tuple[Fault, ...]
    facts: tuple[Fact, ...]
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
        self.ledger = Ledger(sees_environments=self.random.random() < 0.5)
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
        facts = self.store.facts()
        problems = self.ledger.check(facts, self.store.blob_sizes())
        return Report(self.seed, tuple(injected), tuple(facts), dict(self.ledger.effects), tuple(problems))

    def _live(self, process: SimulatedProcess) -> None:
        loop = process.loop = VirtualLoop(process.random, self.clock)
        loop.set_exception_handler(lambda loop, context: None)  # the dead do not mind what became of tasks
        if process.fault and not process.fault.at:
            loop.dies_at = process.random.randint(3, 180)
        try:
            loop.run_until_complete(_Life(self, process).main())
        except Cut:
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
        self._people = People(process, self._store)
        self._prompts = 0

    async def main(self) -> None:
        session = await self._open()
        self._expect_no_children()
        pestering = asyncio.ensure_future(self._people.pester(session))
        if self._random.random() < 0.6:
            await self._in_peace(session, session.advance())
        while await self._go_on(session):
            self._expect_no_children()
            await asyncio.sleep(self._random.choice((0.0, 0.0, 6.0, 40.0)))
        await pestering
        if self._process.fault is None:
            await self._empty_the_inbox(session)
        if not session.journal.failed and not session.journal.is_moved:
            self._compare(session)
        await session.close()

    async def _open(self) -> Session:
        process, world = self._process, self._process.world()
        harness = harness_of(process)
        if self._random.random() < 0.6:
            harness.asker = self._people.ask
        if self._simulation.store.facts():
            return await open_session(self._store, SESSION, harness, world=world, owner=process.owner)
        return await create_session(self._store, harness, world=world, owner=process.owner, session=SESSION)

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

    async def _in_peace(self, session: Session, work: Coroutine[Any, Any, Quiet]) -> Quiet:
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

    async def _try_again(self, session: Session) -> Quiet:
        await asyncio.sleep(self._random.choice((0.0, 40.0)))
        return await session.advance() if self._random.random() < 0.7 else None

    def _has_more_to_ask(self) -> bool:
        """A process that is to meet a fault works until it does."""
        waits = self._process.fault is not None and not self._process.struck
        return self._simulation.prompts_left > 0 or (waits and self._prompts < MOST_PROMPTS)

    async def _empty_the_inbox(self, session: Session) -> None:
        """The last process leaves nothing behind that somebody has asked for."""
        for _ in range(100):
            if session.state.run is None and not await self._store.pending(SESSION):
                return
            if session.state.held:
                await self._people.release_prompts()
            elif session.state.run is not None and session.state.run.waiting is not None:
                await self._people.settle_waiting(session.state)
            await self._in_peace(session, session.advance())
        self._simulation.ledger.problems.append("the inbox never becomes empty")

    def _expect_no_children(self) -> None:
        lease = self._simulation.store.lease()
        is_owner = lease is not None and lease.owner == self._process.owner
        if self._simulation.ledger.children and is_owner and not self._process.dead:
            self._simulation.ledger.problems.append("a tool's process is alive, and no tool runs")
            self._simulation.ledger.children.clear()

    def _compare(self, session: Session) -> None:
        live = session.state.snapshot()
        folded = fold(self._simulation.store.facts()).snapshot()
        for name, value in live.items():
            if folded[name] != value:
                problem = f"the live {name} {value!r} is not the log's {folded[name]!r}"
                self._simulation.ledger.problems.append(problem)
