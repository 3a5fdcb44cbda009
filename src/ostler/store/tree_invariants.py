"""The checks of invariants between a session and its children.

A child's run is the run of its session that names a parent; runs that users start there are not checked. An
extension may spawn a child between two runs: then its run is the first one of its session, and has no parent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ostler.schema import events
from ostler.schema.events import ChildEnded, RunEnded, RunStarted, SessionStarted, Totals
from ostler.schema.facts import Fact

Logs = Mapping[str, Sequence[Fact]]
"""The facts of sessions, by their id. Nothing is checked about a session that is missing: it was deleted."""

TREE_FACTS = ("session_started", "run_started", "child_started", "child_used", "child_ended", "run_ended")
"""The types of the facts that are checked."""


class _Child(msgspec.Struct):
    """A child, according to its parent's log and its own."""

    session: str
    parent: str
    call: str
    parent_run: str
    began: SessionStarted | None = None
    """None if it never began, or was deleted."""
    run: str = ""
    started: RunStarted | None = None
    ended: RunEnded | None = None
    reported: ChildEnded | None = None
    """The end, according to its parent."""


class Tree:
    """The children of some sessions, and the runs that have them."""

    def __init__(self, logs: Logs) -> None:
        self.logs = logs
        self.children: dict[str, _Child] = {}
        self.runs: dict[str, RunStarted] = {}
        self.ends: dict[str, RunEnded] = {}
        self.homes: dict[str, str] = {}
        """The session of each run that has ended."""
        self.by_agents: dict[str, Totals] = {}
        """Usage that other vendors' agents reported to each run."""
        for facts in logs.values():
            self._collect(facts)
        for child in self.children.values():
            self._resolve(child)

    def _collect(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if fact.origin or fact.type not in TREE_FACTS:
                continue
            match fact.event:
                case RunStarted() as started:
                    self.runs[fact.run] = started
                case RunEnded() as ended:
                    self.ends[fact.run] = ended
                    self.homes[fact.run] = fact.session
                case events.ChildStarted(call=call, child=child):
                    self.children[child] = _Child(child, fact.session, call, fact.run)
                case events.ChildUsed() as used:
                    self.by_agents[fact.run] = self.by_agents.get(fact.run, Totals()) + used.totals
                case ChildEnded(child=child) as reported if child in self.children:
                    self.children[child].reported = reported

    def _resolve(self, child: _Child) -> None:
        facts = self.logs.get(child.session)
        if not facts:
            return
        if isinstance(facts[0].event, SessionStarted):
            child.began = facts[0].event
        runs = (fact.run for fact in facts if fact.type == "run_started" and not fact.origin)
        child.run = next((run for run in runs if self.runs[run].parent_run or not child.parent_run), "")
        child.started, child.ended = self.runs.get(child.run), self.ends.get(child.run)

    def of_run(self, run: str) -> list[_Child]:
        return [child for child in self.children.values() if child.parent_run == run]


def children_name_their_parents(tree: Tree) -> Iterator[tuple[str, str]]:
    """A child names the session and the call that started it (none, if an extension did), and that session's
    log names the child."""
    for child in tree.children.values():
        parent = (child.parent, child.call)
        named = (child.began.child_of, child.began.call) if child.began else parent
        if named != parent:
            yield child.session, f"it names {named} as its parent, but {parent} started it"
    for session, facts in tree.logs.items():
        event = facts[0].event if facts and session not in tree.children else None
        if isinstance(event, SessionStarted) and event.child_of in tree.logs and not event.forked_from:
            yield session, f"it is a child of {event.child_of}, which does not know it"


def ends_are_reported_correctly(tree: Tree) -> Iterator[tuple[str, str]]:
    """A parent reports the end of a child as the child's own log does."""
    for child in tree.children.values():
        reported, ended = child.reported, child.ended
        if reported is None or child.began is None:
            continue
        if ended is None and (child.run or reported.own != Totals()):
            yield child.parent, f"it reports the end of the child {child.session}, which has not ended"
        elif ended is not None and _end_of(reported) != _end_of(ended):
            yield child.parent, f"it reports another end of the child {child.session} than the child's log"


def _end_of(event: ChildEnded | RunEnded) -> tuple[object, ...]:
    return event.status, event.reason, event.own, event.children


def totals_are_those_of_the_logs(tree: Tree) -> Iterator[tuple[str, str]]:
    """The children's totals of a run are the sum of the totals of all runs below it, and of what other
    vendors' agents reported."""
    for run, ended in tree.ends.items():
        total = _spent_below(tree, run)
        if not _is_same(ended.children, total):
            yield tree.homes[run], f"{run} counts {ended.children} for its children, but they used {total}"


def _spent_below(tree: Tree, run: str) -> Totals:
    total = tree.by_agents.get(run, Totals())
    for child in tree.of_run(run):
        total += Totals(runs=1) + _spent(tree, child)
    return total


def _spent(tree: Tree, child: _Child) -> Totals:
    """By a child and all below it, according to their own facts; for a deleted one, to its parent's."""
    if child.began is None:
        return child.reported.own + child.reported.children if child.reported else Totals()
    total = child.ended.own if child.ended else Totals()
    return total + _spent_below(tree, child.run) if child.run else total


def _is_same(reported: Totals, counted: Totals) -> bool:
    """Costs are compared with a tolerance, because they are added in another order here."""
    is_known = (reported.usage.cost is None) == (counted.usage.cost is None)
    is_close = math.isclose(reported.least_cost, counted.least_cost, abs_tol=1e-9)
    usage = replace(counted.usage, cost=reported.usage.cost)
    return is_known and is_close and reported == replace(counted, known_cost=reported.known_cost, usage=usage)


def children_end_first(tree: Tree) -> Iterator[tuple[str, str]]:
    """No child's run is open when its parent's has ended."""
    for child in tree.children.values():
        if child.parent_run in tree.ends and child.started is not None and child.ended is None:
            yield child.session, f"its run {child.run} is open, but that of its parent has ended"


def positions_are_correct(tree: Tree) -> Iterator[tuple[str, str]]:
    """A child's run names its parent's run, the root's, and one level more, unless it was spawned between
    runs."""
    for child in tree.children.values():
        parent, started = tree.runs.get(child.parent_run), child.started
        if parent is None or started is None:
            continue
        position = (started.parent_run, started.root, started.depth)
        expected = (child.parent_run, parent.root or child.parent_run, parent.depth + 1)
        if position != expected:
            yield child.session, f"its run is at {position} in the tree of runs, but belongs to {expected}"


def children_run_once(tree: Tree) -> Iterator[tuple[str, str]]:
    """A child is started once."""
    for session, facts in tree.logs.items():
        started = [fact.event for fact in facts if fact.type == "run_started" and not fact.origin]
        nested = [event for event in started if isinstance(event, RunStarted) and event.parent_run]
        if len(nested) > 1:
            yield session, f"{len(nested)} of its runs have a parent"
