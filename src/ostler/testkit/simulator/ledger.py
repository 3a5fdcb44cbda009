"""The ledger of a simulation: its real effects and spending, which the logs must match."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ostler.core.call_context import blob_of_call
from ostler.schema import events, requests
from ostler.schema.events import Limits
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.requests import AnyRequest
from ostler.store.invariants import tree_violations, violations

PRICES = (0.125, 0.25)
"""The costs of simulated model calls, whose sums are exact."""

_LIMIT = re.compile(r"the limit of \$?[\d.]+ ?(was reached|steps|children|levels)")


class _Tree:
    """A run and all below it."""

    def __init__(self, run: str, limits: Limits, parent: _Tree | None) -> None:
        self.run, self.limits, self.parent = run, limits, parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.under_way: set[str] = set()
        self.most_under_way = 0
        self.steps = self.tokens = self.largest_tokens = 0
        self.cost = self.largest_cost = 0.0
        self.children = 0
        self.calling: set[str] = set()
        """The runs below that made model calls."""
        self.deepest = 0
        """How many levels below, at most, those runs are."""

    def with_parents(self) -> Iterator[_Tree]:
        tree: _Tree | None = self
        while tree is not None:
            yield tree
            tree = tree.parent

    def add(self, event: events.Event | UnknownEvent, own: _Tree) -> None:
        """Counts an event of the run `own`, which is this one or below it."""
        match event:
            case events.RunStarted():
                self.under_way.add(own.run)
                self.most_under_way = max(self.most_under_way, len(self.under_way))
            case events.ChildStarted():
                self.children += 1
            case events.StepStarted():
                self.steps += 1
            case events.ModelCalled():
                self.deepest = max(self.deepest, own.depth - self.depth)
                if own is not self:
                    self.calling.add(own.run)
            case events.UsageReported(usage=usage):
                self.tokens += usage.total_tokens
                self.largest_tokens = max(self.largest_tokens, usage.total_tokens)
                self.cost += usage.cost or 0.0
                self.largest_cost = max(self.largest_cost, usage.cost or 0.0)
            case events.RunEnded():
                self.under_way.discard(own.run)

    def excesses(self) -> Iterator[str]:
        limits, most = self.limits, self.most_under_way
        for name, spent, limit, beyond in (
            ("steps", self.steps, limits.steps, most),
            ("tokens", self.tokens, limits.tokens, most * self.largest_tokens),
            ("dollars", self.cost, limits.cost, most * self.largest_cost),
            ("children", len(self.calling), limits.children, 0),
            ("levels of children", self.deepest, limits.depth, 0),
        ):
            if limit is not None and spent > limit + beyond:
                yield f"{self.run} and all below it used {spent} {name}, but the limit is {limit}"

    def has_reached(self, what: str, depth: int) -> bool:
        """Whether more would exceed the limit, counting what was reserved for calls that were then lost."""
        limits, calls = self.limits, self.children + 2
        match what:
            case "steps":
                return limits.steps is not None and self.steps + calls > limits.steps
            case "children":
                return limits.children is not None and self.children > limits.children
            case "levels":
                return limits.depth is not None and depth - self.depth > limits.depth
        return limits.cost is not None and self.cost + calls * max(PRICES) >= limits.cost


class TreeSpending:
    """Checks limits: one call for each run under way may exceed them, and a run may end at a limit only if it
    was reached."""

    def __init__(self) -> None:
        self._trees: dict[str, _Tree] = {}
        self._ended_by_limit: list[tuple[_Tree, str]] = []

    def add(self, fact: Fact) -> None:
        event = fact.event
        if isinstance(event, events.RunStarted):
            parent = self._trees.get(event.parent_run)
            self._trees[fact.run] = _Tree(fact.run, event.limits, parent)
        if fact.run not in self._trees:
            return
        own = self._trees[fact.run]
        for tree in own.with_parents():
            tree.add(event, own)
        if isinstance(event, events.RunEnded) and (match := _LIMIT.match(event.reason)):
            self._ended_by_limit.append((own, match[1]))

    def problems(self) -> Iterator[str]:
        for tree, what in self._ended_by_limit:
            if not any(above.has_reached(what, tree.depth) for above in tree.with_parents()):
                yield f"{tree.run} ended at a limit that was not reached"
        for tree in self._trees.values():
            yield from tree.excesses()


SECRET = "a secret word"


class Ledger:
    """Records effects, processes and requests as they happen, and what is wrong with them.

    Calls, questions and requests have ids that are unique in all sessions of a simulation.
    """

    def __init__(self, *, sees_environments: bool, counts_use: bool) -> None:
        self.sees_environments = sees_environments
        """Whether processes are also found by their environment, or only by the rows beside the lease."""
        self.problems: list[str] = []
        self.effects: Counter[str] = Counter()
        self.printed: Counter[str] = Counter()
        """The bytes of output of each tool call."""
        self.intended: set[str] = set()
        """Tool calls and model calls whose start is in the log."""
        self.refused: set[str] = set()
        """Tool calls that a hook or a failed guard refused the last time."""
        self.tools: dict[str, str] = {}
        """The tools of started calls."""
        self.children: Counter[str] = Counter()
        """How many sessions were created for a call's children."""
        self.keys: dict[str, str] = {}
        """The keys of started idempotent calls."""
        self.succeeded: set[str] = set()
        """The keys that have a result."""
        self.tool_processes: set[Any] = set()
        """The tools' processes that are alive."""
        self.asked_in: dict[str, str] = {}
        """The session of each question."""
        self.requests: dict[str, AnyRequest] = {}
        """As first accepted, in order of arrival."""
        self.sent_to: dict[str, str] = {}
        """The session of each request."""
        self.unsure: dict[str, tuple[str, AnyRequest]] = {}
        """Submitted requests that may not have arrived, because the submitter died."""
        self.settled: Counter[str] = Counter()
        self._counts_use = counts_use
        """Whether the limits of trees of runs are checked."""
        self._spending = TreeSpending()

    def effect(self, call: str, *, leaseless: bool) -> None:
        self.effects[call] += 1
        if leaseless:
            self.problems.append(f"the effect of {call} happened after the lease had run out")
        if call not in self.intended:
            self.problems.append(f"the effect of {call} happened before its start was in the log")
        if call in self.refused:
            self.problems.append(f"the effect of {call} happened although it was refused")

    def appended(self, facts: Sequence[Fact], settled: Mapping[str, int]) -> None:
        self.settled.update(settled.keys())
        for fact in facts:
            self._spending.add(fact)
            match fact.event:
                case events.ToolStarted(call=call, name=name, key=key):
                    self.intended.add(call)
                    self.tools[call] = name
                    if key:
                        self.keys[call] = f"{fact.session}/{key}"
                case events.ModelCalled(id=intended):
                    self.intended.add(intended)
                case events.SessionStarted(call=call) if call:
                    self.children[call] += 1
                case events.QuestionAsked(id=question):
                    self.asked_in[question] = fact.session
                case events.ToolResultFact(key=key, failed=None) if key:
                    self.succeeded.add(f"{fact.session}/{key}")

    def submitted(self, session: str, request: AnyRequest, accepted: bool) -> None:
        if accepted == (request.id in self.requests):
            self.problems.append(f"{request.id} was {'accepted twice' if accepted else 'lost'}")
        self.requests.setdefault(request.id, request)
        self.sent_to.setdefault(request.id, session)

    def check(self, logs: Mapping[str, Sequence[Fact]], blobs: Mapping[str, int]) -> list[str]:
        """Everything that is wrong after the last process."""
        problems = [*self.problems, *tree_violations(logs)]
        problems += self._spending.problems() if self._counts_use else ()
        problems += [f"the effect of {call} happened {n} times" for call, n in self.effects.items() if n > 1]
        if self.tool_processes:
            problems.append("a tool's process is still alive at the end")
        for session, facts in logs.items():
            problems += [f"{session}: {problem}" for problem in self._wrong_log(facts, blobs)]
        problems += self._wrong_answers(logs)
        for call, number in self.children.items():
            if number > (2 if self.tools[call] == "survey" else 1):
                problems.append(f"{call} has {number} children")
        return problems

    def _wrong_log(self, facts: Sequence[Fact], blobs: Mapping[str, int]) -> Iterator[str]:
        yield from violations(facts)
        yield from self._wrong_effects(facts)
        yield from self._wrong_order(facts)
        yield from self._wrong_blobs(facts, blobs)
        if any(SECRET.encode() in fact.body for fact in facts):
            yield "a secret is in the log"

    def _wrong_effects(self, facts: Sequence[Fact]) -> Iterator[str]:
        offered: tuple[str, ...] = ()
        asked: dict[str, str] = {}
        declined: set[str] = set()
        succeeded: set[str] = set()
        for fact in facts:
            match fact.event:
                case events.StepStarted(tools=tools):
                    offered = tools
                case events.QuestionAsked(id=question, call=call, asked_by="permission" | "hook"):
                    asked[question] = call
                case events.QuestionAnswered(id=question) as answer if question in asked:
                    if answer.outcome != "answered" or answer.answer not in ("yes", True):
                        declined.add(asked[question])
                case events.ToolStarted(call=call, name=name, key=key):
                    if name not in offered:
                        yield f"{call} started, but {name} was not offered"
                    if call in declined:
                        yield f"{call} started, but a person had declined it"
                    if key in succeeded:
                        yield f"{call} started, but its key had a result"
                case events.ToolResultFact(call=call, name=name, failed=None, key=key, repeats=repeats):
                    if name in EFFECTIVE and not self.effects[call] and not repeats:
                        yield f"{call} succeeded without its effect"
                    if key:
                        succeeded.add(key)

    def _wrong_blobs(self, facts: Sequence[Fact], blobs: Mapping[str, int]) -> Iterator[str]:
        """The blobs that results name exist, and the output of a call that succeeded is complete."""
        for fact in facts:
            event = fact.event
            if not isinstance(event, events.ToolResultFact):
                continue
            if event.output and blobs.get(event.output.id) != event.output.size:
                yield f"{event.call} names {event.output}, which has {blobs.get(event.output.id)}"
            printed = self.printed.get(event.call)
            if printed and not event.failed and blobs.get(blob_of_call(event.call)) != printed:
                yield f"a part of the output of {event.call} is lost"

    def _wrong_answers(self, logs: Mapping[str, Sequence[Fact]]) -> Iterator[str]:
        """Each request is settled once, by a fact of its kind or by a refusal, never by both."""
        by_request: dict[str, list[Fact]] = {}
        for facts in logs.values():
            for fact in facts:
                by_request.setdefault(getattr(fact.event, "request", ""), []).append(fact)
        for id, request in self.requests.items():
            name, session = f"{type(request).__name__} {id}", self.sent_to[id]
            facts = by_request.get(id, [])
            types = [fact.type for fact in facts]
            expected = _BECOMES.get(type(request).__name__, ())
            if self.settled[id] != 1:
                yield f"{name} of {session} was settled {self.settled[id]} times"
            if len(types) != len(set(types)) or ("request_refused" in types and len(types) > 1):
                yield f"{name} became {types}"
            if unexpected := set(types) - {"request_refused", "run_resumed", *expected}:
                yield f"{name} became {sorted(unexpected)}"
            if any(fact.session != session for fact in facts):
                yield f"{name} was sent to {session}, but another session handled it"

    def _wrong_order(self, facts: Sequence[Fact]) -> Iterator[str]:
        """Messages have the content that was first submitted, steers and prompts each in order of arrival."""
        arrival = {request: number for number, request in enumerate(self.requests)}
        last = {"steer": -1, "prompt": -1}
        for fact in facts:
            event = fact.event
            if not isinstance(event, events.UserMessage) or not event.request:
                continue
            request = self.requests[event.request]
            if not isinstance(request, requests.Steer | requests.Prompt) or request.content != event.content:
                yield f"{request.id} became the message {event.content}"
            if arrival[request.id] < last[event.source]:
                yield f"the {event.source} {request.id} follows a later one"
            last[event.source] = arrival[request.id]


EFFECTIVE = frozenset({"note", "pay", "ponder", "serve", "consult", "negotiate"})
"""The tools that have an effect whenever they succeed."""

_BECOMES: dict[str, tuple[str, ...]] = {
    "Prompt": ("run_started", "user_message"),
    "Continue": ("run_started",),
    "Steer": ("user_message",),
    "Answer": ("question_answered",),
    "Cancel": ("run_ended",),
    "Pause": ("run_waiting",),
    "Rename": ("session_renamed",),
    "Label": ("labelled",),
    "Navigate": ("leaf_moved",),
    "SetModel": ("settings_changed",),
    "ReleasePrompts": ("prompts_released",),
}
