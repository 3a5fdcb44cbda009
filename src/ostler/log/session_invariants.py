"""The checks of invariants that are about a session as a whole: its numbers, its tree, its sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ostler.kernel.state import fold
from ostler.log.fork import REFERENCES
from ostler.vocabulary import events
from ostler.vocabulary.errors import StoreCorrupt
from ostler.vocabulary.events import EVENT_TYPES
from ostler.vocabulary.facts import Fact, type_of
from ostler.vocabulary.governance import is_opening
from ostler.vocabulary.messages import ToolResult
from ostler.vocabulary.usage import NOTHING_USED, Usage

_NAMING = {**REFERENCES, "leaf_moved": ("to",)}


def facts_can_be_read(facts: Sequence[Fact]) -> Iterator[str]:
    for fact in facts:
        try:
            if type_of(fact.body) != fact.type:
                yield f"fact {fact.seq} is stored as {fact.type}, but is a {type_of(fact.body)}"
            elif fact.type in EVENT_TYPES:
                fact.event  # noqa: B018  # decodes it
            else:
                msgspec.json.decode(fact.body, type=dict[str, msgspec.Raw])
        except StoreCorrupt as error:
            yield error.message
        except (msgspec.MsgspecError, ValueError) as error:
            yield f"fact {fact.seq} is damaged: {error}"


def numbers_have_no_holes(facts: Sequence[Fact]) -> Iterator[str]:
    if not facts or facts[0].type != "session_started":
        yield "the first fact is not session_started"
    for expected, fact in enumerate(facts, 1):
        if fact.seq != expected:
            yield f"fact {fact.seq} stands where {expected} should"
            return


def entries_form_a_tree(facts: Sequence[Fact]) -> Iterator[str]:
    entries = {0}
    for fact in facts:
        known = EVENT_TYPES.get(fact.type)
        if known is not None and issubclass(known, events.Entry) != (fact.parent is not None):
            yield f"{fact.type} {fact.seq} has parent {fact.parent}"
        if fact.parent is not None:
            if fact.parent not in entries:
                yield f"entry {fact.seq} has the parent {fact.parent}, which is no earlier entry"
            entries.add(fact.seq)


def named_entries_exist(facts: Sequence[Fact]) -> Iterator[str]:
    entries = {0}
    for fact in facts:
        for name in _NAMING.get(fact.type, ()):
            named: int | tuple[int, ...] = getattr(fact.event, name)
            for number in (named,) if isinstance(named, int) else named:
                if number not in entries:
                    yield f"{fact.type} {fact.seq} names {number}, which is no earlier entry"
        if fact.parent is not None:
            entries.add(fact.seq)


def usage_adds_up(facts: Sequence[Fact]) -> Iterator[str]:
    total = NOTHING_USED
    for fact in facts:
        if fact.type not in ("usage", "run_ended", "history_replaced"):
            continue
        match fact.event:
            case events.UsageReported(usage=usage, cumulative=cumulative):
                if _is_negative(usage):
                    yield f"usage {fact.seq} is negative: {usage}"
                if cumulative != total + usage:
                    yield f"usage {fact.seq} makes {cumulative} of {total} and {usage}"
                total = cumulative
            case events.RunEnded(cumulative=cumulative) if not fact.origin:
                if cumulative != total:
                    yield f"run_ended {fact.seq} says {cumulative}, but {total} was used"
                total = cumulative
            case events.HistoryReplaced(usage=usage) if usage is not None and not fact.origin:
                total = usage


def _is_negative(usage: Usage) -> bool:
    amounts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.cost or 0.0,
    )
    return min(amounts) < 0


def requests_are_taken_up_once(facts: Sequence[Fact]) -> Iterator[str]:
    taken: dict[str, set[str]] = {}
    for fact in facts:
        if b'"request":' not in fact.body or fact.origin:
            continue
        request = getattr(fact.event, "request", "")
        if not request:
            continue
        types = taken.setdefault(request, set())
        if fact.type in types or (types and "request_refused" in {fact.type, *types}):
            yield f"request {request} became {fact.type} at {fact.seq}, after {', '.join(sorted(types))}"
        types.add(fact.type)


def opening_needs_only_its_part(facts: Sequence[Fact]) -> Iterator[str]:
    bounds = [fact.seq for fact in facts if fact.type in ("run_started", "run_ended")]
    tail = max(bounds, default=1)
    part = [fact for fact in facts if fact.seq >= tail or is_opening(fact.type, fact.run)]
    whole, opened = fold(facts).snapshot(), fold(part).snapshot()
    for name, value in whole.items():
        if opened[name] != value:
            yield f"{name} is {opened[name]!r} after opening, but {value!r} after everything"


def the_model_can_be_told(facts: Sequence[Fact]) -> Iterator[str]:
    state = fold(facts)
    messages = list(state.transcript)
    for number, message in enumerate(messages, 1):
        following = messages[number] if number < len(messages) else None
        calls = [call.id for call in message.calls]
        if not calls or (following is None and state.run is not None):
            continue
        results = (
            [block.call for block in following.content if isinstance(block, ToolResult)] if following else []
        )
        if calls != results:
            yield f"the calls {calls} are followed by the results {results}"
