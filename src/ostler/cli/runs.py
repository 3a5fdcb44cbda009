"""`ostler runs` lists runs and what they wait for; `ostler follow` prints one as it happens."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ostler.app.console import aligned, print_json, print_lines, print_stderr
from ostler.app.options import Parser, add_json, add_session, at_least_one, at_least_zero
from ostler.app.question_queue import value_text
from ostler.app.session_choice import enable_gc
from ostler.app.stores import NO_SESSIONS, opened_store
from ostler.cli.control import with_session
from ostler.cli.output import ConsoleOutput, print_run_end
from ostler.cli.session_runner import exit_code
from ostler.cli.sessions import moment
from ostler.core.state import SessionState
from ostler.core.store import Store
from ostler.history.costs import priced
from ostler.schema import events
from ostler.schema.events import Event, RunEnded, RunWaiting
from ostler.schema.facts import Fact, encode_lines
from ostler.schema.text import age, cut, one_line, plural, short_ids
from ostler.sessions.live_socket import DeltaFilter, Relay
from ostler.sessions.run_tree import RunRow, list_runs, load_state, open_questions
from ostler.store.paths import store_file

LIMIT = 20
_ABOUT_WIDTH = 28


def runs_command(arguments: list[str]) -> int:
    options = _runs_parser().parse_args(arguments)
    if not store_file().exists():
        print_stderr(NO_SESSIONS)
        return 0
    return asyncio.run(_run(options))


def _runs_parser() -> Parser:
    parser = Parser(
        prog="ostler runs",
        description="Lists the open runs of all sessions, newest first, with subagents below their parents. "
        "A run is running (in which process), waiting (for what), or cut: its process is gone.",
    )
    parser.add_argument("--all", action="store_true", help="also list runs that have ended")
    parser.add_argument("--limit", metavar="N", type=at_least_one, help=f"list at most N (default: {LIMIT})")
    add_json(parser)
    return parser


async def _run(options: argparse.Namespace) -> int:
    limit = options.limit or LIMIT
    async with opened_store() as store:
        rows = await list_runs(store, ended=options.all, limit=limit + 1)
        ids = [one.id for one in await store.sessions()] if sys.stdout.isatty() else []
    if options.json:
        print_json(*rows[:limit])
        return 0
    print_lines(_lines(rows[:limit], short_ids(ids)), fits=True)
    if not rows:
        print_stderr(
            "there are no runs yet" if options.all else "no run is open; --all lists those that ended"
        )
    elif len(rows) > limit:
        print_stderr("there are more; --limit shows them")
    return 0


def _lines(rows: Sequence[RunRow], short: dict[str, str]) -> Iterator[str]:
    """Session, start, status, prompt and details; with `short` ids, for a terminal."""
    if not rows or not short:
        return aligned([_cells(row, row.session, moment(row.started_ms), _about(row)) for row in rows])
    now = time.time()
    table = [
        _cells(row, short[row.session], age(now - row.started_ms / 1000), cut(_about(row), _ABOUT_WIDTH))
        for row in rows
    ]
    return aligned([("SESSION", "AGE", "STATUS", "ABOUT", "RUN"), *table])


def _cells(row: RunRow, session: str, started: str, about: str) -> tuple[str, ...]:
    return ("  " * row.depth + session, started, row.status, about, detail(row))


def _about(row: RunRow) -> str:
    return one_line(f"{row.agent}: {row.title}" if row.agent else row.title) or "(no prompt)"


def detail(row: RunRow) -> str:
    """What the run does or waits for, or how it ended."""
    if row.status == "running" and row.holder:
        return f"process {row.holder.pid} on {row.holder.host}, {plural(row.steps, 'step')}"
    if row.status == "cut":
        return "its process is gone"
    if row.status == "waiting":
        return one_line("; ".join(_awaited(row)))
    why = f": {one_line(row.reason)}" if row.reason not in ("", row.status) else ""
    return f"{plural(row.steps, 'step')}, {priced(row.cost)}{why}"


def _awaited(row: RunRow) -> Iterator[str]:
    if row.waits == "paused":
        yield "paused"
    for question in row.questions:
        yield f"asks: {value_text(question)}"
    for call in row.calls:
        children = ", ".join(call.children)
        yield f"waits for {children or call.note or 'a call that finishes later'} ({call.tool})"


LOOK_AGAIN = 1.0
"""Seconds without events after which `follow` checks that a process still runs the run."""


def follow_command(arguments: list[str]) -> int:
    return asyncio.run(with_session(_follow_parser().parse_args(arguments), _follow))


def _follow_parser() -> Parser:
    parser = Parser(
        prog="ostler follow",
        description="Prints the open run of a session from its start, as it happens, until it ends or waits. "
        "Messages go to standard output, everything else to standard error. The exit code is the run's.",
    )
    add_session(parser)
    add_json(parser, "print facts and live events, one JSON object per line, as -p --json does")
    parser.add_argument("--after", metavar="N", type=at_least_zero, help="print only what follows fact N")
    parser.add_argument("--forever", action="store_true", help="also follow the runs after this one")
    return parser


async def _follow(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    enable_gc()
    after = options.after
    if after is None:
        after = state.run.first_seq - 1 if state.run else state.last_seq
    if state.run is None and not options.forever and after >= state.last_seq:
        last = f"; the last one ended: {state.last_status}" if state.last_status else ""
        print_stderr(f"no run is open in session {state.id}{last}")
        return 0
    watched = _Watched(state, after)
    output = _Lines() if options.json else ConsoleOutput("everything")
    relay, fresh = Relay(store, state.id, after, look_again=LOOK_AGAIN), DeltaFilter()
    problem = ""
    async for batch in relay.batches():
        output.see(fresh.among(batch))
        if relay.problem and relay.problem != problem:
            problem = relay.problem
            print_stderr(f"{problem}: only facts are shown")
        if watched.see(batch) and watched.outcome:
            questions = await open_questions(store, await load_state(store, state.id))
            print_run_end(watched.outcome, state.id, questions, Path(state.cwd))
        if options.forever:
            continue
        if watched.is_over:
            return exit_code(watched.outcome) if watched.outcome else 0
        is_held = not watched.is_running or await store.holder(state.id) is not None
        if not is_held and await store.last_seq(state.id) == watched.seen:
            print_stderr(f"the process of the run is gone; `ostler resume {state.id}` continues the run")
            return 1
    raise AssertionError("`follow` only ends with a run")


class _Watched:
    """The state of the followed run."""

    def __init__(self, state: SessionState, after: int) -> None:
        self._last_seq = state.last_seq
        self._is_open = state.run is not None
        self.seen = after
        self.outcome: RunEnded | RunWaiting | None = None
        if state.run is not None and self._has_all:
            self.outcome = state.run.waiting

    def see(self, batch: Sequence[Fact | Event]) -> bool:
        """Whether the run ended, began to wait, or continues."""
        before = self.outcome
        for fact in batch:
            if not isinstance(fact, Fact):
                continue
            self.seen = fact.seq
            match fact.event:
                case RunEnded() | RunWaiting() as outcome:
                    self.outcome = outcome
                case events.RunStarted() | events.RunResumed():
                    self.outcome, self._is_open = None, True
        return self.outcome is not before

    @property
    def _has_all(self) -> bool:
        """Everything that was stored at the start has been seen."""
        return self.seen >= self._last_seq

    @property
    def is_over(self) -> bool:
        return self._has_all and (self.outcome is not None or not self._is_open)

    @property
    def is_running(self) -> bool:
        return self._has_all and self.outcome is None


class _Lines:
    """Prints events as JSON lines."""

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for event in batch:
            line = event.line() + b"\n" if isinstance(event, Fact) else encode_lines([event])
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
