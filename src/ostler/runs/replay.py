"""Replay: a recorded session runs again, with the model's side from its log and without a network.

Each run starts on the recorded facts before it, so whatever came from outside between two runs (a moved
leaf, other messages, a fork) needs no replay. In the run, the loop is the real one. What comes from outside
comes from the log: the model's answers and failures, what was said between steps, answers to questions,
the moment of a cancellation. Each request and each tool result is compared as it arises, and the first
difference ends the replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast, get_args

import msgspec

from ostler.kernel.cancel import CancelToken
from ostler.kernel.harness import Harness
from ostler.kernel.journal import World, open_journal
from ostler.kernel.loop import Loop
from ostler.kernel.model import ReasoningLevel
from ostler.kernel.processes import current_process
from ostler.kernel.questions import Questions
from ostler.kernel.state import SessionState, fold
from ostler.log.memory import MemoryStore
from ostler.runs.replay_difference import Difference
from ostler.runs.replay_recording import RecordedRun, Recording, recorded_runs
from ostler.runs.replay_run import Judged, RunReplay
from ostler.runs.replay_sides import ReplayedModel, ReplayedTool, ReplayHooks
from ostler.tools.left_running import end_left_running
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.ids import new_id


class Replayed(msgspec.Struct, frozen=True):
    """What a replay came to: how much of it was the same, and the first thing that was not."""

    runs: int
    requests: int
    exact: int
    """Requests that were the same to the byte, with all that a log does not hold: the system prompt, the
    tools' descriptions, the settings of the model."""
    results: int
    difference: Difference | None = None

    @property
    def identical(self) -> bool:
        return self.difference is None


class Stage(msgspec.Struct, frozen=True):
    """What a recording is replayed with."""

    harness: Harness
    live: bool = False
    """Tools really run; else what they returned is the log's word."""
    own: bool = False
    """The harness is the agent's that is tested: its tools are offered, its hooks count. Else nobody knows
    which hooks there were: the tools are those that were offered, and what hooks did is the log's word."""
    before_run: Callable[[Harness, RecordedRun], None] | None = None
    """Makes the harness fit for a run."""


class _Tape(MemoryStore):
    """A store whose one session can begin anew with other facts. Its blobs stay."""

    def rewind(self, facts: Sequence[Fact]) -> None:
        self._sessions.clear()
        self._add(facts)


async def replay(recording: Recording, stage: Stage) -> Replayed:
    """Replays every run, until one differs. Raises `UsageError` for a session that cannot be replayed."""
    # Never the session's own id: tools' processes are found, and ended, by the session they belong to.
    session = new_id("ses")
    facts = [_moved(fact, session) for fact in recording.facts]
    runs = recorded_runs(recording.facts)
    tape = _Tape()
    await tape.import_session(facts[:1], recording.blobs)
    requests = exact = results = 0
    try:
        for run in runs:
            tape.rewind(facts[: run.seed])
            replayed = await _replay_run(run, tape, session, stage)
            requests, exact = requests + replayed.requests, exact + replayed.exact
            results += replayed.results
            if replayed.difference:
                return Replayed(run.number, requests, exact, results, replayed.difference)
    finally:
        await end_left_running(stage.harness.memory)
        if stage.live:
            World().kill_processes_of(session)
    return Replayed(len(runs), requests, exact, results)


async def _replay_run(run: RecordedRun, tape: _Tape, session: str, stage: Stage) -> RunReplay:
    if stage.before_run:
        stage.before_run(stage.harness, run)
    own, cancel = stage.harness, CancelToken()
    journal = await open_journal(tape, await tape.acquire(session, current_process()), World())
    then = fold(await tape.read_opening(session))
    folders = (run.event.cwd, str(own.cwd))
    judged: set[Judged] = {"results", "hooks"} if stage.own else {"results"} if stage.live else set()
    replaying = RunReplay(run, then, journal, cancel, folders, judged)
    model = ReplayedModel(replaying)
    harness = msgspec.structs.replace(
        own,
        model=model,
        hooks=ReplayHooks(own.hooks, replaying, model, own_counts=stage.own),
        fallbacks=(),
        make_model=None,
        limits=run.limits,
        reasoning=_reasoning(then) or own.reasoning,
        asker=replaying.answer if run.questions else None,
        waits_for_answers=False,
    )
    offered = {name for step in run.steps.values() for name in step.tools}
    names = own.tools if stage.own else offered
    harness.use([ReplayedTool(name, own.tools.get(name), replaying, live=stage.live) for name in names])
    loop = Loop(journal, harness, cancel=cancel, questions=Questions())
    loop.steering = replaying
    replaying.finish(await loop.advance())
    return replaying


def _reasoning(state: SessionState) -> ReasoningLevel | None:
    """What somebody had set in the session before the run."""
    level = state.settings.reasoning
    return cast(ReasoningLevel, level) if level in get_args(ReasoningLevel) else None


def _moved(fact: Fact, session: str) -> Fact:
    """The same fact in another session."""
    return Fact(
        fact.seq,
        session,
        fact.run,
        fact.time_ms,
        fact.body,
        type=fact.type,
        parent=fact.parent,
        origin=fact.origin,
    )
