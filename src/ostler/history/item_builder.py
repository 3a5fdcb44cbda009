"""A session as pieces to read, whatever they are written in: who said what, what was done, what it cost."""
# MERGED: Messages that were redrawn after they had become facts, as they stand at last.

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

import msgspec

from ostler.core.state import path_of
from ostler.history.costs import CostTotals, priced
from ostler.schema import events
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import Block, Text
from ostler.schema.text import plural

_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Said(msgspec.Struct, frozen=True):
    """A message."""

    seq: int
    who: str
    content: tuple[Block, ...]


class Done(msgspec.Struct, frozen=True):
    """A tool call, and what came of it, if anything has."""

    seq: int
    called: events.ToolCalled
    result: events.ToolResultFact | None

    @property
    def outcome(self) -> str:
        if self.result is None:
            return "not finished"
        return f"failed ({self.result.failed})" if self.result.failed else "ok"

    @property
    def diff(self) -> str:
        return str((self.result.details or {}).get("diff", "")) if self.result else ""


class Noted(msgspec.Struct, frozen=True):
    """Something that happened beside the messages."""

    text: str


Piece = Said | Done | Noted


def clean(text: str) -> str:
    """The text without what no page can hold: control characters, and halves of characters."""
    return _UNREADABLE.sub("\ufffd", text.replace("\r\n", "\n"))


def pieces_of(facts: Sequence[Fact]) -> Iterator[Piece]:
    """What people see of the path that the session stands on."""
    path = path_of(facts)
    told = [fact for fact in facts if fact.parent is None or fact.seq in path]
    results = {fact.event.call: fact.event for fact in told if isinstance(fact.event, events.ToolResultFact)}
    for fact in told:
        if (piece := _piece(fact, results)) is not None:
            yield piece


def _piece(fact: Fact, results: dict[str, events.ToolResultFact]) -> Piece | None:
    match fact.event:
        case events.UserMessage(hidden=False, source=source, content=content):
            return Said(fact.seq, "you" if source == "prompt" else source, content)
        case events.AssistantMessage(suppressed=True):
            return Noted("an answer was withheld")
        case events.AssistantMessage(content=content, shown=shown):
            return Said(fact.seq, "assistant", content if shown is None else shown)
        case events.ToolCalled(call=call) as called:
            return Done(fact.seq, called, results.get(call))
        case events.HistoryReplaced(messages=messages):
            return Noted(f"the history was replaced by {len(messages)} messages")
        case events.Compacted(summary=summary) | events.BranchCollapsed(summary=summary):
            return Said(fact.seq, "summary", (Text(summary),))
        case events.TodoUpdated(items=items):
            lines = "\n".join(f"[{item.status}] {item.text}" for item in items)
            return Said(fact.seq, "to do", (Text(lines),))
        case UnknownEvent(type=tag) if fact.parent is not None:
            return Noted(f"{tag}, written by a newer version")
        case _:
            return _note(fact.event)


def _note(event: object) -> Noted | None:
    match event:
        case events.QuestionAsked(question=question):
            return Noted(f"asked: {question.text}")
        case events.QuestionAnswered(outcome="answered", answer=answer) if answer is not None:
            return Noted(f"answered: {answer}")
        case events.QuestionAnswered(outcome=outcome):
            return Noted(f"the question was {outcome}")
        case events.ModelFailed(failure=failure, rescue=rescue) if rescue:
            return Noted(f"the model failed: {failure.message}; {rescue} went on")
        case events.ModelFailed(failure=failure, retry_in=None):
            return Noted(f"the model failed: {failure.message}")
        case events.ChildStarted(child=child, agent=agent):
            return Noted(f"{agent or 'a subagent'} works on it in session {child}")
        case events.RunWaiting(reason=reason):
            return Noted(f"the run waits: {reason}")
        case events.RunEnded(status=status, reason=reason) if status != "completed":
            return Noted(f"the run ended: {status}{': ' if reason else ''}{reason}")
    return None


def entries_elsewhere(facts: Sequence[Fact]) -> int:
    """How many entries lie on branches that the session does not stand on."""
    path = path_of(facts)
    return sum(1 for fact in facts if fact.parent is not None and fact.seq not in path)


def used_in_words(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    """The rows of the table at the end: the session's own model calls, and its children's."""
    usages = [fact.event.usage for fact in facts if isinstance(fact.event, events.UsageReported)]
    spent = reduce(add, map(CostTotals.by, usages), CostTotals())
    usage = spent.usage
    rows = [
        ("model calls", spent.calls),
        ("input tokens", usage.input_tokens),
        ("read from the cache", usage.cache_read_tokens),
        ("written to the cache", usage.cache_write_tokens),
        ("output tokens", usage.output_tokens),
    ]
    table = [*((name, f"{number:,}") for name, number in rows), ("cost", spent.in_words())]
    by_children = [told for fact in facts if (told := _used_by_child(fact.event)) is not None]
    if by_children:
        total = reduce(add, by_children)
        calls = plural(total.model_calls, "model call")
        price = priced(total.usage.cost)
        table.append(("subagents", f"{calls}, {total.usage.total_tokens:,} tokens, {price}"))
    return table


def _used_by_child(event: object) -> events.Totals | None:
    match event:
        case events.ChildEnded(own=own, children=children):
            return own + children
        case events.ChildUsed():
            return event.totals
    return None


def as_revised(facts: Sequence[Fact]) -> Sequence[Fact]:
    """A terminal agent that paused while it answered has said only the beginning in its first fact."""
    told = [fact.event for fact in facts if fact.type == "message_revised"]
    at_last = {one.message: one.content for one in told if isinstance(one, events.MessageRevised)}
    return [_with(fact, at_last[fact.seq]) if fact.seq in at_last else fact for fact in facts]


def _with(fact: Fact, content: tuple[Block, ...]) -> Fact:
    if not isinstance(fact.event, events.AssistantMessage | events.UserMessage):
        return fact
    return Fact.of(
        msgspec.structs.replace(fact.event, content=content),
        seq=fact.seq,
        session=fact.session,
        run=fact.run,
        time_ms=fact.time_ms,
        parent=fact.parent,
    )
