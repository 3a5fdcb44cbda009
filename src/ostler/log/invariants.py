"""What must hold for every log, whatever happened to the processes that wrote it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ostler.kernel.state import fold
from ostler.vocabulary import events
from ostler.vocabulary.events import EVENT_TYPES
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.governance import opens_with


def violations(facts: Sequence[Fact]) -> list[str]:
    """Every sentence that does not hold for this log; an empty list when all is well."""
    checks = (
        numbers_have_no_holes,
        entries_form_a_tree,
        runs_are_well_ordered,
        model_calls_are_paired,
        tool_calls_are_paired,
        questions_are_answered_once,
        effects_are_not_repeated,
        opening_needs_only_its_part,
        the_model_can_be_told,
    )
    return [f"{check.__name__}: {problem}" for check in checks for problem in check(facts)]


def numbers_have_no_holes(facts: Sequence[Fact]) -> Iterator[str]:
    """A session begins with session_started, and its facts are numbered 1, 2, 3 …"""
    if not facts or facts[0].type != "session_started":
        yield "the first fact is not session_started"
    for expected, fact in enumerate(facts, 1):
        if fact.seq != expected:
            yield f"fact {fact.seq} stands where {expected} should"
            return


def entries_form_a_tree(facts: Sequence[Fact]) -> Iterator[str]:
    """An entry's parent is an earlier entry; records have none."""
    entries = {0}
    for fact in facts:
        known = EVENT_TYPES.get(fact.type)
        if known is not None and issubclass(known, events.Entry) != (fact.parent is not None):
            yield f"{fact.type} {fact.seq} has parent {fact.parent}"
        if fact.parent is not None:
            if fact.parent not in entries:
                yield f"entry {fact.seq} has the parent {fact.parent}, which is no earlier entry"
            entries.add(fact.seq)


_AFTER: dict[str, frozenset[str]] = {
    "run_started": frozenset({"user_message", "step_started", "run_ended"}),
    "user_message": frozenset({"user_message", "step_started", "run_ended"}),
    "step_started": frozenset({"model_called", "step_ended"}),
    "model_called": frozenset({"usage"}),
    "usage": frozenset({"assistant_message", "model_failed"}),
    "model_failed": frozenset({"model_called", "step_ended"}),
    "assistant_message": frozenset({"tool_called", "step_ended"}),
    "tool_called": frozenset({"tool_called", "tool_started", "tool_result"}),
    "tool_started": frozenset({"tool_started", "tool_result", "step_ended"}),
    "tool_result": frozenset({"tool_started", "tool_result", "step_ended"}),
    "step_ended": frozenset({"step_started", "user_message", "run_ended"}),
}
"""What may follow what inside a run, of the facts whose order is promised."""


def runs_are_well_ordered(facts: Sequence[Fact]) -> Iterator[str]:
    """One run at a time, in the promised order, with exactly one end unless it waits."""
    open_run = ""
    last = ""
    waiting = False
    ended: set[str] = set()
    for fact in facts:
        if fact.type == "run_started":
            if open_run:
                yield f"run {fact.run} began at {fact.seq} while {open_run} was open"
            open_run, last, waiting = fact.run, "run_started", False
            continue
        if fact.type in ("run_waiting", "run_resumed"):
            if (fact.type == "run_waiting") == waiting:
                yield f"{fact.type} at {fact.seq} has no partner"
            waiting = fact.type == "run_waiting"
        if fact.type not in _AFTER and fact.type != "run_ended":
            continue
        if fact.origin or not fact.run:
            continue
        if fact.run != open_run:
            yield f"{fact.type} at {fact.seq} belongs to {fact.run}, but the open run is {open_run or 'none'}"
        elif fact.type not in _AFTER[last]:
            yield f"{fact.type} at {fact.seq} follows {last}"
        last = fact.type
        if fact.type == "run_ended":
            if fact.run in ended:
                yield f"run {fact.run} ended twice"
            ended.add(fact.run)
            open_run = ""
    if open_run and facts[-1].type != "run_waiting":
        yield f"run {open_run} has not ended, and its last fact is {facts[-1].type}"


