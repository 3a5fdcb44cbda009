"""`context.tools`, `usage`, `context_stats` and `last_run`: the session's tools and statistics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ostler.context.calibration import since_reported
from ostler.context.session_context import SessionContext
from ostler.context.tokenizers import RoutedTokenizer
from ostler.core.context import Confidence, Count, Source, total
from ostler.core.hooks import StepPlan
from ostler.core.tool import ToolKind, ToolSource
from ostler.schema import events
from ostler.schema.events import RunStatus, Totals
from ostler.schema.messages import StopReason, text_of
from ostler.schema.usage import Usage

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext
    from ostler.extensions.extension_session import ExtensionSession
    from ostler.extensions.host import ExtensionHost


class ToolDescription(msgspec.Struct, frozen=True):
    """A tool that the model may be offered."""

    name: str
    description: str
    source: ToolSource
    """Its origin: Ostler, an MCP server, an extension, or the program that embeds Ostler."""
    enabled: bool
    kind: ToolKind = "other"


class Tools:
    """`context.tools`."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        self.allowed: frozenset[str] | None = None
        """The tools that this extension allows; None for all."""

    def all(self) -> list[ToolDescription]:
        """Every tool of the session, enabled or not, by name."""
        context = self._context
        tools = context.calls.call(lambda: dict(context.session.harness.tools))
        offered = set(offered_tools(context.extension_session, tools))
        own = {id(tool) for one in context.host.loaded for tool in one.registered.tools.values()}
        return [
            ToolDescription(
                name,
                tool.spec.description,
                "extension" if id(tool) in own else tool.spec.source,
                name in offered,
                tool.spec.kind,
            )
            for name, tool in sorted(tools.items())
        ]

    def set_active(self, names: Iterable[str] | None) -> tuple[str, ...]:
        """Offers only these tools to the model from the next step on, also in children; None offers all
        again. Each extension has its own list; a tool must be in all of them. The list applies until the
        session is closed or the extension is reloaded. Returns the names that no tool has now."""
        allowed = None if names is None else frozenset(names)

        def change() -> None:
            self.allowed = allowed
            if allowed is not None:
                self._context.host.limit_tools()

        self._context.calls.call(change)
        return tuple(sorted((allowed or frozenset()) - set(self._context.session.harness.tools)))


def offered_tools(extension_session: ExtensionSession, names: Iterable[str]) -> tuple[str, ...]:
    """The tools that the extensions of a session and of its parents allow."""
    offered = tuple(names)
    current: ExtensionSession | None = extension_session
    while current is not None:
        for channel in current.channels.values():
            allowed = channel.context.tools.allowed
            if allowed is not None:
                offered = tuple(name for name in offered if name in allowed)
        current = extension_session.host.sessions.get(current.session.journal.state.child_of)
    return offered


def limited(host: ExtensionHost, session: str, plan: StepPlan) -> StepPlan | None:
    """The plan of a step without the tools that extensions have disabled."""
    extension_session = host.sessions.get(session)
    tools = offered_tools(extension_session, plan.tools) if extension_session else plan.tools
    return None if tools == plan.tools else msgspec.structs.replace(plan, tools=tools)


class SessionUsage(msgspec.Struct, frozen=True):
    """The usage of all model calls of the session, also of failed ones and of those outside of steps."""

    usage: Usage
    """Tokens, and the cost in dollars: None if a part of it is unknown."""
    requests: int
    children: Totals
    """The usage of children that have ended and of other vendors' agents, which is not part of `usage`."""
    subscription: bool
    """The current model's provider charges nothing for a call: a subscription, or a local server."""

    @property
    def cost(self) -> float | None:
        return self.usage.cost


class ContextStats(msgspec.Struct, frozen=True):
    """The size of the next request, compared to the context window."""

    tokens: int
    limit: int
    share: float
    """The part of the limit, from 0 to 1; more than 1 if it is exceeded."""
    messages: int
    source: Source
    """Whether the number was reported by the vendor, counted, or estimated."""
    confidence: Confidence


class LastRun(msgspec.Struct, frozen=True):
    """The result of a run."""

    run: str
    response: str
    """The text of its last answer."""
    status: RunStatus
    reason: str
    stop_reason: StopReason | None
    """The stop reason of the last answer, if there is one."""
    tools: tuple[str, ...]
    """The tools of all calls, in the order of their results."""
    own: Totals
    """Steps, model calls, calls of tools, tokens, cost and time."""
    children: Totals

    @property
    def cost(self) -> float | None:
        return self.own.usage.cost

    @property
    def duration_ms(self) -> int:
        return self.own.duration_ms


async def session_usage(context: ExtensionContext) -> SessionUsage:
    requests, children = 0, Totals()
    for fact in await context.journal.history():
        if fact.type == "usage" and not fact.origin:
            requests += 1
        elif fact.type == "child_ended" and isinstance(ended := fact.event, events.ChildEnded):
            children += Totals(runs=1) + ended.own + ended.children
        elif fact.type == "child_used" and isinstance(used := fact.event, events.ChildUsed):
            children += used.totals
    provider = context.models.provider_settings
    subscription = provider is not None and not provider.charges
    return SessionUsage(context.journal.state.usage, requests, children, subscription)


def context_stats(context: ExtensionContext) -> ContextStats:
    harness, state = context.session.harness, context.journal.state
    count = _context_size(context)
    limit = context.models.window
    if isinstance(harness.context, SessionContext):
        limit = harness.context.policy().window.tokens or limit
    tokens, messages = count.tokens, len(state.transcript)
    return ContextStats(tokens, limit, tokens / limit, messages, count.source, count.confidence)


def _context_size(context: ExtensionContext) -> Count:
    """The vendor's count of the last request, if there is one, plus an estimate of everything newer."""
    harness, state = context.session.harness, context.journal.state
    model, tokenizer = harness.model.name, RoutedTokenizer()
    is_reported = state.context_tokens and state.context_messages <= len(state.transcript)
    new = state.transcript.messages[state.context_messages if is_reported else 0 :]
    messages = total(tokenizer.message(message, model) for message in new)
    if is_reported:
        return since_reported(state.context_tokens, messages)
    offers = harness.tool_offers(tuple(sorted(harness.tools)))
    return messages + tokenizer.text(harness.system, model) + tokenizer.tools(offers, model)


async def last_run(context: ExtensionContext) -> LastRun | None:
    run = context.journal.state.last_run
    if not run:
        return None
    tools: list[str] = []
    answer: events.AssistantMessage | None = None
    ended: events.RunEnded | None = None
    for fact in await context.journal.history():
        if fact.run != run:
            continue
        match fact.event:
            case events.ToolResultFact(name=name):
                tools.append(name)
            case events.AssistantMessage() as message:
                answer = message
            case events.RunEnded() as end:
                ended = end
    if ended is None:
        return None
    return LastRun(
        run,
        text_of(answer.content) if answer else "",
        ended.status,
        ended.reason,
        answer.stop_reason if answer else None,
        tuple(tools),
        ended.own,
        ended.children,
    )
