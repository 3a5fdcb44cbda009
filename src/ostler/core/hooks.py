"""Hooks: typed points where code may change or refuse what is about to happen.

The handlers of a point run in the order they were added; each sees what the previous one decided, and the
first refusal wins. A handler that raises or hangs is reported and skipped, unless it is a *guard*: then its
subject is refused. After a crash a handler may run again for the same call.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core import cancellation
from ostler.core.cancellation import CancelToken, Stopwatch
from ostler.core.model import Model
from ostler.core.tool import ToolKind
from ostler.schema.errors import Failure, ToolCancelled, UsageError, describe_error
from ostler.schema.events import Warned
from ostler.schema.facts import storage_problem
from ostler.schema.messages import Block, Message, PlainBlock, StopReason, Text, as_content, text_of
from ostler.schema.outcomes import FailureKind, Question

if TYPE_CHECKING:
    from ostler.core.journal import Journal

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
    """Refuses the subject. The model gets the reason, or the run ends with it."""

    reason: str = ""


class InputDraft(msgspec.Struct, frozen=True):
    """input: a prompt that is about to start a run. Return a changed copy, `Handled`, `Refuse` or None."""

    content: tuple[PlainBlock, ...]
    source: str = ""
    """Who sends it: the front end, or the name in the request."""

    @property
    def text(self) -> str:
        return text_of(self.content)

    def with_text(self, text: str) -> InputDraft:
        """The same prompt with another text; attachments stay."""
        attachments = tuple(block for block in self.content if not isinstance(block, Text))
        return InputDraft((*as_content(text), *attachments), self.source)


class Handled(msgspec.Struct, frozen=True):
    """The hook has handled the prompt: no model is called. The user sees `text`."""

    text: str = ""


class RunPlan(msgspec.Struct, frozen=True):
    """before_run: a run is about to begin. Return a changed copy, `Refuse` or None.

    Additions apply to the whole run and are never stored, so they do not accumulate in the history.
    """

    prompt: tuple[PlainBlock, ...]
    system: str = ""
    """Appended to the system prompt."""
    messages: tuple[str, ...] = ()
    """Appended to the messages of each request."""


class StepPlan(msgspec.Struct, frozen=True):
    """before_step: what the next step will use. A handler returns a changed copy, `Refuse` or None."""

    number: int
    model: Model
    tools: tuple[str, ...]
    tool_choice: str = "auto"


class ContextDraft(msgspec.Struct, frozen=True):
    """context: the content of one request to the model. Return a changed copy, or None."""

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
    """The permission rules that the session remembers, each with its effect."""


class Rewrite(msgspec.Struct, frozen=True):
    """Run the call with these arguments. The transcript has the model's own."""

    arguments: Any


class Ask(msgspec.Struct, frozen=True):
    """Let the user decide."""

    question: Question
    by: Literal["permission", "hook"] = "hook"


class Allow(msgspec.Struct, frozen=True):
    """This handler has no objection; `by` names the rule. It overrules no other handler."""

    by: str
    confined: bool = False
    """It runs only because it was judged harmless: without the right to write or to open a socket."""


class FinishedCall(msgspec.Struct, frozen=True):
    """after_tool: a result on its way to the model. Return a changed copy, or None."""

    call: str
    name: str
    arguments: dict[str, Any]
    content: tuple[PlainBlock, ...]
    failed: FailureKind | None
    details: dict[str, Any] | None
    instructions: dict[str, str] = {}
    """Instruction files that earlier results contain (`details["instructions"]`), each with its digest."""


class DraftMessage(msgspec.Struct, frozen=True):
    """before_message: an answer on its way to the user. Return `Suppress`, `Replace` or None."""

    text: str
    content: tuple[Block, ...]
    stop_reason: StopReason


class Suppress(msgspec.Struct, frozen=True):
    """Hides the message from the user; the model still gets it."""

    reason: str = ""


class Replace(msgspec.Struct, frozen=True):
    """Shows the user this text instead; the model gets the original."""

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
    """The last entry that is copied."""
    text: str = ""
    """The text of the prompt after the entry, which the user is about to edit."""


class PlannedSwitch(msgspec.Struct, frozen=True):
    """before_switch: a front end is about to leave this session for another. Return `Refuse` or None."""

    session: str
    reason: Literal["new", "open", "fork", "import", "clear"]
    prompt: str = ""


class PlannedCompaction(msgspec.Struct, frozen=True):
    """before_compact: messages that a summary is about to replace. Return `Refuse`, `Summary` or None."""

    messages: Sequence[Message]
    by: str
    instructions: str


class Summary(msgspec.Struct, frozen=True):
    """Replaces the messages with this text; no model is called for it."""

    text: str


class HookFailed(Exception):
    """A handler failed; its message is reported without the exception's type."""


