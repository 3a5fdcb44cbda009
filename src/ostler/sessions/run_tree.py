"""The runs of all sessions as a tree: who drives them, what they wait for, how they ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ostler.core.questions import OpenQuestion
from ostler.core.run_state import RunState
from ostler.core.state import SessionState, fold
from ostler.core.store import SessionSummary, Store
from ostler.schema.errors import NotFound, SessionBusy
from ostler.schema.events import QuestionAsked, RunEnded, ToolDeferred, Totals, WaitReason
from ostler.schema.facts import Fact
from ostler.schema.requests import Answer, Cancel, FinishCall, Resume

_UNBLOCKING = (Answer, Cancel, FinishCall, Resume)


async def load_state(store: Store, session: str) -> SessionState:
    return fold(await store.read_opening(session), store.id)


async def open_questions(store: Store, state: SessionState, agent: str = "") -> list[OpenQuestion]:
    """The questions of the session's run and of its open children. A question that is not durable cannot be
    answered after its process has ended."""
    own = list(state.questions.values())
    if not all(asked.durable for asked in own) and await store.holder(state.id) is None:
        own = [asked for asked in own if asked.durable]
    questions = [OpenQuestion(state.id, asked, agent) for asked in own]
    for child in await children_of(store, state):
        name = child.run.started.agent if child.run else ""
        questions += await open_questions(store, child, name or "subagent")
    return questions


async def children_of(store: Store, state: SessionState) -> list[SessionState]:
    """The children of the open run whose end it has not recorded yet."""
    states = []
    for child in state.run.open_children() if state.run else ():
        with suppress(NotFound):  # the process ended before the child started
            states.append(await load_state(store, child))
    return states


async def family_of(store: Store, state: SessionState) -> list[str]:
    """The session, the sessions of its open run's children, and so on below."""
    sessions = [state.id]
    for child in await children_of(store, state):
        sessions += await family_of(store, child)
    return sessions


async def next_arrival(store: Store, state: SessionState, seen: dict[str, int]) -> None:
    """Returns when the session or its family has a request since `seen`, and updates `seen`."""
    waits = {
        session: asyncio.ensure_future(store.arrivals(session, seen.get(session, -1)))
        for session in await family_of(store, state)
    }
    try:
        await asyncio.wait(waits.values(), return_when=asyncio.FIRST_COMPLETED)
        seen.update({session: wait.result() for session, wait in waits.items() if wait.done()})
    finally:
        for wait in waits.values():
            wait.cancel()


async def is_stuck(store: Store, state: SessionState) -> bool:
    """Whether the open run waits, and nothing that it waits for has arrived."""
    if state.run is None or state.run.waiting is None:
        return False
    if any(isinstance(request, _UNBLOCKING) for request in await store.pending(state.id)):
        return False  # a request that its sender could not handle
    if state.run.waiting.reason == "paused":
        return True
    if state.run.step and any(call.must_be_judged for call in state.run.step.open_calls()):
        return False
    children = await children_of(store, state)
    if len(children) < len(state.run.open_children()):
        return False  # the session of one was deleted: it starts again
    return all([await is_stuck(store, child) for child in children])


async def facts_in(store: Store, state: SessionState) -> int:
    """The number of facts in the session and its open children, which grows when one of them moves."""
    return state.last_seq + sum([await facts_in(store, child) for child in await children_of(store, state)])


async def root_of(store: Store, state: SessionState) -> SessionState:
    """The root of the tree of open runs: the process that drives it drives all below it."""
    while state.child_of:
        try:
            parent = await load_state(store, state.child_of)
        except NotFound:
            break
        if parent.run is None or state.id not in parent.run.open_children():
            break
        state = parent
    return state


OPEN = ("running", "waiting")


class Holder(msgspec.Struct, frozen=True):
    """The process that drives a session."""

    pid: int
    host: str


class QuestionRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question that a run waits for."""

    id: str
    text: str
    kind: str
    choices: tuple[str, ...] = ()
    form: dict[str, Any] | None = None
    questionnaire: str = ""
    reason: str = ""
    secret: bool = False


class AwaitedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that a run waits for: it finishes later, or a child works on it."""

    call: str
    tool: str
    note: str = ""
    children: tuple[str, ...] = ()
    """The sessions of its children whose end this run has not recorded."""


