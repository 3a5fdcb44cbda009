"""What must hold for every log, whatever happened to the processes that wrote it.

Each invariant has a number that stays its own for ever, a sentence, and a check over the facts of a session.
"""
# MERGED: The checks of invariants that are about a session as a whole: its numbers, its tree, its sums.
# MERGED: What must hold between a session and those of its children, whatever happened to the processes.
# MERGED: A child's run is the one of its session that names a parent. What people ask of that session is
# MERGED: theirs alone. An extension may spawn a child between two runs: its run is the first one of its
# MERGED: session, and has no parent.

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from ostler.core.state import fold
from ostler.schema import events
from ostler.schema.errors import StoreCorrupt
from ostler.schema.events import (
    EVENT_TYPES,
    ChildEnded,
    ChildStarted,
    ChildUsed,
    RunEnded,
    RunStarted,
    SessionStarted,
    Totals,
)
from ostler.schema.facts import Fact, type_of
from ostler.schema.messages import ToolResult
from ostler.schema.usage import NOTHING_USED, Usage
from ostler.schema.visibility import is_opening
from ostler.store import run_invariants as of_runs
from ostler.store.fork import REFERENCES

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


def requests_are_handled_once(facts: Sequence[Fact]) -> Iterator[str]:
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


Check = Callable[[Sequence[Fact]], Iterator[str]]


class Invariant(msgspec.Struct, frozen=True):
    """A sentence that holds for every log. The check yields what contradicts it."""

    number: str
    sentence: str
    check: Check
    only_at_rest: bool = False
    """It need not hold while a run is driven, nor after a crash until somebody has driven the run on."""


class Violation(msgspec.Struct, frozen=True):
    """What contradicts the invariant of that number."""

    number: str
    problem: str

    def __str__(self) -> str:
        return f"{self.number}: {self.problem}"


INVARIANTS = (
    Invariant("L1", "Every fact can be read, and is of the type that it says.", facts_can_be_read),
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
        of_runs.runs_are_well_ordered,
    ),
    Invariant(
        "L6",
        "The steps of a run are counted 1, 2, 3 …, and so are the attempts at the answer of a step.",
        of_runs.steps_are_counted,
    ),
    Invariant(
        "L7",
        "A model call comes before its one `usage`, which names the same model and purpose, and before its "
        "one message or failure.",
        of_runs.model_calls_are_paired,
    ),
    Invariant(
        "L8",
        "A tool call comes before its beginning and its one result; nothing succeeds that neither began "
        "nor asked nor repeats a result.",
        of_runs.tool_calls_are_paired,
    ),
    Invariant(
        "L9",
        "A question comes before its one answer, and the answer to a secret one is not kept.",
        of_runs.questions_are_answered_once,
    ),
    Invariant(
        "L10",
        "A call begins once, unless it is idempotent, has a child, or was called again with an answer.",
        of_runs.effects_are_not_repeated,
    ),
    Invariant("L11", "A run waits for questions and calls that are open.", of_runs.waiting_is_for_something),
    Invariant(
        "L12",
        "Usage is never negative, and the cumulative one is the sum of all before it.",
        usage_adds_up,
    ),
    Invariant(
        "L13",
        "The totals of a run are the sums of its facts, and only a run with children counts some.",
        of_runs.totals_are_sums,
    ),
    Invariant(
        "L14",
        "A request is taken up once, or refused, and never both.",
        requests_are_handled_once,
    ),
    Invariant(
        "L15",
        "The facts that opening reads add up to the same state as all facts.",
        opening_needs_only_its_part,
    ),
    Invariant(
        "L16",
        "In what the model is told every call is answered in the message that follows it.",
        transcript_can_be_sent,
    ),
    Invariant("L17", "Every run has ended, or waits.", of_runs.runs_settle, only_at_rest=True),
    Invariant(
        "L18",
        "Every model call has its usage, and every step's one its message or failure.",
        of_runs.model_calls_settle,
        only_at_rest=True,
    ),
    Invariant(
        "L19",
        "Every tool call has its result, unless its run waits.",
        of_runs.tool_calls_settle,
        only_at_rest=True,
    ),
    Invariant(
        "L20",
        "Every question has its answer, unless its run waits.",
        of_runs.questions_settle,
        only_at_rest=True,
    ),
    Invariant(
        "L21",
        "A child begins once and ends once, under its call or, if an extension spawned it, under none; "
        "and no run ends before its children.",
        of_runs.children_end_before_their_parent,
    ),
    Invariant(
        "L22",
        "A result that repeats another names one of the same tool with the same key, which had succeeded.",
        of_runs.repeats_name_what_they_repeat,
    ),
    Invariant(
        "L23",
        "When a run ends, its calls have their results and its questions their answers.",
        of_runs.ends_leave_nothing_open,
    ),
)


