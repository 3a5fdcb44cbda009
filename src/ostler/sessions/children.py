"""`ChildRuns`: children are runs in sessions of their own, whose parent is another run's call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from ostler.context.session_context import SessionContext
from ostler.core.children import (
    ChildRequest,
    ChildResult,
    ChildStatus,
    ChildWaits,
    HistoryPolicy,
    record_child_end,
)
from ostler.core.context import Context
from ostler.core.harness import Harness, ParentCall, TreePosition
from ostler.core.journal import World
from ostler.core.run_state import BudgetUse
from ostler.core.state import SessionState
from ostler.core.store import Store
from ostler.core.transcript import Transcript
from ostler.schema import events
from ostler.schema.errors import CallRefused, NotFound, OstlerError, SessionHeld
from ostler.schema.events import RunEnded, RunWaiting, ToolResultFact
from ostler.schema.facts import Fact
from ostler.schema.messages import Block, Message, ToolCall, ToolResult, text_of
from ostler.schema.outcomes import Failed, Ok, failed, ok
from ostler.schema.requests import Cancel
from ostler.schema.text import plural
from ostler.sessions.lease import close_dead_agent
from ostler.sessions.run_tree import facts_in, is_stuck, load_state
from ostler.sessions.session import Session, create_session, open_session

LOOK_AGAIN = 2.0
"""Seconds until it tries again to open a child that another process drives."""


class ChildRuns:
    """Runs the children of a session's calls, `together` of them in parallel."""

    def __init__(self, store: Store, world: World, together: int) -> None:
        self._store = store
        self._world = world
        self._turns = asyncio.Semaphore(together)
        self._idle_at: dict[str, int] = {}
        """How many facts a child and its children had when it last waited here."""

    async def run(self, child: str, request: ChildRequest, parent: ParentCall) -> ChildResult:
        if ended := await self._ended(child, request, parent):
            return ended
        async with self._turns:
            while True:
                try:
                    session = await self._open(child, request, parent)
                    break
                except SessionHeld:  # another process answered its question, and drives it
                    await self._until_idle(child)
            try:
                return await self._drive(session, request, parent)
            finally:
                await session.close()

    async def _until_idle(self, child: str) -> None:
        """Waits until a child's run that another process drives ends or waits, or that process is gone."""
        last = await self._store.last_seq(child)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN), aclosing(self._store.follow(child, last)) as followed:  # type: ignore[type-var]
                async for facts in followed:
                    if any(fact.type in ("run_ended", "run_waiting") for fact in facts):
                        return

    async def _drive(self, session: Session, request: ChildRequest, parent: ParentCall) -> ChildResult:
        if request.trace.live:
            session.subscribe(lambda batch: parent.publish_trace(session.id, batch))
        judge = request.execution.judge
        try:
            while (result := await self._result(session.state, judge)) is None:
                is_new = session.state.run is None
                starting = session.prompt(request.prompt, at_once=True) if is_new else session.advance()
                if isinstance(await starting, RunWaiting):
                    self._idle_at[session.id] = await facts_in(self._store, session.state)
                    raise ChildWaits(session.id)
        except asyncio.CancelledError:
            if cancelled := await self._result(session.state, judge):
                record_child_end(parent.journal, parent.budget, cancelled)
            raise
        record_child_end(parent.journal, parent.budget, result)
        return result

    async def _ended(self, child: str, request: ChildRequest, parent: ParentCall) -> ChildResult | None:
        """The result of a child whose end is recorded already, even if it never started."""
        run = parent.journal.state.run
        state_in_run = run.children.get(child) if run else None
        ended = state_in_run.ended if state_in_run else None
        if ended is None:
            return None
        with suppress(NotFound):
            state = await load_state(self._store, child)
            if result := await self._result(state, request.execution.judge):
                return result
        return ChildResult(child, "", ended.status, reason=ended.reason)

    async def _result(self, state: SessionState, judge: str = "") -> ChildResult | None:
        return result_of(await self._store.read(state.id), judge) if state.last_run else None

    async def _open(self, child: str, request: ChildRequest, parent: ParentCall) -> Session:
        harness, position = child_harness(request, parent), child_position(parent)
        store, world = self._store, self._world
        try:
            session = await open_session(store, child, harness, world=world, position=position)
        except NotFound:
            origin: dict[str, Any] = {"session": child, "child_of": parent.session, "call": parent.call}
            session = await create_session(store, harness, world=world, position=position, **origin)
        if request.resumes:
            history = tuple((await load_state(store, request.resumes)).transcript)
        else:
            history = inherited_history(parent.journal.state.transcript, request.history)
        if history and session.state.run is None and not session.state.leaf:  # also after a crash in between
            await session.replace_history(history)
        return session

    async def status(self, child: str) -> ChildStatus:
        try:
            state = await load_state(self._store, child)
        except NotFound:
            return ChildStatus(False, BudgetUse())
        if result := await self._result(state):
            return ChildStatus(False, BudgetUse.of(result.own, result.children))
        # One that has made no progress since it was last driven is not driven again.
        is_idle = self._idle_at.get(child) == await facts_in(self._store, state)
        return ChildStatus(is_idle or await is_stuck(self._store, state), await self._used_by(state))

    async def _used_by(self, state: SessionState) -> BudgetUse:
        used = state.run.used() if state.run else BudgetUse()
        for child in state.run.open_children() if state.run else ():
            used.add((await self.status(child)).used)
            used.children += 1
        return used

    async def end(self, child: str, reason: str, harness: Harness) -> ChildResult | None:
        """Submits a cancel, and handles it here unless another process drives the child."""
        while True:
            try:
                state = await load_state(self._store, child)
            except NotFound:
                return None
            result = await self._result(state)
            if result is not None or state.run is None:
                return result
            if state.driver != "agent" and (ended := await close_dead_agent(self._store, child, self._world)):
                return ended
            await self._store.submit(child, Cancel(id=f"end-{state.run.id}", by="its parent"))
            await self._handle_cancel(child, harness)

    async def cut(self, child: str, harness: Harness) -> ChildResult | None:
        with suppress(NotFound, SessionHeld):
            session = await open_session(self._store, child, harness, world=self._world)
            try:
                if session.state.run is None or session.state.run.waiting is None:
                    await session.close_interrupted_run()
            finally:
                await session.close()
        return await self.end(child, "its process ended", harness)

    async def _handle_cancel(self, child: str, harness: Harness) -> None:
        try:
            session = await open_session(self._store, child, harness, world=self._world)
        except SessionHeld:
            await self._until_idle(child)  # the process that holds it handles the cancel
            return
        try:
            if session.state.run is not None:
                await session.advance()
        finally:
            await session.close()


