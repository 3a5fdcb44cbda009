"""What a model was told in each step of a session, and why: gathered from the traces of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ostler.context.planning import Decision
from ostler.kernel.state import path_of
from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact, UnknownEvent
from ostler.vocabulary.governance import fate
from ostler.vocabulary.messages import ToolCall, text_of

FIRST = "it is the first"
_OTHER_CONVERSATION: dict[str, str] = {
    "compacted": "the context was compacted",
    "compaction_undone": "a compaction was undone",
    "history_replaced": "the history was replaced",
    "leaf_moved": "the session went to another entry",
}


class ToldFence(msgspec.Struct, frozen=True):
    kind: str
    tokens: int
    cut: bool


class SeenCompaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A compaction that is in force."""

    seq: int
    by: str
    replaced: int
    """So many entries."""
    tokens_before: int
    tokens_after: int
    files: tuple[str, ...] = ()


class ToldStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step: what the model was told in it, as the trace of its last call says."""

    step: int
    """Counted over the session."""
    run: str
    step_of_run: int
    seq: int
    """The number of the `model_called`."""
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
    fences: tuple[ToldFence, ...] = ()
    reminders: tuple[str, ...] = ()
    changed: str = ""
    policy: dict[str, Any] = {}
    """Where it differs from the default."""
    compactions: tuple[SeenCompaction, ...] = ()


class ToldEntry(msgspec.Struct, frozen=True):
    seq: int
    type: str
    text: str


class Change(msgspec.Struct, frozen=True):
    """Why a request does not begin with what the one before it said."""

    step: int
    why: str


class ToldDifference(msgspec.Struct, frozen=True):
    """What is different between two steps."""

    before: ToldStep
    after: ToldStep
    added: tuple[ToldEntry, ...]
    removed: tuple[ToldEntry, ...]
    """Since compacted, undone, or on another branch."""
    decided: tuple[Decision, ...]
    """Only in the later one."""
    withdrawn: tuple[Decision, ...]
    """Only in the earlier one."""
    same_prefix: bool
    changes: tuple[Change, ...]


def told_steps(facts: Sequence[Fact]) -> list[ToldStep]:
    """All steps in which a model was asked."""
    steps: list[ToldStep] = []
    began: Fact | None = None
    policy: dict[str, Any] = {}
    decisions: tuple[Decision, ...] = ()
    moves: list[str] = []
    for fact in facts:
        if fact.type in _OTHER_CONVERSATION:
            moves.append(_OTHER_CONVERSATION[fact.type])
        match fact.event:
            case events.StepStarted():
                began = fact
            case events.ModelCalled(purpose="step") as called if began is not None:
                trace = called.trace if isinstance(called.trace, dict) else {}
                policy = trace.get("policy", policy)
                decisions = _decisions(trace, decisions)
                is_again = bool(steps) and steps[-1].seq > began.seq
                number = steps.pop().step if is_again else len(steps) + 1
                changed = ", ".join(dict.fromkeys(moves)) or _reason(trace, number, decisions)
                steps.append(_step(number, began, fact, called, trace, policy, decisions, changed))
                moves = []
    return steps


def _decisions(trace: dict[str, Any], known: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """They stand in the trace of the call that they were made for; later ones say that they hold."""
    if "decisions" in trace:
        return msgspec.convert(trace["decisions"], tuple[Decision, ...])
    return known if "left" in trace else ()


def _step(
    number: int,
    began: Fact,
    fact: Fact,
    called: events.ModelCalled,
    trace: dict[str, Any],
    policy: dict[str, Any],
    decisions: tuple[Decision, ...],
    changed: str,
) -> ToldStep:
    assert isinstance(began.event, events.StepStarted)
    tokens = trace.get("tokens", {})
    return ToldStep(
        step=number,
        run=fact.run,
        step_of_run=began.event.number,
        seq=fact.seq,
        model=called.model,
        tools=began.event.tools,
        traced=bool(trace),
        tokens=tokens,
        fits=used(tokens) + tokens.get("reserve", 0) <= tokens.get("window", used(tokens)),
        counted=tuple(trace.get("counted", ())),
        messages=tuple(trace.get("messages", (called.messages, called.messages))),
        decisions=decisions,
        fences=tuple(ToldFence(*fence) for fence in trace.get("fences", ())),
        reminders=tuple(trace.get("reminders", ())),
        changed=changed,
        policy=policy,
    )


def used(tokens: dict[str, int]) -> int:
    """Of the window, without what is kept for the answer."""
    return tokens.get("all", tokens.get("at_most", 0))


def _reason(trace: dict[str, Any], number: int, decisions: Iterable[Decision]) -> str:
    """Whoever begins to count in the middle of a session has told nothing before, but others have."""
    changed = str(trace.get("changed", ""))
    if changed != FIRST or number == 1:
        return changed
    rules = sorted({decision.rule for decision in decisions})
    return f"by the rules of {' and '.join(rules)}" if rules else ""


def with_compactions(step: ToldStep, facts: Sequence[Fact]) -> ToldStep:
    """The step, with the compactions that were in force then."""
    before = [fact for fact in facts if fact.seq < step.seq]
    return msgspec.structs.replace(step, compactions=tuple(compactions(before)))


def compactions(facts: Sequence[Fact]) -> Iterator[SeenCompaction]:
    """Those that are in force after these facts."""
    path = path_of(facts)
    entries = [fact for fact in facts if fact.seq in path]
    undone = {one.event.compaction for one in entries if isinstance(one.event, events.CompactionUndone)}
    for fact in entries:
        event = fact.event
        if isinstance(event, events.Compacted) and fact.seq not in undone:
            replaced = len(event.replaces)
            yield SeenCompaction(
                fact.seq, event.by, replaced, event.tokens_before, event.tokens_after, event.files
            )


def difference(before: ToldStep, after: ToldStep, facts: Sequence[Fact]) -> ToldDifference:
    """From the earlier to the later one."""
    then, now = _conversation(before, facts), _conversation(after, facts)
    changes = tuple(_changes(before, after, facts))
    return ToldDifference(
        before=with_compactions(before, facts),
        after=with_compactions(after, facts),
        added=tuple(_described(now[seq] for seq in now if seq not in then)),
        removed=tuple(_described(then[seq] for seq in then if seq not in now)),
        decided=tuple(one for one in after.decisions if one not in before.decisions),
        withdrawn=tuple(
            one for one in before.decisions if one.first in now and not _is_in(one, after.decisions)
        ),
        same_prefix=not changes,
        changes=changes,
    )


def _conversation(step: ToldStep, facts: Sequence[Fact]) -> dict[int, Fact]:
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


def _is_in(one: Decision, decisions: Iterable[Decision]) -> bool:
    """It holds, or something more does."""
    return any(other.first <= one.first and one.last <= other.last for other in decisions)


def _changes(before: ToldStep, after: ToldStep, facts: Sequence[Fact]) -> Iterator[Change]:
    last = before
    for step in told_steps(facts)[before.step : after.step]:
        if step.changed:
            yield Change(step.step, step.changed)
        if step.tools != last.tools:
            yield Change(step.step, "other tools were offered")
        if step.model != last.model:
            yield Change(step.step, "another model was asked")
        last = step


def _described(entries: Iterable[Fact]) -> Iterator[ToldEntry]:
    for fact in entries:
        event = fact.event
        if fact.parent is None or isinstance(event, UnknownEvent) or not fate(event).told:
            continue
        match event:
            case events.ToolResultFact(name=name, summary=summary):
                yield ToldEntry(fact.seq, fact.type, f"{name}: {summary}")
            case events.Compacted(summary=text) | events.BranchCollapsed(summary=text):
                yield ToldEntry(fact.seq, fact.type, text)
            case events.AssistantMessage(content=content):
                calls = ", ".join(block.name for block in content if isinstance(block, ToolCall))
                text = "(withheld)" if event.suppressed else text_of(content)
                yield ToldEntry(fact.seq, fact.type, text or f"calls {calls}")
            case events.UserMessage(content=content) | events.ExtensionEntry(told=content):
                yield ToldEntry(fact.seq, fact.type, text_of(content))
