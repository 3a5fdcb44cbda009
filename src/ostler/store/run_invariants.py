"""The checks of invariants about runs: their order, calls, questions and ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence

from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.usage import NOTHING_USED

_AFTER = {
    "run_started": {"user_message", "step_started", "run_ended"},
    "user_message": {"user_message", "step_started", "run_ended"},
    "step_started": {"model_called", "step_ended"},
    "model_called": {"usage"},
    "usage": {"assistant_message", "model_failed"},
    "model_failed": {"model_called", "step_ended"},
    "assistant_message": {"tool_called", "step_ended"},
    "tool_called": {"tool_called", "tool_started", "tool_result"},
    "tool_started": {"tool_started", "tool_result", "step_ended"},
    "tool_result": {"tool_started", "tool_result", "step_ended"},
    "step_ended": {"step_started", "user_message", "run_ended"},
}
"""Which fact may follow which inside a run, for the facts whose order is guaranteed."""

_TOOL_FACTS = {"tool_called", "tool_started", "tool_result"}

_AFTER_FOR_OTHER_AGENTS = {
    "run_started": {"user_message"},
    "user_message": {"user_message", "assistant_message", "usage", "run_ended"},
    "assistant_message": {"assistant_message", "user_message", *_TOOL_FACTS, "usage", "run_ended"},
    "tool_called": {"assistant_message", "tool_started", "tool_result"},
    "tool_started": {"assistant_message", "tool_started", "tool_result"},
    "tool_result": {"assistant_message", "tool_started", "tool_result", "usage", "run_ended"},
    "usage": {"run_ended"},
}
"""The same for other vendors' agents, which report no steps and no model calls. A call follows its message;
usage, if the agent reports it, comes before the end."""

_MODEL_CALL_FACTS = {"model_called", "usage", "assistant_message", "model_failed"}

_OPENED_OR_CLOSED = {"tool_called", "tool_result", "question_asked", "question_answered"}


def _select(facts: Sequence[Fact], types: Container[str], *, copies: bool = False) -> Iterator[Fact]:
    """The facts of these types; those that a fork copied only on request."""
    return (fact for fact in facts if fact.type in types and (copies or not fact.origin))


def runs_are_well_ordered(facts: Sequence[Fact]) -> Iterator[str]:
    """One run at a time, in the guaranteed order, with one end; the facts of a run are inside it, and the
    leaf moves only between runs."""
    open_run, last, waiting = "", "", False
    started: set[str] = set()
    side_calls: set[str] = set()
    after = _AFTER_FOR_OTHER_AGENTS if _is_other_agents(facts) else _AFTER
    for fact in facts:
        kind = fact.type
        if kind == "leaf_moved" and open_run:
            yield f"the leaf was moved at {fact.seq}, while {open_run} was open"
        if fact.origin or not fact.run:
            continue
        if kind == "run_started":
            if open_run:
                yield f"run {fact.run} started at {fact.seq} while {open_run} was open"
            if fact.run in started:
                yield f"run {fact.run} started again at {fact.seq}"
            started.add(fact.run)
            open_run, last, waiting = fact.run, kind, False
            continue
        if fact.run != open_run:
            yield f"{kind} at {fact.seq} belongs to {fact.run}, but the open run is {open_run or 'none'}"
            continue
        if kind in ("run_waiting", "run_resumed"):
            if (kind == "run_waiting") == waiting:
                yield f"{kind} at {fact.seq} has no partner"
            waiting = kind == "run_waiting"
        if (kind not in _AFTER and kind != "run_ended") or _is_side_call(fact, side_calls):
            continue
        if kind not in after.get(last, ()):
            yield f"{kind} at {fact.seq} follows {last}"
        if kind == "run_ended":
            if waiting:
                yield f"run {open_run} ended at {fact.seq} while it waited"
            open_run, last = "", ""
        else:
            last = kind


def _is_other_agents(facts: Sequence[Fact]) -> bool:
    return bool(facts) and getattr(facts[0].event, "driver", "agent") != "agent"


def _is_side_call(fact: Fact, side_calls: set[str]) -> bool:
    """Whether it belongs to a model call outside the steps, which may be anywhere."""
    if fact.type not in _MODEL_CALL_FACTS:
        return False
    match fact.event:
        case events.ModelCalled(id=call, purpose=purpose) if purpose != "step":
            side_calls.add(call)
            return True
        case events.UsageReported(call=call) | events.ModelFailed(call=call):
            return call in side_calls
    return False


def steps_are_counted(facts: Sequence[Fact]) -> Iterator[str]:
    """The steps of a run are counted 1, 2, 3 …, and so are the attempts at the answer of a step."""
    step = attempt = 0
    types = ("run_started", "step_started", "step_ended", "tool_called", "model_called")
    for fact in _select(facts, types):
        match fact.event:
            case events.RunStarted():
                step = 0
            case events.StepStarted(number=number):
                if number != step + 1:
                    yield f"step {number} started at {fact.seq} after step {step}"
                step, attempt = number, 0
            case events.StepEnded(number=number) | events.ToolCalled(step=number) if number != step:
                yield f"{fact.type} at {fact.seq} belongs to step {number}, but the current step is {step}"
            case events.ModelCalled(purpose="step", attempt=number):
                if number != attempt + 1:
                    yield f"attempt {number} at {fact.seq} comes after attempt {attempt}"
                attempt = number


def model_calls_are_paired(facts: Sequence[Fact]) -> Iterator[str]:
    """A model call comes before its one `usage`, which names the same model and purpose, and before its one
    message or failure."""
    calls: dict[str, events.ModelCalled] = {}
    used: set[str] = set()
    answered: set[str] = set()
    is_other_agents = _is_other_agents(facts)
    for fact in _select(facts, _MODEL_CALL_FACTS):
        match fact.event:
            case events.UsageReported() if is_other_agents:
                continue  # it belongs to no model call of ours
            case events.AssistantMessage(call=call) if is_other_agents:
                if call and call in answered:
                    yield f"{fact.type} at {fact.seq} has the id of another, {call}"
                answered.add(call)
            case events.ModelCalled(id=call) as called:
                if call in calls:
                    yield f"model call {call} was made again at {fact.seq}"
                calls[call] = called
            case events.UsageReported(call=call, model=model, purpose=purpose):
                if call not in calls:
                    yield f"usage at {fact.seq} belongs to {call}, which was not made before"
                elif (calls[call].model, calls[call].purpose) != (model, purpose):
                    yield f"usage at {fact.seq} names {model} for {purpose}, but {call} does not"
                if call in used:
                    yield f"usage at {fact.seq} is a second one for {call}"
                used.add(call)
            case events.AssistantMessage(call=call) | events.ModelFailed(call=call):
                if call not in calls:
                    yield f"{fact.type} at {fact.seq} answers {call}, which was not made before"
                if call in answered:
                    yield f"{fact.type} at {fact.seq} is a second answer to {call}"
                answered.add(call)


def tool_calls_are_paired(facts: Sequence[Fact]) -> Iterator[str]:
    """A tool call comes before its start and its one result; a call that succeeds has started, asked a
    question, or repeats a result."""
    called: set[str] = set()
    active: set[str] = set()  # those that started, or asked a question
    finished: set[str] = set()
    for fact in _select(facts, _TOOL_FACTS | {"question_asked"}):
        match fact.event:
            case events.ToolCalled(call=call):
                if call in called:
                    yield f"{call} was called again at {fact.seq}"
                called.add(call)
            case events.QuestionAsked(call=call):
                active.add(call)
            case events.ToolStarted(call=call):
                if call not in called:
                    yield f"{call} started at {fact.seq} before it was called"
                if call in finished:
                    yield f"{call} started at {fact.seq} after its result"
                active.add(call)
            case events.ToolResultFact(call=call, failed=failed, repeats=repeats):
                if call not in called:
                    yield f"{call} has a result at {fact.seq}, but was not called"
                if call in finished:
                    yield f"{call} has another result at {fact.seq}"
                if call not in active and failed is None and not repeats:
                    yield f"{call} succeeded at {fact.seq} without having started"
                finished.add(call)


def questions_are_answered_once(facts: Sequence[Fact]) -> Iterator[str]:
    """A question comes before its one answer, and the answer to a secret question is not stored."""
    questions: dict[str, events.QuestionAsked] = {}
    answered: set[str] = set()
    for fact in _select(facts, ("question_asked", "question_answered"), copies=True):
        match fact.event:
            case events.QuestionAsked(id=question) as event:
                if question in questions:
                    yield f"question {question} was asked again at {fact.seq}"
                questions[question] = event
            case events.QuestionAnswered(id=question, answer=answer):
                if question not in questions:
                    yield f"question {question} was answered at {fact.seq} before it was asked"
                elif questions[question].question.secret and answer is not None:
                    yield f"the answer to the secret question {question} is stored at {fact.seq}"
                if question in answered:
                    yield f"question {question} was answered again at {fact.seq}"
                answered.add(question)


def ends_leave_nothing_open(facts: Sequence[Fact]) -> Iterator[str]:
    """When a run ends, its calls have their results and its questions their answers."""
    open_now: dict[str, None] = {}
    in_runs = [fact for fact in facts if fact.run]
    for fact in _select(in_runs, _OPENED_OR_CLOSED | {"run_ended"}):
        match fact.event:
            case events.ToolCalled(call=name) | events.QuestionAsked(id=name):
                open_now[name] = None
            case events.ToolResultFact(call=name) | events.QuestionAnswered(id=name):
                open_now.pop(name, None)
            case events.RunEnded() if open_now:
                yield f"the run ended at {fact.seq} before {', '.join(open_now)}"
                open_now.clear()


def effects_are_not_repeated(facts: Sequence[Fact]) -> Iterator[str]:
    """A call starts once, unless it is idempotent, has a child, or was called again with an answer."""
    started: dict[str, int] = {}
    questions: Counter[str] = Counter()
    for fact in _select(facts, ("question_asked", "tool_started"), copies=True):
        match fact.event:
            case events.QuestionAsked(call=call):
                questions[call] += 1
            case events.ToolStarted(call=call, attempt=attempt, key=key, child=child):
                if attempt != started.get(call, 0) + 1:
                    yield f"{call} has attempt {attempt} at {fact.seq} after {started.get(call, 0)}"
                if attempt > 1 + questions[call] and not key and not child:
                    yield f"{call} is not idempotent, and started again at {fact.seq}"
                started[call] = attempt


def waiting_is_for_something(facts: Sequence[Fact]) -> Iterator[str]:
    """A run waits for questions and calls that are open."""
    open_now: set[str] = set()
    for fact in _select(facts, _OPENED_OR_CLOSED | {"run_waiting"}, copies=True):
        match fact.event:
            case events.QuestionAsked(id=name) | events.ToolCalled(call=name):
                open_now.add(name)
            case events.QuestionAnswered(id=name) | events.ToolResultFact(call=name):
                open_now.discard(name)
            case events.RunWaiting(reason=reason, questions=questions, calls=calls):
                if closed := sorted({*questions, *calls} - open_now):
                    yield f"the run waits at {fact.seq} for {', '.join(closed)}, which is not open"
                if not questions and not calls and reason != "paused":
                    yield f"the run waits at {fact.seq} for nothing"


def totals_are_sums(facts: Sequence[Fact]) -> Iterator[str]:
    """The totals of a run are the sums of its facts, and only a run with children has totals of children."""
    counted: Counter[str] = Counter()
    usage = NOTHING_USED
    steps, of_children = 0, events.Totals()
    for fact in [fact for fact in facts if fact.run and not fact.origin]:
        counted[fact.type] += 1
        match fact.event:
            case events.RunStarted():
                counted, usage, steps, of_children = Counter(), NOTHING_USED, 0, events.Totals()
            case events.StepStarted(number=number):
                steps = number
            case events.UsageReported(usage=used):
                usage += used
            case events.ChildUsed() as by_agent:
                of_children += by_agent.totals
            case events.ChildEnded(own=own, children=children):
                of_children += events.Totals(runs=1) + own + children
            case events.ToolResultFact(failed="call_refused"):
                counted["refused"] += 1
            case events.RunEnded(own=own, children=children):
                sums = (steps, counted["model_called"], counted["tool_called"], counted["refused"], usage)
                totals = (own.steps, own.model_calls, own.tool_calls, own.refused_calls, own.usage)
                if totals != sums:
                    yield f"the run that ended at {fact.seq} has totals {totals}, but its facts {sums}"
                if own.duration_ms < 0:
                    yield f"the run that ended at {fact.seq} took {own.duration_ms} ms"
                if children != of_children:
                    yield f"the run that ended at {fact.seq} has {children} for children, not {of_children}"


def children_end_before_their_parent(facts: Sequence[Fact]) -> Iterator[str]:
    """A child starts once and ends once, for its call, or for none if an extension spawned it; no run ends
    before its children."""
    started: dict[str, str] = {}
    open_now: set[str] = set()
    between: set[str] = set()  # children that belong to no run
    for fact in _select(facts, ("child_started", "child_ended", "run_ended")):
        match fact.event:
            case events.ChildStarted(child=child, call=call):
                if child in started:
                    yield f"the child {child} started again at {fact.seq}"
                started[child] = call
                (open_now if fact.run else between).add(child)
            case events.ChildEnded(child=child, call=call):
                under_way = open_now if fact.run else between
                if child not in under_way or started[child] != call:
                    yield f"the child {child} of {call} ended at {fact.seq}, but was not under way"
                under_way.discard(child)
            case events.RunEnded() if open_now:
                yield f"the run ended at {fact.seq} before its children {', '.join(sorted(open_now))}"
                open_now.clear()


def repeats_name_what_they_repeat(facts: Sequence[Fact]) -> Iterator[str]:
    """A result that repeats another names one of the same tool with the same key, which had succeeded."""
    results: dict[int, events.ToolResultFact] = {}
    for fact in facts:
        if fact.type != "tool_result" or not isinstance(fact.event, events.ToolResultFact):
            continue
        result, earlier = fact.event, results.get(fact.event.repeats)
        results[fact.seq] = result
        if not result.repeats or fact.origin:
            continue
        if earlier is None or earlier.failed or (earlier.name, earlier.key) != (result.name, result.key):
            yield f"the result at {fact.seq} repeats {result.repeats}, which is not a result of the same call"


# --- sessions at rest -------------------------------------------------------------------------------


def runs_settle(facts: Sequence[Fact]) -> Iterator[str]:
    """Every run has ended, or waits."""
    last = next((fact for fact in reversed(facts) if fact.type in ("run_started", "run_ended")), None)
    if last is not None and last.type == "run_started" and not _waits(facts):
        yield f"run {last.run} has not ended, and its last fact is {facts[-1].type}"


def model_calls_settle(facts: Sequence[Fact]) -> Iterator[str]:
    """Every model call has its usage, and every model call of a step its message or failure."""
    unused: dict[str, None] = {}
    unanswered: dict[str, None] = {}
    for fact in _select(facts, _MODEL_CALL_FACTS):
        match fact.event:
            case events.ModelCalled(id=call, purpose=purpose):
                unused[call] = None
                if purpose == "step":
                    unanswered[call] = None
            case events.UsageReported(call=call):
                unused.pop(call, None)
            case events.AssistantMessage(call=call) | events.ModelFailed(call=call):
                unanswered.pop(call, None)
    if unused:
        yield f"these model calls have no usage: {', '.join(unused)}"
    if unanswered:
        yield f"these model calls have neither message nor failure: {', '.join(unanswered)}"


def tool_calls_settle(facts: Sequence[Fact]) -> Iterator[str]:
    """Every tool call has its result, unless its run waits."""
    calls = _unclosed(_select(facts, ("tool_called", "tool_result")), "tool_called", "call")
    if calls and not _waits(facts):
        yield f"these calls have no result: {', '.join(calls)}"


def questions_settle(facts: Sequence[Fact]) -> Iterator[str]:
    """Every question has its answer, unless its run waits."""
    pairs = _select(facts, ("question_asked", "question_answered"), copies=True)
    questions = _unclosed(pairs, "question_asked", "id")
    if questions and not _waits(facts):
        yield f"these questions have no answer: {', '.join(questions)}"


def _unclosed(pairs: Iterator[Fact], opening: str, field: str) -> dict[str, None]:
    """The ids, in that field, which a fact of the opening type has and none of the other type after it."""
    ids: dict[str, None] = {}
    for fact in pairs:
        name = getattr(fact.event, field)
        if fact.type == opening:
            ids[name] = None
        else:
            ids.pop(name, None)
    return ids


def _waits(facts: Sequence[Fact]) -> bool:
    turns = ("run_started", "run_waiting", "run_resumed", "run_ended")
    last = next((fact.type for fact in reversed(facts) if fact.type in turns), "")
    return last == "run_waiting"
