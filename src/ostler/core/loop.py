"""The loop: drives a session's open run from its last fact to the next quiet point.

    run_started
      user_message
      step_started, model_called … usage, assistant_message, tool_called*
      tool_started … tool_result, for each call
      step_ended, user_message* (steering)
      …
    run_ended, or run_waiting

Every turn of the loop looks at what the facts say and does the next thing, so it makes no difference
whether the facts before were written a moment ago or by a process that was killed last week.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

import msgspec

from ostler.core.budget import Budget, limits_of, time_limit
from ostler.core.cancellation import CancelToken, ScopeCancelled, cancel_scope
from ostler.core.children import SpawnedChildren
from ostler.core.context import BuiltContext, CompactionRequest, Context, ContextInput, context_input
from ostler.core.harness import OpenSession
from ostler.core.hooks import Refuse, RunPlan, StepPlan, hook_scope
from ostler.core.model import Model, ToolOffer
from ostler.core.model_call import ModelCaller
from ostler.core.recovery import recover
from ostler.core.run_state import STOP_AT, RunState, StepState, most_repeated, reminder
from ostler.core.tool_calls import ToolRunner
from ostler.schema import events
from ostler.schema.errors import Failure
from ostler.schema.events import RunEnded, RunStatus, RunWaiting
from ostler.schema.messages import File, Image, Text, text_of
from ostler.schema.requests import Steer

PROTOCOL_ERRORS_AT_MOST = 4
"""Calls in a row that the model may make without being understood."""


class SteerReader(Protocol):
    """Where the loop finds what was said to the model while it worked, in order of arrival."""

    def take(self) -> list[Steer]: ...

    async def read(self) -> None:
        """Looks whether more has arrived."""


class Loop:
    """Drives one run of one session. A fresh one is made for each `advance`."""

    def __init__(self, session: OpenSession, cancel: CancelToken) -> None:
        journal, harness = session.journal, session.harness
        self.session = session
        self.journal = journal
        self._harness = harness
        self.cancel = cancel
        self.steering: SteerReader | None = None
        self._scope = hook_scope(journal, cancel)
        self._answering = ModelCaller(session, cancel, self._scope)
        run = journal.state.run
        self._limits = limits_of(run.started.limits, harness.limits) if run else harness.limits
        self.budget = Budget(journal, self._limits, session.position.budget if session.position else None)
        self.tool_runner = ToolRunner(session, cancel, self._scope, self.budget)
        self.spawned = SpawnedChildren(session, session.children, self.budget)
        self._pause = ""
        """The request to pause before the next step."""
        self.compaction: CompactionRequest | None = None
        """Somebody wants the context to be compacted before the next call."""
        self._rescuers: dict[str, Model] = {}
        """Those that took the place of a model which failed, by its name, for the rest of the run."""
        self._run_plan: RunPlan | None = None
        self._plan: StepPlan | None = None
        self._ending: RunEnded | None = None
        """How the run ends, as soon as its children have."""
        self.ended: RunEnded | None = None

    async def advance(self) -> RunEnded | RunWaiting:
        """Goes on until the run has ended, or waits for somebody. Harmless to call twice."""
        with self._harness.start_span("run", session=self.journal.session):
            async with time_limit(self.journal, self._limits.seconds, self.cancel):
                return await self._advance()

    async def _advance(self) -> RunEnded | RunWaiting:
        journal = self.journal
        await recover(self)
        while (run := journal.state.run) is not None:
            step = run.step
            if self._ending is not None:
                if self._ending.status == "completed" and await self.spawned.join(self.cancel):
                    self._ending = None if self.cancel.cancelled else self._ending
                else:
                    await self.end_run(run, self._ending)
            elif self.cancel.cancelled:
                await self._end_cancelled(run)
            elif run.waiting is not None and run.is_paused:
                return await self._rest(run, run.waiting)
            elif step is None or step.ended:
                if self._pause and not self._is_last(step):
                    if await self.spawned.join(self.cancel):
                        continue
                    return await self._rest(run, RunWaiting("paused", request=self._pause))
                await self._next_step(run)
            elif step.message is None:
                await self._ask_model(run, step)
            elif step.open_calls():
                has_moved = bool(run.children) and await self.tool_runner.find_moved(step)
                if run.is_paused:
                    continue  # a moment ago
                if has_moved and run.waiting:
                    self.journal.record(events.RunResumed())
                await self.tool_runner.run(step)
                if step.open_calls() and await self.spawned.join(self.cancel):
                    continue
                if (
                    step.open_calls()
                    and not self.cancel.cancelled
                    and not await self.tool_runner.find_moved(step)
                ):
                    return await self._wait(run, step)
            else:
                self.journal.record(events.StepEnded(step.number))
        await journal.commit()
        assert self.ended is not None
        return self.ended

    # --- the turns of the loop ----------------------------------------------------------------------

    async def _next_step(self, run: RunState) -> None:
        """Ends the run, or begins its next step."""
        if await self._is_over(run):
            return
        for listener in self._harness.listeners:
            await listener.before_step(self.session)
        if refusal := await self._plan_run():
            self._end("refused", refusal.reason or "a hook refused the run")
            return
        number = run.steps + 1
        if reason := await self._reserve():
            self._end("limit", reason)
            return
        plan = await self._planned(number, tuple(sorted(self._harness.tools)))
        if isinstance(plan, Refuse):
            self.journal.record(events.StepStarted(number))
            self._end_refused(number, plan)
            return
        self._plan = plan
        self.journal.record(events.StepStarted(number, plan.tools))

    async def _plan_run(self) -> Refuse | None:
        """Asks what the run is told besides: once for a run, and again when a process goes on with it."""
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

    async def _reserve(self) -> str:
        """Which limit forbids the next call, if one does. Most runs have none."""
        return await self.budget.reserve() if self.budget.is_limited else ""

    async def _planned(self, number: int, tools: tuple[str, ...]) -> StepPlan | Refuse:
        """What a step will use: these tools and the run's model, unless a hook wants it otherwise."""
        model = self._harness.model
        while model.name in self._rescuers:
            model = self._rescuers[model.name]
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
        """Whether the step before was the last; if not, what was said meanwhile is told to the model."""
        step = run.step
        if step is not None:
            if step.message is None:
                self._end_without_message(step)
                return True
            if step.ends_run:
                self._end("completed", "a tool ended the run")
                return True
            if run.protocol_errors >= PROTOCOL_ERRORS_AT_MOST:
                self._end_misunderstood(run, step)
                return True
            if most_repeated(run) >= STOP_AT:
                self._end("limit", f"the same call had the same result {STOP_AT} times in a row")
                return True
        if step is not None and not step.calls:  # the model is finished: the last chance to say more
            await self.spawned.join(self.cancel)
            if self.cancel.cancelled:
                return True
            if self.steering:
                await self.steering.read()
        steers = self.steering.take() if self.steering else []
        for steer in steers:
            message = events.UserMessage(steer.content, source="steer", request=steer.id)
            self.journal.record(message, settles=steer.id)
        if step is None or steers:
            return False
        if not step.calls:
            self._end_with_message(step)
            return True
        if self._harness.context is None and (text := reminder(run)) is not None:
            self.journal.record(events.UserMessage((Text(text),), source="reminder", hidden=True))
        return False

    def _end_with_message(self, step: StepState) -> None:
        assert step.message is not None
        if step.message.stop_reason == "refusal":
            self._end("refused", "the model refused to answer")
        elif step.message.stop_reason == "length":
            self._end("completed", "the answer was cut by its output limit")
        else:
            self._end("completed", "")

    def _end_misunderstood(self, run: RunState, step: StepState) -> None:
        results = [call.result for call in step.calls.values() if call.result]
        text = f"{run.protocol_errors} calls in a row could not be understood: {text_of(results[-1].content)}"
        self._end("failed", text, Failure("invalid_arguments", text))

    def _end_without_message(self, step: StepState) -> None:
        failure = step.failure.failure if step.failure else None
        if step.ended and step.ended.refused:
            self._end("refused", step.ended.refused)
        else:
            self._end("failed", failure.message if failure else "the model did not answer", failure)

    async def _ask_model(self, run: RunState, step: StepState) -> None:
        """One attempt at the step's message, after the pause that the failure before it asked for."""
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
            # The process that planned the step is gone: the hooks are asked again, about no more tools.
            tools = tuple(sorted(set(step.tools) & set(self._harness.tools)))
            verdict = await self._planned(step.number, tools)
            if isinstance(verdict, Refuse):
                self._end_refused(step.number, verdict)
                return
            plan = self._plan = verdict
        if not self.budget.is_reserved and (reason := await self._reserve()):
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
        chosen = await self._answering.attempt(step, built, plan.model, offers, plan.tool_choice)
        if self.budget.is_limited:
            self.budget.release()
            await self.budget.warn()
        if isinstance(chosen, Refuse):
            self._end_refused(step.number, chosen)
            return
        if chosen is not plan.model:
            self._rescuers.pop(chosen.name, None)
            if chosen.name != plan.model.name:  # a hook may bring one of the same name, for this step
                self._rescuers[plan.model.name] = chosen
            self._plan = msgspec.structs.replace(plan, model=chosen)

    async def _context(
        self, step: StepState, model: Model, tools: tuple[ToolOffer, ...]
    ) -> BuiltContext | None:
        """What the model is told now. Room is made first, if there is none or somebody wants it.

        None when the run is cancelled meanwhile.
        """
        journal, harness, context = self.journal, self._harness, self._harness.context
        told = context_input(journal, harness, model, tools, self._run_plan)
        if context is None:
            return BuiltContext(told.system, told.transcript, told.said)
        if order := await self._compaction_due(step, context, told):
            self.compaction = None
            problem = "the run was cancelled"
            with suppress(ScopeCancelled):
                async with cancel_scope(self.cancel):
                    problem = await context.compact(journal, harness, told, order)
            if problem and journal.state.transcript is told.transcript:
                reason = f"the context was not compacted: {problem}"
                refused = events.RequestRefused(order.request, reason) if order.request else None
                journal.record(refused or events.Warned(reason), settles=order.request)
            if self.cancel.cancelled:
                return None
            told = context_input(journal, harness, model, tools, self._run_plan)
        with suppress(ScopeCancelled):  # what is told may come from other people's code, which may wait
            async with cancel_scope(self.cancel):
                built = await context.build(journal, told)
                return _with_plan(built, self._run_plan) if self._run_plan is not None else built
        return None

    async def _compaction_due(
        self, step: StepState, context: Context, told: ContextInput
    ) -> CompactionRequest | None:
        if step.failure is not None and step.failure.failure.kind == "context_overflow":
            return CompactionRequest("overflow")
        if self.compaction is not None:
            return self.compaction
        return CompactionRequest("automatic") if await context.needs_compaction(self.journal, told) else None

    async def _wait(self, run: RunState, step: StepState) -> RunWaiting:
        calls = [call for call in step.open_calls() if call.is_waiting]
        questions = tuple(call.question.id for call in calls if call.is_asking and call.question)
        waiting = RunWaiting(
            "question" if questions else "pending", questions, tuple(call.called.call for call in calls)
        )
        return await self._rest(run, waiting)

    async def _rest(self, run: RunState, waiting: RunWaiting) -> RunWaiting:
        if run.waiting is not None and run.is_paused:
            waiting = run.waiting  # only `resume` ends that
        if run.waiting != waiting:
            self.journal.record(waiting, settles=waiting.request)
        await self.journal.commit()
        self._pause = ""
        return waiting

    def pause(self, request: str) -> None:
        """Comes to rest before the next step."""
        self._pause = request

    def _is_last(self, step: StepState | None) -> bool:
        """Whether the run is about to end anyway."""
        return step is not None and (step.message is None or not step.calls)

    # --- ends ---------------------------------------------------------------------------------------

    async def _end_cancelled(self, run: RunState) -> None:
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
        """The run's last fact: when it is recorded, no child of it is at work."""
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


def _with_plan(built: BuiltContext, plan: RunPlan) -> BuiltContext:
    """Its trace says how many characters of it a hook has added to all of a run."""
    if built.trace is None or not (plan.system or plan.messages):
        return built
    added = {"system": len(plan.system), "told": sum(map(len, plan.messages))}
    return msgspec.structs.replace(built, trace={**built.trace, "before_run": added})
