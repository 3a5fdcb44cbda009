"""The status row: activity, model, cost, context and limits of a session."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.context.session_context import SessionContext
from ostler.core.run_state import RunState
from ostler.history.costs import dollars
from ostler.permissions.rules import preview
from ostler.schema import events
from ostler.schema.events import ChildEnded, ChildUsed, Limits, Totals
from ostler.schema.text import cells, cut, plural
from ostler.sessions.session import Session
from ostler.store.paths import below_home

if TYPE_CHECKING:
    from ostler.tui.transcript import TranscriptView

_SIDE_CALLS = {"compaction": "compacting", "summary": "compacting", "title": "choosing a title"}
_WAITS = {"question": "waiting for you", "pending": "waiting for a result", "paused": "paused"}


class Activity:
    """The activity of a session, from its events; empty without a run."""

    def __init__(self, transcript: TranscriptView, now: Callable[[], float] = time.monotonic) -> None:
        self._transcript = transcript
        self._now = now
        self._words = ""
        self._before = ""
        """The words before a side call."""
        self._retry_at: float | None = None
        self._asked: set[str] = set()
        self._stage_since = self._run_since = now()

    @property
    def seconds(self) -> float:
        """Seconds since the present stage began."""
        return self._now() - self._stage_since

    @property
    def run_seconds(self) -> float:
        return self._now() - self._run_since

    @property
    def words(self) -> str:
        if self._asked:
            return _WAITS["question"]
        if self._retry_at is not None:
            left = math.ceil(self._retry_at - self._now())
            return f"retrying in {left} s" if left > 0 else "retrying"
        return self._words and (self._call_words() or self._words)

    def _call_words(self) -> str:
        """The calls that are written or running."""
        calls = self._transcript.calls
        running = [call.item for call in calls if call.state == "running"]
        if len(running) > 1:
            return f"running {len(running)} calls"
        for item in running:
            arguments = item.arguments or {}
            title = item.display.title_for(arguments) if item.display else ""
            return f"running {item.name} {title or preview(item.name, arguments)}"
        for call in calls:
            if call.state == "writing":
                return f"writing {call.arguments.path or f'a call of {call.item.name}'}"
        return ""

    def join(self, run: RunState, seconds: float, asked: Iterable[str]) -> None:
        """Joins a run that has been going for so many seconds."""
        self._run_since = self._now() - seconds
        self._asked = set(asked)
        self._begin(_WAITS[run.waiting.reason] if run.waiting else "working")
        self._stage_since = self._run_since

    def take(self, event: object) -> None:
        match event:
            case events.TextDelta():
                self._go_on("answering")
            case events.ReasoningDelta():
                self._go_on("thinking")
            case events.RunStarted():
                self._run_since = self._now()
                self._begin("starting")
            case events.ModelCalled(model=model, purpose=purpose):
                if purpose == "step":
                    self._begin(f"asking {model}")
                elif purpose in _SIDE_CALLS:
                    self._before = self._words
                    self._begin(_SIDE_CALLS[purpose])
            case events.UsageReported(purpose=purpose) if purpose in _SIDE_CALLS:
                self._begin(self._before)  # empty between two runs
            case events.ToolInputStarted() | events.ToolStarted():
                self._begin("working")
            case events.ModelFailed(retry_in=float(seconds)):
                self._begin("retrying")
                self._retry_at = self._now() + seconds
            case events.QuestionAsked(id=question):
                self._asked.add(question)
                self._stage_since = self._now()
            case events.QuestionAnswered(id=question):
                self._asked.discard(question)
                self._stage_since = self._now()
            case events.RunWaiting(reason=reason):
                self._begin(_WAITS[reason])
            case events.RunResumed():
                self._begin("continuing")
            case events.RunEnded():
                self._asked.clear()
                self._begin("")

    def _go_on(self, words: str) -> None:
        if words != self._words:
            self._begin(words)

    def _begin(self, words: str) -> None:
        self._words, self._stage_since, self._retry_at = words, self._now(), None


SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FULL, _NEARLY_FULL = 0.9, 0.7
_UNUSUAL = {"read-only": "read-only", "edit": "edits without asking", "full": "asks nothing"}
"""Profiles that are shown; `ask` is the default."""

_LONGEST_CWD = 30
"""Cells of a path, at most; of a longer one the end is shown."""


class Meters(msgspec.Struct, frozen=True):
    """What the status shows."""

    model: str
    cwd: Path
    branch: str = ""
    reasoning: str = ""
    activity: str = ""
    """The activity; empty when idle."""
    seconds: float = 0.0
    """Seconds since it began."""
    run_seconds: float = 0.0
    run_cost: float = 0.0
    """Cost of the run, with its children."""
    tokens: int = 0
    """Tokens of the session and its children, input and output."""
    cost: float | None = 0.0
    context: int = 0
    """Tokens of the last context."""
    window: int = 0
    """The context window; 0 if unknown."""
    budget: str = ""
    """What is left of the nearest limit."""
    waiting: int = 0
    """Queued prompts."""
    notes: tuple[str, ...] = ()
    """Notes of extensions."""
    permissions: str = ""
    """The permission profile; empty if another process decides."""


class Part(msgspec.Struct, frozen=True):
    text: str
    slot: str = "muted"
    """A slot of the theme."""
    give_way: int = 0
    """Without room, parts with the highest number are dropped first."""


def short(tokens: int) -> str:
    """`42`, `2.7k`, `35k`, `1.1M`."""
    if tokens < 1_000:
        return str(tokens)
    number, unit = (tokens / 1_000, "k") if tokens < 1_000_000 else (tokens / 1_000_000, "M")
    return f"{number:.0f}{unit}" if number >= 10 else f"{number:.1f}{unit}"


def elapsed(seconds: float) -> str:
    """`4 s`, `2:05`, `1:02:05`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def activity_parts(meters: Meters, frame: int, hint: str = "") -> list[Part]:
    """The row above the input line during a run."""
    if not meters.activity:
        return []
    spinner = SPINNER[frame % len(SPINNER)]
    parts = [Part(f"{spinner} {meters.activity} · {elapsed(meters.seconds)}", "accent")]
    run = [elapsed(meters.run_seconds)] if meters.run_seconds - meters.seconds >= 1 else []
    run += [dollars(meters.run_cost)] if meters.run_cost else []
    if run:
        parts.append(Part(f"run {' · '.join(run)}", "muted", 1))
    return [*parts, Part(hint, "very_muted", 2)] if hint else parts


