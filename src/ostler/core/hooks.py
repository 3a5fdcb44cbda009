"""Hooks: typed places where code may change or refuse what is about to happen.

Handlers of a point run in the order they were added; each sees what the one before it decided, and the
first refusal wins. A handler that raises or hangs is reported and skipped, except a *guard*: what a
guard cannot judge is refused. A handler may run again for the same call after a crash.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, Literal

import msgspec

from ostler.core.cancellation import (
    CancelToken,
    Stopwatch,
    is_being_cancelled,
    run_with_timeout,
    running_stopwatch,
)
from ostler.core.model import Model
from ostler.core.tool import ToolKind
from ostler.schema.errors import Failure, ToolCancelled, UsageError, describe_error
from ostler.schema.messages import Block, Message, PlainBlock, StopReason, Text, as_content, text_of
from ostler.schema.outcomes import FailureKind, Question

Point = Literal[
    "input",
    "before_run",
    "before_step",
    "context",
    "before_tool",
    "after_tool",
    "before_message",
    "after_failure",
    "before_fork",
    "before_switch",
    "before_compact",
]


TIME_LIMIT = 30.0
"""Seconds a handler may take."""


class Refuse(msgspec.Struct, frozen=True):
    """It shall not happen. The reason is told to the model, or ends the run."""

    reason: str = ""


class InputDraft(msgspec.Struct, frozen=True):
    """input: a prompt that is about to start a run. Return a changed copy, `Handled`, `Refuse` or None."""

    content: tuple[PlainBlock, ...]
    source: str = ""
    """Who asks: the face, or the name that came with the request."""

    @property
    def text(self) -> str:
        return text_of(self.content)

    def with_text(self, text: str) -> InputDraft:
        """The same prompt in other words; what is attached stays."""
        attached = tuple(block for block in self.content if not isinstance(block, Text))
        return InputDraft((*as_content(text), *attached), self.source)


class Handled(msgspec.Struct, frozen=True):
    """The prompt has been dealt with: no model is asked. `text` is what people are told."""

    text: str = ""


class RunPlan(msgspec.Struct, frozen=True):
    """before_run: a run is about to begin. Return a changed copy, `Refuse` or None.

    What is added holds for the whole of this run and is never stored: it does not pile up in the history.
    """

    prompt: tuple[PlainBlock, ...]
    system: str = ""
    """Told after the system prompt."""
    messages: tuple[str, ...] = ()
    """Told after the messages of each request."""


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
    """before_tool: a call that is about to run. Return `Refuse`, `Rewrite`, `Ask`, `Allow` or None."""

    call: str
    name: str
    kind: ToolKind
    arguments: dict[str, Any]
    step: int
    remembered: tuple[tuple[str, str], ...] = ()
    """The rules of permission that were remembered in the session, each with its effect."""


class Rewrite(msgspec.Struct, frozen=True):
    """Run it with these arguments instead. The transcript keeps the model's own."""

    arguments: Any


class Ask(msgspec.Struct, frozen=True):
    """Let a person decide."""

    question: Question
    by: Literal["permission", "hook"] = "hook"


class Allow(msgspec.Struct, frozen=True):
    """Nothing stands in its way here, and who says so. It overrules nobody."""

    by: str


class FinishedCall(msgspec.Struct, frozen=True):
    """after_tool: a result on its way to the model. Return a changed copy, or None."""

    call: str
    name: str
    arguments: dict[str, Any]
    content: tuple[PlainBlock, ...]
    failed: FailureKind | None
    details: dict[str, Any] | None
    instructions: dict[str, str] = {}
    """Instruction files that earlier results told of (`details["instructions"]`), each with its digest."""


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


class PlannedFork(msgspec.Struct, frozen=True):
    """before_fork: a new session is about to begin with a copy of this one. Return `Refuse` or None."""

    session: str
    entry: int
    """The last that is copied."""
    text: str = ""
    """Of the prompt that is taken back to be edited, if it is one."""


class PlannedSwitch(msgspec.Struct, frozen=True):
    """before_switch: a face is about to leave this session for another. Return `Refuse` or None."""

    session: str
    reason: Literal["new", "open", "fork", "import", "clear"]
    prompt: str = ""


class PlannedCompaction(msgspec.Struct, frozen=True):
    """before_compact: messages that a summary is about to replace. Return `Refuse`, `Summary` or None."""

    messages: Sequence[Message]
    by: str
    wish: str


class Summary(msgspec.Struct, frozen=True):
    """Tell this in place of the messages; no model is asked for it."""

    text: str


class HookFailed(Exception):
    """A handler's failure, told in words that need no type before them."""


Handler = Callable[[Any], Any]