class HookScope(msgspec.Struct, frozen=True):
    """Where a handler runs: its session, who reports its failure, and what cancels it."""

    report: Report
    cancel: CancelToken
    session: str = ""


Handler = Callable[[Any, HookScope], Any]


class Hook(msgspec.Struct, frozen=True):
    """A handler of one point. The handler gets `(subject, scope)`, or only the subject."""

    point: Point
    handler: Callable[..., Any]
    guard: bool = False
    name: str = ""
    time_limit: float = TIME_LIMIT
    place: str = ""
    """Where its code is, for error reports."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "handler", _with_scope(self.handler))


def _with_scope(function: Callable[..., Any]) -> Handler:
    """The function itself if it takes a scope, else a wrapper that drops it."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    with suppress(TypeError, ValueError):  # it may have no signature
        parameters = inspect.signature(function).parameters.values()
        second = [parameter for parameter in parameters if parameter.kind in positional][1:2]
        if any(one.default is inspect.Parameter.empty or one.name == "scope" for one in second):
            return function
    return lambda subject, scope: function(subject)


Report = Callable[[Hook, str], None]


def hook_scope(journal: Journal, cancel: CancelToken) -> HookScope:
    """The scope of a session's hooks: a handler's failure becomes a fact in its log."""

    def report(hook: Hook, problem: str) -> None:
        text = f"the hook {hook.name or hook.point} failed: {problem}"
        journal.record(Warned(text, about="hook", details={"point": hook.point, "hook": hook.name}))

    return HookScope(report, cancel, journal.session)