def status_parts(meters: Meters) -> list[Part]:
    """The status row, from left to right."""
    cwd = below_home(meters.cwd) or str(meters.cwd)
    parts = [Part(cwd if cells(cwd) <= _LONGEST_CWD else f"…/{meters.cwd.name}", "muted", 3)]
    if meters.branch:
        parts.append(Part(meters.branch, "muted", 5))
    parts += [Part(note, "info", 6) for note in meters.notes]
    thinks = f" · {meters.reasoning}" if meters.reasoning not in ("", "off") else ""
    parts.append(Part(f"{meters.model}{thinks}", "secondary", 1))
    if meters.permissions in _UNUSUAL:
        parts.append(Part(_UNUSUAL[meters.permissions], "warning", 3))
    if meters.waiting:
        parts.append(Part(f"{meters.waiting} waiting", "warning", 2))
    if meters.tokens:
        price = "" if meters.cost is None else f" · {dollars(meters.cost)}"
        parts.append(Part(f"{short(meters.tokens)}{price}", "muted", 4))
    if meters.window:
        share = meters.context / meters.window
        slot = "error" if share >= _FULL else "warning" if share >= _NEARLY_FULL else "muted"
        parts.append(Part(f"{share:.0%} of {short(meters.window)}", slot, 2))
    if meters.budget:
        parts.append(Part(meters.budget, "warning", 2))
    return parts


def fitting(parts: list[Part], width: int, between: str = "  ") -> list[Part]:
    """The parts that fit; the last one is cut."""
    parts = list(parts)
    while len(parts) > 1 and cells(between.join(part.text for part in parts)) > width:
        parts.remove(max(reversed(parts), key=lambda part: part.give_way))
    if parts and cells(parts[0].text) > width:
        parts[0] = msgspec.structs.replace(parts[0], text=cut(parts[0].text, width))
    return parts