class RunRow(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A run in a list."""

    session: str
    run: str
    status: str
    """`running`, `waiting`, or `cut` if no process drives it; otherwise how it ended."""
    cwd: str
    started_ms: int
    title: str = ""
    """The session's title, or the start of its first prompt."""
    child_of: str = ""
    depth: int = 0
    """How far it is below the first row of its tree."""
    agent: str = ""
    model: str = ""
    holder: Holder | None = None
    waits: WaitReason | None = None
    questions: tuple[QuestionRow, ...] = ()
    calls: tuple[AwaitedCall, ...] = ()
    reason: str = ""
    steps: int = 0
    cost: float | None = None
    """In dollars, with that of ended children; None if it is unknown."""
    ended_ms: int | None = None

    @property
    def is_open(self) -> bool:
        return self.status in (*OPEN, "cut")


async def list_runs(store: Store, *, ended: bool = False, limit: int | None = None) -> list[RunRow]:
    """Open runs, newest first, each with its children below it; with `ended`, at least the `limit` newest of
    all runs."""
    rows: list[RunRow] = []
    for summary in await store.sessions():
        if ended and limit and len(rows) >= limit:
            newest = sorted([row.started_ms for row in rows], reverse=True)[:limit]
            if summary.updated_ms < newest[-1]:
                break
        if not ended and summary.status not in OPEN:
            continue
        with suppress(NotFound):  # deleted meanwhile
            rows += await _runs_of(store, summary, ended)
    return list(_as_tree(rows))


async def latest_run(store: Store, session: str) -> RunRow | None:
    """The session's open run, or its last one; None if it never had one. Raises `NotFound`."""
    rows = await _runs_of(store, await store.summary(session), ended=True)
    return next((row for row in rows if row.is_open), rows[-1] if rows else None)


async def _runs_of(store: Store, summary: SessionSummary, ended: bool) -> list[RunRow]:
    rows = _ended_runs(summary, await store.read_opening(summary.id)) if ended else []
    row = await _open_run(store, summary)
    return rows if row is None else [row, *rows]


async def _open_run(store: Store, summary: SessionSummary) -> RunRow | None:
    for _ in range(2):  # a process that has just finished the run looks like one that died
        state = await load_state(store, summary.id)
        if state.run is None:
            return None
        holder = await store.holder(summary.id)
        if holder is not None or state.run.waiting is not None:
            break
    assert state.run is not None
    run, waiting = state.run, state.run.waiting
    if holder is None and state.driver != "agent":
        waiting = None  # the agent that asked has ended
    usage = run.children_totals + Totals(usage=run.usage)
    return RunRow(
        session=summary.id,
        run=run.id,
        status="waiting" if waiting else "running" if holder else "cut",
        cwd=state.cwd,
        started_ms=run.time_ms,
        title=summary.title or summary.preview,
        child_of=state.child_of,
        agent=run.started.agent,
        model=run.started.model,
        holder=Holder(holder.pid, holder.host) if holder else None,
        waits=waiting.reason if waiting else None,
        questions=tuple(map(_question_row, state.questions.values())) if waiting else (),
        calls=_calls(run, await store.read(summary.id, run.first_seq - 1)) if waiting else (),
        steps=run.steps,
        cost=usage.usage.cost,
    )


def _question_row(asked: QuestionAsked) -> QuestionRow:
    q = asked.question
    return QuestionRow(asked.id, q.text, q.kind, q.choices, q.form, q.questionnaire, q.reason, q.secret)


def _calls(run: RunState, facts: Sequence[Fact]) -> tuple[AwaitedCall, ...]:
    notes = {fact.event.call: fact.event.note for fact in facts if isinstance(fact.event, ToolDeferred)}
    return tuple(
        AwaitedCall(
            call.called.call,
            call.called.name,
            notes.get(call.called.call, ""),
            tuple(child for child in run.children_of(call.called.call) if not run.children[child].ended),
        )
        for call in (run.step.open_calls() if run.step else ())
        if call.deferred
    )


def _ended_runs(summary: SessionSummary, facts: Sequence[Fact]) -> list[RunRow]:
    ends = [(fact, fact.event) for fact in facts if isinstance(fact.event, RunEnded)]
    return [
        RunRow(
            session=summary.id,
            run=fact.run,
            status=end.status,
            cwd=summary.cwd,
            started_ms=fact.time_ms - end.own.duration_ms,
            title=summary.title or summary.preview,
            child_of=summary.child_of,
            reason=end.reason,
            steps=end.own.steps,
            cost=(end.own + end.children).usage.cost,
            ended_ms=fact.time_ms,
        )
        for fact, end in ends
        if not fact.origin  # copies count in the original session
    ]


def _as_tree(rows: Sequence[RunRow]) -> Iterator[RunRow]:
    """Newest first; children below their parent's run, in the order of their start."""
    of_session: dict[str, list[RunRow]] = {}
    below: dict[tuple[str, str], list[RunRow]] = {}
    tops = []
    parent_of = {row.session: row.child_of for row in rows}

    def generation(session: str) -> int:
        return 1 + generation(parent_of[session]) if parent_of.get(session) else 0

    # A child may start in the same millisecond as its parent.
    for row in sorted(rows, key=lambda row: (row.started_ms, generation(row.session))):
        of_session.setdefault(row.session, []).append(row)
        if parents := of_session.get(row.child_of):
            below.setdefault((row.child_of, parents[-1].run), []).append(row)
        else:
            tops.append(row)

    def with_children(row: RunRow, depth: int) -> Iterator[RunRow]:
        yield msgspec.structs.replace(row, depth=depth)
        for child in below.get((row.session, row.run), ()):
            yield from with_children(child, depth + 1)

    for top in reversed(tops):
        yield from with_children(top, 0)


async def require_no_parent_at_work(store: Store, session: str) -> None:
    """Raises `SessionBusy` for a child of an open run."""
    if not (await store.summary(session)).child_of:
        return
    root = await root_of(store, await load_state(store, session))
    if root.id != session:
        raise SessionBusy(
            f"session {session} is a child of session {root.id}, whose run is open: "
            f"`ostler cancel {root.id}` ends both"
        )


async def current_status(store: Store, summary: SessionSummary) -> SessionSummary:
    """The summary, with the status `cut` if the run is open and no process drives it."""
    if summary.status != "running" or await store.holder(summary.id) is not None:
        return summary
    return msgspec.structs.replace(summary, status="cut")