def broken_invariants(facts: Sequence[Fact], *, at_rest: bool = True) -> Iterator[Violation]:
    """What contradicts the invariants. When a fact cannot be read, nothing can be said of the others."""
    first, *others = INVARIANTS
    unreadable = [Violation(first.number, problem) for problem in first.check(facts)]
    yield from unreadable
    if unreadable:
        return
    for invariant in others:
        if at_rest or not invariant.only_at_rest:
            for problem in invariant.check(facts):
                yield Violation(invariant.number, problem)


def violations(facts: Sequence[Fact]) -> list[str]:
    """What is wrong with the log of a session at rest; an empty list when all is well."""
    return [str(violation) for violation in broken_invariants(facts)]


Logs = Mapping[str, Sequence[Fact]]
"""The facts of sessions, by their id. A session that is not there was deleted, and is not spoken of."""


TOLD_OF_TREES = ("session_started", "run_started", "child_started", "child_used", "child_ended", "run_ended")
"""The facts that are looked at."""


class _Child(msgspec.Struct):
    """A child, as its parent's log and as its own tell of it."""

    session: str
    parent: str
    call: str
    parent_run: str
    began: SessionStarted | None = None
    """None when it never did, or was deleted."""
    run: str = ""
    started: RunStarted | None = None
    ended: RunEnded | None = None
    told: ChildEnded | None = None
    """The end, as its parent has it."""


