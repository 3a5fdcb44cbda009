"""The state of an open run: its step, model call and tool calls; and whether the model repeats itself."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.schema import events
from ostler.schema.ids import blake2b
from ostler.schema.usage import NOTHING_USED, Usage


class CallState(msgspec.Struct, eq=False):
    """A tool call of the current step."""

    called: events.ToolCalled
    arguments: dict[str, Any]
    started: events.ToolStarted | None = None
    question: events.QuestionAsked | None = None
    answered: events.QuestionAnswered | None = None
    deferred: bool = False
    imported: events.QuestionAsked | None = None
    """A question about it that came with an import: the call is judged again here."""
    imported_answer: events.QuestionAnswered | None = None
    """The answer that was given to that question here."""
    began_elsewhere: bool = False
    """It had started in another store: it is not continued here."""
    result: events.ToolResultFact | None = None

    @property
    def must_be_judged(self) -> bool:
        """It came with an import, and nothing that happened to it elsewhere counts here."""
        is_closed = self.question is not None and self.began_elsewhere  # a tool's question stays open
        return self.is_open and (self.began_elsewhere or self.imported is not None) and not is_closed

    @property
    def is_open(self) -> bool:
        return self.result is None

    @property
    def is_asking(self) -> bool:
        return self.is_open and self.question is not None and self.answered is None

    @property
    def is_waiting(self) -> bool:
        """Only a request from outside can move it."""
        return self.is_asking or (self.is_open and self.deferred)


class StepState:
    """The current step of the open run."""

    def __init__(self, started: events.StepStarted) -> None:
        self.number = started.number
        self.tools = started.tools
        """The tools that were offered: no other may be called."""
        self.model_call: events.ModelCalled | None = None
        self.tries = 0
        """How often its current model was called."""
        self.usage_known = True
        """The usage of `model_call` is recorded."""
        self.failure: events.ModelFailed | None = None
        self.has_overflowed = False
        """The vendor reported that the context is too long."""
        self.message: events.AssistantMessage | None = None
        self.calls: dict[str, CallState] = {}
        self.ends_run = ""
        """The tool whose result ends the run."""
        self.ended: events.StepEnded | None = None

    @property
    def attempts(self) -> int:
        return self.model_call.attempt if self.model_call else 0

    def open_calls(self) -> list[CallState]:
        return [call for call in self.calls.values() if call.is_open]


class BudgetUse(msgspec.Struct):
    """What counts against the limits. Unknown costs are left out, and marked."""

    steps: int = 0
    tokens: int = 0
    cost: float = 0.0
    children: int = 0
    unpriced: bool = False

    @classmethod
    def of(cls, *parts: events.Totals) -> BudgetUse:
        """Added one by one: in a sum, an unknown part would hide that another has no price."""
        total = cls()
        for part in parts:
            usage = part.usage
            unpriced = usage.cost is None and usage.source == "reported"
            total.add(cls(part.steps, usage.total_tokens, part.least_cost, part.runs, unpriced))
        return total

    def add(self, other: BudgetUse) -> None:
        self.steps += other.steps
        self.tokens += other.tokens
        self.cost += other.cost
        self.children += other.children
        self.unpriced = self.unpriced or other.unpriced


class ChildState(msgspec.Struct):
    """A child of the open run, with its call; with none, if an extension spawned it."""

    call: str
    ended: events.ChildEnded | None = None


class RunState:
    """The open run."""

    def __init__(self, id: str, started: events.RunStarted, time_ms: int) -> None:
        self.id = id
        self.started = started
        self.time_ms = time_ms
        self.step: StepState | None = None
        self.steps = 0
        self.model_calls = 0
        self.retries = 0
        self.tool_calls = 0
        self.refused_calls = 0
        self.usage = NOTHING_USED
        self.last_usage: Usage | None = None
        self.known_cost = 0.0
        """The known part of its cost; `usage` has no cost as soon as a part is unknown."""
        self.unpriced = False
        """The vendor reported a call whose price is unknown."""
        self.warned: set[str] = set()
        self.protocol_errors = 0
        """Malformed calls in a row."""
        self.citations = 0
        self.children: dict[str, ChildState] = {}
        self.children_totals = events.Totals()
        self._used_by_children = BudgetUse()
        """The same, as counted against the limits."""
        self.side_calls: dict[str, events.ModelCalled] = {}
        """Model calls outside of its steps that have no usage yet."""
        self.first_seq = 0
        self.waiting: events.RunWaiting | None = None
        self.still_since_ms: int | None = None
        self.idle_ms = 0
        """How long it has waited for users so far."""
        self.repeats: dict[str, int] = {}
        """How many steps in a row the same call had the same result, by digest of both."""

    @property
    def is_paused(self) -> bool:
        return self.waiting is not None and self.waiting.reason == "paused"

    def open_children(self) -> list[str]:
        return [child for child, state in self.children.items() if state.ended is None]

    def children_of(self, call: str) -> list[str]:
        return [child for child, state in self.children.items() if state.call == call]

    def count_children(self, *parts: events.Totals) -> None:
        self.children_totals += sum(parts, events.Totals())
        self._used_by_children.add(BudgetUse.of(*parts))

    def used(self) -> BudgetUse:
        """What counts against its limits: its own, and its children's as far as it is known."""
        total = BudgetUse(self.steps, self.usage.total_tokens, self.known_cost, 0, self.unpriced)
        total.add(self._used_by_children)
        return total

    def update_clock(self, is_asking: bool, time_ms: int) -> None:
        """Stops its clock while it waits, or while a question is open."""
        is_still = self.waiting is not None or is_asking
        if is_still and self.still_since_ms is None:
            self.still_since_ms = time_ms
        elif not is_still and self.still_since_ms is not None:
            self.idle_ms += max(0, time_ms - self.still_since_ms)
            self.still_since_ms = None


REMIND_AT = 3
STOP_AT = 5
_encoder = msgspec.json.Encoder(order="sorted")


def signature(call: CallState) -> str:
    """The same for the same tool, arguments and result, however the model wrote its JSON."""
    result = call.result
    what = (call.called.name, call.called.arguments, result and (result.failed, result.content))
    return blake2b(_encoder.encode(what), digest_size=12).hexdigest()


def most_repeated(run: RunState) -> int:
    """The number of steps in a row that made the most repeated call."""
    return max(run.repeats.values(), default=0)


def reminder(run: RunState) -> str | None:
    """A message for the model when it has repeated itself too often, once."""
    if REMIND_AT not in run.repeats.values():
        return None
    calls = run.step.calls.values() if run.step else ()
    names = sorted({call.called.name for call in calls if run.repeats.get(signature(call)) == REMIND_AT})
    return (
        f"You have made the same call ({', '.join(names)}) with the same result {REMIND_AT} times in a row. "
        "Making it again will not help: use its result, try something else, or say what is in your way."
    )
