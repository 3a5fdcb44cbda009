"""The loop: drives a session's open run from its last fact until it ends or waits.

    run_started
      user_message
      step_started, model_called … usage, assistant_message, tool_called*
      tool_started … tool_result, for each call
      step_ended, user_message* (steering)
      …
    run_ended, or run_waiting

`next_action` looks only at the facts, so it makes no difference whether they were written a moment ago or by
a process that was killed last week.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from ostler.core.budget import Budget, limits_of, time_limit
from ostler.core.cancellation import CancelToken, ScopeCancelled, cancel_scope
from ostler.core.children import SpawnedChildren
from ostler.core.context import BuiltContext, CompactionRequest, Context, ContextInput, context_input
from ostler.core.harness import OpenSession
from ostler.core.hooks import Refuse, RunPlan, StepPlan, hook_scope
from ostler.core.lazy import lazy_module
from ostler.core.model import Model, ToolOffers
from ostler.core.model_call import ModelCaller
from ostler.core.recovery import recover
from ostler.core.run_state import STOP_AT, RunState, StepState, most_repeated, reminder
from ostler.schema import events
from ostler.schema.errors import Failure
from ostler.schema.events import RunEnded, RunStatus, RunWaiting
from ostler.schema.messages import File, Image, Text, text_of
from ostler.schema.requests import Steer

if TYPE_CHECKING:
    from ostler.core import tool_calls
else:
    tool_calls = lazy_module("ostler.core.tool_calls")

MAX_PROTOCOL_ERRORS = 4
"""The run fails after so many malformed calls in a row."""

Action = Literal["end_run", "cancel", "wait", "begin_step", "call_model", "run_tools", "end_step"]


def next_action(run: RunState, *, ending: bool, cancelled: bool, pause: bool, stuck: bool) -> Action:
    """What a run does next, by its facts and by its state in this process."""
    step = run.step
    if ending:
        return "end_run"
    if cancelled:
        return "cancel"
    if run.is_paused or stuck:
        return "wait"
    if step is None or step.ended:
        is_last = step is not None and (step.message is None or not step.calls)
        return "wait" if pause and not is_last else "begin_step"
    if step.message is None:
        return "call_model"
    return "run_tools" if step.open_calls() else "end_step"


class Loop:
    """Drives one run of one session. Each drive makes a new one."""

    def __init__(self, session: OpenSession, cancel: CancelToken) -> None:
        journal, harness, run = session.journal, session.harness, session.journal.state.run
        self.session = session
        self.journal = journal
        self.cancel = cancel
        self._harness = harness
        self._scope = hook_scope(journal, cancel)
        self._limits = limits_of(run.started.limits, harness.limits) if run else harness.limits
        self.budget = Budget(journal, self._limits, session.position.budget if session.position else None)
        self.model_caller = ModelCaller(session, cancel, self._scope)
        self.spawned = SpawnedChildren(session, session.children, self.budget)
        self.steers: list[Steer] = []
        """Messages for the model that arrived during the run, in order."""
        self.pause_request = ""
        self.compaction: CompactionRequest | None = None
        """A request to compact the context before the next call."""
        self.ended: RunEnded | None = None
        self._ending: RunEnded | None = None
        """How the run ends, as soon as its children have ended."""
        self._is_stuck = False
        """The open calls wait for requests."""
        self._fallbacks: dict[str, Model] = {}
        """The models that replace a failed one until the run ends, by its name."""
        self._run_plan: RunPlan | None = None
        self._plan: StepPlan | None = None

    @cached_property
    def tool_runner(self) -> tool_calls.ToolRunner:
        return tool_calls.ToolRunner(self.session, self.cancel, self._scope, self.budget)

    async def advance(self) -> RunEnded | RunWaiting:
        """Continues until the run has ended, or waits. Calling it twice is harmless."""
        with self._harness.start_span("run", session=self.journal.session):
            async with time_limit(self.journal, self._limits.seconds, self.cancel):
                await recover(self)
                while (run := self.journal.state.run) is not None:
                    action = next_action(
                        run,
                        ending=self._ending is not None,
                        cancelled=self.cancel.cancelled,
                        pause=bool(self.pause_request),
                        stuck=self._is_stuck,
                    )
                    match action:
                        case "end_run":
                            await self._end_run(run)
                        case "cancel":
                            await self._cancel_run(run)
                        case "wait":
                            if waiting := await self._wait(run):
                                return waiting
                        case "begin_step":
                            await self._begin_step(run)
                        case "call_model":
                            await self._call_model(run)
                        case "run_tools":
                            await self._run_tools(run)
                        case "end_step":
                            assert run.step is not None
                            self.journal.record(events.StepEnded(run.step.number))
                await self.journal.commit()
        assert self.ended is not None
        return self.ended

    def take_steers(self) -> list[Steer]:
        steers, self.steers = self.steers, []
        return steers

    async def _begin_step(self, run: RunState) -> None:
        """Ends the run, or begins its next step."""
        if await self._is_over(run):
            return
        for listener in self._harness.listeners:
            await listener.before_step(self.session)
        if refusal := await self._plan_run():
            self._end("refused", refusal.reason or "a hook refused the run")
            return
        number = run.steps + 1
        if reason := await self.budget.reserve():
            self._end("limit", reason)
            return
        plan = await self._plan_step(number, tuple(sorted(self._harness.tools)))
        if isinstance(plan, Refuse):
            self.journal.record(events.StepStarted(number))
            self._end_refused(number, plan)
            return
        self._plan = plan
        self.journal.record(events.StepStarted(number, plan.tools))

    async def _plan_run(self) -> Refuse | None:
        """Asks the `before_run` hooks: once for a run, and again when another process continues it."""
        if self._run_plan is not None or "before_run" not in self._harness.hooks:
            return None
        prompts = [message for message in self.journal.state.transcript if message.role == "user"]
        content = prompts[-1].content if prompts else ()
        plain = tuple(block for block in content if isinstance(block, Text | Image | File))
        await self.journal.commit()
        verdict = await self._harness.hooks.before_run(RunPlan(plain), self._scope)
        if isinstance(verdict, Refuse):
            return verdict
        self._run_plan = verdict
        return None

    async def _plan_step(self, number: int, tools: tuple[str, ...]) -> StepPlan | Refuse:
        """What a step uses: these tools and the run's model, unless a hook changes it."""
        model = self._harness.model
        while model.name in self._fallbacks:
            model = self._fallbacks[model.name]
        plan = StepPlan(number, model, tools)
        if "before_step" not in self._harness.hooks:
            return plan
        await self.journal.commit()
        verdict = await self._harness.hooks.before_step(plan, self._scope)
        if isinstance(verdict, Refuse):
            return verdict
        return msgspec.structs.replace(verdict, tools=tuple(sorted(set(verdict.tools) & set(tools))))

    def _end_refused(self, number: int, refusal: Refuse) -> None:
        reason = refusal.reason or "a hook refused the step"
        self.journal.record(events.StepEnded(number, refused=reason))
        self._end("refused", reason)

    async def _is_over(self, run: RunState) -> bool:
        """Whether the previous step was the last; if not, steers become messages."""
        step = run.step
        if step is not None and self._must_end(run, step):
            return True
        if step is not None and not step.calls:  # the model has finished: the last chance to steer it
            await self.spawned.join(self.cancel)
            if self.cancel.cancelled:
                return True
            await self.session.read_inbox()
        steers = self.take_steers()
        for steer in steers:
            message = events.UserMessage(steer.content, source="steer", request=steer.id)
            self.journal.record(message, settles=steer.id)
        if step is None or steers:
            return False
        if not step.calls:
            stop_reason = step.message.stop_reason if step.message else "end"
            if stop_reason == "refusal":
                self._end("refused", "the model refused to answer")
            else:
                is_cut = stop_reason == "length"
                self._end("completed", "the answer was cut by its output limit" if is_cut else "")
            return True
        if self._harness.context is None and (text := reminder(run)) is not None:
            self.journal.record(events.UserMessage((Text(text),), source="reminder", hidden=True))
        return False

    def _must_end(self, run: RunState, step: StepState) -> bool:
        """Ends the run if the step failed, was refused or was the last one allowed."""
        failure = step.failure.failure if step.failure else None
        if step.message is None and step.ended and step.ended.refused:
            self._end("refused", step.ended.refused)
        elif step.message is None:
            self._end("failed", failure.message if failure else "the model did not answer", failure)
        elif step.ends_run:
            self._end("completed", "a tool ended the run")
        elif run.protocol_errors >= MAX_PROTOCOL_ERRORS:
            results = [text_of(call.result.content) for call in step.calls.values() if call.result]
            text = f"{run.protocol_errors} calls in a row could not be understood: {results[-1]}"
            self._end("failed", text, Failure("invalid_arguments", text))
        elif most_repeated(run) >= STOP_AT:
            self._end("limit", f"the same call had the same result {STOP_AT} times in a row")
        return self._ending is not None

    async def _call_model(self, run: RunState) -> None:
        """Makes one attempt at the step's message, after the delay of the previous failure."""
        step = run.step
        assert step is not None
        if step.failure is not None:
            if step.failure.retry_in is None:
                self.journal.record(events.StepEnded(step.number))
                return
            await self.journal.commit()
            try:
                async with cancel_scope(self.cancel):
                    await asyncio.sleep(step.failure.retry_in)
            except ScopeCancelled:
                return
        plan = self._plan
        if plan is None or plan.number != step.number:
            # The process that planned the step is gone: ask the hooks again, with at most the same tools.
            tools = tuple(sorted(set(step.tools) & set(self._harness.tools)))
            verdict = await self._plan_step(step.number, tools)
            if isinstance(verdict, Refuse):
                self._end_refused(step.number, verdict)
                return
            plan = self._plan = verdict
        if not self.budget.is_reserved and (reason := await self.budget.reserve()):
            self.journal.record(events.StepEnded(step.number))
            self._end("limit", reason)
            return
        offers = self._harness.tool_offers(plan.tools)
        if refusal := await self._plan_run():
            self._end_refused(step.number, refusal)
            return
        built = await self._context(step, plan.model, offers)
        if built is None:
            return
        if built.problem:
            self.journal.record(events.StepEnded(step.number, trace=built.trace))
            self._end("failed", built.problem, Failure("context_overflow", built.problem))
            return
        model = await self.model_caller.attempt(step, built, plan.model, offers, plan.tool_choice)
        self.budget.release()
        await self.budget.warn()
        if isinstance(model, Refuse):
            self._end_refused(step.number, model)
            return
        if model is not plan.model:
            self._fallbacks.pop(model.name, None)
            if model.name != plan.model.name:  # a hook may choose one of the same name, for this step
                self._fallbacks[plan.model.name] = model
            self._plan = msgspec.structs.replace(plan, model=model)

    async def _context(self, step: StepState, model: Model, tools: ToolOffers) -> BuiltContext | None:
        """The content of the next request, compacted first if it is full or a request asks for it. None if
        the run was cancelled meanwhile."""
        journal, harness, context = self.journal, self._harness, self._harness.context
        content = context_input(journal, harness, model, tools, self._run_plan)
        if context is None:
            return BuiltContext(content.system, content.transcript, content.appended)
        if order := await self._compaction_due(step, context, content):
            self.compaction = None
            problem = "the run was cancelled"
            with suppress(ScopeCancelled):
                async with cancel_scope(self.cancel):
                    problem = await context.compact(journal, harness, content, order)
            if problem and journal.state.transcript is content.transcript:
                reason = f"the context was not compacted: {problem}"
                refused = events.RequestRefused(order.request, reason) if order.request else None
                journal.record(refused or events.Warned(reason), settles=order.request)
            if self.cancel.cancelled:
                return None
            content = context_input(journal, harness, model, tools, self._run_plan)
        with suppress(ScopeCancelled):  # context providers are third-party code, and may wait
            async with cancel_scope(self.cancel):
                built = await context.build(journal, content)
                return _with_plan(built, self._run_plan) if self._run_plan is not None else built
        return None

    async def _compaction_due(
        self, step: StepState, context: Context, content: ContextInput
    ) -> CompactionRequest | None:
        if step.failure is not None and step.failure.failure.kind == "context_overflow":
            return CompactionRequest("overflow")
        if self.compaction is not None:
            return self.compaction
        needs_compaction = await context.needs_compaction(self.journal, content)
        return CompactionRequest("automatic") if needs_compaction else None

    async def _run_tools(self, run: RunState) -> None:
        """Moves the open calls of a step as far as possible."""
        step = run.step
        assert step is not None
        has_moved = bool(run.children) and await self.tool_runner.find_moved(step)
        if run.is_paused:  # since a moment ago
            return
        if has_moved and run.waiting:
            self.journal.record(events.RunResumed())
        await self.tool_runner.run(step)
        if not step.open_calls() or await self.spawned.join(self.cancel):
            return
        self._is_stuck = not self.cancel.cancelled and not await self.tool_runner.find_moved(step)

    async def _wait(self, run: RunState) -> RunWaiting | None:
        """Records what the run waits for. None if it had to join spawned children first."""
        if run.waiting is not None and run.is_paused:
            waiting = run.waiting  # only `resume` ends that
        elif self._is_stuck:
            waiting = _waiting_for_calls(run)
        elif await self.spawned.join(self.cancel):
            return None
        else:
            waiting = RunWaiting("paused", request=self.pause_request)
        if run.waiting != waiting:
            self.journal.record(waiting, settles=waiting.request)
        await self.journal.commit()
        self.pause_request = ""
        return waiting

    async def _end_run(self, run: RunState) -> None:
        """Ends the run as decided. A run that completes waits for its spawned children first."""
        assert self._ending is not None
        if self._ending.status == "completed" and await self.spawned.join(self.cancel):
            self._ending = None if self.cancel.cancelled else self._ending
        else:
            await self.end_run(run, self._ending)

    async def _cancel_run(self, run: RunState) -> None:
        await self.close_step(run, f"not run: {self.cancel.reason}")
        status: RunStatus = "limit" if self.cancel.is_limit else "cancelled"
        self._end(status, self.cancel.reason, request=self.cancel.request)

    async def close_step(self, run: RunState, reason: str) -> None:
        if run.waiting:
            self.journal.record(events.RunResumed(self.cancel.request))
        step = run.step
        if step is None or step.ended:
            return
        for call in step.open_calls():
            await self.tool_runner.close_unrun(call, reason)
        self.journal.record(events.StepEnded(step.number))

    def _end(self, status: RunStatus, reason: str, failure: Failure | None = None, request: str = "") -> None:
        self._ending = RunEnded(status, reason, failure, request=request)

    async def end_run(self, run: RunState, ending: RunEnded) -> None:
        """Records the run's last fact, after the children that still work have ended."""
        await self.spawned.cancel()
        now = self.journal.world.now_ms()
        self.budget.close()
        self.ended = msgspec.structs.replace(
            ending,
            own=events.Totals(
                steps=run.steps,
                model_calls=run.model_calls,
                tool_calls=run.tool_calls,
                refused_calls=run.refused_calls,
                usage=run.usage,
                duration_ms=max(0, now - run.time_ms),
                known_cost=run.known_cost if run.usage.cost is None else 0.0,
            ),
            children=run.children_totals,
            cumulative=self.journal.state.usage,
            context=self.journal.state.context_tokens,
            context_messages=self.journal.state.context_messages,
        )
        self._ending = None
        self.journal.record(self.ended, settles=ending.request)


def _waiting_for_calls(run: RunState) -> RunWaiting:
    calls = [call for call in run.step.open_calls() if call.is_waiting] if run.step else []
    questions = tuple(call.question.id for call in calls if call.is_asking and call.question)
    reason: Literal["question", "pending"] = "question" if questions else "pending"
    return RunWaiting(reason, questions, tuple(call.called.call for call in calls))


def _with_plan(built: BuiltContext, plan: RunPlan) -> BuiltContext:
    """Adds to the trace how many characters a hook added to each request of the run."""
    if built.trace is None or not (plan.system or plan.messages):
        return built
    added = {"system": len(plan.system), "told": sum(map(len, plan.messages))}
    return msgspec.structs.replace(built, trace={**built.trace, "before_run": added})
