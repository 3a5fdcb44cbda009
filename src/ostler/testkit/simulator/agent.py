"""The simulated agent: a model, hooks and tools that make random, seeded choices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cache
from random import Random
from typing import Any, get_args

from msgspec.structs import replace

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
"""The service with the process that a tool runs in."""


def _process_of(context: ToolContext) -> SimulatedProcess:
    process: SimulatedProcess = context.services[PROCESS]
    return process


def _cause_effect(context: ToolContext) -> None:
    process = _process_of(context)
    if not process.is_dead:
        process.ledger.effect(context.call, leaseless=process.has_expired_lease(context.session))


async def _run_once(context: ToolContext) -> None:
    """An idempotent call: never beside another with its key, nor if the key has a result."""
    process, ledger = _process_of(context), _process_of(context).ledger
    key = ledger.keys.get(context.call, "")
    if not process.is_dead and (key in ledger.succeeded or key in process.running_keys):
        ledger.problems.append(f"{context.call} ran, though its key {key} has a result or runs already")
    process.running_keys.add(key)
    try:
        await asyncio.sleep(process.random.random())
    finally:
        process.running_keys.discard(key)


@cache
def simulated_tools() -> list[Tool]:
    """Cached, because reading their signatures takes longer than a simulated process lives."""

    @tool(parallel=True)
    async def note(context: ToolContext) -> str:
        """Has an effect, in parallel with others."""
        await asyncio.sleep(_process_of(context).random.random())
        _cause_effect(context)
        await asyncio.sleep(_process_of(context).random.random())
        return "noted"

    @tool
    async def pay(context: ToolContext) -> str:
        """Has an effect, alone."""
        context.output("paying…\n")
        await asyncio.sleep(0)
        _cause_effect(context)
        await asyncio.sleep(_process_of(context).random.random())
        return "paid"

    @tool(parallel=True)
    async def ponder(context: ToolContext) -> str:
        """Has an effect after so long that the lease must be renewed."""
        await asyncio.sleep(_process_of(context).random.choice((9.0, 15.0, 45.0)))
        _cause_effect(context)
        return "pondered"

    @tool(parallel=True, idempotent="run")
    async def look(context: ToolContext, number: int = 1) -> str:
        """Is idempotent within a run."""
        await _run_once(context)
        return f"seen {number}"

    @tool(parallel=True, idempotent="session")
    async def stamp(context: ToolContext, number: int = 1) -> str:
        """Is idempotent within a session."""
        await _run_once(context)
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
        """Prints so much that its output is stored, and may return more than the model gets."""
        words = "word by word\n"
        for _ in range(_process_of(context).random.randint(1, 3)):
            context.output(words)
            _process_of(context).ledger.printed[context.call] += len(words)
            await asyncio.sleep(0.3)
        await context.read_blob(blob_of_call(context.call))
        return "word " * (MODEL_LIMIT // 4 if _process_of(context).random.random() < 0.1 else 1)

    @tool(parallel=True)
    async def serve(context: ToolContext) -> str:
        """Starts a process and ends it."""
        process = _process_of(context)
        server, alive = process.new_tool_process(context.session), process.ledger.tool_processes
        if process.ledger.sees_environments:
            alive.add(server)
        try:
            await context.own_process(server)
            alive.add(server)
            await asyncio.sleep(process.random.random())
            _cause_effect(context)
        finally:
            if not process.is_dead:
                alive.discard(server)
        return "served"

    @tool
    async def order() -> Pending:
        """Finishes later."""
        return Pending("order 7")

    @tool
    async def inquire(context: ToolContext) -> NeedUser:
        """Needs a person; the answer is the result."""
        return NeedUser(Question("Which colour?", secret=_process_of(context).random.random() < 0.2))

    @tool
    async def negotiate(context: ToolContext) -> str | NeedUser:
        """Needs a person, and has an effect once it has the answer."""
        if context.answer is None:
            return NeedUser(Question("How much?"), state={"asked": 1})
        _cause_effect(context)
        return "agreed"

    @tool(parallel=True, timeout=30.0)
    async def consult(context: ToolContext) -> str:
        """Asks a person while it runs, then has an effect."""
        await context.ask(Question("The word?", secret=_process_of(context).random.random() < 0.3))
        _cause_effect(context)
        return "consulted"

    @tool(parallel=True, reattaches=True)
    async def survey(context: ToolContext) -> str:
        """Has two children at once, and reattaches to them."""
        short = ExecutionPolicy(limits=Limits(steps=2))
        first = ChildRequest(as_content("one side"))
        second = ChildRequest(as_content("the other side"), history=HistoryPolicy(1), execution=short)
        for result in await asyncio.gather(*map(context.run_child, (first, second)), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        return "surveyed"

    @tool(timeout=30.0)
    async def outsource(context: ToolContext) -> str:
        """Has a child, and then an effect. It does not reattach to the child."""
        await context.run_child(ChildRequest(as_content("all of it")))
        _cause_effect(context)
        return "outsourced"

    negotiate.spec = replace(negotiate.spec, resumes=True)
    alone = [note, pay, ponder, look, stamp, stumble, dawdle, farewell, chatter, serve]
    return [*alone, order, inquire, negotiate, consult, DelegateTool({}), survey, outsource]


_TOOL_FOR = {
    "renew": "ponder",
    "own_process": "serve",
    "append_blob": "chatter",
    "blob": "chatter",
    "read_blob": "chatter",
    "create": "delegate",
    "acquire": "delegate",
}
"""The tool that uses the operation at which a fault happens."""

_DELEGATING = frozenset({"delegate", "survey", "outsource"})

DEEPEST = 2
"""Children at this depth have none of their own."""


def random_limits(random: Random) -> Limits:
    """The same for all processes of a simulation, because a run that is taken over keeps its limits."""
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
    question = hooks.Ask(Question("May it?", kind="permission"), by="permission")
    ask = _unreliable(process, guard=True, failure_rate=0.02, always=question)
    harness = Harness(
        model=RandomModel(process),
        fallbacks=(_other_model(process),) if random.random() < 0.3 else (),
        make_model=lambda name: _named_model(name, process),
        hooks=Hooks([hook for point in HOOK_POINTS for hook in _hooks_at(point, process)]),
        permission_hook=Hook("before_tool", ask, guard=True, name="permission", time_limit=2.0),
        limits=limits,
        silence_limit=20.0,
        wait_for_answers=random.random() < 0.8,
        services={PROCESS: process},
        children_together=random.choice((1, 2, 8)),
    )
    harness.set_tools(simulated_tools())
    return harness


class RandomModel:
    """Gives random answers: text, calls, failures of every kind, silence."""

    def __init__(self, process: SimulatedProcess, name: str = "chance/model") -> None:
        self.name = name
        self._process = process
        useful = _TOOL_FOR.get(process.fault.at) if process.fault else None
        names = [tool.spec.name for tool in simulated_tools()]
        self._names = [*names, "nonsense", *((useful,) * 8 if useful else ()), *process.favourite_tools]

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        process = self._process
        if request.id not in process.ledger.intended and not process.is_dead:
            process.ledger.problems.append(f"{request.id} was sent before it was in the log")
        async for batch in ScriptedModel([self._turn(process.random, request.session)]).stream(request):
            await asyncio.sleep(process.random.choice((0.0, 0.0, 0.01)))
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
        counted = random.random() < 0.2  # like vendors that number the calls of each answer from 0
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
        if name == "delegate":
            return Call(name, {"task": random.choice(("a part", "another part"))}, id=id)
        return Call(name, {"number": random.randint(1, 2)} if name in ("look", "stamp") else {}, id=id)


def _usage(random: Random) -> Usage:
    """Sometimes the cost is unknown."""
    cost = None if random.random() < 0.01 else random.choice(PRICES)
    return Usage(input_tokens=10, output_tokens=random.choice((5, 20)), cost=cost)


# --- hooks ------------------------------------------------------------------------------------------

HOOK_POINTS: tuple[Point, ...] = get_args(Point)[2:8]  # from before_step to after_failure


def _hooks_at(point: Point, process: SimulatedProcess) -> list[Hook]:
    if process.random.random() > 0.25:
        return []
    guard = process.random.random() < 0.4
    handler = _unreliable(process, guard=guard)
    return [Hook(point, handler, guard=guard, name=f"random {point}", time_limit=2.0)]


def _unreliable(
    process: SimulatedProcess, *, guard: bool, failure_rate: float = 0.1, always: hooks.Ask | None = None
) -> Callable[[Any], Awaitable[Any]]:
    """A handler that sometimes raises, hangs or returns an invalid decision; in a guard, that refuses."""

    async def handler(subject: Any) -> Any:
        call = subject.call if isinstance(subject, PlannedCall) else ""
        refused = process.ledger.refused
        refused.discard(call)
        draw = process.random.random()
        if draw < failure_rate:
            if guard and call:
                refused.add(call)
            return await _misbehave(process.random)
        if draw > 0.25:
            return None
        decision = always or process.random.choice(_decisions(subject, _other_model(process)))
        if isinstance(decision, hooks.Refuse) and call:
            refused.add(call)
        return decision

    return handler


async def _misbehave(random: Random) -> Any:
    match random.randrange(4):
        case 0:
            raise RuntimeError("a hook fails")
        case 1:
            raise SystemExit(3)
        case 2:
            await asyncio.sleep(1_000)
    return "nonsense"


def _decisions(subject: Any, other: Model) -> tuple[Any, ...]:
    """What a hook may decide about its argument."""
    match subject:
        case hooks.StepPlan(tools=tools):
            fewer_tools = replace(subject, tools=tools[::2], tool_choice="none")
            return hooks.Refuse("no more steps"), fewer_tools, replace(subject, model=other)
        case hooks.ContextDraft(messages=messages):
            changed = (*messages[-1:], Message("user", (Text("by the way"),)))
            return replace(subject, system="Be brief."), replace(subject, messages=changed)
        case PlannedCall():
            rewrites = [hooks.Rewrite(arguments) for arguments in ({}, {"unheard_of": 1}, "no object")]
            return hooks.Refuse("not today"), *rewrites, hooks.Ask(Question("Really?"))
        case hooks.FinishedCall():
            failed = replace(subject, failed="tool_failed", details={"why": "by chance"})
            return replace(subject, content=(Text("rewritten"),)), failed
        case hooks.DraftMessage():
            return hooks.Suppress("not for people"), hooks.Replace("something else")
    return hooks.Retry(0.5), hooks.Retry(model=other), hooks.GiveUp()


def _other_model(process: SimulatedProcess) -> Model:
    return RandomModel(process, "chance/other")


def _named_model(name: str, process: SimulatedProcess) -> Model:
    if not name.startswith("chance/"):
        raise UsageError(f"there is no model {name!r}")
    return RandomModel(process, name)
