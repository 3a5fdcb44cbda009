"""The context of each step of a session, gathered from the traces of its model calls."""

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
    """The number of entries."""
    tokens_before: int
    tokens_after: int
    files: tuple[str, ...] = ()


class ContextStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """The context of one step, as the trace of its last model call records it."""

    step: int
    """Counted over the session."""
    run: str
    step_of_run: int
    seq: int
    """The number of the `model_called`; of the `step_ended` if the context did not fit and was not sent."""
    model: str
    tools: tuple[str, ...]
    traced: bool
    """False if the whole conversation was sent without a trace."""
    tokens: dict[str, int] = {}
    fits: bool = True
    """Within the window, with what is reserved for the answer."""
    counted: tuple[str, ...] = ()
    """The source of the numbers, and how exact they are."""
    messages: tuple[int, ...] = ()
    """How many were sent, and how many there are."""
    decisions: tuple[Decision, ...] = ()
    fences: tuple[ProviderEntry, ...] = ()
    fences_left_out: tuple[tuple[str, int], ...] = ()
    """Those that did not fit: each kind, and its tokens."""
    reminders: tuple[str, ...] = ()
    before_run: dict[str, int] = {}
    """Characters that a hook has added for the whole run: to the system prompt, and behind the messages."""
    changed: str = ""
    policy: dict[str, Any] = {}
    """Where it differs from the default."""
    origins: dict[str, str] = {}
    """The layer that each of those comes from."""
    kept: tuple[RequiredEntry, ...] = ()
    """Required entries that do not fit: then nothing was sent."""
    compactions: tuple[CompactionEntry, ...] = ()


class ContextEntry(msgspec.Struct, frozen=True):
    seq: int
    type: str
    text: str


class Change(msgspec.Struct, frozen=True):
    """Why a request does not have the previous one as its prefix."""

    step: int
    why: str


class ContextDifference(msgspec.Struct, frozen=True):
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
    """All steps that called a model."""
    collector = _StepCollector()
    for fact in facts:
        collector.take(fact)
    return collector.steps


def numbered(steps: Sequence[ContextStep], number: int) -> ContextStep:
    """Raises `NotFound`."""
    if number > len(steps):
        raise NotFound(f"the session has no step {number}: the last one is {len(steps)}")
    return steps[number - 1]


class _StepCollector:
    """The steps so far, and the parts of earlier traces that still apply."""

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
        if "decisions" in trace:
            self._decisions = msgspec.convert(trace["decisions"], tuple[Decision, ...])
        elif "left" not in trace:  # without it, the decisions of an earlier trace no longer apply
            self._decisions = ()
        is_retry = bool(self.steps) and self.steps[-1].seq > self._began.seq
        failed = self.steps.pop() if is_retry else None
        number = len(self.steps) + 1
        step = self._step(self._began, fact, messages, trace)
        if number > 1:
            self._compare(self.steps[-1], step, failed)
        changed = ", ".join(dict.fromkeys(self._moves)) or _reason(trace, number, self._decisions)
        self._moves = []
        self.steps.append(msgspec.structs.replace(step, changed=changed))

    def _compare(self, last: ContextStep, step: ContextStep, failed: ContextStep | None) -> None:
        if failed is not None and failed.changed:
            self._moves.insert(0, failed.changed)
        if step.tools != last.tools:
            self._moves.append("other tools were offered")
        if step.model != last.model:
            self._moves.append("another model was called")

    def _step(self, began: Fact, fact: Fact, messages: int, trace: dict[str, Any]) -> ContextStep:
        assert isinstance(began.event, events.StepStarted)
        tokens = trace.get("tokens", {})
        used = used_tokens(tokens)
        return ContextStep(
            step=len(self.steps) + 1,
            run=fact.run,
            step_of_run=began.event.number,
            seq=fact.seq,
            model=self._model,
            tools=began.event.tools,
            traced=bool(trace),
            tokens=tokens,
            fits=used + tokens.get("reserve", 0) <= tokens.get("window", used),
            counted=tuple(trace.get("counted", ())),
            messages=tuple(trace.get("messages", (messages, messages))),
            decisions=self._decisions,
            fences=tuple(ProviderEntry(*fence) for fence in trace.get("fences", ())),
            fences_left_out=tuple((kind, size) for kind, size in trace.get("fences_left_out", ())),
            reminders=tuple(trace.get("reminders", ())),
            before_run=trace.get("before_run", {}),
            policy=self._policy,
            origins=self._origins,
            kept=msgspec.convert(trace.get("kept", ()), tuple[RequiredEntry, ...]),
        )


