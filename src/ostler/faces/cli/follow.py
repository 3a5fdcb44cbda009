"""`ostler follow`: watch a run of another process, from its facts."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence

from ostler.faces.cli.arguments import Parser, add_session, at_least_zero
from ostler.faces.cli.driving import collect_garbage_from_here
from ostler.faces.cli.exit_codes import exit_code
from ostler.faces.cli.plain_output import Notices, print_text
from ostler.faces.cli.requesting import with_session
from ostler.faces.cli.saying import say
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.runs.run_tree import open_questions, state_of
from ostler.vocabulary import events
from ostler.vocabulary.events import Event, RunEnded, RunWaiting
from ostler.vocabulary.facts import Fact, UnknownEvent
from ostler.vocabulary.messages import text_of

LOOK_AGAIN = 1.0
"""Seconds of silence after which it is looked whether somebody still works on the run."""


def run(arguments: list[str]) -> int:
    return asyncio.run(with_session(_parser().parse_args(arguments), _follow))


def _parser() -> Parser:
    parser = Parser(
        prog="ostler follow",
        description="Prints the open run of a session from its beginning and as it goes on, until it ends or "
        "waits; the exit code is that of the run. Messages go to standard output, the rest to standard "
        "error.",
    )
    add_session(parser)
    parser.add_argument("--json", action="store_true", help="the facts, one JSON object a line")
    parser.add_argument("--after", metavar="N", type=at_least_zero, help="only what comes after fact N")
    parser.add_argument("--forever", action="store_true", help="go on with the runs that follow")
    return parser


async def _follow(options: argparse.Namespace, store: Store, state: SessionState) -> int:
    collect_garbage_from_here()
    after = options.after
    if after is None:
        after = state.run.first_seq - 1 if state.run else state.last_seq
    if state.run is None and not options.forever and after >= state.last_seq:
        last = f"; the last one ended: {state.last_status}" if state.last_status else ""
        say(f"no run is open in session {state.id}{last}")
        return 0
    watched = _Watched(state, after)
    output = _Lines() if options.json else _Transcript()
    async for facts in _with_pauses(store.follow(state.id, after)):
        output.see(facts)
        if watched.see(facts) and watched.quiet:
            questions = await open_questions(store, await state_of(store, state.id))
            output.say_end(watched.quiet, state.id, questions)
        if options.forever:
            continue
        if watched.is_over:
            return exit_code(watched.quiet) if watched.quiet else 0
        if watched.is_running and await _is_cut(store, state.id, watched.seen):
            say(f"nobody works on the run of session {state.id} any more; `ostler resume {state.id}` goes on")
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

    def see(self, facts: Sequence[Fact]) -> bool:
        """Whether the run came to rest, or began to move again."""
        before = self.quiet
        for fact in facts:
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


async def _with_pauses(followed: AsyncIterator[list[Fact]]) -> AsyncIterator[list[Fact]]:
    """What is followed, with an empty batch whenever nothing came for a while."""
    coming = asyncio.ensure_future(anext(followed))
    try:
        while True:
            await asyncio.wait({coming}, timeout=LOOK_AGAIN)
            if not coming.done():
                yield []
                continue
            yield coming.result()
            coming = asyncio.ensure_future(anext(followed))
    finally:
        coming.cancel()
        await asyncio.wait({coming})


async def _is_cut(store: Store, session: str, seen: int) -> bool:
    return await store.holder(session) is None and await store.last_seq(session) == seen


class _Lines(Notices):
    """The facts as they are."""

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for fact in batch:
            if isinstance(fact, Fact):
                sys.stdout.buffer.write(fact.line() + b"\n")
        sys.stdout.buffer.flush()


class _Transcript(Notices):
    """The run for people: what was said on standard output, what was done on standard error."""

    shows_work = True

    def see(self, batch: Sequence[Fact | Event]) -> None:
        super().see(batch)
        sys.stdout.flush()

    def _see_fact(self, event: Event | UnknownEvent) -> None:
        match event:
            case events.UserMessage(hidden=False, source=source, content=content):
                say(f"{'you' if source == 'prompt' else source}: {text_of(content)}")
            case events.AssistantMessage(suppressed=False, content=content, shown=shown):
                if text := text_of(content if shown is None else shown):
                    print_text(text)
            case events.ToolResultFact(failed=str(kind), name=name, content=content) if (
                kind != "call_refused"
            ):
                say(f"{name} failed: {text_of(content)}")
            case events.QuestionAnswered(outcome="answered", answer=answer) if answer is not None:
                say(f"answered: {answer}")
            case events.QuestionAnswered(outcome=outcome):
                say(f"the question was {outcome}")
            case _:
                super()._see_fact(event)
