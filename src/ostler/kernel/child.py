"""Children: what a call may ask of a run of its own, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ostler.kernel.digest import blake2b
from ostler.kernel.run_state import Used
from ostler.vocabulary.events import Limits, RunStatus, Totals
from ostler.vocabulary.messages import Message, PlainBlock

MAX_TOGETHER = 8
"""Children of one run that work at the same time; more wait their turn. Each of them may have as many."""


class HistoryPolicy(msgspec.Struct, frozen=True):
    """What a child knows of its parent's conversation: the prompts and answers of its last `runs` runs.

    The present run is the last one: with 1 the child is told what the parent was asked.
    """

    runs: int = 0
    keep: Callable[[Message], bool] | None = None
    """Is asked about each message of those runs, in place of prompts and answers only. A call is told only
    together with its result."""


class TracePolicy(msgspec.Struct, frozen=True):
    """What is seen of a child live, under its parent's call. Its own log has all of it in any case."""

    live: bool = True


class ExecutionPolicy(msgspec.Struct, frozen=True):
    """How a child works, where that differs from its parent."""

    model: str = ""
    tools: tuple[str, ...] | None = None
    """Of its parent's; a child never has more."""
    system: str = ""
    """In place of its parent's system prompt."""
    append_system: str = ""
    limits: Limits = Limits()
    """Of the child and its own children. Its parents' limits hold as well."""
    context: dict[str, dict[str, Any]] = {}
    """Rules of what it is told, over those of its parent."""
    judge: str = ""
    """The tool whose last result is the child's result, in place of its answer."""


class ChildRequest(msgspec.Struct, frozen=True):
    """What a child shall do, and how."""

    prompt: tuple[PlainBlock, ...]
    agent: str = ""
    """What it is called in the log. The policies say how it works: no file is read for it."""
    resumes: str = ""
    """The session of an earlier child, whose whole conversation this one knows."""
    history: HistoryPolicy = HistoryPolicy()
    trace: TracePolicy = TracePolicy()
    execution: ExecutionPolicy = ExecutionPolicy()


class ChildResult(msgspec.Struct, frozen=True):
    """What came of a child. `text` is its answer, or as much of one as there was when it was cut."""

    session: str
    run: str
    status: RunStatus
    text: str = ""
    reason: str = ""
    judged: dict[str, Any] | None = None
    """The `details` of the judge's result."""
    own: Totals = Totals()
    children: Totals = Totals()

    @property
    def is_whole(self) -> bool:
        return self.status == "completed"


class ChildPeek(msgspec.Struct, frozen=True):
    """How a child stands: whether only somebody else can move it, and what it and its own have used."""

    waits: bool
    used: Used


class ChildWaits(Exception):
    """A child waits for a person; its parent's call stays open until the child has ended."""

    def __init__(self, child: str) -> None:
        super().__init__(f"waits for the child {child}")
        self.child = child


def child_session(session: str, call: str, number: int) -> str:
    """Always the same for the same child: a crash cannot start it twice."""
    return "ses_" + blake2b(f"{session}/{call}/{number}".encode(), digest_size=12).hexdigest()