BRANCH_SECONDS = 2.0
"""Seconds before the git branch is read again."""

PAGE = 500
"""Facts that are read at once."""


class MeterReader:
    """Reads the meters of a session; cheap, since every frame does."""

    def __init__(self, session: Session, activity: Activity) -> None:
        self._session = session
        self._activity = activity
        self._by_children = Totals()
        """Usage of finished children and of driven agents."""
        self._branch, self._branch_read_at = "", -BRANCH_SECONDS
        self._windows: dict[str, int] = {}
        self._opened_at = session.state.last_seq

    async def count_earlier_usage(self) -> None:
        """Counts the usage of children of earlier runs, which only the facts have."""
        store, after = self._session.journal.store, 0
        while after < self._opened_at:
            facts = await store.read(self._session.id, after, min(PAGE, self._opened_at - after))
            if not facts:
                return
            after = facts[-1].seq
            for fact in facts:
                if fact.type in ("child_used", "child_ended") and not fact.origin:
                    self.take(fact.event)
            await asyncio.sleep(0)  # keys come first

    def take(self, event: object) -> None:
        if isinstance(event, ChildEnded):
            self._by_children += event.own + event.children
        elif isinstance(event, ChildUsed):
            self._by_children += event.totals

    def read(self, waiting: int = 0, notes: tuple[str, ...] = (), permissions: str = "") -> Meters:
        session = self._session
        state, harness = session.state, session.harness
        usage, run = state.usage, state.run
        cost = None if usage.cost is None else usage.cost + self._by_children.least_cost
        tokens = usage.total_tokens + self._by_children.usage.total_tokens
        run_cost, budget = 0.0, ""
        if run is not None and session.budget is not None:
            used, counted = session.budget.used(), run.used()
            run_cost = used.cost
            tokens += used.tokens - counted.tokens  # of running children
            cost = None if cost is None else cost + used.cost - counted.cost
            seconds = self._activity.run_seconds - run.idle_ms / 1000
            budget = _left(run.started.limits, used.steps, used.tokens, used.cost, seconds)
        model = harness.model.name
        return Meters(
            model=model,
            cwd=harness.cwd,
            branch=self._current_branch(),
            reasoning=harness.reasoning or "",
            activity=self._activity.words,
            seconds=self._activity.seconds,
            run_seconds=self._activity.run_seconds,
            run_cost=run_cost,
            tokens=tokens,
            cost=cost,
            context=state.context_tokens,
            window=self._window(model) if state.context_tokens else 0,
            budget=budget,
            waiting=waiting,
            notes=notes,
            permissions=permissions,
        )

    def _current_branch(self) -> str:
        if (now := time.monotonic()) - self._branch_read_at >= BRANCH_SECONDS:
            self._branch_read_at, self._branch = now, branch_of(self._session.harness.cwd)
        return self._branch

    def _window(self, model: str) -> int:
        if model not in self._windows:
            context = self._session.harness.context
            self._windows[model] = context.window(model) if isinstance(context, SessionContext) else 0
        return self._windows[model]


def _left(limits: Limits, steps: int, tokens: int, cost: float, seconds: float) -> str:
    """What is left of the nearest limit."""
    shares = [
        (used / limit, describe(max(0, limit - used)))
        for limit, used, describe in (
            (limits.steps, steps, lambda left: plural(round(left), "step")),
            (limits.tokens, tokens, lambda left: f"{short(int(left))} tokens"),
            (limits.cost, cost, dollars),
            (limits.seconds, seconds, elapsed),
        )
        if limit
    ]
    return f"{max(shares)[1]} left" if shares else ""


def branch_of(cwd: Path) -> str:
    """The checked-out branch, or the short commit, from git's HEAD file; empty outside a repository."""
    for folder in (cwd, *cwd.parents):
        git = folder / ".git"
        try:
            if git.is_file():  # of a worktree, or of a submodule
                git = folder / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            head = (git / "HEAD").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            continue
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:7]
    return ""