class Hook(msgspec.Struct, frozen=True):
    point: Point
    handler: Handler
    guard: bool = False
    name: str = ""
    time_limit: float = TIME_LIMIT
    place: str = ""
    """Where its code is, for whoever has to mend it."""


Report = Callable[[Hook, str], None]


class HookScope(msgspec.Struct, frozen=True):
    """Who hears of a handler's failure, and what stops one that runs."""

    report: Report
    cancel: CancelToken
    session: str = ""


asked_in: ContextVar[str] = ContextVar("asked_in", default="")
"""The session that a handler is asked in: one handler may serve a session and its children."""


class Hooks:
    """The handlers of a session, by point, in their fixed order."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._hooks: dict[Point, list[Hook]] = {}
        for hook in hooks:
            self.add(hook)

    def add(self, hook: Hook) -> Callable[[], None]:
        """Adds a hook behind the others of its point. Returns how to take it away."""
        if hook.point not in _DECISIONS:
            known = ", ".join(_DECISIONS)
            raise UsageError(f"there is no hook point {hook.point!r}; the points are: {known}")
        self._hooks.setdefault(hook.point, []).append(hook)
        return lambda: self._hooks[hook.point].remove(hook)

    def __contains__(self, point: Point) -> bool:
        return bool(self._hooks.get(point))

    def change(self, old: Sequence[Hook], new: Sequence[Hook]) -> None:
        """Puts new hooks behind all others, in place of old ones."""
        for hook in old:
            self._hooks[hook.point].remove(hook)
        for hook in new:
            self.add(hook)

    async def input(self, draft: InputDraft, over: HookScope) -> InputDraft | Handled | Refuse:
        for hook in self._of("input"):
            decision = await _ask_handler(hook, draft, over)
            if isinstance(decision, Handled | Refuse):
                return decision
            if isinstance(decision, InputDraft):
                draft = decision
        return draft

    async def before_run(self, plan: RunPlan, over: HookScope) -> RunPlan | Refuse:
        for hook in self._of("before_run"):
            decision = await _ask_handler(hook, plan, over)
            if isinstance(decision, Refuse):
                return decision
            if isinstance(decision, RunPlan):
                plan = decision
        return plan

    async def before_leaving(self, planned: PlannedFork | PlannedSwitch, over: HookScope) -> Refuse | None:
        """Whether somebody does not want that a session is forked, or left for another."""
        point: Point = "before_fork" if isinstance(planned, PlannedFork) else "before_switch"
        for hook in self._of(point):
            decision = await _ask_handler(hook, planned, over)
            if isinstance(decision, Refuse):
                return decision
        return None

    async def before_step(self, plan: StepPlan, over: HookScope) -> StepPlan | Refuse:
        for hook in self._of("before_step"):
            decision = await _ask_handler(hook, plan, over)
            if isinstance(decision, Refuse):
                return decision
            if isinstance(decision, StepPlan):
                plan = decision
        return plan

    async def context(self, draft: ContextDraft, over: HookScope) -> ContextDraft | Refuse:
        for hook in self._of("context"):
            decision = await _ask_handler(hook, draft, over)
            if isinstance(decision, Refuse):  # a guard that failed
                return decision
            if isinstance(decision, ContextDraft):
                draft = decision
        return draft

    async def before_tool(
        self, planned: PlannedCall, over: HookScope, *, last_guard: Hook | None = None
    ) -> tuple[PlannedCall, Refuse | Ask | Allow | None]:
        """The call as it would run, and what stands in its way, or who allowed it.

        `last_guard` is permission: it judges the call as rewritten, and nothing rewrites after it.
        """
        question: Ask | None = None
        allowed: Allow | None = None
        for hook in (*self._of("before_tool"), *((last_guard,) if last_guard else ())):
            decision = await _ask_handler(hook, planned, over)
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
            if isinstance(decision, Allow):
                allowed = decision
        return planned, question or allowed

    async def after_tool(self, finished: FinishedCall, over: HookScope) -> FinishedCall:
        for hook in self._of("after_tool"):
            decision = await _ask_handler(hook, finished, over)
            if isinstance(decision, Refuse):  # a guard that failed: what it should have judged is not told
                content = as_content(decision.reason)
                return msgspec.structs.replace(finished, content=content, failed="call_refused", details=None)
            if isinstance(decision, FinishedCall):
                finished = decision
        return finished

    async def before_message(self, draft: DraftMessage, over: HookScope) -> Suppress | Replace | None:
        shown: Replace | None = None
        for hook in self._of("before_message"):
            decision = await _ask_handler(hook, draft, over)
            if isinstance(decision, Suppress | Refuse):  # a guard that failed refuses
                return Suppress(decision.reason)
            if isinstance(decision, Replace):
                shown = decision
                draft = msgspec.structs.replace(draft, text=decision.text)
        return shown

    async def after_failure(self, failed: FailedCall, over: HookScope) -> Retry | GiveUp | None:
        for hook in self._of("after_failure"):
            decision = await _ask_handler(hook, failed, over)
            if isinstance(decision, Refuse):  # a guard that failed
                return GiveUp()
            if isinstance(decision, Retry | GiveUp):
                return decision
        return None

    async def before_compact(self, planned: PlannedCompaction, over: HookScope) -> Refuse | Summary | None:
        for hook in self._of("before_compact"):
            decision = await _ask_handler(hook, planned, over)
            if isinstance(decision, Refuse | Summary):
                return decision
        return None

    def _of(self, point: Point) -> tuple[Hook, ...]:
        return tuple(self._hooks.get(point, ()))


async def _ask_handler(hook: Hook, subject: Any, over: HookScope) -> Any:
    """What a handler decides; None, or a refusal from a guard, when it fails, hangs or decides nonsense."""
    asked_in.set(over.session)
    try:
        decision = hook.handler(subject)
        if inspect.isawaitable(decision):
            decision = await _within(hook.time_limit, decision, over.cancel)
        problem = _nonsense(hook.point, decision)
        if not problem:
            return decision
        problem += hook.place
    except HookFailed as failure:
        problem = str(failure)
    except TimeoutError:
        problem = f"took longer than {hook.time_limit:g} s{hook.place}"
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        problem = "it cancelled itself"
    except (Exception, SystemExit, GeneratorExit) as error:
        problem = describe_error(error)
    over.report(hook, problem)
    if hook.guard:
        return Refuse(f"refused because the guard {hook.name or hook.point!r} failed ({problem})")
    return None


async def _within(seconds: float, decision: Awaitable[Any], cancel: CancelToken) -> Any:
    watch = Stopwatch()

    async def decide() -> Any:
        running_stopwatch.set(watch)
        try:
            return await decision
        except SystemExit as error:  # which would leave its task and end the event loop
            raise RuntimeError(f"it tried to exit the process ({error.code})") from None

    try:
        status, task = await run_with_timeout(decide(), cancel, seconds, watch)
    finally:
        if inspect.iscoroutine(decision) and inspect.getcoroutinestate(decision) == inspect.CORO_CREATED:
            decision.close()  # stopped before its first step: Python would warn that nobody awaited it
    if status == "timed_out":
        raise TimeoutError
    if status == "cancelled" or task.cancelled():
        raise ToolCancelled("it was cancelled")
    return task.result()


def _nonsense(point: Point, decision: Any) -> str:
    """What is wrong with a decision. Handlers are other people's code, and what they decide may be stored."""
    if decision is None:
        return ""
    if not isinstance(decision, _DECISIONS[point]):
        names = ", ".join(kind.__name__ for kind in _DECISIONS[point])
        return f"decided {decision!r:.60}; it may decide None or one of: {names}"
    match decision:
        case StepPlan(model=model, tools=tools, tool_choice=choice):
            named = all(isinstance(name, str) for name in (*tools, choice)) if _is_list(tools) else False
            return "" if named and _is_model(model) else "decided a step without a model or with odd tools"
        case ContextDraft(system=system, messages=messages):
            told = _is_list(messages) and all(isinstance(message, Message) for message in messages)
            return (
                "" if told and isinstance(system, str) else "decided a context that is no text and messages"
            )
        case Retry(delay=delay, model=model):
            timely = isinstance(delay, int | float) and delay >= 0
            return "" if timely and (model is None or _is_model(model)) else "decided an odd retry"
        case Rewrite():
            return ""  # judged where it is used: a malformed rewrite refuses the call
    try:
        msgspec.json.decode(msgspec.json.encode(decision), type=type(decision))
    except (TypeError, ValueError) as error:
        return f"decided a {type(decision).__name__} that cannot be stored: {error}"
    return ""


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_model(value: Any) -> bool:
    return hasattr(value, "stream") and isinstance(getattr(value, "name", None), str)


_DECISIONS: dict[Point, tuple[type, ...]] = {
    "input": (InputDraft, Handled, Refuse),
    "before_run": (RunPlan, Refuse),
    "before_step": (StepPlan, Refuse),
    "context": (ContextDraft,),
    "before_tool": (Refuse, Rewrite, Ask, Allow),
    "after_tool": (FinishedCall,),
    "before_message": (Suppress, Replace),
    "after_failure": (Retry, GiveUp),
    "before_fork": (Refuse,),
    "before_switch": (Refuse,),
    "before_compact": (Refuse, Summary),
}
