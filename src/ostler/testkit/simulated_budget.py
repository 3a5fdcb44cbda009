"""What the runs of a simulation spend with all below them, counted as their facts are committed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ostler.vocabulary import events
from ostler.vocabulary.events import Limits
from ostler.vocabulary.facts import Fact

PRICES = (0.125, 0.25)
"""Of a simulated model call: they can be added up exactly."""

_LIMIT = re.compile(r"the limit of \$?[\d.]+ ?(was reached|steps|children|levels)")


class _Tree:
    """A run and all below it."""

    def __init__(self, run: str, limits: Limits, parent: _Tree | None) -> None:
        self.run = run
        self.limits = limits
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.under_way: set[str] = set()
        self.most_under_way = 0
        self.steps = self.tokens = self.largest_tokens = 0
        self.cost = self.largest_cost = 0.0
        self.children = 0
        self.asking: set[str] = set()
        """The children that asked a model."""
        self.deepest = 0
        """Of those, counted from here."""

    def with_parents(self) -> Iterator[_Tree]:
        tree: _Tree | None = self
        while tree is not None:
            yield tree
            tree = tree.parent

    def begin(self, run: str) -> None:
        self.under_way.add(run)
        self.most_under_way = max(self.most_under_way, len(self.under_way))

    def ask(self, of: _Tree) -> None:
        self.deepest = max(self.deepest, of.depth - self.depth)
        if of is not self:
            self.asking.add(of.run)

    def spend(self, tokens: int, cost: float) -> None:
        self.tokens += tokens
        self.largest_tokens = max(self.largest_tokens, tokens)
        self.cost += cost
        self.largest_cost = max(self.largest_cost, cost)

    def excesses(self) -> Iterator[str]:
        limits, most = self.limits, self.most_under_way
        for name, spent, limit, beyond in (
            ("steps", self.steps, limits.steps, most),
            ("tokens", self.tokens, limits.tokens, most * self.largest_tokens),
            ("dollars", self.cost, limits.cost, most * self.largest_cost),
            ("children", len(self.asking), limits.children, 0),
            ("levels of children", self.deepest, limits.depth, 0),
        ):
            if limit is not None and spent > limit + beyond:
                yield f"{self.run} and all below it have spent {spent} {name}, but may {limit}"

    def has_reached(self, what: str, depth: int) -> bool:
        """Whether so much was spent, or set aside for calls that were lost then, that more is too much."""
        limits, calls = self.limits, self.children + 2
        match what:
            case "steps":
                return limits.steps is not None and self.steps + calls > limits.steps
            case "children":
                return limits.children is not None and self.children > limits.children
            case "levels":
                return limits.depth is not None and depth - self.depth > limits.depth
        return limits.cost is not None and self.cost + calls * max(PRICES) >= limits.cost


class SpentByTrees:
    """A limit may be exceeded by one call for each run that was under way, and by no more.

    Nor may a run end at a limit that it has not come to.
    """

    def __init__(self) -> None:
        self._trees: dict[str, _Tree] = {}
        self._at_their_limit: list[tuple[_Tree, str]] = []
        """Runs that ended so, and which limit that was."""

    def note(self, fact: Fact) -> None:
        event = fact.event
        if isinstance(event, events.RunStarted):
            parent = self._trees.get(event.parent_run)
            self._trees[fact.run] = _Tree(fact.run, event.limits, parent)
        if fact.run not in self._trees:
            return
        own = self._trees[fact.run]
        for tree in own.with_parents():
            match event:
                case events.RunStarted():
                    tree.begin(fact.run)
                case events.ChildStarted():
                    tree.children += 1
                case events.StepStarted():
                    tree.steps += 1
                case events.ModelCalled():
                    tree.ask(own)
                case events.UsageReported(usage=usage):
                    tree.spend(usage.total_tokens, usage.cost or 0.0)
                case events.RunEnded():
                    tree.under_way.discard(fact.run)
        if isinstance(event, events.RunEnded) and (found := _LIMIT.match(event.reason)):
            self._at_their_limit.append((own, found[1]))

    def problems(self) -> Iterator[str]:
        for tree, what in self._at_their_limit:
            if not any(above.has_reached(what, tree.depth) for above in tree.with_parents()):
                yield f"{tree.run} ended at a limit that was not reached"
        for tree in self._trees.values():
            yield from tree.excesses()
