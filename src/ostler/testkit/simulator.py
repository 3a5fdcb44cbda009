"""The simulator: whole sessions under a seeded scheduler and a virtual clock, with faults injected.

`simulate(seed)` runs a session in one simulated process after the other. Each of them may die at any
turn of its event loop or at any append, find the disk full, or lose its lease; the next one takes over,
as a real one would after `kill -9`. Afterwards every invariant must hold, and no effect may have been
repeated or lost. The same seed gives the same run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from random import Random
from typing import Any, Literal

import msgspec

from ostler.kernel.harness import Harness
from ostler.kernel.hooks import Ask, Hook, Hooks, PlannedCall, Refuse
from ostler.kernel.journal import World
from ostler.kernel.model import ModelEvent, ModelRequest
from ostler.kernel.processes import ProcessId, boot_id, host_name
from ostler.kernel.tool import FunctionTool, ToolContext, tool
from ostler.log.invariants import violations
from ostler.log.memory import MemoryStore
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.runs.session import Session, create_session, open_session
from ostler.testkit.virtual_loop import Cut, VirtualLoop
from ostler.vocabulary import requests
from ostler.vocabulary.errors import ConnectionFailed, Failure, LeaseLost, StoreError, StoreFull, failure_of
from ostler.vocabulary.events import Limits, RunWaiting, ToolResultFact
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.ids import base32
from ostler.vocabulary.messages import as_content
from ostler.vocabulary.outcomes import NeedUser, Pending, Question, ok

Fault = Literal["dies", "dies_before_append", "dies_after_append", "disk_full", "lease_lost"]
FAULTS: tuple[Fault, ...] = ("dies", "dies_before_append", "dies_after_append", "disk_full", "lease_lost")
SESSION = "ses_simulated"


class Report(msgspec.Struct, frozen=True):
    """What a simulation came to. `problems` is empty when everything held."""

    seed: int
    faults: tuple[Fault, ...]
    facts: tuple[Fact, ...]
    effects: dict[str, int]
    problems: tuple[str, ...]


def simulate(seed: int, *, most_faults: int = 4) -> Report:
    """One session from its first prompt to its end, through up to `most_faults` injected faults."""
    return _Simulation(seed, most_faults).run()


class _Simulation:
    def __init__(self, seed: int, most_faults: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.clock = 1_000.0
        self.faults = [self.random.choice(FAULTS) for _ in range(self.random.randint(0, most_faults))]
        self.injected: list[Fault] = []
        self.store = MemoryStore(World(now_ms=self.now_ms))
        self.effects: Counter[str] = Counter()
        self.problems: list[str] = []
        self.prompts_left = self.random.randint(1, 3)
        self.ids = 0
        self.loop: VirtualLoop | None = None
        self.process: _Process | None = None

    def now_ms(self) -> int:
        return int((self.loop.clock if self.loop else self.clock) * 1000)

    def new_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}_{base32(self.ids, 8)}"

    def run(self) -> Report:
        planned: list[Fault | None] = [*self.faults, None]
        for number, fault in enumerate(planned):
            self.process = _Process(self, number, fault)
            self.process.live()
        facts = self.store._sessions[SESSION].facts if SESSION in self.store._sessions else []
        self.problems += violations(facts)
        self._check_effects(facts)
        return Report(self.seed, tuple(self.injected), tuple(facts), dict(self.effects), tuple(self.problems))

    def _check_effects(self, facts: Sequence[Fact]) -> None:
        for call, times in self.effects.items():
            if times > 1:
                self.problems.append(f"the effect of {call} happened {times} times")
        for fact in facts:
            event = fact.event
            if not isinstance(event, ToolResultFact) or event.name not in ("note", "pay"):
                continue
            if event.failed is None and self.effects[event.call] != 1:
                self.problems.append(f"{event.call} succeeded without its effect")


class _Process:
    """One simulated process: its own event loop and identity, on the store that all of them share."""

    def __init__(self, simulation: _Simulation, number: int, fault: Fault | None) -> None:
        self.simulation = simulation
        self.random = simulation.random
        self.number = number
        self.fault = fault
        self.fault_at = self.random.randint(1, 60 if fault == "dies" else 14)
        self.owner = ProcessId(pid=9_000_000 + number, started="then", boot=boot_id(), host=host_name())
        self.world = World(
            now_ms=simulation.now_ms,
            new_id=simulation.new_id,
            random=self.random,
            kill_processes_of=lambda session: 0,
        )
        self.store = FaultyStore(self, simulation.store)
        self.dead = False
        self.prompts = 0

    def live(self) -> None:
        loop = self.simulation.loop = VirtualLoop(self.random, self.simulation.clock)
        if self.fault == "dies":
            loop.dies_at = self.fault_at * 3
        try:
            loop.run_until_complete(self.main())
        except Cut:
            self.simulation.injected.append(self.fault or "dies")
        except StoreError as error:
            if self.fault not in ("disk_full", "lease_lost"):
                self.simulation.problems.append(f"process {self.number} met {error!r} unasked")
        finally:
            self._bury(loop)

    def _bury(self, loop: VirtualLoop) -> None:
        """Nothing a dead process still does has any effect; its tasks are only cleared away."""
        self.dead = True
        while tasks := asyncio.all_tasks(loop):
            for task in tasks:
                task.cancel()
            loop.drain(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.exception()
        self.simulation.clock = loop.clock + self.random.choice((0.0, 1.0, 100.0))
        self.simulation.loop = None
        loop.close()

    async def main(self) -> None:
        harness = self._harness()
        store: Any = self.store
        if SESSION in self.simulation.store._sessions:
            session = await open_session(store, SESSION, harness, world=self.world, owner=self.owner)
        else:
            session = await create_session(
                store, harness, world=self.world, owner=self.owner, session=SESSION
            )
        pestering = asyncio.ensure_future(self._pester())
        quiet = await session.advance() if self.random.random() < 0.6 else None
        while True:
            if isinstance(quiet, RunWaiting):
                await self._settle_waiting(session)
                quiet = await session.advance()
            elif session.state.run is not None and session.state.run.waiting is not None:
                quiet = await session.advance()
            elif self._has_more_to_ask():
                self.prompts += 1
                self.simulation.prompts_left -= 1
                quiet = await session.prompt(as_content(f"prompt {self.number}.{self.prompts}"))
            else:
                quiet = await session.advance()
                if quiet is None:
                    break
        pestering.cancel()
        await self._compare(session)
        await session.close()

    def _has_more_to_ask(self) -> bool:
        """A process that is to meet a fault works until it does."""
        return self.simulation.prompts_left > 0 or (self.fault is not None and self.prompts < 12)

    async def _compare(self, session: Session) -> None:
        from ostler.kernel.state import fold

        live = session.state.snapshot()
        folded = fold(await self.simulation.store.read(SESSION)).snapshot()
        for name, value in live.items():
            if folded[name] != value:
                self.simulation.problems.append(
                    f"the live {name} {value!r} is not the log's {folded[name]!r}"
                )

    async def _settle_waiting(self, session: Session) -> None:
        for question in list(session.state.questions):
            declined = self.random.random() < 0.3
            request = requests.Answer(
                id=self.world.new_id("req"), question=question, answer="yes", declined=declined
            )
            await self.simulation.store.submit(SESSION, request)
        run = session.state.run
        assert run is not None and run.step is not None
        for call in run.step.open_calls():
            if call.deferred:
                finish = requests.FinishCall(
                    id=self.world.new_id("req"), call=call.called.call, outcome=ok("finished later")
                )
                await self.simulation.store.submit(SESSION, finish)

    async def _pester(self) -> None:
        """Somebody outside who steers, cancels and prompts at odd moments."""
        for _ in range(self.random.randint(0, 3)):
            await asyncio.sleep(self.random.choice((0.0, 0.001, 0.5, 3.0)))
            new_id = self.world.new_id("req")
            request = self.random.choice(
                (
                    requests.Steer(id=new_id, content=as_content("a steer")),
                    requests.Cancel(id=new_id, by="somebody"),
                    requests.Prompt(id=new_id, content=as_content("a queued prompt")),
                    requests.Rename(id=new_id, title="a title"),
                    requests.Answer(id=new_id, question="q_none"),
                )
            )
            if SESSION in self.simulation.store._sessions:
                await self.simulation.store.submit(SESSION, request)

    # --- what the agent works with ------------------------------------------------------------------

    def _harness(self) -> Harness:
        harness = Harness(
            model=_ChanceModel(self.random),
            hooks=Hooks(self._hooks()),
            permission=Hook("before_tool", self._permission, guard=True, name="permission"),
            limits=Limits(steps=self.random.choice((None, None, 4))),
            silence_limit=20.0,
            waits_for_answers=True,
        )
        harness.use(self._tools())
        return harness

    def _hooks(self) -> list[Hook]:
        def grumpy(planned: PlannedCall) -> Refuse | None:
            if self.random.random() < 0.05:
                raise RuntimeError("a hook that fails")
            return Refuse("not today") if self.random.random() < 0.05 else None

        return [Hook("before_tool", grumpy, name="grumpy")] if self.random.random() < 0.5 else []

    def _permission(self, planned: PlannedCall) -> Ask | None:
        if planned.name == "pay" and self.random.random() < 0.4:
            return Ask(Question("May it pay?", kind="permission"))
        return None

    def _tools(self) -> list[FunctionTool]:
        def happens(context: ToolContext) -> None:
            if not self.dead:
                self.simulation.effects[context.call] += 1

        @tool(parallel=True)
        async def note(context: ToolContext) -> str:
            """Has an effect, beside others."""
            await asyncio.sleep(self.random.random())
            happens(context)
            await asyncio.sleep(self.random.random())
            return "noted"

        @tool
        async def pay(context: ToolContext) -> str:
            """Has an effect, alone."""
            context.output("paying…\n")
            await asyncio.sleep(0)
            happens(context)
            await asyncio.sleep(self.random.random())
            return "paid"

        @tool(parallel=True, idempotent="run")
        async def look(context: ToolContext) -> str:
            """Has none."""
            await asyncio.sleep(self.random.random())
            return "seen"

        @tool
        async def stumble() -> str:
            """Raises."""
            raise RuntimeError("stumbled")

        @tool(timeout=5.0)
        async def dawdle() -> str:
            """Takes too long."""
            await asyncio.sleep(1_000)
            return "at last"

        @tool
        async def inquire() -> NeedUser:
            """Needs a person."""
            return NeedUser(Question("Which colour?"))

        @tool
        async def order() -> Pending:
            """Finishes later."""
            return Pending("order 7")

        return [note, pay, look, stumble, dawdle, inquire, order]


class _ChanceModel:
    """Answers by lot: text, calls, failures of every kind, silence."""

    name = "chance/model"

    def __init__(self, random: Random) -> None:
        self._random = random

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        async for batch in ScriptedModel([self._turn()]).stream(request):
            await asyncio.sleep(self._random.choice((0.0, 0.0, 0.01)))
            yield batch

    async def aclose(self) -> None:
        pass

    def _turn(self) -> Turn:
        draw = self._random.random()
        if draw < 0.05:
            return Turn(failure=failure_of(ConnectionFailed("no way through")))
        if draw < 0.08:
            return Turn(text="half an ans", failure=Failure("stream_broken", "cut", stream_opened=True))
        if draw < 0.10:
            return Turn(text="and then…", hangs=True)
        if draw < 0.60:
            names = (
                "note",
                "note",
                "pay",
                "look",
                "look",
                "stumble",
                "dawdle",
                "inquire",
                "order",
                "nonsense",
            )
            calls = tuple(Call(self._random.choice(names)) for _ in range(self._random.randint(1, 4)))
            if self._random.random() < 0.1:
                calls = (*calls, Call("note", raw='{"broken'))
            return Turn(text=self._random.choice(("", "let me see")), calls=calls)
        return Turn(text="this is the answer")


class FaultyStore:
    """The shared store as one process sees it: calls take turns, and one of them may be the last."""

    def __init__(self, process: _Process, store: MemoryStore) -> None:
        self._process = process
        self._store = store
        self._appends = 0

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._store, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            if name != "arrivals" and self._process.random.random() < 0.3:
                await asyncio.sleep(0)
            self._refuse_the_dead()
            return await method(*arguments, **options)

        return call

    async def append(self, lease: Any, facts: Any, settled: Any = None) -> None:
        await asyncio.sleep(0)
        self._append(lease, facts, settled)

    def append_now(self, lease: Any, facts: Any, settled: Any = None) -> bool:
        if self._process.random.random() < 0.4:
            return False
        self._append(lease, facts, settled)
        return True

    def _append(self, lease: Any, facts: Any, settled: Any) -> None:
        process = self._process
        self._refuse_the_dead()
        self._appends += 1
        due = self._appends == process.fault_at
        if due and process.fault == "dies_before_append":
            self._die()
        if due and process.fault == "disk_full":
            process.simulation.injected.append("disk_full")
            raise StoreFull("no space left in the simulation")
        if due and process.fault == "lease_lost":
            process.simulation.injected.append("lease_lost")
            process.simulation.store._sessions[SESSION].generation += 1
        self._store.append_now(lease, facts, settled or {})
        if due and process.fault == "dies_after_append":
            self._die()

    def _die(self) -> None:
        """From here on nothing of this process happens; its loop stops at its next turn."""
        loop = self._process.simulation.loop
        assert loop is not None
        self._process.dead = True
        loop.dies_at = 0
        raise LeaseLost("the process is dead")

    def _refuse_the_dead(self) -> None:
        if self._process.dead:
            raise LeaseLost("the process is dead")
