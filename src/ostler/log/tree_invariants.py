"""What must hold between a session and those of its children, whatever happened to the processes.

A child's run is the one of its session that names a parent. What people ask of that session is theirs alone.
An extension may spawn a child between two runs: its run is the first one of its session, and has no parent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from ostler.vocabulary.events import (
    ChildEnded,
    ChildStarted,
    ChildUsed,
    RunEnded,
    RunStarted,
    SessionStarted,
    Totals,
)
from ostler.vocabulary.facts import Fact

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


def broken_tree(logs: Logs) -> Iterator[TreeViolation]:
    """What contradicts the invariants. A log that L1 or L2 speaks against must not be among these."""
    tree = _Tree(logs)
    for invariant in TREE_INVARIANTS:
        for session, problem in invariant.check(tree):
            yield TreeViolation(invariant.number, session, problem)


def tree_violations(logs: Logs) -> list[str]:
    """What is wrong between the sessions; an empty list when all is well."""
    return [str(violation) for violation in broken_tree(logs)]
