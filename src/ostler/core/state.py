"""What a session's facts add up to: the same facts give the same state, live or after a crash."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from ostler.core.run_state import CallState, ChildState, RunState, StepState, signature
from ostler.core.transcript import Transcript, TranscriptBuilder
from ostler.schema import events
from ostler.schema.events import Event, RunStatus
from ostler.schema.facts import Fact, UnknownEvent, decode_together
from ostler.schema.messages import ToolCall
from ostler.schema.outcomes import PROTOCOL_ERRORS
from ostler.schema.usage import NOTHING_USED, Usage


class SessionState:
    """Everything the kernel needs to know of a session."""

    def __init__(self) -> None:
        self.id = ""
        self.cwd = ""
        self.title = ""
        self.driver = "agent"
        self.last_seq = 0
        self.last_time_ms = 0
        self.leaf = 0
        self._telling = TranscriptBuilder()
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
        """What each extension keeps in the session, by its name and its keys."""
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
    def sources(self) -> list[int]:
        """The number of the entry that each message of the transcript comes from."""
        return self._telling.sources

    @property
    def instructions(self) -> dict[str, str]:
        """The instruction files that the model was told of by results, each with its digest."""
        return self._telling.instructions

    @property
    def prompts(self) -> set[int]:
        """The numbers of the entries on the path that began a run."""
        return self._telling.prompts

    @property
    def steers(self) -> set[int]:
        """Those of what people said while a run was under way."""
        return self._telling.steers

    @property
    def files(self) -> tuple[str, ...]:
        """Those that the work before the last compaction has touched."""
        return self._telling.files

    @property
    def transcript(self) -> Transcript:
        """What the model is told."""
        return self._telling.transcript

    def apply(self, fact: Fact, *, on_path: bool = True) -> None:
        """Takes one more fact in. `on_path` is false for entries of branches that were left."""
        self._take(fact, None, on_path)

    def _take(self, fact: Fact, event: Event | UnknownEvent | None, on_path: bool) -> None:
        """`event` is the fact's, if it was decoded already."""
        self.last_seq, self.last_time_ms = fact.seq, fact.time_ms
        is_entry = on_path and fact.parent is not None
        if is_entry:
            self.leaf = fact.seq
        if event is None:
            if fact.type == "tool_called" and self.run is None:
                return  # of a run that has ended: its message says the same
            event = fact.event
        if is_entry:
            self._telling.add(event, fact.seq)
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event, fact)
        elif isinstance(event, events.TodoUpdated):
            if is_entry:
                self.todo[event.list] = event.items
        elif isinstance(event, UnknownEvent) and on_path and b'"critical":true' in event.body:
            self.undecipherable = event.type

    def leave_undone(self, facts: Iterable[Fact]) -> None:
        """Compactions that these facts undo are not told; to be said before any fact is applied."""
        undoings = [fact.event for fact in facts if fact.type == "compaction_undone"]
        undone = {event.compaction for event in undoings if isinstance(event, events.CompactionUndone)}
        self._telling.undone = frozenset(undone)

    def close_cut_results(self) -> None:
        """Makes the transcript one that a model can be told, when no run is open to finish its calls."""
        if self.run is None:
            self._telling.close_results()

    def snapshot(self) -> dict[str, Any]:
        """Everything comparable, for the invariant that the fold of the log is the live state."""
        step = self.run.step if self.run else None
        return {
            "id": self.id,
            "title": self.title,
            "last_seq": self.last_seq,
            "leaf": self.leaf,
            "messages": list(self.transcript),
            "instructions": self.instructions,
            "usage": self.usage,
            "run": (self.run.id, self.run.steps, self.run.repeats, self.run.waiting) if self.run else None,
            "step": (step.number, step.attempts, step.message, step.ended) if step else None,
            "calls": [(c.called, c.started, c.result, c.deferred) for c in step.calls.values()]
            if step
            else [],
            "questions": dict(self.questions),
            "held": self.held,
            "settings": self.settings,
            "labels": dict(self.labels),
            "permissions": dict(self.permissions),
            "last_status": self.last_status,
            "reusable": dict(self.reusable),
            "todo": dict(self.todo),
            "extension_state": self.extension_state,
            "children": self.run.children_totals if self.run else None,
            "spawned": set(self.spawned),
        }


def fold(facts: Sequence[Fact]) -> SessionState:
    """The state that these facts add up to: all of a session's, or those that opening needs."""
    state = SessionState()
    if _is_one_line(facts):
        state.leave_undone(facts)
        for fact, event in decode_together(facts):
            state._take(fact, event, True)
    else:
        path = path_of(facts)
        state.leave_undone(fact for fact in facts if fact.seq in path)
        for fact, event in decode_together(facts):
            state._take(fact, event, fact.seq in path)
        state.leaf = leaf_of(facts)
    state.close_cut_results()
    return state


