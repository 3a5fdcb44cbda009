"""What must hold for every log, whatever happened to the processes that wrote it.

Each invariant has a number that never changes, and a check whose docstring is its sentence: over the facts of
one session (L), or over a tree of sessions (T).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from ostler.core.state import fold
from ostler.schema import events
from ostler.schema.errors import StoreCorrupt
from ostler.schema.events import EVENT_TYPES
from ostler.schema.facts import Fact, type_of
from ostler.schema.messages import ToolResult
from ostler.schema.usage import NOTHING_USED, Usage
from ostler.store import run_invariants as runs
from ostler.store import tree_invariants as trees
from ostler.store.fork import REFERENCES
from ostler.store.rules import opening_part
from ostler.store.tree_invariants import Logs, Tree

_ENTRY_FIELDS = {**REFERENCES, "leaf_moved": ("to",)}


def facts_can_be_read(facts: Sequence[Fact]) -> Iterator[str]:
    """Every fact can be read, and has the type that it names."""
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
    """A session begins with `session_started`, and its facts are numbered 1, 2, 3 …"""
    if not facts or facts[0].type != "session_started":
        yield "the first fact is not session_started"
    for expected, fact in enumerate(facts, 1):
        if fact.seq != expected:
            yield f"fact {fact.seq} is where fact {expected} should be"
            return


def entries_form_a_tree(facts: Sequence[Fact]) -> Iterator[str]:
    """An entry's parent is an earlier entry; records have none."""
    entries = {0}
    for fact in facts:
        event_type = EVENT_TYPES.get(fact.type)
        if event_type is not None and issubclass(event_type, events.Entry) != (fact.parent is not None):
            yield f"{fact.type} {fact.seq} has parent {fact.parent}"
        if fact.parent is not None:
            if fact.parent not in entries:
                yield f"entry {fact.seq} has the parent {fact.parent}, which is no earlier entry"
            entries.add(fact.seq)


def named_entries_exist(facts: Sequence[Fact]) -> Iterator[str]:
    """Where a fact names an entry by its number, that is an earlier entry."""
    entries = {0}
    for fact in facts:
        for name in _ENTRY_FIELDS.get(fact.type, ()):
            named: int | tuple[int, ...] = getattr(fact.event, name)
            for number in (named,) if isinstance(named, int) else named:
                if number not in entries:
                    yield f"{fact.type} {fact.seq} names {number}, which is no earlier entry"
        if fact.parent is not None:
            entries.add(fact.seq)


def usage_adds_up(facts: Sequence[Fact]) -> Iterator[str]:
    """Usage is never negative, and the cumulative usage is the sum of all usage before it."""
    total = NOTHING_USED
    for fact in facts:
        if fact.type not in ("usage", "run_ended", "history_replaced"):
            continue
        match fact.event:
            case events.UsageReported(usage=usage, cumulative=cumulative):
                if _is_negative(usage):
                    yield f"usage {fact.seq} is negative: {usage}"
                if cumulative != total + usage:
                    yield f"usage {fact.seq} has the sum {cumulative} of {total} and {usage}"
                total = cumulative
            case events.RunEnded(cumulative=cumulative) if not fact.origin:
                if cumulative != total:
                    yield f"run_ended {fact.seq} says {cumulative}, but {total} was used"
                total = cumulative
            case events.HistoryReplaced(usage=usage) if usage is not None and not fact.origin:
                total = usage


def _is_negative(usage: Usage) -> bool:
    return any(isinstance(amount, int | float) and amount < 0 for amount in msgspec.structs.astuple(usage))


def requests_are_handled_once(facts: Sequence[Fact]) -> Iterator[str]:
    """A request is handled once or refused, never both."""
    handled: dict[str, set[str]] = {}
    for fact in facts:
        request = getattr(fact.event, "request", "")
        if not request or fact.origin:
            continue
        types = handled.setdefault(request, set())
        if fact.type in types or (types and "request_refused" in {fact.type, *types}):
            yield f"request {request} became {fact.type} at {fact.seq}, after {', '.join(sorted(types))}"
        types.add(fact.type)


def opening_needs_only_its_part(facts: Sequence[Fact]) -> Iterator[str]:
    """The facts that opening reads give the same state as all facts."""
    whole, opened = fold(facts).snapshot(), fold(opening_part(facts)).snapshot()
    for name, value in whole.items():
        if opened[name] != value:
            yield f"{name} is {opened[name]!r} after opening, but {value!r} after everything"


def transcript_can_be_sent(facts: Sequence[Fact]) -> Iterator[str]:
    """In the transcript sent to the model, the message after a call contains its result."""
    state = fold(facts)
    messages = list(state.transcript)
    for message, following in zip_longest(messages, messages[1:]):
        calls = [call.id for call in message.calls]
        if not calls or (following is None and state.run is not None):
            continue
        blocks = following.content if following else ()
        results = [block.call for block in blocks if isinstance(block, ToolResult)]
        if calls != results:
            yield f"the calls {calls} are followed by the results {results}"


