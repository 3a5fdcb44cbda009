"""The simulated agent: a model, hooks and tools that make random, seeded choices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import msgspec

from ostler.core import hooks
from ostler.core.call_context import blob_of_call
from ostler.core.children import ChildRequest, ExecutionPolicy, HistoryPolicy
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.hooks import Hook, Hooks, PlannedCall, Point
from ostler.core.model import Model, ModelEvent, ModelRequest
from ostler.core.tool import MODEL_LIMIT, Tool, ToolContext
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema.errors import ConnectionFailed, Failure, UsageError, failure_of
from ostler.schema.events import Limits
from ostler.schema.messages import Message, Text, as_content
from ostler.schema.outcomes import NeedUser, Ok, Pending, Question
from ostler.schema.usage import Usage
from ostler.sessions.agents import DelegateTool
from ostler.testkit.simulator.ledger import PRICES
from ostler.testkit.simulator.process import SimulatedProcess

PROCESS = "simulated process"
"""The service by which a tool knows where it runs."""


def _process_of(context: ToolContext) -> SimulatedProcess:
    process: SimulatedProcess = context.services[PROCESS]
    return process


def _happens(context: ToolContext) -> None:
    process = _process_of(context)
    if not process.dead:
        process.ledger.effect(context.call, leaseless=process.outlived_its_lease(context.session))


async def _happens_once(context: ToolContext) -> None:
    """The effect of an idempotent call: never beside another of its key, nor when there is a result."""
    process, ledger = _process_of(context), _process_of(context).ledger
    key = ledger.keys.get(context.call, "")
    if not process.dead and (key in ledger.succeeded or key in process.running_keys):
        ledger.problems.append(f"{context.call} ran, though its key {key} has a result or runs already")
    process.running_keys.add(key)
    try:
        await asyncio.sleep(process.random.random())
    finally:
        process.running_keys.discard(key)


@cache
def simulated_tools() -> list[Tool]:
    """Made once: reading their signatures takes longer than a simulated process lives."""

    @tool(parallel=True)
    async def note(context: ToolContext) -> str:
        """Has an effect, beside others."""
        await asyncio.sleep(_process_of(context).random.random())
        _happens(context)
        await asyncio.sleep(_process_of(context).random.random())
        return "noted"

    @tool
    async def pay(context: ToolContext) -> str:
        """Has an effect, alone."""
        context.output("paying…\n")
        await asyncio.sleep(0)
        _happens(context)
        await asyncio.sleep(_process_of(context).random.random())
        return "paid"

    @tool(parallel=True)
    async def ponder(context: ToolContext) -> str:
        """Has an effect after so long that the lease must be renewed meanwhile."""
        await asyncio.sleep(_process_of(context).random.choice((9.0, 15.0, 45.0)))
        _happens(context)
        return "pondered"

    @tool(parallel=True, idempotent="run")
    async def look(context: ToolContext, number: int = 1) -> str:
        """Is looked up within a run."""
        await _happens_once(context)
        return f"seen {number}"

    @tool(parallel=True, idempotent="session")
    async def stamp(context: ToolContext, number: int = 1) -> str:
        """Is looked up within a session."""
        await _happens_once(context)
        return f"stamped {number}"

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
    async def farewell() -> Ok:
        """Ends the run."""
        return Ok((Text("that is all"),), ends_run=True)

    @tool(parallel=True)
    async def chatter(context: ToolContext) -> str:
        """Prints for so long that its output is kept, and may return more than the model is told."""
        words = "word by word\n"
        for _ in range(_process_of(context).random.randint(1, 3)):
            context.output(words)
            _process_of(context).ledger.printed[context.call] += len(words)
            await asyncio.sleep(0.3)
        await context.read_blob(blob_of_call(context.call))
        return "word " * (MODEL_LIMIT // 4 if _process_of(context).random.random() < 0.1 else 1)

    @tool(parallel=True)
    async def serve(context: ToolContext) -> str:
        """Starts a process, and ends it."""
        process = _process_of(context)
        server, alive = process.new_tool_process(context.session), process.ledger.tool_processes
        if process.ledger.sees_environments:
            alive.add(server)
        try:
            await context.own_process(server)
            alive.add(server)
            await asyncio.sleep(process.random.random())
            _happens(context)
        finally:
            if not process.dead:
                alive.discard(server)
        return "served"

    @tool
    async def order() -> Pending:
        """Finishes later."""
        return Pending("order 7")

    @tool
    async def inquire(context: ToolContext) -> NeedUser:
        """Needs a person, whose answer is the result."""
        return NeedUser(Question("Which colour?", secret=_process_of(context).random.random() < 0.2))

    @tool
    async def negotiate(context: ToolContext) -> str | NeedUser:
        """Needs a person, and has an effect with the answer."""
        if context.answer is None:
            return NeedUser(Question("How much?"), state={"asked": 1})
        _happens(context)
        return "agreed"

    @tool(parallel=True, timeout=30.0)
    async def consult(context: ToolContext) -> str:
        """Asks a person while it runs, then has an effect."""
        secret = _process_of(context).random.random() < 0.3
        await context.ask(Question("The word?", secret=secret))
        _happens(context)
        return "consulted"

    @tool(parallel=True, reattaches=True)
    async def survey(context: ToolContext) -> str:
        """Has two children at once, and finds them again."""
        short = ExecutionPolicy(limits=Limits(steps=2))
        asked = (
            ChildRequest(as_content("one side")),
            ChildRequest(as_content("the other side"), history=HistoryPolicy(1), execution=short),
        )
        answers = await asyncio.gather(*map(context.run_child, asked), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return "surveyed"

    @tool(timeout=30.0)
    async def outsource(context: ToolContext) -> str:
        """Has a child, and then an effect. It does not find the child again."""
        await context.run_child(ChildRequest(as_content("all of it")))
        _happens(context)
        return "outsourced"

    negotiate.spec = msgspec.structs.replace(negotiate.spec, resumes=True)
    return [
        note,
        pay,
        ponder,
        look,
        stamp,
        stumble,
        dawdle,
        farewell,
        chatter,
        serve,
        order,
        inquire,
        negotiate,
        consult,
        DelegateTool({}),
        survey,
        outsource,
    ]


_LEANINGS = {
    "renew": "ponder",
    "own_process": "serve",
    "append_blob": "chatter",
    "blob": "chatter",
    "read_blob": "chatter",
    "create": "delegate",
    "acquire": "delegate",
}
"""The tool that brings about the operation at which a fault is to happen."""


_DELEGATING = frozenset({"delegate", "survey", "outsource"})

DEEPEST = 2
"""Children below that have none of their own."""


def limits_by_lot(random: Random) -> Limits:
    """The same for all processes of a simulation: a run that is taken over keeps its limits."""
    return Limits(
        steps=random.choice((None, None, None, 4, 12)),
        tokens=random.choice((None, None, None, 100, 400)),
        cost=random.choice((None, None, None, 1.0, 4.0)),
        seconds=random.choice((None, None, None, None, 30.0)),
        depth=random.choice((None, None, 1)),
        children=random.choice((None, None, None, 2, 4)),
        retries=random.choice((None, 1)),
    )


def harness_of(process: SimulatedProcess, limits: Limits) -> Harness:
    random = process.random
    harness = Harness(
        model=ChanceModel(process),
        fallbacks=(_another(process),) if random.random() < 0.3 else (),
        make_model=lambda name: _named(name, process),
        hooks=Hooks([hook for point in DECISIONS for hook in _hooks_at(point, process)]),
        permission_hook=Hook(
            "before_tool", _permission(process), guard=True, name="permission", time_limit=2.0
        ),
        limits=limits,
        silence_limit=20.0,
        wait_for_answers=random.random() < 0.8,
        services={PROCESS: process},
        children_together=random.choice((1, 2, 8)),
    )
    harness.set_tools(simulated_tools())
    return harness


class ChanceModel:
    """Answers by lot: text, calls, failures of every kind, silence."""

    def __init__(self, process: SimulatedProcess, name: str = "chance/model") -> None:
        self.name = name
        self._process = process
        fault = process.fault
        leaning = _LEANINGS.get(fault.at) if fault else None
        names = [one.spec.name for one in simulated_tools()]
        self._names = [*names, "nonsense", *((leaning,) * 8 if leaning else ()), *process.leanings]

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        if request.id not in self._process.ledger.intended and not self._process.dead:
            self._process.ledger.problems.append(f"{request.id} was sent before it was in the log")
        async for batch in ScriptedModel([self._turn(self._process.random, request.session)]).stream(request):
            await asyncio.sleep(self._process.random.choice((0.0, 0.0, 0.01)))
            yield batch

    async def aclose(self) -> None:
        pass

    def _turn(self, random: Random, session: str) -> Turn:
        draw = random.random()
        if draw < 0.05:
            return Turn(failure=failure_of(ConnectionFailed("no way through")))
        if draw < 0.08:
            return Turn(text="half an ans", failure=Failure("stream_broken", "cut", stream_opened=True))
        if draw < 0.10:
            return Turn(text="and then…", hangs=True)
        if draw > 0.60:
            return Turn(text="this is the answer", usage=_usage(random))
        counted = random.random() < 0.2  # as vendors do who count their calls anew in every answer
        calls = [
            self._call(random, session, id=f"call_{session[-4:]}_{number // 2}" if counted else "")
            for number in range(random.randint(1, 4))
        ]
        if random.random() < 0.1:
            calls.append(Call("note", raw='{"broken'))
        return Turn(text=random.choice(("", "let me see")), calls=tuple(calls), usage=_usage(random))

    def _call(self, random: Random, session: str, id: str) -> Call:
        name = random.choice(self._names)
        depth = self._process.shared.depth(session)
        if name in _DELEGATING and (depth >= DEEPEST or random.random() < 0.3 * depth):
            name = "look"
        match name:
            case "delegate":
                return Call(name, {"task": random.choice(("a part", "another part"))}, id=id)
            case "look" | "stamp":
                return Call(name, {"number": random.randint(1, 2)}, id=id)
        return Call(name, id=id)


def _usage(random: Random) -> Usage:
    """Now and then nobody knows what it cost."""
    cost = None if random.random() < 0.01 else random.choice(PRICES)
    return Usage(input_tokens=10, output_tokens=random.choice((5, 20)), cost=cost)


# --- hooks ------------------------------------------------------------------------------------------


def _hooks_at(point: Point, process: SimulatedProcess) -> list[Hook]:
    if process.random.random() > 0.25:
        return []
    guard = process.random.random() < 0.4
    handler = _disturbed(process, DECISIONS[point], guard=guard)
    return [Hook(point, handler, guard=guard, name=f"chance {point}", time_limit=2.0)]


def _permission(process: SimulatedProcess) -> Callable[[PlannedCall], Awaitable[Any]]:
    def decide(planned: PlannedCall, process: SimulatedProcess) -> Any:
        return hooks.Ask(Question("May it?", kind="permission"), by="permission")

    return _disturbed(process, decide, guard=True, disturbed=0.02)


def _disturbed(
    process: SimulatedProcess,
    decide: Callable[[Any, SimulatedProcess], Any],
    *,
    guard: bool,
    disturbed: float = 0.1,
) -> Callable[[Any], Awaitable[Any]]:
    """A handler that now and then raises, hangs or decides nonsense; then a guard has refused."""

    async def handler(subject: Any) -> Any:
        call = subject.call if isinstance(subject, PlannedCall) else ""
        refused = process.ledger.refused
        refused.discard(call)
        draw = process.random.random()
        if draw < disturbed:
            if guard and call:
                refused.add(call)
            return await _misbehave(process.random)
        if draw > 0.25:
            return None
        decision = decide(subject, process)
        if isinstance(decision, hooks.Refuse) and call:
            refused.add(call)
        return decision

    return handler


async def _misbehave(random: Random) -> Any:
    match random.randrange(4):
        case 0:
            raise RuntimeError("a hook that fails")
        case 1:
            raise SystemExit(3)
        case 2:
            await asyncio.sleep(1_000)
    return "nonsense"


def _before_step(plan: hooks.StepPlan, process: SimulatedProcess) -> Any:
    return process.random.choice(
        (
            hooks.Refuse("no more steps"),
            msgspec.structs.replace(plan, tools=plan.tools[::2], tool_choice="none"),
            msgspec.structs.replace(plan, model=_another(process)),
        )
    )


def _context(draft: hooks.ContextDraft, process: SimulatedProcess) -> Any:
    said = Message("user", (Text("by the way"),))
    return process.random.choice(
        (
            msgspec.structs.replace(draft, system="Be brief."),
            msgspec.structs.replace(draft, messages=(*draft.messages[-1:], said)),
        )
    )


def _before_tool(planned: PlannedCall, process: SimulatedProcess) -> Any:
    return process.random.choice(
        (
            hooks.Refuse("not today"),
            hooks.Rewrite({}),
            hooks.Rewrite({"unheard_of": 1}),
            hooks.Rewrite("no object"),
            hooks.Ask(Question("Really?")),
        )
    )


def _after_tool(finished: hooks.FinishedCall, process: SimulatedProcess) -> Any:
    return process.random.choice(
        (
            msgspec.structs.replace(finished, content=(Text("rewritten"),)),
            msgspec.structs.replace(finished, failed="tool_failed", details={"why": "by lot"}),
        )
    )


def _before_message(draft: hooks.DraftMessage, process: SimulatedProcess) -> Any:
    return process.random.choice((hooks.Suppress("not for people"), hooks.Replace("something else")))


def _after_failure(failed: hooks.FailedCall, process: SimulatedProcess) -> Any:
    return process.random.choice(
        (hooks.Retry(0.5), hooks.Retry(model=_another(process)), hooks.GiveUp()),
    )


def _another(process: SimulatedProcess) -> Model:
    return ChanceModel(process, "chance/other")


def _named(name: str, process: SimulatedProcess) -> Model:
    if not name.startswith("chance/"):
        raise UsageError(f"there is no model {name!r}")
    return ChanceModel(process, name)


DECISIONS: dict[Point, Callable[[Any, SimulatedProcess], Any]] = {
    "before_step": _before_step,
    "context": _context,
    "before_tool": _before_tool,
    "after_tool": _after_tool,
    "before_message": _before_message,
    "after_failure": _after_failure,
}
