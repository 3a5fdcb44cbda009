"""What a session has used, how full its context is, and what came of its last run: from the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ostler.context.accounting import since_reported
from ostler.context.tokenizers import RoutedTokenizer
from ostler.kernel.tokenizer import Confidence, Count, Source, total
from ostler.runs.contexts import KeptContext
from ostler.vocabulary import events
from ostler.vocabulary.events import RunStatus, Totals
from ostler.vocabulary.messages import StopReason, text_of
from ostler.vocabulary.usage import Usage

if TYPE_CHECKING:
    from ostler.extensions.context import ExtensionContext


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
    if isinstance(harness.context, KeptContext):
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
    offers = harness.offers(tuple(sorted(harness.tools)))
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