def child_harness(request: ChildRequest, parent: ParentCall) -> Harness:
    """A child's harness: its parent's with the same guards, and with what the request changes."""
    harness, execution = parent.harness, request.execution
    if execution.judge and execution.judge not in harness.tools:
        raise CallRefused(f"There is no tool {execution.judge!r} that could judge the child's work.")
    allowed = set(harness.tools if execution.tools is None else execution.tools) | {execution.judge}

    def make_system(instead: str) -> str:
        beginning = instead or execution.system
        system = harness.make_system(beginning) if harness.make_system else beginning or harness.system
        return "\n\n".join(part for part in (system, execution.append_system) if part)

    child = msgspec.structs.replace(
        harness,
        system=make_system(""),
        make_system=make_system,
        limits=msgspec.structs.replace(execution.limits, retries=harness.limits.retries),
        answer_schema=None,
        wait_for_answers=harness.wait_for_answers and parent.call != "",
        context=_context(request, harness),
        agent=request.agent,
    )
    child.set_tools(tool for name, tool in harness.tools.items() if name in allowed)
    if isinstance(child.context, SessionContext):
        child.context.equip(child)
    try:
        if execution.model:
            child.set_model(execution.model)
    except OstlerError as error:
        raise CallRefused(f"The child cannot have the model {execution.model}: {error.message}") from None
    return child


