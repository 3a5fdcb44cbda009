"""What must hold for every log, whatever happened to the processes that wrote it.

Each invariant has a number that never changes, a sentence, and a check: over the facts of one session (L), or
over a tree of sessions (T).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from ostler.core.state import fold
from ostler.schema import events
from ostler.schema.errors import StoreCorrupt
from ostler.schema.events import EVENT_TYPES
from ostler.schema.facts import Fact, type_of
from ostler.schema.messages import ToolResult
from ostler.schema.usage import NOTHING_USED, Usage
from ostler.schema.visibility import is_opening
from ostler.store import run_invariants, tree_invariants
from ostler.store.fork import REFERENCES
from ostler.store.tree_invariants import Logs, Tree

_ENTRY_FIELDS = {**REFERENCES, "leaf_moved": ("to",)}


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
            yield f"fact {fact.seq} is where fact {expected} should be"
            return


def entries_form_a_tree(facts: Sequence[Fact]) -> Iterator[str]:
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
    amounts = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.cost or 0.0,
    )
    return min(amounts) < 0


def requests_are_handled_once(facts: Sequence[Fact]) -> Iterator[str]:
    handled: dict[str, set[str]] = {}
    for fact in facts:
        if b'"request":' not in fact.body or fact.origin:
            continue
        request = getattr(fact.event, "request", "")
        if not request:
            continue
        types = handled.setdefault(request, set())
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


def transcript_can_be_sent(facts: Sequence[Fact]) -> Iterator[str]:
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


class Invariant(msgspec.Struct, frozen=True):
    """A sentence that holds for every log, or for every tree of logs."""

    number: str
    sentence: str
    check: Callable[[Any], Iterator[str | tuple[str, str]]]
    """Yields what contradicts it; the check of a tree yields the session as well."""
    only_at_rest: bool = False
    """It need not hold while a run is driven, nor after a crash until the run was resumed."""

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
        return (
            f"{self.session}: {self.number}: {self.problem}"
            if self.session
            else f"{self.number}: {self.problem}"
        )


INVARIANTS = (
    Invariant("L1", "Every fact can be read, and has the type that it names.", facts_can_be_read),
    Invariant(
        "L2",
        "A session begins with `session_started`, and its facts are numbered 1, 2, 3 …",
        numbers_have_no_holes,
    ),
    Invariant("L3", "An entry's parent is an earlier entry; records have none.", entries_form_a_tree),
    Invariant(
        "L4",
        "Where a fact names an entry by its number, that is an earlier entry.",
        named_entries_exist,
    ),
    Invariant(
        "L5",
        "One run at a time, in the promised order, with one end; what belongs to a run stands inside it, "
        "and the leaf is moved only between runs.",
        run_invariants.runs_are_well_ordered,
    ),
    Invariant(
        "L6",
        "The steps of a run are counted 1, 2, 3 …, and so are the attempts at the answer of a step.",
        run_invariants.steps_are_counted,
    ),
    Invariant(
        "L7",
        "A model call comes before its one `usage`, which names the same model and purpose, and before its "
        "one message or failure.",
        run_invariants.model_calls_are_paired,
    ),
    Invariant(
        "L8",
        "A tool call comes before its start and its one result; a call that succeeds has started, asked a "
        "question, or repeats a result.",
        run_invariants.tool_calls_are_paired,
    ),
    Invariant(
        "L9",
        "A question comes before its one answer, and the answer to a secret one is not stored.",
        run_invariants.questions_are_answered_once,
    ),
    Invariant(
        "L10",
        "A call starts once, unless it is idempotent, has a child, or was called again with an answer.",
        run_invariants.effects_are_not_repeated,
    ),
    Invariant(
        "L11", "A run waits for questions and calls that are open.", run_invariants.waiting_is_for_something
    ),
    Invariant(
        "L12",
        "Usage is never negative, and the cumulative one is the sum of all before it.",
        usage_adds_up,
    ),
    Invariant(
        "L13",
        "The totals of a run are the sums of its facts, and only a run with children counts some.",
        run_invariants.totals_are_sums,
    ),
    Invariant(
        "L14",
        "A request is handled once or refused, never both.",
        requests_are_handled_once,
    ),
    Invariant(
        "L15",
        "The facts that opening reads add up to the same state as all facts.",
        opening_needs_only_its_part,
    ),
    Invariant(
        "L16",
        "In the transcript sent to the model, the message after a call contains its result.",
        transcript_can_be_sent,
    ),
    Invariant("L17", "Every run has ended, or waits.", run_invariants.runs_settle, only_at_rest=True),
    Invariant(
        "L18",
        "Every model call has its usage, and every model call of a step its message or failure.",
        run_invariants.model_calls_settle,
        only_at_rest=True,
    ),
    Invariant(
        "L19",
        "Every tool call has its result, unless its run waits.",
        run_invariants.tool_calls_settle,
        only_at_rest=True,
    ),
    Invariant(
        "L20",
        "Every question has its answer, unless its run waits.",
        run_invariants.questions_settle,
        only_at_rest=True,
    ),
    Invariant(
        "L21",
        "A child starts once and ends once, for its call, or for none if an extension spawned it; no run "
        "ends before its children.",
        run_invariants.children_end_before_their_parent,
    ),
    Invariant(
        "L22",
        "A result that repeats another names one of the same tool with the same key, which had succeeded.",
        run_invariants.repeats_name_what_they_repeat,
    ),
    Invariant(
        "L23",
        "When a run ends, its calls have their results and its questions their answers.",
        run_invariants.ends_leave_nothing_open,
    ),
)


TREE_INVARIANTS = (
    Invariant(
        "T1",
        "A child names the session and the call that started it (none, if an extension did), and that "
        "session's log names the child.",
        tree_invariants.children_name_their_parents,
    ),
    Invariant(
        "T2",
        "A parent reports the end of a child as the child's own log does.",
        tree_invariants.ends_are_reported_correctly,
    ),
    Invariant(
        "T3",
        "The children's totals of a run are the sum of the totals of all runs below it, and of what other "
        "vendors' agents reported.",
        tree_invariants.totals_are_those_of_the_logs,
    ),
    Invariant(
        "T4", "No child's run is open when its parent's has ended.", tree_invariants.children_end_first
    ),
    Invariant(
        "T5",
        "A child's run names its parent's run, the root's, and one level more, unless it was spawned between "
        "runs.",
        tree_invariants.positions_are_correct,
    ),
    Invariant("T6", "A child is started once.", tree_invariants.children_run_once),
)


def is_at_rest(facts: Sequence[Fact]) -> bool:
    """No run is under way or was interrupted, and no question of an extension is open: their processes still
    write what is missing."""
    run, questions = "", set()
    for fact in facts:
        if fact.type in ("run_started", "run_waiting", "run_resumed", "run_ended"):
            run = fact.type
        elif fact.type in ("question_asked", "question_answered"):
            match fact.event:
                case events.QuestionAsked(id=question, asked_by="extension"):
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