class Invariant(msgspec.Struct, frozen=True):
    """A sentence that holds for every log, or for every tree of logs, and its check."""

    number: str
    check: Callable[[Any], Iterator[str | tuple[str, str]]]
    """Yields what contradicts the sentence; the check of a tree yields the session as well."""
    only_at_rest: bool = False
    """It need not hold while a run is driven, nor after a crash until the run was resumed."""

    @property
    def sentence(self) -> str:
        return " ".join((self.check.__doc__ or "").split())

    def violations(self, subject: Sequence[Fact] | Tree) -> Iterator[Violation]:
        for problem in self.check(subject):
            session, text = ("", problem) if isinstance(problem, str) else problem
            yield Violation(self.number, text, session)


class Violation(msgspec.Struct, frozen=True):
    """What contradicts the invariant of that number."""

    number: str
    problem: str
    session: str = ""
    """In a tree, where the problem is."""

    def __str__(self) -> str:
        return f"{self.session}: {self.number}: {self.problem}".removeprefix(": ")


INVARIANTS = (
    Invariant("L1", facts_can_be_read),
    Invariant("L2", numbers_have_no_holes),
    Invariant("L3", entries_form_a_tree),
    Invariant("L4", named_entries_exist),
    Invariant("L5", runs.runs_are_well_ordered),
    Invariant("L6", runs.steps_are_counted),
    Invariant("L7", runs.model_calls_are_paired),
    Invariant("L8", runs.tool_calls_are_paired),
    Invariant("L9", runs.questions_are_answered_once),
    Invariant("L10", runs.effects_are_not_repeated),
    Invariant("L11", runs.waiting_is_for_something),
    Invariant("L12", usage_adds_up),
    Invariant("L13", runs.totals_are_sums),
    Invariant("L14", requests_are_handled_once),
    Invariant("L15", opening_needs_only_its_part),
    Invariant("L16", transcript_can_be_sent),
    Invariant("L17", runs.runs_settle, only_at_rest=True),
    Invariant("L18", runs.model_calls_settle, only_at_rest=True),
    Invariant("L19", runs.tool_calls_settle, only_at_rest=True),
    Invariant("L20", runs.questions_settle, only_at_rest=True),
    Invariant("L21", runs.children_end_before_their_parent),
    Invariant("L22", runs.repeats_name_what_they_repeat),
    Invariant("L23", runs.ends_leave_nothing_open),
)

TREE_INVARIANTS = (
    Invariant("T1", trees.children_name_their_parents),
    Invariant("T2", trees.ends_are_reported_correctly),
    Invariant("T3", trees.totals_are_those_of_the_logs),
    Invariant("T4", trees.children_end_first),
    Invariant("T5", trees.positions_are_correct),
    Invariant("T6", trees.children_run_once),
)


def is_at_rest(facts: Sequence[Fact]) -> bool:
    """No run is under way or was interrupted, and no question of an extension or between runs is open: their
    processes still write what is missing."""
    run, questions = "", set()
    for fact in facts:
        if fact.type in ("run_started", "run_waiting", "run_resumed", "run_ended"):
            run = fact.type
        elif fact.type in ("question_asked", "question_answered"):
            match fact.event:
                case events.QuestionAsked(id=question, asked_by=asker) if (
                    asker == "extension" or not fact.run
                ):
                    questions.add(question)
                case events.QuestionAnswered(id=question):
                    questions.discard(question)
    return run not in ("run_started", "run_resumed") and not questions


def broken_invariants(facts: Sequence[Fact], *, at_rest: bool = True) -> Iterator[Violation]:
    """What contradicts the invariants of a log. If a fact cannot be read, the others are not checked."""
    first, *others = INVARIANTS
    unreadable = list(first.violations(facts))
    yield from unreadable
    if not unreadable:
        for invariant in others:
            if at_rest or not invariant.only_at_rest:
                yield from invariant.violations(facts)


def broken_tree_invariants(logs: Logs) -> Iterator[Violation]:
    """What contradicts the invariants of trees. `logs` must not contain a log that violates L1 or L2."""
    tree = Tree(logs)
    for invariant in TREE_INVARIANTS:
        yield from invariant.violations(tree)


def violations(facts: Sequence[Fact]) -> list[str]:
    """What is wrong with the log of an idle session; empty if nothing is."""
    return [str(violation) for violation in broken_invariants(facts)]


def tree_violations(logs: Logs) -> list[str]:
    """What is wrong between sessions; empty if nothing is."""
    return [str(violation) for violation in broken_tree_invariants(logs)]