class Hooks:
    """The handlers of a session, by point, in the order they were added."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._hooks: dict[Point, list[Hook]] = {}
        for hook in hooks:
            self.add(hook)

    def add(self, hook: Hook) -> Callable[[], None]:
        """Adds a hook after the others of its point. Returns a function that removes it."""
        if hook.point not in _DECISIONS:
            points = ", ".join(_DECISIONS)
            raise UsageError(f"there is no hook point {hook.point!r}; the points are: {points}")
        self._hooks.setdefault(hook.point, []).append(hook)
        return lambda: self._hooks[hook.point].remove(hook)

    def __contains__(self, point: Point) -> bool:
        return bool(self._hooks.get(point))

    def change(self, old: Sequence[Hook], new: Sequence[Hook]) -> None:
        """Removes the old hooks and adds the new ones after all others."""
        for hook in old:
            self._hooks[hook.point].remove(hook)
        for hook in new:
            self.add(hook)

    async def input(self, draft: InputDraft, scope: HookScope) -> InputDraft | Handled | Refuse:
        return await self._chain("input", draft, scope)  # type: ignore[no-any-return]

    async def before_run(self, plan: RunPlan, scope: HookScope) -> RunPlan | Refuse:
        return await self._chain("before_run", plan, scope)  # type: ignore[no-any-return]

    async def before_leaving(self, planned: PlannedFork | PlannedSwitch, scope: HookScope) -> Refuse | None:
        """The first refusal to fork a session, or to leave it for another."""
        point: Point = "before_fork" if isinstance(planned, PlannedFork) else "before_switch"
        decision = await self._chain(point, planned, scope)
        return None if decision is planned else decision

    async def before_step(self, plan: StepPlan, scope: HookScope) -> StepPlan | Refuse:
        return await self._chain("before_step", plan, scope)  # type: ignore[no-any-return]

    async def context(self, draft: ContextDraft, scope: HookScope) -> ContextDraft | Refuse:
        return await self._chain("context", draft, scope)  # type: ignore[no-any-return]

    async def before_tool(
        self, planned: PlannedCall, scope: HookScope, *, last_guard: Hook | None = None
    ) -> tuple[PlannedCall, Refuse | Ask | Allow | None]:
        """The call as it would run, and the hooks' refusal, question or permission.

        `last_guard` is the permission hook: it checks the rewritten call, and nothing rewrites it after that.
        """
        question: Ask | None = None
        allowed: Allow | None = None
        for hook in (*self._of("before_tool"), *((last_guard,) if last_guard else ())):
            decision = await _ask_handler(hook, planned, scope)
            if isinstance(decision, Refuse):
                return planned, decision
            if isinstance(decision, Rewrite):
                if not isinstance(decision.arguments, dict):
                    reason = f"{hook.name or 'a hook'} rewrote the arguments into something that is no object"
                    return planned, Refuse(reason)
                planned = msgspec.structs.replace(planned, arguments=decision.arguments)
            elif isinstance(decision, Ask):
                question = question or decision
            elif isinstance(decision, Allow):
                allowed = decision
        return planned, question or allowed

    async def after_tool(self, finished: FinishedCall, scope: HookScope) -> FinishedCall:
        decision = await self._chain("after_tool", finished, scope)
        if isinstance(decision, FinishedCall):
            return decision
        # A guard failed: the model does not get what the guard should have checked.
        content = as_content(decision.reason)
        return msgspec.structs.replace(finished, content=content, failed="call_refused", details=None)

    async def before_message(self, draft: DraftMessage, scope: HookScope) -> Suppress | Replace | None:
        replacement: Replace | None = None
        for hook in self._of("before_message"):
            decision = await _ask_handler(hook, draft, scope)
            if isinstance(decision, Suppress | Refuse):  # a guard that failed refuses
                return Suppress(decision.reason)
            if isinstance(decision, Replace):
                replacement = decision
                draft = msgspec.structs.replace(draft, text=decision.text)
        return replacement

    async def after_failure(self, failed: FailedCall, scope: HookScope) -> Retry | GiveUp | None:
        decision = await self._chain("after_failure", failed, scope)
        if isinstance(decision, Refuse):  # a guard that failed
            return GiveUp()
        return None if decision is failed else decision

    async def before_compact(self, planned: PlannedCompaction, scope: HookScope) -> Refuse | Summary | None:
        decision = await self._chain("before_compact", planned, scope)
        return None if decision is planned else decision

    def _of(self, point: Point) -> tuple[Hook, ...]:
        return tuple(self._hooks.get(point, ()))

    async def _chain(self, point: Point, subject: Any, scope: HookScope) -> Any:
        """Passes the subject through the handlers: each may change it; any other decision ends the chain."""
        for hook in self._of(point):
            decision = await _ask_handler(hook, subject, scope)
            if isinstance(decision, type(subject)):
                subject = decision
            elif decision is not None:
                return decision
        return subject


async def _ask_handler(hook: Hook, subject: Any, scope: HookScope) -> Any:
    """A handler's decision; None, or a guard's refusal, if it fails, hangs or returns an invalid one."""
    try:
        decision = hook.handler(subject, scope)
        if inspect.isawaitable(decision):
            decision = await _within(hook.time_limit, decision, scope.cancel)
        problem = _decision_problem(hook.point, decision)
        if not problem:
            return decision
        problem += hook.place
    except HookFailed as failure:
        problem = str(failure)
    except TimeoutError:
        problem = f"took longer than {hook.time_limit:g} s{hook.place}"
    except asyncio.CancelledError:
        if cancellation.is_being_cancelled():
            raise
        problem = "it cancelled itself"
    except (Exception, SystemExit, GeneratorExit) as error:
        problem = describe_error(error)
    scope.report(hook, problem)
    if hook.guard:
        return Refuse(f"refused because the guard {hook.name or hook.point!r} failed ({problem})")
    return None


async def _within(seconds: float, decision: Awaitable[Any], cancel: CancelToken) -> Any:
    watch = Stopwatch()

    async def decide() -> Any:
        cancellation.running_stopwatch.set(watch)
        try:
            return await decision
        except SystemExit as error:  # it would end the event loop
            raise RuntimeError(f"it tried to exit the process ({error.code})") from None

    try:
        status, task = await cancellation.run_with_timeout(decide(), cancel, seconds, watch)
    finally:
        if inspect.iscoroutine(decision) and inspect.getcoroutinestate(decision) == inspect.CORO_CREATED:
            decision.close()  # never started: Python would warn that it was not awaited
    if status == "timed_out":
        raise TimeoutError
    if status == "cancelled" or task.cancelled():
        raise ToolCancelled("it was cancelled")
    return task.result()


def _decision_problem(point: Point, decision: Any) -> str:
    """What is wrong with a decision. Handlers are third-party code, and decisions may be stored."""
    if decision is None:
        return ""
    if not isinstance(decision, _DECISIONS[point]):
        names = ", ".join(kind.__name__ for kind in _DECISIONS[point])
        return f"returned {decision!r:.60}; it may return None or one of: {names}"
    match decision:
        case StepPlan(model=model, tools=tools, tool_choice=choice):
            is_valid = _is_list(tools) and all(isinstance(name, str) for name in (*tools, choice))
            return "" if is_valid and _is_model(model) else "returned a step with an invalid model or tools"
        case ContextDraft(system=system, messages=messages):
            is_valid = _is_list(messages) and all(isinstance(message, Message) for message in messages)
            return "" if is_valid and isinstance(system, str) else "returned an invalid context"
        case Retry(delay=delay, model=model):
            is_valid = isinstance(delay, int | float) and delay >= 0
            return "" if is_valid and (model is None or _is_model(model)) else "returned an invalid retry"
        case Rewrite():
            return ""  # checked on use: an invalid rewrite refuses the call
    problem = storage_problem(decision)
    return f"returned a {type(decision).__name__} that cannot be stored: {problem}" if problem else ""


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
