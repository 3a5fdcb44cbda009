"""The parts of a replayed run: a model and tools that answer from the recording, and hooks that compare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.core.hooks import (
    Allow,
    Ask,
    ContextDraft,
    DraftMessage,
    FailedCall,
    FinishedCall,
    GiveUp,
    Hook,
    Hooks,
    HookScope,
    PlannedCall,
    Point,
    Refuse,
    Replace,
    Retry,
    StepPlan,
    Suppress,
)
from ostler.core.model import ModelEvent, ModelRequest
from ostler.core.tool import Tool, ToolContext, ToolSpec, as_outcome
from ostler.models.scripted import deltas_of, end_of
from ostler.schema.outcomes import Pending, ok

if TYPE_CHECKING:
    from ostler.history.replay import RunReplay

NOT_RUN_THEN = "This call may run now; it was not run when it was recorded, and is not run here either."


class ReplayedModel:
    """Compares each request, and answers from the log, under the name of the recorded model."""

    def __init__(self, replay: RunReplay) -> None:
        self._replay = replay

    @property
    def name(self) -> str:
        return self._replay.model_name

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        answer = self._replay.ask(request)
        if answer is not None:
            yield deltas_of(answer, request.id)
            self._replay.count()
        if answer is None or self._replay.is_over:
            await asyncio.get_running_loop().create_future()  # until the run is cancelled, which it is by now
        else:
            yield [end_of(answer)]

    async def aclose(self) -> None:
        pass


class ReplayedTool:
    """A tool with results from the log; or, if it is `live`, one that runs again where that is possible."""

    def __init__(self, name: str, tool: Tool | None, replay: RunReplay, *, live: bool) -> None:
        self.spec = tool.spec if tool else ToolSpec(name, "", {})
        is_live = tool is not None and live and not tool.spec.reattaches  # children are not replayed here
        self._live = tool if is_live else None
        self._replay = replay

    def validate(self, arguments: dict[str, Any]) -> Any:
        return self._live.validate(arguments) if self._live else arguments

    async def run(self, arguments: Any, context: ToolContext) -> Any:
        replay = self._replay
        if self._live is None or not replay.may_run(context.call):
            return replay.from_log(context.call)
        if context.call not in replay.run.begun:
            return ok(NOT_RUN_THEN)
        outcome = as_outcome(await self._live.run(arguments, context))
        return replay.from_log(context.call) if isinstance(outcome, Pending) else outcome


class ReplayHooks(Hooks):
    """The harness's own hooks, except that none of them can choose another model."""

    def __init__(self, own: Hooks, replay: RunReplay, model: ReplayedModel, *, own_counts: bool) -> None:
        super().__init__()
        self._own = own
        self._replay = replay
        self._model = model
        self._own_counts = own_counts

    def __contains__(self, point: Point) -> bool:
        return point in ("before_step", "after_tool", "after_failure") or point in self._own

    async def before_step(self, plan: StepPlan, scope: HookScope) -> StepPlan | Refuse:
        run = self._replay.run
        verdict = await self._own.before_step(plan, scope)
        if not self._own_counts:
            if plan.number in run.refused_steps:
                return Refuse(run.refused_steps[plan.number])
            if plan.number in run.steps and isinstance(verdict, StepPlan):
                verdict = msgspec.structs.replace(verdict, tools=run.steps[plan.number].tools)
        if isinstance(verdict, Refuse):
            return verdict
        return msgspec.structs.replace(verdict, model=self._model)

    async def context(self, draft: ContextDraft, scope: HookScope) -> ContextDraft | Refuse:
        return await self._own.context(draft, scope)

    async def before_tool(
        self, planned: PlannedCall, scope: HookScope, *, last_guard: Hook | None = None
    ) -> tuple[PlannedCall, Refuse | Ask | Allow | None]:
        return await self._own.before_tool(planned, scope, last_guard=last_guard)

    async def after_tool(self, finished: FinishedCall, scope: HookScope) -> FinishedCall:
        return self._replay.compare_result(await self._own.after_tool(finished, scope))

    async def before_message(self, draft: DraftMessage, scope: HookScope) -> Suppress | Replace | None:
        return await self._own.before_message(draft, scope)

    async def after_failure(self, failed: FailedCall, scope: HookScope) -> Retry | GiveUp | None:
        return Retry() if self._replay.retries() else GiveUp()