class _Tree:
    """The children of some sessions, and the runs that have them."""

    def __init__(self, logs: Logs) -> None:
        self.logs = logs
        self.children: dict[str, _Child] = {}
        self.runs: dict[str, RunStarted] = {}
        self.ends: dict[str, RunEnded] = {}
        self.homes: dict[str, str] = {}
        """The session of each run that has ended."""
        self.by_agents: dict[str, Totals] = {}
        """What other vendors' agents told each run that they have used."""
        for facts in logs.values():
            self._note(facts)
        for child in self.children.values():
            self._look_at(child)

    def _note(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if fact.origin or fact.type not in TOLD_OF_TREES:
                continue
            match fact.event:
                case RunStarted() as started:
                    self.runs[fact.run] = started
                case RunEnded() as ended:
                    self.ends[fact.run] = ended
                    self.homes[fact.run] = fact.session
                case ChildStarted(call=call, child=child):
                    self.children[child] = _Child(child, fact.session, call, fact.run)
                case ChildUsed() as used:
                    self.by_agents[fact.run] = self.by_agents.get(fact.run, Totals()) + used.totals
                case ChildEnded(child=child) as told if child in self.children:
                    self.children[child].told = told

    def _look_at(self, child: _Child) -> None:
        facts = self.logs.get(child.session)
        if not facts:
            return
        first = facts[0].event
        child.began = first if isinstance(first, SessionStarted) else None
        runs = (fact.run for fact in facts if fact.type == "run_started" and not fact.origin)
        child.run = next((run for run in runs if self.runs[run].parent_run or not child.parent_run), "")
        child.started, child.ended = self.runs.get(child.run), self.ends.get(child.run)

    def of_run(self, run: str) -> list[_Child]:
        return [child for child in self.children.values() if child.parent_run == run]


class TreeInvariant(msgspec.Struct, frozen=True):
    """A sentence that holds for every tree of sessions. The check yields what contradicts it, and where."""

    number: str
    sentence: str
    check: Callable[[_Tree], Iterator[tuple[str, str]]]


class TreeViolation(msgspec.Struct, frozen=True):
    """What contradicts the invariant of that number, in that session."""

    number: str
    session: str
    problem: str

    def __str__(self) -> str:
        return f"{self.session}: {self.number}: {self.problem}"


def _children_name_their_parents(tree: _Tree) -> Iterator[tuple[str, str]]:
    for child in tree.children.values():
        named = (child.began.child_of, child.began.call) if child.began else (child.parent, child.call)
        if named != (child.parent, child.call):
            yield (
                child.session,
                f"it names {named} as its parent, but {(child.parent, child.call)} started it",
            )
    for session, facts in tree.logs.items():
        event = facts[0].event if facts and session not in tree.children else None
        if isinstance(event, SessionStarted) and event.child_of in tree.logs and not event.forked_from:
            yield session, f"it is a child of {event.child_of}, which does not know it"


def _ends_are_told_as_they_are(tree: _Tree) -> Iterator[tuple[str, str]]:
    for child in tree.children.values():
        told, ended = child.told, child.ended
        if told is None or child.began is None:
            continue
        if ended is None and (child.run or told.own != Totals()):
            yield child.parent, f"it says that the child {child.session} has ended, which is not so"
        elif ended is not None and (told.status, told.reason, told.own, told.children) != (
            ended.status,
            ended.reason,
            ended.own,
            ended.children,
        ):
            yield child.parent, f"it tells the end of the child {child.session} otherwise than that itself"


def _totals_are_those_of_the_logs(tree: _Tree) -> Iterator[tuple[str, str]]:
    for run, ended in tree.ends.items():
        total = _spent_below(tree, run)
        if not _is_same(ended.children, total):
            yield tree.homes[run], f"{run} tells {ended.children} of its children, but they {total}"


def _spent_below(tree: _Tree, run: str) -> Totals:
    total = tree.by_agents.get(run, Totals())
    for child in tree.of_run(run):
        total += Totals(runs=1) + _spent(tree, child)
    return total


def _spent(tree: _Tree, child: _Child) -> Totals:
    """By a child and all below it, from their own facts; of one that was deleted, from its parent's."""
    if child.began is None:
        return child.told.own + child.told.children if child.told else Totals()
    total = child.ended.own if child.ended else Totals()
    return total + _spent_below(tree, child.run) if child.run else total


def _is_same(told: Totals, counted: Totals) -> bool:
    """Costs are added up in another order here."""
    if (told.usage.cost is None) != (counted.usage.cost is None):
        return False
    free = [
        msgspec.structs.replace(total, known_cost=0.0, usage=msgspec.structs.replace(total.usage, cost=None))
        for total in (told, counted)
    ]
    return free[0] == free[1] and math.isclose(told.least_cost, counted.least_cost, abs_tol=1e-9)


def _children_end_first(tree: _Tree) -> Iterator[tuple[str, str]]:
    for child in tree.children.values():
        if child.parent_run in tree.ends and child.started is not None and child.ended is None:
            yield child.session, f"its run {child.run} is open, but that of its parent has ended"


def _places_fit(tree: _Tree) -> Iterator[tuple[str, str]]:
    for child in tree.children.values():
        parent, started = tree.runs.get(child.parent_run), child.started
        if parent is None or started is None:
            continue
        said = (started.parent_run, started.root, started.depth)
        meant = (child.parent_run, parent.root or child.parent_run, parent.depth + 1)
        if said != meant:
            yield child.session, f"its run stands at {said} in the tree of runs, but belongs to {meant}"


def _children_run_once(tree: _Tree) -> Iterator[tuple[str, str]]:
    for session, facts in tree.logs.items():
        started = [fact.event for fact in facts if fact.type == "run_started" and not fact.origin]
        under = [event for event in started if isinstance(event, RunStarted) and event.parent_run]
        if len(under) > 1:
            yield session, f"{len(under)} of its runs have a parent"


TREE_INVARIANTS = (
    TreeInvariant(
        "T1",
        "A child names the session and the call that started it (none, if an extension did), and that "
        "session's log names the child.",
        _children_name_their_parents,
    ),
    TreeInvariant(
        "T2", "A parent tells the end of a child as the child's own log does.", _ends_are_told_as_they_are
    ),
    TreeInvariant(
        "T3",
        "What a run tells of its children is the sum of what all below it tell of themselves, and of what "
        "other vendors' agents told them.",
        _totals_are_those_of_the_logs,
    ),
    TreeInvariant("T4", "No child's run is open when its parent's has ended.", _children_end_first),
    TreeInvariant(
        "T5",
        "A child's run names its parent's, the root's, and one level more, unless spawned between runs.",
        _places_fit,
    ),
    TreeInvariant("T6", "A child is started once.", _children_run_once),
)


def broken_tree_invariants(logs: Logs) -> Iterator[TreeViolation]:
    """What contradicts the invariants. A log that L1 or L2 speaks against must not be among these."""
    tree = _Tree(logs)
    for invariant in TREE_INVARIANTS:
        for session, problem in invariant.check(tree):
            yield TreeViolation(invariant.number, session, problem)


def tree_violations(logs: Logs) -> list[str]:
    """What is wrong between the sessions; an empty list when all is well."""
    return [str(violation) for violation in broken_tree_invariants(logs)]