def _is_one_line(facts: Iterable[Fact]) -> bool:
    """Nobody ever went back: every entry follows the one before it, and all are on the path.

    An entry may follow one that is not here: opening leaves the calls of runs that have ended out.
    """
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
    """The numbers of the entries between the leaf and the root.

    One that is not here is a call, whose message stands right before it.
    """
    facts = list(facts)
    parents = {fact.seq: fact.parent for fact in facts if fact.parent is not None}
    entries = [0, *parents]
    present: int = leaf_of(facts) if leaf is None else leaf
    path: set[int] = set()
    while present:
        path.add(present)
        parent = parents.get(present)
        present = entries[bisect_left(entries, present) - 1] if parent is None else parent
    return path


# --- what each fact changes -------------------------------------------------------------------------


def _session_started(state: SessionState, event: events.SessionStarted, fact: Fact) -> None:
    state.id, state.cwd, state.driver = fact.session, event.cwd, event.driver
    state.child_of, state.child_call = event.child_of, event.call


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
        permissions=event.permissions or old.permissions,
    )


def _extension_state(state: SessionState, event: events.ExtensionState, fact: Fact) -> None:
    kept = state.extension_state.setdefault(event.extension, {})
    if event.value is None:
        kept.pop(event.key, None)
    else:
        kept[event.key] = event.value


def _prompts_held(state: SessionState, event: events.PromptsHeld, fact: Fact) -> None:
    state.held = True


def _prompts_released(state: SessionState, event: events.PromptsReleased, fact: Fact) -> None:
    state.held = False


def _run_started(state: SessionState, event: events.RunStarted, fact: Fact) -> None:
    state.run = RunState(fact.run, event, fact.time_ms)
    state.run.first_seq = fact.seq


def _run_waiting(state: SessionState, event: events.RunWaiting, fact: Fact) -> None:
    if state.run:
        state.run.waiting = event
        _note_stillness(state, fact.time_ms)


def _run_resumed(state: SessionState, event: events.RunResumed, fact: Fact) -> None:
    if state.run:
        state.run.waiting = None
        _note_stillness(state, fact.time_ms)


def _note_stillness(state: SessionState, time_ms: int) -> None:
    if state.run:
        state.run.note_stillness(bool(state.questions), time_ms)


def _run_ended(state: SessionState, event: events.RunEnded, fact: Fact) -> None:
    state.run = None
    state.held = event.status != "completed"
    state.last_status, state.last_run = event.status, fact.run
    state.usage = event.cumulative
    state.context_tokens, state.context_messages = event.context, event.context_messages


def _step_started(state: SessionState, event: events.StepStarted, fact: Fact) -> None:
    if state.run:
        state.run.step = StepState(event)
        state.run.steps = event.number


def _model_called(state: SessionState, event: events.ModelCalled, fact: Fact) -> None:
    if state.run and fact.run == state.run.id:
        state.run.model_calls += 1
        step = state.run.step
        if event.purpose != "step":
            state.run.asides[event.id] = event
        elif step:
            is_same = step.model_call is not None and step.model_call.model == event.model
            step.tries = step.tries + 1 if is_same else 1
            step.model_call = event
            step.usage_known = False
            step.failure = None


def _usage(state: SessionState, event: events.UsageReported, fact: Fact) -> None:
    state.usage = event.cumulative
    if state.run and fact.run == state.run.id:
        state.run.usage = state.run.usage + event.usage
        state.run.last_usage = event.usage
        state.run.asides.pop(event.call, None)
        if event.usage.cost is not None:
            state.run.known_cost += event.usage.cost
        elif event.usage.source == "reported":
            state.run.unpriced = True
        step = state.run.step
        if step and step.model_call and step.model_call.id == event.call:
            step.usage_known = True
            is_reported = event.usage.source == "reported" and event.usage.total_tokens > 0
            if is_reported and _sent_everything(step.model_call):
                state.context_tokens = event.usage.total_tokens
                state.context_messages = len(state.transcript) + 1  # with the answer, which follows


def _sent_everything(called: events.ModelCalled) -> bool:
    """What was counted of a part says nothing of the whole."""
    trace = called.trace
    return not isinstance(trace, dict) or ("decisions" not in trace and "left" not in trace)


def _assistant_message(state: SessionState, event: events.AssistantMessage, fact: Fact) -> None:
    for block in event.content:
        if type(block) is ToolCall:
            state.call_ids.add(block.id)
    if state.run and state.run.step:
        state.run.step.message = event


def _model_failed(state: SessionState, event: events.ModelFailed, fact: Fact) -> None:
    step = state.run.step if state.run else None
    if state.run and step and step.model_call and step.model_call.id == event.call:
        step.failure = event
        step.has_overflowed = step.has_overflowed or event.failure.kind == "context_overflow"
        if event.retry_in is not None:
            state.run.retries += 1


def _tool_called(state: SessionState, event: events.ToolCalled, fact: Fact) -> None:
    if state.run and state.run.step:
        state.run.step.calls[event.call] = CallState(event)
        state.run.tool_calls += 1


