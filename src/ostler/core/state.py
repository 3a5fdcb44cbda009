"""What a session's facts add up to: the same facts give the same state, live or after a crash."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from ostler.core.run_state import CallState, ChildState, RunState, StepState, signature
from ostler.core.transcript import Transcript, TranscriptBuilder
from ostler.schema import events
from ostler.schema.events import Event, RunStatus
from ostler.schema.facts import Fact, UnknownEvent, decode_together
from ostler.schema.messages import ToolCall
from ostler.schema.outcomes import PROTOCOL_ERRORS
from ostler.schema.usage import NOTHING_USED, Usage


class SessionState:
    """Everything that the loop needs to know of a session."""

    def __init__(self, store: str = "") -> None:
        self.store = store
        """The id of the store, if known."""
        self.imported = 0
        """Facts up to this number came from a file: they are history, and authorise nothing."""
        self.id = ""
        self.cwd = ""
        self.title = ""
        self.driver = "agent"
        self.last_seq = 0
        self.last_time_ms = 0
        self.leaf = 0
        self.builder = TranscriptBuilder()
        self.usage: Usage = NOTHING_USED
        self.run: RunState | None = None
        self.last_status: RunStatus | None = None
        self.last_run = ""
        self.settings = events.SettingsChanged()
        self.questions: dict[str, events.QuestionAsked] = {}
        self.labels: dict[int, str] = {}
        self.permissions: dict[str, str] = {}
        """Rules that were remembered in this session, and what each does."""
        self.context_tokens = 0
        """Of so many messages, with the system prompt and the tools, as the vendor reported; or 0."""
        self.context_messages = 0
        self.reusable: dict[str, int] = {}
        """Results of idempotent tools: the number of the fact, by key."""
        self.todo: dict[str, tuple[events.TodoItem, ...]] = {}
        self.extension_state: dict[str, dict[str, Any]] = {}
        """The values that each extension stores in the session, by its name and by key."""
        self.child_of = ""
        """The parent's session and call, for a child's."""
        self.child_call = ""
        self.spawned: set[str] = set()
        """Children that extensions have spawned between runs, and that have not ended."""
        self.held = False
        self.call_ids: set[str] = set()
        self.undecipherable: str = ""
        """The type of an unknown critical entry on the path: such a session is not advanced."""

    @property
    def transcript(self) -> Transcript:
        return self.builder.transcript

    def apply(self, fact: Fact, event: Event | UnknownEvent | None = None, on_path: bool = True) -> None:
        """Applies the next fact. `event` spares decoding it; `on_path` is false on abandoned branches."""
        self.last_seq, self.last_time_ms = fact.seq, fact.time_ms
        is_entry = on_path and fact.parent is not None
        if is_entry:
            self.leaf = fact.seq
        if event is None and fact.type == "tool_called" and self.run is None:
            return  # of a run that has ended: its message contains it
        event = event or fact.event
        if is_entry:
            self.builder.add(event, fact.seq)
        kind = type(event)
        if kind in _HANDLERS:
            _HANDLERS[kind](self, event, fact)
        elif kind in _RUN_HANDLERS and self.run is not None:
            _RUN_HANDLERS[kind](self.run, event)
        elif isinstance(event, events.TodoUpdated) and is_entry:
            self.todo[event.list] = event.items
        elif isinstance(event, UnknownEvent) and on_path and b'"critical":true' in event.body:
            self.undecipherable = event.type

    def snapshot(self) -> dict[str, Any]:
        """Everything comparable: folding the log must give the same as the live state."""
        run = self.run
        step = run.step if run else None
        calls = step.calls.values() if step else ()
        return {name: getattr(self, name) for name in _COMPARED} | {
            "messages": list(self.transcript),
            "instructions": self.builder.instructions,
            "run": (run.id, run.steps, run.repeats, run.waiting, run.children_totals) if run else None,
            "step": (step.number, step.attempts, step.message, step.ended) if step else None,
            "calls": [(call.called, call.started, call.result, call.deferred) for call in calls],
        }


_COMPARED = (
    *("id", "title", "last_seq", "leaf", "usage", "questions", "held", "settings", "labels", "permissions"),
    *("last_status", "reusable", "todo", "extension_state", "spawned"),
)


def fold(facts: Sequence[Fact], store: str = "") -> SessionState:
    """The state that these facts add up to: all of a session's, or those that opening needs. `store` is the
    id of the store that they are in."""
    state = SessionState(store)
    path = None if _is_one_line(facts) else path_of(facts)
    for fact in facts:  # before any fact is applied
        if fact.type == "compaction_undone" and (path is None or fact.seq in path):
            state.builder.undone.add(fact.event.compaction)  # type: ignore[union-attr]
    for fact, event in decode_together(facts):
        state.apply(fact, event, path is None or fact.seq in path)
    if path is not None:
        state.leaf = leaf_of(facts)
    if state.run is None:  # no run is open that would finish the last calls
        state.builder.close_results()
    return state


def _is_one_line(facts: Iterable[Fact]) -> bool:
    """Whether every entry follows the one before it, so that all are on the path. An entry may follow one
    that is missing: opening does not read the calls of ended runs."""
    leaf = 0
    for fact in facts:
        if fact.parent is not None:
            if fact.parent < leaf:
                return False
            leaf = fact.seq
        elif fact.type == "leaf_moved":
            return False
    return True


def leaf_of(facts: Iterable[Fact]) -> int:
    """Where the next entry goes: the last entry, or where the session was navigated to after it."""
    leaf = 0
    for fact in facts:
        if fact.parent is not None:
            leaf = fact.seq
        elif fact.type == "leaf_moved" and isinstance(fact.event, events.LeafMoved):
            leaf = fact.event.to
    return leaf


def path_of(facts: Iterable[Fact], leaf: int | None = None) -> set[int]:
    """The numbers of the entries between the leaf and the root. A missing one is a call, and its message is
    right before it."""
    facts = list(facts)
    parents = {fact.seq: fact.parent for fact in facts if fact.parent is not None}
    entries = [0, *parents]
    entry: int = leaf_of(facts) if leaf is None else leaf
    path: set[int] = set()
    while entry:
        path.add(entry)
        parent = parents.get(entry)
        entry = entries[bisect_left(entries, entry) - 1] if parent is None else parent
    return path


# --- what each fact changes -------------------------------------------------------------------------


def _session_started(state: SessionState, event: events.SessionStarted, fact: Fact) -> None:
    state.id, state.cwd, state.driver = fact.session, event.cwd, event.driver
    state.child_of, state.child_call = event.child_of, event.call
    state.imported = event.imported


def _session_renamed(state: SessionState, event: events.SessionRenamed, fact: Fact) -> None:
    state.title = event.title


def _labelled(state: SessionState, event: events.Labelled, fact: Fact) -> None:
    if event.label:
        state.labels[event.entry] = event.label
    else:
        state.labels.pop(event.entry, None)


def _settings_changed(state: SessionState, event: events.SettingsChanged, fact: Fact) -> None:
    old = state.settings
    state.settings = events.SettingsChanged(
        model=event.model or old.model,
        reasoning=event.reasoning or old.reasoning,
        tools=old.tools if event.tools is None else event.tools,
        permissions=old.permissions if fact.seq <= state.imported else event.permissions or old.permissions,
    )


def _extension_state(state: SessionState, event: events.ExtensionState, fact: Fact) -> None:
    values = state.extension_state.setdefault(event.extension, {})
    if event.value is None:
        values.pop(event.key, None)
    else:
        values[event.key] = event.value


def _prompts_held(state: SessionState, event: Event, fact: Fact) -> None:
    state.held = isinstance(event, events.PromptsHeld)


def _run_started(state: SessionState, event: events.RunStarted, fact: Fact) -> None:
    state.run = RunState(fact.run, event, fact.time_ms)
    state.run.first_seq = fact.seq


def _run_waiting(state: SessionState, event: events.RunWaiting | events.RunResumed, fact: Fact) -> None:
    if state.run:
        state.run.waiting = event if isinstance(event, events.RunWaiting) else None
        _update_clock(state, fact)


def _update_clock(state: SessionState, fact: Fact) -> None:
    if state.run:
        state.run.update_clock(bool(state.questions), fact.time_ms)


def _run_ended(state: SessionState, event: events.RunEnded, fact: Fact) -> None:
    state.run = None
    state.held = event.status != "completed"
    state.last_status, state.last_run = event.status, fact.run
    state.usage = event.cumulative
    state.context_tokens, state.context_messages = event.context, event.context_messages


def _model_called(state: SessionState, event: events.ModelCalled, fact: Fact) -> None:
    if (run := state.run) is None or fact.run != run.id:
        return
    run.model_calls += 1
    if event.purpose != "step":
        run.side_calls[event.id] = event
    elif step := run.step:
        is_same = step.model_call is not None and step.model_call.model == event.model
        step.tries = step.tries + 1 if is_same else 1
        step.model_call = event
        step.usage_known = False
        step.failure = None


def _usage(state: SessionState, event: events.UsageReported, fact: Fact) -> None:
    state.usage = event.cumulative
    if (run := state.run) is None or fact.run != run.id:
        return
    run.usage = run.usage + event.usage
    run.last_usage = event.usage
    run.side_calls.pop(event.call, None)
    if event.usage.cost is not None:
        run.known_cost += event.usage.cost
    elif event.usage.source == "reported":
        run.unpriced = True
    step = run.step
    if step and step.model_call and step.model_call.id == event.call:
        step.usage_known = True
        is_reported = event.usage.source == "reported" and event.usage.total_tokens > 0
        if is_reported and _sent_everything(step.model_call):
            state.context_tokens = event.usage.total_tokens
            state.context_messages = len(state.transcript) + 1  # with the answer, which follows


def _sent_everything(called: events.ModelCalled) -> bool:
    """If only a part was sent, its tokens are not those of the whole."""
    trace = called.trace
    return not isinstance(trace, dict) or ("decisions" not in trace and "left" not in trace)


def _assistant_message(state: SessionState, event: events.AssistantMessage, fact: Fact) -> None:
    for block in event.content:
        if type(block) is ToolCall:
            state.call_ids.add(block.id)
    if state.run and state.run.step:
        state.run.step.message = event


def _call(run: RunState | None, call: str) -> CallState | None:
    return run.step.calls.get(call) if run and run.step else None


def _child_started(state: SessionState, event: events.ChildStarted, fact: Fact) -> None:
    if fact.seq <= state.imported:
        return  # its session is not here, and one with the same id is not this child
    if not fact.run:
        state.spawned.add(event.child)
    elif state.run:
        state.run.children[event.child] = ChildState(event.call)


def _child_used(state: SessionState, event: events.ChildUsed, fact: Fact) -> None:
    if state.run and fact.run == state.run.id:
        state.run.count_children(event.totals)


def _child_ended(state: SessionState, event: events.ChildEnded, fact: Fact) -> None:
    if not fact.run:
        state.spawned.discard(event.child)
    elif state.run and fact.seq <= state.imported:
        state.run.count_children(events.Totals(runs=1), event.own, event.children)
    elif state.run and (child := state.run.children.get(event.child)):
        child.ended = event
        state.run.count_children(events.Totals(runs=1), event.own, event.children)


def _tool_result(state: SessionState, event: events.ToolResultFact, fact: Fact) -> None:
    if event.key and not event.failed and not event.repeats:
        state.reusable[event.key] = fact.seq
    if (run := state.run) is None or (call := _call(run, event.call)) is None:
        return
    call.result = event
    if event.ends_run and run.step:
        run.step.ends_run = event.name
    if event.failed == "call_refused":
        run.refused_calls += 1
    run.protocol_errors = run.protocol_errors + 1 if event.failed in PROTOCOL_ERRORS else 0
    citations = event.details.get("citations") if event.details else None
    if isinstance(citations, list):
        run.citations += len(citations)


def _question_asked(state: SessionState, event: events.QuestionAsked, fact: Fact) -> None:
    is_imported = fact.seq <= state.imported
    if is_imported and event.asked_by == "tool" and event.resume != "again":
        # The answer is the result at most: the tool is not called again with a state from a file.
        event, is_imported = replace(event, resume="result", state=None), False
    state.questions[event.id] = event
    _update_clock(state, fact)
    if event.durable and (call := _call(state.run, event.call)):
        if is_imported:
            call.imported, call.imported_answer = event, None
        else:
            call.question, call.answered, call.imported = event, None, None


def _question_answered(state: SessionState, event: events.QuestionAnswered, fact: Fact) -> None:
    asked = state.questions.pop(event.id, None)
    _update_clock(state, fact)
    call = _call(state.run, asked.call) if asked else None
    if call is None or _is_foreign(state, event, fact):
        return
    if call.question is asked:
        call.answered = event
    elif call.imported is asked and event.outcome != "withdrawn":
        call.imported_answer = event


def _is_foreign(
    state: SessionState, event: events.QuestionAnswered | events.PermissionRemembered, fact: Fact
) -> bool:
    """Whether this consent was given in another store. Facts of older versions do not name their store."""
    is_elsewhere = bool(event.store and state.store) and event.store != state.store
    return fact.seq <= state.imported or is_elsewhere


def _permission_remembered(state: SessionState, event: events.PermissionRemembered, fact: Fact) -> None:
    if _is_foreign(state, event, fact):
        return
    if event.scope == "session" and event.where == fact.session:
        state.permissions.pop(event.rule, None)
        if event.effect != "revoked":
            state.permissions[event.rule] = event.effect


def _reset_context_count(state: SessionState, event: Event, fact: Fact) -> None:
    state.context_tokens = state.context_messages = 0


def _history_replaced(state: SessionState, event: events.HistoryReplaced, fact: Fact) -> None:
    _reset_context_count(state, event, fact)
    if event.usage is not None and not fact.origin:  # a copy's cost was counted in the original session
        state.usage = event.usage


def _step_started(run: RunState, event: events.StepStarted) -> None:
    run.step = StepState(event)
    run.steps = event.number


def _model_failed(run: RunState, event: events.ModelFailed) -> None:
    step = run.step
    if step and step.model_call and step.model_call.id == event.call:
        step.failure = event
        step.has_overflowed = step.has_overflowed or event.failure.kind == "context_overflow"
        if event.retry_in is not None:
            run.retries += 1


def _tool_called(run: RunState, event: events.ToolCalled) -> None:
    if run.step:
        run.step.calls[event.call] = CallState(event, event.arguments)
        run.tool_calls += 1


def _tool_started(state: SessionState, event: events.ToolStarted, fact: Fact) -> None:
    if call := _call(state.run, event.call):
        call.started, call.deferred = event, False
        call.began_elsewhere = fact.seq <= state.imported
        call.question = call.answered = call.imported = None  # questions from before its start are closed
        if event.arguments is not None:
            call.arguments = event.arguments


def _tool_deferred(run: RunState, event: events.ToolDeferred) -> None:
    if call := _call(run, event.call):
        call.deferred = not call.began_elsewhere  # what it waits for will not arrive here


def _warned(run: RunState, event: events.Warned) -> None:
    if event.about == "limit" and event.details:
        run.warned.add(str(event.details.get("limit")))


def _step_ended(run: RunState, event: events.StepEnded) -> None:
    if run.step:
        run.step.ended = event
        signatures = {signature(call) for call in run.step.calls.values() if call.result is not None}
        run.repeats = {one: run.repeats.get(one, 0) + 1 for one in signatures}


_HANDLERS: dict[type[Any], Any] = {
    events.SessionStarted: _session_started,
    events.SessionRenamed: _session_renamed,
    events.Labelled: _labelled,
    events.SettingsChanged: _settings_changed,
    events.ExtensionState: _extension_state,
    events.PromptsHeld: _prompts_held,
    events.PromptsReleased: _prompts_held,
    events.RunStarted: _run_started,
    events.RunWaiting: _run_waiting,
    events.RunResumed: _run_waiting,
    events.RunEnded: _run_ended,
    events.ModelCalled: _model_called,
    events.UsageReported: _usage,
    events.AssistantMessage: _assistant_message,
    events.ChildStarted: _child_started,
    events.ChildUsed: _child_used,
    events.ChildEnded: _child_ended,
    events.ToolStarted: _tool_started,
    events.ToolResultFact: _tool_result,
    events.QuestionAsked: _question_asked,
    events.QuestionAnswered: _question_answered,
    events.PermissionRemembered: _permission_remembered,
    events.HistoryReplaced: _history_replaced,
    events.Compacted: _reset_context_count,
    events.CompactionUndone: _reset_context_count,
    events.LeafMoved: _reset_context_count,
}

_RUN_HANDLERS: dict[type[Any], Any] = {
    events.StepStarted: _step_started,
    events.ModelFailed: _model_failed,
    events.ToolCalled: _tool_called,
    events.ToolDeferred: _tool_deferred,
    events.Warned: _warned,
    events.StepEnded: _step_ended,
}
"""For facts that matter only while their run is open."""
