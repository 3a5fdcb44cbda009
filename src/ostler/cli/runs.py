"""`ostler runs`: which runs are open, where, and what they wait for. `ostler follow`: one of them, live."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Iterator, Sequence

from ostler.app.console import aligned, print_json, print_stderr
from ostler.app.options import Parser, add_session, at_least_one, at_least_zero
from ostler.app.question_queue import value_text
from ostler.app.session_choice import enable_gc
from ostler.app.stores import open_store
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
        print_stderr("there are no sessions yet; `ostler -p PROMPT…` begins one")
        return 0
    return asyncio.run(_run(options))


def _runs_parser() -> Parser:
    parser = Parser(
        prog="ostler runs",
        description="Open runs of all sessions, newest first, children below their parents: running, and by "
        "which process; waiting, and for what; cut, when their process is gone.",
    )
    parser.add_argument("--all", action="store_true", help="also those that have ended")
    parser.add_argument("--limit", metavar="N", type=at_least_one, help=f"at most so many (default: {LIMIT})")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


async def _run(options: argparse.Namespace) -> int:
    limit = options.limit or LIMIT
    store = open_store()
    try:
        rows = await list_runs(store, ended=options.all, limit=limit + 1)
        known = [one.id for one in await store.sessions()] if sys.stdout.isatty() else []
    finally:
        await store.close()
    if options.json:
        for row in rows[:limit]:
            print_json(row)
        return 0
    for line in _lines(rows[:limit], short_ids(known)):
        print(line)
    if not rows:
        print_stderr(
            "nothing was run yet" if options.all else "no run is open; --all shows those that have ended"
        )
    elif len(rows) > limit:
        print_stderr("there are more; --limit shows them")
    return 0


def _lines(rows: Sequence[RunRow], short: dict[str, str]) -> Iterator[str]:
    """Session, beginning, status, what it is about, and what there is to know."""
    if not rows:
        return
    if not short:
        yield from aligned([_cells(row, row.session, moment(row.started_ms), _about(row)) for row in rows])
        return
    now, width = time.time(), shutil.get_terminal_size().columns
    table = [
        _cells(row, short[row.session], age(now - row.started_ms / 1000), cut(_about(row), _ABOUT_WIDTH))
        for row in rows
    ]
    for line in aligned([("SESSION", "AGE", "STATUS", "ABOUT", "RUN"), *table]):
        yield cut(line, width)


def _cells(row: RunRow, session: str, began: str, about: str) -> tuple[str, ...]:
    return ("  " * row.depth + session, began, row.status, about, detail(row))


def _about(row: RunRow) -> str:
    return one_line(f"{row.agent}: {row.title}" if row.agent else row.title) or "(no prompt)"


def detail(row: RunRow) -> str:
    """What a person wants to know of it, in a few words."""
    if row.status == "running" and row.holder:
        return f"process {row.holder.pid} on {row.holder.host}, {plural(row.steps, 'step')}"
    if row.status == "cut":
        return "nobody works on it"
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
"""Seconds of silence after which it is looked whether somebody still works on the run."""


def follow_command(arguments: list[str]) -> int:
    return asyncio.run(with_session(_follow_parser().parse_args(arguments), _follow))


def _follow_parser() -> Parser:
    parser = Parser(
        prog="ostler follow",
        description="Prints the open run of a session from its beginning and as it goes on, until it ends or "
        "waits; the exit code is that of the run. Messages go to standard output, the rest to standard "
        "error.",
    )
    add_session(parser)
    parser.add_argument(
        "--json", action="store_true", help="facts and live events, one JSON object a line, as with -p --json"
    )
    parser.add_argument("--after", metavar="N", type=at_least_zero, help="only what comes after fact N")
    parser.add_argument("--forever", action="store_true", help="go on with the runs that follow")
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
        if watched.see(batch) and watched.quiet:
            questions = await open_questions(store, await load_state(store, state.id))
            output.say_end(watched.quiet, state.id, questions)
        if options.forever:
            continue
        if watched.is_over:
            return exit_code(watched.quiet) if watched.quiet else 0
        if watched.is_running and await _is_cut(store, state.id, watched.seen):
            print_stderr(
                f"nobody works on the run of session {state.id} any more; "
                f"`ostler resume {state.id}` continues"
            )
            return 1
    raise AssertionError("a session is followed for ever")


class _Watched:
    """Where the run stands, as far as it was seen."""

    def __init__(self, state: SessionState, after: int) -> None:
        self._last_seq = state.last_seq
        self._is_open = state.run is not None
        self.seen = after
        self.quiet: RunEnded | RunWaiting | None = None
        if state.run is not None and self._has_all:
            self.quiet = state.run.waiting

    def see(self, batch: Sequence[Fact | Event]) -> bool:
        """Whether the run came to rest, or began to move again."""
        before = self.quiet
        for fact in batch:
            if not isinstance(fact, Fact):
                continue
            self.seen = fact.seq
            match fact.event:
                case RunEnded() | RunWaiting() as quiet:
                    self.quiet = quiet
                case events.RunStarted() | events.RunResumed():
                    self.quiet, self._is_open = None, True
        return self.quiet is not before

    @property
    def _has_all(self) -> bool:
        """Everything that there was in the beginning has been seen."""
        return self.seen >= self._last_seq

    @property
    def is_over(self) -> bool:
        return self._has_all and (self.quiet is not None or not self._is_open)

    @property
    def is_running(self) -> bool:
        return self._has_all and self.quiet is None


async def _is_cut(store: Store, session: str, seen: int) -> bool:
    return await store.holder(session) is None and await store.last_seq(session) == seen


class _Lines:
    """Prints events as JSON lines."""

    say_end = staticmethod(print_run_end)

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for event in batch:
            sys.stdout.buffer.write(
                event.line() + b"\n" if isinstance(event, Fact) else encode_lines([event])
            )
        sys.stdout.buffer.flush()
