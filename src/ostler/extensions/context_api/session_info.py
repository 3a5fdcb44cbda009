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
    """Where it comes from: Ostler, an MCP server, an extension, or the program that embeds Ostler."""
    enabled: bool
    kind: ToolKind = "other"


class Tools:
    """`context.tools`."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        self.allowed: frozenset[str] | None = None
        """What this extension lets be offered; None: everything."""

    def all(self) -> list[ToolDescription]:
        """Every tool of the session, on offer or not, by name."""
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
        """From the next step on only these tools are offered, also to children; None ends that.

        Each extension has its own list, and what all of them allow is offered. It holds while the session
        is open, until the extension is loaded anew. Returns those of the names that no tool has now.
        """
        allowed = None if names is None else frozenset(names)

        def change() -> None:
            self.allowed = allowed
            if allowed is not None:
                self._context.host.limit_tools()

        self._context.calls.call(change)
        return tuple(sorted((allowed or frozenset()) - set(self._context.session.harness.tools)))


def offered_tools(extension_session: ExtensionSession, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the tools that the extensions allow in a session, and in those that it is a child of."""
    left = tuple(names)
    present: ExtensionSession | None = extension_session
    while present is not None:
        for channel in present.channels.values():
            allowed = channel.context.tools.allowed
            if allowed is not None:
                left = tuple(name for name in left if name in allowed)
        present = extension_session.host.sessions.get(present.session.journal.state.child_of)
    return left


def limited(host: ExtensionHost, session: str, plan: StepPlan) -> StepPlan | None:
    """The plan of a step without the tools that extensions have switched off."""
    extension_session = host.sessions.get(session)
    tools = offered_tools(extension_session, plan.tools) if extension_session else plan.tools
    return None if tools == plan.tools else msgspec.structs.replace(plan, tools=tools)


class SessionUsage(msgspec.Struct, frozen=True):
    """What the session's model calls add up to, also those beside its steps and those that failed."""

    usage: Usage
    """Tokens, and the cost in dollars: None when a part of it is unknown."""
    requests: int
    children: Totals
    """What children have used that have ended, and other vendors' agents; apart, because it is in no session
    but theirs."""
    subscription: bool
    """The present model's provider takes nothing for a call: a subscription, or a server of one's own."""

    @property
    def cost(self) -> float | None:
        return self.usage.cost


class ContextStats(msgspec.Struct, frozen=True):
    """How much of its window the model will be told next."""

    tokens: int
    limit: int
    share: float
    """Of the limit, from 0 to 1; more if it is too much."""
    messages: int
    source: Source
    """How the number was found: reported by the vendor, counted, or estimated."""
    confidence: Confidence


class LastRun(msgspec.Struct, frozen=True):
    """What came of a run."""

    run: str
    response: str
    """The text of its last answer."""
    status: RunStatus
    reason: str
    stop_reason: StopReason | None
    """Of the last answer; None if there was none."""
    tools: tuple[str, ...]
    """The names of the calls, in the order of their results; one that was called twice is there twice."""
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
        elif fact.type == "child_used" and isinstance(told := fact.event, events.ChildUsed):
            children += told.totals
    provider = context.models.provider_settings
    subscription = provider is not None and not provider.charges
    return SessionUsage(context.journal.state.usage, requests, children, subscription)


def context_stats(context: ExtensionContext) -> ContextStats:
    harness, state = context.session.harness, context.journal.state
    count = _told(context)
    limit = context.models.window
    if isinstance(harness.context, SessionContext):
        limit = harness.context.policy().window.tokens or limit
    return ContextStats(
        count.tokens, limit, count.tokens / limit, len(state.transcript), count.source, count.confidence
    )


def _told(context: ExtensionContext) -> Count:
    """By the vendor's count of the last request and an estimate of what is new; else by estimate alone."""
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
    """Of the run that ended last; None before that."""
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