def used_tokens(tokens: dict[str, int]) -> int:
    """The tokens of the window in use, without the reserve for the answer."""
    return tokens.get("all", tokens.get("at_most", 0))


def _reason(trace: dict[str, Any], number: int, decisions: Iterable[Decision]) -> str:
    changed = str(trace.get("changed", ""))  # FIRST also in a process that resumed the session
    if changed != FIRST or number == 1:
        return changed
    rules = sorted({decision.rule for decision in decisions})
    return f"by the rules of {' and '.join(rules)}" if rules else ""


def with_compactions(step: ContextStep, facts: Sequence[Fact]) -> ContextStep:
    """The step, with the compactions that applied to it."""
    before = [fact for fact in facts if fact.seq < step.seq]
    return msgspec.structs.replace(step, compactions=tuple(compactions(before)))


def compactions(facts: Sequence[Fact]) -> Iterator[CompactionEntry]:
    """The compactions that apply after these facts."""
    path = path_of(facts)
    entries = [fact for fact in facts if fact.seq in path]
    undone = {one.event.compaction for one in entries if isinstance(one.event, events.CompactionUndone)}
    for fact in entries:
        event = fact.event
        if isinstance(event, events.Compacted) and fact.seq not in undone:
            tokens = (event.tokens_before, event.tokens_after)
            yield CompactionEntry(fact.seq, event.by, len(event.replaces), *tokens, event.files)


def difference(before: ContextStep, after: ContextStep, facts: Sequence[Fact]) -> ContextDifference:
    """From the earlier to the later one."""
    then, now = _conversation(before, facts), _conversation(after, facts)
    steps = context_steps(facts)[before.step : after.step]
    changes = tuple(Change(step.step, step.changed) for step in steps if step.changed)
    return ContextDifference(
        before=with_compactions(before, facts),
        after=with_compactions(after, facts),
        added=tuple(_context_entries(now[seq] for seq in now if seq not in then)),
        removed=tuple(_context_entries(then[seq] for seq in then if seq not in now)),
        decided=tuple(one for one in after.decisions if _key(one) not in map(_key, before.decisions)),
        withdrawn=tuple(
            one for one in before.decisions if one.first in now and not _is_in(one, after.decisions)
        ),
        same_prefix=not changes,
        changes=changes,
    )


def _conversation(step: ContextStep, facts: Sequence[Fact]) -> dict[int, Fact]:
    """The entries of the conversation at that step, by number."""
    so_far = [fact for fact in facts if fact.seq < step.seq]
    applied = {one.seq for one in compactions(so_far)}
    path = path_of(so_far)
    entries: dict[int, Fact] = {}
    for fact in so_far:
        if fact.seq not in path:
            continue
        match fact.event:
            case events.Compacted(replaces=gone, keeps_from=first) if fact.seq in applied:
                entries = {seq: one for seq, one in entries.items() if seq >= first and seq not in gone}
            case events.Compacted():
                continue
            case events.HistoryReplaced():
                entries = {}
        entries[fact.seq] = fact
    return entries


def _key(decision: Decision) -> tuple[object, ...]:
    """Without the tokens, which a vendor's report may have corrected since."""
    return (decision.first, decision.last, decision.action, decision.rule)


def _is_in(one: Decision, decisions: Iterable[Decision]) -> bool:
    """A decision covers the same entries, or more."""
    return any(other.first <= one.first and one.last <= other.last for other in decisions)


def _context_entries(entries: Iterable[Fact]) -> Iterator[ContextEntry]:
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
