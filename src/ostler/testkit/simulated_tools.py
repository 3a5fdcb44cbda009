"""The tools of a simulated agent: they have effects, ask, print, finish later, and have children."""

from __future__ import annotations

import asyncio
from functools import cache

import msgspec

from ostler.kernel.child import ChildRequest, ExecutionPolicy, HistoryPolicy
from ostler.kernel.output import MODEL_LIMIT, blob_of_call
from ostler.kernel.tool import Tool, ToolContext, tool
from ostler.runs.delegate import DelegateTool
from ostler.testkit.simulated_store import SimulatedProcess
from ostler.vocabulary.events import Limits
from ostler.vocabulary.messages import Text, as_content
from ostler.vocabulary.outcomes import NeedUser, Ok, Pending, Question

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
