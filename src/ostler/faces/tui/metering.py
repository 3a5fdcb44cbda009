"""Reads the meters: what a session costs and holds, what is left of its limits, and where it works."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from ostler.faces.tui.activity import Activity
from ostler.faces.tui.status import Meters, elapsed, short
from ostler.runs.contexts import KeptContext
from ostler.runs.costs import dollars
from ostler.runs.session import Session
from ostler.vocabulary.events import ChildEnded, ChildUsed, Limits, Totals

BRANCH_SECONDS = 2.0
"""How long a branch is believed before its file is looked at again."""
PAGE = 500
"""Facts that are looked at together."""


class MeterReader:
    """For one session. What it costs to look is small: it is read for each frame."""

    def __init__(self, session: Session, activity: Activity) -> None:
        self._session = session
        self._activity = activity
        self._by_children = Totals()
        """What those used that have ended, and what other vendors' agents told."""
        self._branch = BranchName(session.harness.cwd)
        self._windows: dict[str, int] = {}
        self._opened_at = session.state.last_seq

    async def look_back(self) -> None:
        """Counts the children of earlier runs: their use is in no state but in the facts alone."""
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

    def read(self, waiting: int = 0, notes: tuple[str, ...] = ()) -> Meters:
        session = self._session
        state, harness = session.state, session.harness
        usage, run = state.usage, state.run
        cost = None if usage.cost is None else usage.cost + self._by_children.least_cost
        tokens = usage.total_tokens + self._by_children.usage.total_tokens
        run_cost, budget = 0.0, ""
        if run is not None and session.budget is not None:
            used, counted = session.budget.used(), run.used()
            run_cost = used.cost
            tokens += used.tokens - counted.tokens  # of children that are at work
            cost = None if cost is None else cost + used.cost - counted.cost
            seconds = self._activity.run_seconds - run.still_ms / 1000
            budget = _left(run.started.limits, used.steps, used.tokens, used.cost, seconds)
        model = harness.model.name
        return Meters(
            model=model,
            cwd=harness.cwd,
            branch=self._branch.read(),
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
        )

    def _window(self, model: str) -> int:
        if model not in self._windows:
            context = self._session.harness.context
            self._windows[model] = context.window(model) if isinstance(context, KeptContext) else 0
        return self._windows[model]


def _left(limits: Limits, steps: int, tokens: int, cost: float, seconds: float) -> str:
    """Of the limit that is nearest."""
    shares = [
        (used / limit, said(max(0, limit - used)))
        for limit, used, said in (
            (limits.steps, steps, lambda left: f"{left:.0f} step{'' if left == 1 else 's'}"),
            (limits.tokens, tokens, lambda left: f"{short(int(left))} tokens"),
            (limits.cost, cost, dollars),
            (limits.seconds, seconds, elapsed),
        )
        if limit
    ]
    return f"{max(shares)[1]} left" if shares else ""


class BranchName:
    """The branch that is checked out, from git's own file: no process is started."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._name = ""
        self._looked = -BRANCH_SECONDS

    def read(self) -> str:
        now = time.monotonic()
        if now - self._looked >= BRANCH_SECONDS:
            self._looked, self._name = now, branch_of(self._cwd)
        return self._name


def branch_of(cwd: Path) -> str:
    """The branch, or the beginning of the commit where there is none; empty outside of a repository."""
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