def model_calls_are_paired(facts: Sequence[Fact]) -> Iterator[str]:
    """Each model_called is followed by exactly one usage, and by one message or failure."""
    asked: Counter[str] = Counter()
    used: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for fact in facts:
        match fact.event:
            case events.ModelCalled(id=call):
                asked[call] += 1
            case events.UsageReported(call=call):
                used[call] += 1
            case events.AssistantMessage(call=call) | events.ModelFailed(call=call) if not fact.origin:
                answered[call] += 1
    if asked != used:
        yield f"model calls and usages differ: {sorted((asked - used) + (used - asked))}"
    if asked != answered:
        yield f"model calls and answers differ: {sorted((asked - answered) + (answered - asked))}"


def tool_calls_are_paired(facts: Sequence[Fact]) -> Iterator[str]:
    """Each tool_called has exactly one tool_result, unless its run waits for it."""
    called: Counter[str] = Counter()
    results: Counter[str] = Counter()
    begun: set[str] = set()
    for fact in facts:
        match fact.event:
            case events.ToolCalled(call=call) if not fact.origin:
                called[call] += 1
            case events.ToolStarted(call=call) if not fact.origin:
                if call not in called:
                    yield f"{call} began at {fact.seq} before it was called"
                if call in results:
                    yield f"{call} began at {fact.seq} after its result"
                begun.add(call)
            case events.ToolResultFact(call=call, failed=failed) if not fact.origin:
                results[call] += 1
                if call not in begun and failed is None and not _was_asked(facts, call):
                    yield f"{call} succeeded at {fact.seq} without having begun"
    waits = bool(facts) and facts[-1].type == "run_waiting"
    if results - called or (called - results and not waits):
        yield f"calls and results differ: {sorted((called - results) + (results - called))}"


def _was_asked(facts: Sequence[Fact], call: str) -> bool:
    return any(isinstance(fact.event, events.QuestionAsked) and fact.event.call == call for fact in facts)


def questions_are_answered_once(facts: Sequence[Fact]) -> Iterator[str]:
    """Each question has exactly one answer, unless the run waits for it."""
    asked = Counter(fact.event.id for fact in facts if isinstance(fact.event, events.QuestionAsked))
    answered = Counter(fact.event.id for fact in facts if isinstance(fact.event, events.QuestionAnswered))
    waits = bool(facts) and facts[-1].type == "run_waiting"
    if answered - asked or (asked - answered and not waits):
        yield f"questions and answers differ: {sorted((asked - answered) + (answered - asked))}"


def effects_are_not_repeated(facts: Sequence[Fact]) -> Iterator[str]:
    """A call begins once, unless it is idempotent or was called again with a person's answer."""
    begun: dict[str, int] = {}
    asked: Counter[str] = Counter()
    for fact in facts:
        match fact.event:
            case events.QuestionAsked(call=call):
                asked[call] += 1
            case events.ToolStarted(call=call, attempt=attempt, key=key):
                if attempt != begun.get(call, 0) + 1:
                    yield f"{call} has attempt {attempt} at {fact.seq} after {begun.get(call, 0)}"
                if attempt > 1 + asked[call] and not key:
                    yield f"{call} is not idempotent, and began again at {fact.seq}"
                begun[call] = attempt


def opening_needs_only_its_part(facts: Sequence[Fact]) -> Iterator[str]:
    """The facts that opening reads add up to the same state as all facts."""
    bounds = [fact.seq for fact in facts if fact.type in ("run_started", "run_ended")]
    tail = max(bounds, default=1)
    part = [fact for fact in facts if fact.seq >= tail or opens_with(EVENT_TYPES.get(fact.type))]
    whole, opened = fold(facts).snapshot(), fold(part).snapshot()
    for name, value in whole.items():
        if opened[name] != value:
            yield f"{name} is {opened[name]!r} after opening, but {value!r} after everything"


def the_model_can_be_told(facts: Sequence[Fact]) -> Iterator[str]:
    """In the transcript every call is answered in the message that follows it."""
    state = fold(facts)
    messages = list(state.transcript)
    for number, message in enumerate(messages, 1):
        following = messages[number] if number < len(messages) else None
        calls = [call.id for call in message.calls]
        if not calls or (following is None and state.run is not None):
            continue
        results = [block.call for block in following.content if hasattr(block, "call")] if following else []
        if calls != results:
            yield f"the calls {calls} are followed by the results {results}"
