"""Hooks: typed places where code may change or refuse what is about to happen.

Handlers of a point run in the order they were added; each sees what the one before it decided, and the
first refusal wins. A handler that raises or hangs is reported and skipped, except a *guard*: what a
guard cannot judge is refused. A handler may run again for the same call after a crash.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from ostler.kernel.model import Model
from ostler.kernel.tool import ToolKind
from ostler.vocabulary.errors import Failure
from ostler.vocabulary.messages import Block, Message, PlainBlock, StopReason
from ostler.vocabulary.outcomes import FailureKind, Question

Point = Literal["before_step", "context", "before_tool", "after_tool", "before_message", "after_failure"]

TIME_LIMIT = 30.0
"""Seconds a handler may take. It stands still while the handler's question is open."""


class Refuse(msgspec.Struct, frozen=True):
    """It shall not happen. The reason is told to the model, or ends the run."""

    reason: str = ""


class StepPlan(msgspec.Struct, frozen=True):
    """before_step: what the next step will use. A handler returns a changed copy, `Refuse` or None."""

    number: int
    model: Model
    tools: tuple[str, ...]
    tool_choice: str = "auto"


class ContextDraft(msgspec.Struct, frozen=True):
    """context: what the model will be told this once. Return a changed copy, or None."""

    system: str
    messages: Sequence[Message]


class PlannedCall(msgspec.Struct, frozen=True):
    """before_tool: a call that is about to run. Return `Refuse`, `Rewrite`, `Ask` or None (allow)."""

    call: str
    name: str
    kind: ToolKind
    arguments: dict[str, Any]
    step: int


class Rewrite(msgspec.Struct, frozen=True):
    """Run it with these arguments instead. The transcript keeps the model's own."""

    arguments: Any


class Ask(msgspec.Struct, frozen=True):
    """Let a person decide."""

    question: Question


class FinishedCall(msgspec.Struct, frozen=True):
    """after_tool: a result on its way to the model. Return a changed copy, or None."""

    call: str
    name: str
    arguments: dict[str, Any]
    content: tuple[PlainBlock, ...]
    failed: FailureKind | None
    details: dict[str, Any] | None


class DraftMessage(msgspec.Struct, frozen=True):
    """before_message: an answer on its way to people. Return `Suppress`, `Replace` or None."""

    text: str
    content: tuple[Block, ...]
    stop_reason: StopReason


class Suppress(msgspec.Struct, frozen=True):
    """People do not see it; the model is still told it."""

    reason: str = ""


class Replace(msgspec.Struct, frozen=True):
    """People see this text instead; the model is told the original."""

    text: str


class FailedCall(msgspec.Struct, frozen=True):
    """after_failure: a model call that failed. Return `Retry`, `GiveUp` or None (the default policy)."""

    failure: Failure
    attempt: int
    model: Model


class Retry(msgspec.Struct, frozen=True):
    """Try again after `delay` seconds, with another model if one is given."""

    delay: float = 0.0
    model: Model | None = None


class GiveUp(msgspec.Struct, frozen=True):
    pass


Handler = Callable[[Any], Any]


class Hook(msgspec.Struct, frozen=True):
    point: Point
    handler: Handler
    guard: bool = False
    name: str = ""
    time_limit: float = TIME_LIMIT


Value = TypeVar("Value")
Report = Callable[[Hook, str], None]


class Hooks:
    """The handlers of a session, by point, in their fixed order."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._hooks: dict[Point, list[Hook]] = {}
        for hook in hooks:
            self.add(hook)

    def add(self, hook: Hook) -> Callable[[], None]:
        """Adds a hook behind the others of its point. Returns how to take it away."""
        self._hooks.setdefault(hook.point, []).append(hook)
        return lambda: self._hooks[hook.point].remove(hook)

    def __contains__(self, point: Point) -> bool:
        return bool(self._hooks.get(point))

    async def before_step(self, plan: StepPlan, report: Report) -> StepPlan | Refuse:
        for hook in self._of("before_step"):
            decision = await _ask_handler(hook, plan, report)
            if isinstance(decision, Refuse):
                return decision
            if isinstance(decision, StepPlan):
                plan = decision
        return plan

    async def context(self, draft: ContextDraft, report: Report) -> ContextDraft:
        for hook in self._of("context"):
            decision = await _ask_handler(hook, draft, report)
            if isinstance(decision, ContextDraft):
                draft = decision
        return draft

    async def before_tool(
        self, planned: PlannedCall, report: Report, *, last_guard: Hook | None = None
    ) -> tuple[PlannedCall, Refuse | Ask | None]:
        """The call as it would run, and what stands in its way.

        `last_guard` is permission: it judges the call as rewritten, and nothing rewrites after it.
        """
        question: Ask | None = None
        for hook in (*self._of("before_tool"), *((last_guard,) if last_guard else ())):
            decision = await _ask_handler(hook, planned, report)
            if isinstance(decision, Refuse):
                return planned, decision
            if isinstance(decision, Rewrite):
                if not isinstance(decision.arguments, dict):
                    culprit = hook.name or "a hook"
                    return planned, Refuse(
                        f"{culprit} rewrote the arguments into something that is not an object"
                    )
                planned = msgspec.structs.replace(planned, arguments=decision.arguments)
            if isinstance(decision, Ask):
                question = question or decision
        return planned, question

    async def after_tool(self, finished: FinishedCall, report: Report) -> FinishedCall:
        for hook in self._of("after_tool"):
            decision = await _ask_handler(hook, finished, report)
            if isinstance(decision, FinishedCall):
                finished = decision
        return finished

    async def before_message(self, draft: DraftMessage, report: Report) -> Suppress | Replace | None:
        shown: Replace | None = None
        for hook in self._of("before_message"):
            decision = await _ask_handler(hook, draft, report)
            if isinstance(decision, Suppress | Refuse):
                return Suppress(decision.reason)
            if isinstance(decision, Replace):
                shown = decision
                draft = msgspec.structs.replace(draft, text=decision.text)
        return shown

    async def after_failure(self, failed: FailedCall, report: Report) -> Retry | GiveUp | None:
        for hook in self._of("after_failure"):
            decision = await _ask_handler(hook, failed, report)
            if isinstance(decision, Retry | GiveUp):
                return decision
        return None

    def _of(self, point: Point) -> tuple[Hook, ...]:
        return tuple(self._hooks.get(point, ()))


async def _ask_handler(hook: Hook, subject: Value, report: Report) -> Any:
    """What a handler decides; None, or a refusal from a guard, when it fails or hangs."""
    try:
        decision = hook.handler(subject)
        if inspect.isawaitable(decision):
            decision = await _within(hook.time_limit, decision)
        return decision
    except TimeoutError:
        problem = f"took longer than {hook.time_limit:g} s"
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    report(hook, problem)
    if hook.guard:
        return Refuse(f"refused because the guard {hook.name or hook.point!r} failed ({problem})")
    return None


async def _within(seconds: float, decision: Awaitable[Any]) -> Any:
    async with asyncio.timeout(seconds):
        return await decision
