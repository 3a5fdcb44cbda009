"""Runs of all sessions: who works on them, what they wait for, how they ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ostler.kernel.run_state import RunState
from ostler.kernel.state import SessionState
from ostler.kernel.store import SessionSummary, Store
from ostler.runs.run_tree import state_of
from ostler.vocabulary.errors import NotFound
from ostler.vocabulary.events import RunEnded, ToolDeferred, Totals, WaitReason
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.outcomes import Question

OPEN = ("running", "waiting")
"""What the list of sessions says of one whose run is open."""


class Holder(msgspec.Struct, frozen=True):
    """The process that works on a session."""

    pid: int
    host: str


class AskedOf(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question that a run waits for."""

    id: str
    text: str
    kind: str
    choices: tuple[str, ...] = ()
    form: dict[str, Any] | None = None
    """A JSON Schema of the answer."""
    questionnaire: str = ""
    reason: str = ""
    secret: bool = False


class AwaitedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that a run waits for: it finishes later, or is a child's work."""

    call: str
    tool: str
    note: str = ""
    children: tuple[str, ...] = ()
    """The sessions of its children that have not ended, as far as this run knows."""


class RunRow(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A run as a list shows it."""

    session: str
    run: str
    status: str
    """`running`, `waiting` or `cut`, when nobody works on it; else how it ended."""
    cwd: str
    started_ms: int
    title: str = ""
    """The session's, or the beginning of its first prompt."""
    child_of: str = ""
    """The parent's session."""
    depth: int = 0
    """How far below the first row of its tree it stands."""
    agent: str = ""
    model: str = ""
    holder: Holder | None = None
    waits: WaitReason | None = None
    questions: tuple[AskedOf, ...] = ()
    calls: tuple[AwaitedCall, ...] = ()
    reason: str = ""
    steps: int = 0
    cost: float | None = None
    """In dollars, with the children's that have ended; None when it is not known."""
    ended_ms: int | None = None

    @property
    def is_open(self) -> bool:
        return self.status in (*OPEN, "cut")


async def list_runs(store: Store, *, ended: bool = False, limit: int | None = None) -> list[RunRow]:
    """Open runs, newest first, each with its children below it; with `ended`, the others as well.

    At least the `limit` newest are among them.
    """
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
    """The session's open run, or else its last; None if it never had one. Raises `NotFound`."""
    rows = await _runs_of(store, await store.summary(session), ended=True)
    return next((row for row in rows if row.is_open), rows[-1] if rows else None)


async def _runs_of(store: Store, summary: SessionSummary, ended: bool) -> list[RunRow]:
    rows = _ended_runs(summary, await store.read_opening(summary.id)) if ended else []
    row = await _open_run(store, summary)
    return rows if row is None else [row, *rows]


async def _open_run(store: Store, summary: SessionSummary) -> RunRow | None:
    for _ in range(2):  # whoever has just finished the run looks like one who has left it
        state = await state_of(store, summary.id)
        if state.run is None:
            return None
        holder = await store.holder(summary.id)
        if holder is not None or state.run.waiting is not None:
            break
    assert state.run is not None
    run, waiting = state.run, state.run.waiting
    if holder is None and state.driver != "agent":
        waiting = None  # whoever asked has ended
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
        questions=_questions(state) if waiting else (),
        calls=_calls(run, await store.read(summary.id, run.first_seq - 1)) if waiting else (),
        steps=run.steps,
        cost=usage.usage.cost,
    )


def _questions(state: SessionState) -> tuple[AskedOf, ...]:
    return tuple(_asked_of(asked.id, asked.question) for asked in state.questions.values())


def _asked_of(id: str, question: Question) -> AskedOf:
    return AskedOf(
        id,
        question.text,
        question.kind,
        question.choices,
        question.form,
        question.questionnaire,
        question.reason,
        question.secret,
    )


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
    return [
        _ended_run(summary, fact, fact.event)
        for fact in facts
        if isinstance(fact.event, RunEnded) and not fact.origin  # a copy's was counted where it was made
    ]


def _ended_run(summary: SessionSummary, fact: Fact, end: RunEnded) -> RunRow:
    return RunRow(
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


def _as_tree(rows: Sequence[RunRow]) -> Iterator[RunRow]:
    """Newest first; children in the order of their beginning, below their parent's run."""
    of_session: dict[str, list[RunRow]] = {}
    below: dict[tuple[str, str], list[RunRow]] = {}
    tops = []
    parent_of = {row.session: row.child_of for row in rows}

    def generation(session: str) -> int:
        return 1 + generation(parent_of[session]) if parent_of.get(session) else 0

    # A child may begin in the same millisecond as its parent.
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
