"""What a model was told in each step of a session, and why: gathered from the traces of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ostler.context.selection import Decision, RequiredEntry
from ostler.core.context import ANOTHER_SYSTEM, FIRST
from ostler.core.state import path_of
from ostler.schema import events
from ostler.schema.errors import NotFound
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import ToolCall, text_of
from ostler.schema.visibility import visibility_of

_OTHER_CONVERSATION: dict[str, str] = {
    "compacted": "the context was compacted",
    "compaction_undone": "a compaction was undone",
    "history_replaced": "the history was replaced",
    "leaf_moved": "the session went to another entry",
}


class ProviderEntry(msgspec.Struct, frozen=True):
    kind: str
    tokens: int
    cut: bool


class CompactionEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A compaction that is in force."""

    seq: int
    by: str
    replaced: int
    """So many entries."""
    tokens_before: int
    tokens_after: int
    files: tuple[str, ...] = ()


class ContextStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step: what the model was told in it, as the trace of its last call says."""

    step: int
    """Counted over the session."""
    run: str
    step_of_run: int
    seq: int
    """The number of the `model_called`; of the `step_ended` when it did not fit, and nobody was asked."""
    model: str
    tools: tuple[str, ...]
    traced: bool
    """False when nothing chose: everything was told."""
    tokens: dict[str, int] = {}
    fits: bool = True
    """Within the window, with what is reserved for the answer."""
    counted: tuple[str, ...] = ()
    """The source of the numbers, and how far they can be trusted."""
    messages: tuple[int, ...] = ()
    """Told, and there to be told."""
    decisions: tuple[Decision, ...] = ()
    fences: tuple[ProviderEntry, ...] = ()
    fences_left_out: tuple[tuple[str, int], ...] = ()
    """For want of room: each kind, and its tokens."""
    reminders: tuple[str, ...] = ()
    before_run: dict[str, int] = {}
    """Characters that a hook has added for the whole run: to the system prompt, and behind the messages."""
    changed: str = ""
    policy: dict[str, Any] = {}
    """Where it differs from the default."""
    origins: dict[str, str] = {}
    """The layer that each of those comes from."""
    kept: tuple[RequiredEntry, ...] = ()
    """What must be told and does not fit: then nothing was sent."""
    compactions: tuple[CompactionEntry, ...] = ()


class ContextEntry(msgspec.Struct, frozen=True):
    seq: int
    type: str
    text: str


class Change(msgspec.Struct, frozen=True):
    """Why a request does not begin with what the one before it said."""

    step: int
    why: str


class ContextDifference(msgspec.Struct, frozen=True):
    """What is different between two steps."""

    before: ContextStep
    after: ContextStep
    added: tuple[ContextEntry, ...]
    removed: tuple[ContextEntry, ...]
    """Since compacted, undone, or on another branch."""
    decided: tuple[Decision, ...]
    """Only in the later one."""
    withdrawn: tuple[Decision, ...]
    """Only in the earlier one."""
    same_prefix: bool
    changes: tuple[Change, ...]


def context_steps(facts: Sequence[Fact]) -> list[ContextStep]:
    """All steps in which a model was asked."""
    telling = _Telling()
    for fact in facts:
        telling.take(fact)
    return telling.steps


def numbered(steps: Sequence[ContextStep], number: int) -> ContextStep:
    """Raises `NotFound`."""
    if number > len(steps):
        raise NotFound(f"the session has no step {number}: the last one is {len(steps)}")
    return steps[number - 1]


class _Telling:
    """The steps so far, and what of earlier traces still holds."""

    def __init__(self) -> None:
        self.steps: list[ContextStep] = []
        self._began: Fact | None = None
        self._model = ""
        self._policy: dict[str, Any] = {}
        self._origins: dict[str, str] = {}
        self._decisions: tuple[Decision, ...] = ()
        self._moves: list[str] = []
        self._system = ""

    def take(self, fact: Fact) -> None:
        if fact.type in _OTHER_CONVERSATION:
            self._moves.append(_OTHER_CONVERSATION[fact.type])
        match fact.event:
            case events.RunStarted(model=model):
                self._model = model
            case events.StepStarted():
                self._began = fact
            case events.ModelCalled(purpose="step") as called:
                self._add(fact, called.trace, called.model, called.messages)
            case events.StepEnded(trace=trace) if trace:
                self._add(fact, trace, self._model, 0)

    def _add(self, fact: Fact, trace: Any, model: str, messages: int) -> None:
        if self._began is None:
            return
        self._model = model
        trace = trace if isinstance(trace, dict) else {}
        if "policy" in trace:
            if trace["policy"] != self._policy and self.steps:
                self._moves.append("the policy is another one")
            self._policy, self._origins = trace["policy"], trace.get("from", {})
        if (system := trace.get("system", self._system)) != self._system:
            if self._system and trace.get("changed", FIRST) == FIRST:
                self._moves.append(ANOTHER_SYSTEM)
            self._system = system
        self._decisions = _decisions(trace, self._decisions)
        is_again = bool(self.steps) and self.steps[-1].seq > self._began.seq
        again = self.steps.pop() if is_again else None
        number = len(self.steps) + 1
        step = _step(number, self._began, fact, model, messages, trace)
        if number > 1:
            self._compare(self.steps[-1], step, again)
        changed = ", ".join(dict.fromkeys(self._moves)) or _reason(trace, number, self._decisions)
        self._moves = []
        self.steps.append(
            msgspec.structs.replace(
                step, decisions=self._decisions, changed=changed, policy=self._policy, origins=self._origins
            )
        )

    def _compare(self, last: ContextStep, step: ContextStep, again: ContextStep | None) -> None:
        if again is not None and again.changed:  # in a call before it, which failed
            self._moves.insert(0, again.changed)
        if step.tools != last.tools:
            self._moves.append("other tools were offered")
        if step.model != last.model:
            self._moves.append("another model was asked")


def _decisions(trace: dict[str, Any], known: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """They stand in the trace of the call that they were made for; later ones say that they hold."""
    if "decisions" in trace:
        return msgspec.convert(trace["decisions"], tuple[Decision, ...])
    return known if "left" in trace else ()


def _step(
    number: int, began: Fact, fact: Fact, model: str, messages: int, trace: dict[str, Any]
) -> ContextStep:
    assert isinstance(began.event, events.StepStarted)
    tokens = trace.get("tokens", {})
    return ContextStep(
        step=number,
        run=fact.run,
        step_of_run=began.event.number,
        seq=fact.seq,
        model=model,
        tools=began.event.tools,
        traced=bool(trace),
        tokens=tokens,
        fits=used_tokens(tokens) + tokens.get("reserve", 0) <= tokens.get("window", used_tokens(tokens)),
        counted=tuple(trace.get("counted", ())),
        messages=tuple(trace.get("messages", (messages, messages))),
        fences=tuple(ProviderEntry(*fence) for fence in trace.get("fences", ())),
        fences_left_out=tuple((kind, size) for kind, size in trace.get("fences_left_out", ())),
        reminders=tuple(trace.get("reminders", ())),
        before_run=trace.get("before_run", {}),
        kept=msgspec.convert(trace.get("kept", ()), tuple[RequiredEntry, ...]),
    )


def used_tokens(tokens: dict[str, int]) -> int:
    """Of the window, without what is kept for the answer."""
    return tokens.get("all", tokens.get("at_most", 0))


def _reason(trace: dict[str, Any], number: int, decisions: Iterable[Decision]) -> str:
    """Whoever begins to count in the middle of a session has told nothing before, but others have."""
    changed = str(trace.get("changed", ""))
    if changed != FIRST or number == 1:
        return changed
    rules = sorted({decision.rule for decision in decisions})
    return f"by the rules of {' and '.join(rules)}" if rules else ""


def with_compactions(step: ContextStep, facts: Sequence[Fact]) -> ContextStep:
    """The step, with the compactions that were in force then."""
    before = [fact for fact in facts if fact.seq < step.seq]
    return msgspec.structs.replace(step, compactions=tuple(compactions(before)))


def compactions(facts: Sequence[Fact]) -> Iterator[CompactionEntry]:
    """Those that are in force after these facts."""
    path = path_of(facts)
    entries = [fact for fact in facts if fact.seq in path]
    undone = {one.event.compaction for one in entries if isinstance(one.event, events.CompactionUndone)}
    for fact in entries:
        event = fact.event
        if isinstance(event, events.Compacted) and fact.seq not in undone:
            replaced = len(event.replaces)
            yield CompactionEntry(
                fact.seq, event.by, replaced, event.tokens_before, event.tokens_after, event.files
            )


def difference(before: ContextStep, after: ContextStep, facts: Sequence[Fact]) -> ContextDifference:
    """From the earlier to the later one."""
    then, now = _conversation(before, facts), _conversation(after, facts)
    steps = context_steps(facts)[before.step : after.step]
    changes = tuple(Change(step.step, step.changed) for step in steps if step.changed)
    return ContextDifference(
        before=with_compactions(before, facts),
        after=with_compactions(after, facts),
        added=tuple(_described(now[seq] for seq in now if seq not in then)),
        removed=tuple(_described(then[seq] for seq in then if seq not in now)),
        decided=tuple(one for one in after.decisions if not _was_made(one, before.decisions)),
        withdrawn=tuple(
            one for one in before.decisions if one.first in now and not _is_in(one, after.decisions)
        ),
        same_prefix=not changes,
        changes=changes,
    )


def _conversation(step: ContextStep, facts: Sequence[Fact]) -> dict[int, Fact]:
    """The entries that there were to be told then, by their numbers."""
    so_far = [fact for fact in facts if fact.seq < step.seq]
    in_force = {one.seq for one in compactions(so_far)}
    path = path_of(so_far)
    told: dict[int, Fact] = {}
    for fact in so_far:
        if fact.seq not in path:
            continue
        match fact.event:
            case events.Compacted(replaces=gone, keeps_from=first) if fact.seq in in_force:
                told = {seq: one for seq, one in told.items() if seq >= first and seq not in gone}
            case events.Compacted():
                continue
            case events.HistoryReplaced():
                told = {}
        told[fact.seq] = fact
    return told


def _was_made(one: Decision, decisions: Iterable[Decision]) -> bool:
    """The same, whatever vendors have reported since of how many tokens that is."""
    made = {(other.first, other.last, other.action, other.rule) for other in decisions}
    return (one.first, one.last, one.action, one.rule) in made


def _is_in(one: Decision, decisions: Iterable[Decision]) -> bool:
    """It holds, or something more does."""
    return any(other.first <= one.first and one.last <= other.last for other in decisions)


def _described(entries: Iterable[Fact]) -> Iterator[ContextEntry]:
    for fact in entries:
        event = fact.event
        if fact.parent is None or isinstance(event, UnknownEvent) or not visibility_of(event).sent:
            continue
        match event:
            case events.ToolResultFact(name=name, summary=summary):
                yield ContextEntry(fact.seq, fact.type, f"{name}: {summary}")
            case events.Compacted(summary=text) | events.BranchCollapsed(summary=text):
                yield ContextEntry(fact.seq, fact.type, text)
            case events.AssistantMessage(content=content):
                calls = ", ".join(block.name for block in content if isinstance(block, ToolCall))
                text = "(withheld)" if event.suppressed else text_of(content)
                yield ContextEntry(fact.seq, fact.type, text or f"calls {calls}")
            case events.UserMessage(content=content) | events.ExtensionEntry(told=content):
                yield ContextEntry(fact.seq, fact.type, text_of(content))
