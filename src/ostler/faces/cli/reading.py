"""A session as pieces to read, whatever they are written in: who said what, what was done, what it cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

import msgspec

from ostler.faces.cli.saying import counted, priced
from ostler.kernel.state import path_of
from ostler.runs.costs import Spent
from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact, UnknownEvent
from ostler.vocabulary.messages import Block, Text

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
    spent = reduce(add, map(Spent.by, usages), Spent())
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
        calls = counted(total.model_calls, "model call")
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