def _call(state: SessionState, call: str) -> CallState | None:
    step = state.run.step if state.run else None
    return step.calls.get(call) if step else None


def _tool_started(state: SessionState, event: events.ToolStarted, fact: Fact) -> None:
    if call := _call(state, event.call):
        call.started, call.deferred = event, False
        call.question = call.answered = None  # what was asked before it began is settled by its beginning
        if event.arguments is not None:
            call.arguments = event.arguments


def _tool_deferred(state: SessionState, event: events.ToolDeferred, fact: Fact) -> None:
    if call := _call(state, event.call):
        call.deferred = True


def _child_started(state: SessionState, event: events.ChildStarted, fact: Fact) -> None:
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
    elif state.run and (child := state.run.children.get(event.child)):
        child.ended = event
        state.run.count_children(events.Totals(runs=1), event.own, event.children)


def _warned(state: SessionState, event: events.Warned, fact: Fact) -> None:
    if state.run and event.about == "limit" and event.details:
        state.run.warned.add(str(event.details.get("limit")))


def _tool_result(state: SessionState, event: events.ToolResultFact, fact: Fact) -> None:
    if event.key and not event.failed and not event.repeats:
        state.reusable[event.key] = fact.seq
    if state.run and (call := _call(state, event.call)):
        call.result = event
        if event.ends_run and state.run.step:
            state.run.step.ends_run = event.name
        if event.failed == "call_refused":
            state.run.refused_calls += 1
        is_protocol_error = event.failed in PROTOCOL_ERRORS
        state.run.protocol_errors = state.run.protocol_errors + 1 if is_protocol_error else 0
        citations = event.details.get("citations") if event.details else None
        if isinstance(citations, list):
            state.run.citations += len(citations)


def _step_ended(state: SessionState, event: events.StepEnded, fact: Fact) -> None:
    if state.run and state.run.step:
        state.run.step.ended = event
        state.run.repeats = _repeated(state.run)


def _repeated(run: RunState) -> dict[str, int]:
    assert run.step is not None
    seen = {signature(call) for call in run.step.calls.values() if call.result is not None}
    return {one: run.repeats.get(one, 0) + 1 for one in seen}


def _question_asked(state: SessionState, event: events.QuestionAsked, fact: Fact) -> None:
    state.questions[event.id] = event
    _note_stillness(state, fact.time_ms)
    if event.durable and (call := _call(state, event.call)):
        call.question, call.answered = event, None


def _question_answered(state: SessionState, event: events.QuestionAnswered, fact: Fact) -> None:
    asked = state.questions.pop(event.id, None)
    _note_stillness(state, fact.time_ms)
    if asked and (call := _call(state, asked.call)) and call.question is asked:
        call.answered = event


def _permission_remembered(state: SessionState, event: events.PermissionRemembered, fact: Fact) -> None:
    if event.scope != "session" or event.where != fact.session:
        return
    state.permissions.pop(event.rule, None)
    if event.effect != "revoked":
        state.permissions[event.rule] = event.effect


def _reset_context_count(state: SessionState, event: Event, fact: Fact) -> None:
    state.context_tokens = state.context_messages = 0


def _history_replaced(state: SessionState, event: events.HistoryReplaced, fact: Fact) -> None:
    _reset_context_count(state, event, fact)
    if event.usage is not None and not fact.origin:  # a copy's cost was counted where it was made
        state.usage = event.usage


_HANDLERS: dict[type[Any], Any] = {
    events.SessionStarted: _session_started,
    events.SessionRenamed: _session_renamed,
    events.Labelled: _labelled,
    events.SettingsChanged: _settings_changed,
    events.ExtensionState: _extension_state,
    events.PromptsHeld: _prompts_held,
    events.PromptsReleased: _prompts_released,
    events.RunStarted: _run_started,
    events.RunWaiting: _run_waiting,
    events.RunResumed: _run_resumed,
    events.RunEnded: _run_ended,
    events.StepStarted: _step_started,
    events.ModelCalled: _model_called,
    events.UsageReported: _usage,
    events.AssistantMessage: _assistant_message,
    events.ModelFailed: _model_failed,
    events.ToolCalled: _tool_called,
    events.ToolStarted: _tool_started,
    events.ChildStarted: _child_started,
    events.ChildUsed: _child_used,
    events.ChildEnded: _child_ended,
    events.Warned: _warned,
    events.ToolDeferred: _tool_deferred,
    events.ToolResultFact: _tool_result,
    events.StepEnded: _step_ended,
    events.QuestionAsked: _question_asked,
    events.QuestionAnswered: _question_answered,
    events.PermissionRemembered: _permission_remembered,
    events.HistoryReplaced: _history_replaced,
    events.Compacted: _reset_context_count,
    events.CompactionUndone: _reset_context_count,
    events.LeafMoved: _reset_context_count,
}
