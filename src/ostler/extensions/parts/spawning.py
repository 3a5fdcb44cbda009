"""Spawning children from an extension."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from ostler.extensions.parts.children import Callbacks, Subagent
from ostler.kernel.child import ChildRequest, ChildResult, ExecutionPolicy
from ostler.kernel.harness import Harness
from ostler.kernel.spawned import Spawned, Watch
from ostler.kernel.stopping import running_stopwatch
from ostler.runs.children import child_harness
from ostler.runs.delegate import CHILD_NOTE, DelegateTool
from ostler.runs.run_tree import state_of
from ostler.vocabulary.errors import CallRefused, InvalidArguments, UsageError
from ostler.vocabulary.limits import Limits
from ostler.vocabulary.messages import as_content, text_of

if TYPE_CHECKING:
    from ostler.extensions.context import Content, ExtensionContext

SUBAGENT_SECONDS = 300.0
MOST_DEEP = 8
"""Children of children. Handlers are called in children too: one that always spawns would never end."""


class SpawnOptions(TypedDict, total=False):
    """How a child works, where that differs from the session that it is spawned in."""

    model: str
    system: str
    """In place of the session's system prompt."""
    agent: str
    """One of the named agents, with its model, tools and limits; what is given besides overrules those."""
    tools: Sequence[str] | None
    """Of the session's; a child never has more. None: all of them."""
    time_limit: float | None
    """Seconds: 300, if nothing is said. None: no limit."""
    limits: Limits | None
    session: str
    """Of an earlier child, whose conversation this one goes on with, in a session of its own."""
    on_event: Callable[..., Any] | None
    """Called with each `SubagentEvent`."""
    on_output: Callable[..., Any] | None
    """Called with pieces of the answer."""
    on_complete: Callable[..., Any] | None
    """Called once with the `SubagentResult`, also of a child that failed or was killed."""


def spawn(context: ExtensionContext, prompt: Content, options: SpawnOptions) -> Subagent:
    """Begins at once and returns. Raises `UsageError` for a model, an agent or a tool that there is not."""
    return context.calls.do(lambda: _spawn(context, prompt, options))


def _spawn(context: ExtensionContext, prompt: Content, options: SpawnOptions) -> Subagent:
    _check_depth(context)
    harness, spawned = context.session.harness, context.session.spawned
    request = _request(harness, prompt, options)
    try:
        child_harness(request, spawned)
    except CallRefused as error:
        raise UsageError(error.message) from None
    callbacks = Callbacks(options.get("on_event"), options.get("on_output"), options.get("on_complete"))
    child = context.journal.world.new_id("ses")
    subagent = Subagent(child, context, callbacks, partial(_drive, context, spawned, child, request))
    spawned.own(asyncio.ensure_future(subagent.work()), subagent.cut)
    return subagent


def _check_depth(context: ExtensionContext) -> None:
    sessions, parent, depth = context.host.sessions, context.parent, 0
    while parent in sessions:
        parent, depth = sessions[parent].session.journal.state.child_of, depth + 1
    if depth >= MOST_DEEP:
        raise UsageError(
            f"subagents were spawned by subagents, {MOST_DEEP} deep: "
            "`context.parent` tells a handler whether it is in one"
        )


async def _drive(
    context: ExtensionContext, spawned: Spawned, child: str, request: ChildRequest, watch: Watch
) -> ChildResult:
    running_stopwatch.set(None)  # the handler's that spawned it: what the child asks people is not its affair
    if request.resumes and (await state_of(context.journal.store, request.resumes)).run is not None:
        raise UsageError(
            f"session {request.resumes} is still at work: it can be gone on with when it has ended"
        )
    return await spawned.start(child, request, context.extension.name, watch)


def _request(harness: Harness, prompt: Content, options: SpawnOptions) -> ChildRequest:
    content = as_content(prompt)
    if not content:
        raise UsageError("a subagent needs a prompt: say what is to be done")
    request = ChildRequest(content, execution=ExecutionPolicy(append_system=CHILD_NOTE))
    if agent := options.get("agent", ""):
        request = msgspec.structs.replace(_of_agent(harness, agent, text_of(content)), prompt=content)
    changes: dict[str, Any] = {"limits": _limits(options, request.execution.limits)}
    if model := options.get("model", ""):
        changes["model"] = model
    if system := options.get("system", ""):
        changes |= {"system": system, "append_system": ""}
    if (tools := options.get("tools")) is not None:
        changes["tools"] = _tools(harness, tools)
    execution = msgspec.structs.replace(request.execution, **changes)
    return msgspec.structs.replace(request, execution=execution, resumes=options.get("session", ""))


def _of_agent(harness: Harness, agent: str, task: str) -> ChildRequest:
    delegate = harness.tools.get("delegate")
    if not isinstance(delegate, DelegateTool):
        raise UsageError(
            f"there is no agent {agent!r}: this session has no tool `delegate`, which knows them"
        )
    try:
        return delegate.request(delegate.validate({"task": task or agent, "agent": agent}))
    except InvalidArguments as error:
        raise UsageError(error.message) from None


def _limits(options: SpawnOptions, of_agent: Limits) -> Limits:
    limits = options.get("limits") or of_agent
    if limits.seconds is not None and "time_limit" not in options:
        return limits
    return msgspec.structs.replace(limits, seconds=options.get("time_limit", SUBAGENT_SECONDS))


def _tools(harness: Harness, tools: Sequence[str]) -> tuple[str, ...]:
    if unknown := [name for name in tools if name not in harness.tools]:
        known = ", ".join(sorted(harness.tools)) or "none"
        raise UsageError(f"there is no tool {unknown[0]!r} that a child could have; there are: {known}")
    return tuple(tools)