def _context(request: ChildRequest, harness: Harness) -> Context | None:
    """A context with its parent's rules and its own. A host's own context has no rules to change."""
    rules = request.execution.context
    if not rules or not isinstance(harness.context, SessionContext):
        return harness.context.for_child() if harness.context else None
    try:
        return harness.context.for_agent(rules)
    except OstlerError as error:
        raise CallRefused(f"The child has invalid context rules: {error.message}") from None


def child_position(parent: ParentCall) -> TreePosition:
    def permissions() -> dict[str, str]:
        inherited = parent.position.permissions() if parent.position else {}
        return {**inherited, **parent.journal.state.permissions}

    return TreePosition(parent.root_run, parent.run, parent.depth + 1, parent.budget, permissions)


def inherited_history(transcript: Transcript, policy: HistoryPolicy) -> tuple[Message, ...]:
    """The messages of the last runs that a child gets: prompts and answers, or what the filter selects."""
    if policy.runs <= 0:
        return ()
    messages = list(transcript)
    prompts = [index for index, message in enumerate(messages) if message.role == "user"]
    if not prompts:
        return ()
    keep = policy.keep or _is_prompt_or_answer
    selected = [message for message in messages[prompts[-policy.runs :][0] :] if keep(message)]
    return tuple(message for message in _paired(selected) if message.content)


def _is_prompt_or_answer(message: Message) -> bool:
    return message.role == "user" or (message.role == "assistant" and not message.calls)


def _paired(messages: list[Message]) -> list[Message]:
    """Drops calls without a result and results without a call: no model accepts those."""
    blocks = [block for message in messages for block in message.content]
    calls = {block.id for block in blocks if isinstance(block, ToolCall)}
    paired = calls & {block.call for block in blocks if isinstance(block, ToolResult)}

    def is_paired(block: Block) -> bool:
        match block:
            case ToolCall(id=call) | ToolResult(call=call):
                return call in paired
        return True

    return [Message(message.role, tuple(filter(is_paired, message.content))) for message in messages]


def result_of(facts: Sequence[Fact], judge: str = "") -> ChildResult | None:
    """The result of a child's run: its answer, or the judge's, or what there was when it was stopped. None
    while it has not ended. Other runs in its session, which users started, are ignored. A child that was
    spawned between runs has no parent."""
    session, run, first = facts[0].session, "", facts[0].event
    is_spawned = isinstance(first, events.SessionStarted) and not first.call
    text, judged, ended = "", None, None
    for fact in facts:
        if fact.type != "run_started" and (not run or fact.run != run):
            continue
        match fact.event:
            case events.RunStarted(parent_run=parent) if parent or is_spawned:
                run = run or fact.run
            case events.AssistantMessage(content=content) if judged is None:
                text = text_of(content) or text
            case ToolResultFact(name=name, failed=None, content=content, details=details) if name == judge:
                text, judged = text_of(content), details or {}
            case RunEnded() as end:
                ended = end
    if ended is None:
        return None
    return ChildResult(
        session, run, ended.status, text, ended.reason, judged, own=ended.own, children=ended.children
    )


def outcome_of(result: ChildResult) -> Ok | Failed:
    details: dict[str, Any] = {"child": result.session, "status": result.status}
    if result.judged:
        details["judged"] = result.judged
    cost = (result.own + result.children).usage.cost
    price = "cost unknown" if cost is None else f"${cost:.4f}"
    summary = f"{result.status} after {plural(result.own.steps, 'step')}, {price}"
    if result.is_whole:
        return ok(result.text or "(the child gave no answer)", details=details, summary=summary)
    so_far = f"\nIts answer so far:\n{result.text}" if result.text else ""
    why = f": {result.reason}" if result.reason not in ("", result.status) else ""
    return failed(f"The child was cut ({result.status}{why}).{so_far}", details=details, summary=summary)
