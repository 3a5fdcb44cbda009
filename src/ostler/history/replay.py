"""Replay: runs a recorded session again, without a network.

Each run starts with the recorded facts before it. The loop is the real one; its input comes from the log: the
model's answers and failures, steers, answers to questions, the moment of a cancellation. Each request and
each tool result is compared when it arises, and the first difference ends the replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast, get_args

import msgspec

from ostler.core.budget import Budget
from ostler.core.cancellation import CancelToken
from ostler.core.children import SpawnedChildren
from ostler.core.harness import Children, Harness, TreePosition
from ostler.core.hooks import FinishedCall
from ostler.core.journal import Journal, World, open_journal
from ostler.core.loop import Loop
from ostler.core.model import ModelRequest, ReasoningLevel
from ostler.core.processes import current_process
from ostler.core.questions import Questions
from ostler.core.state import SessionState, fold
from ostler.history.recording import Difference, RecordedRun, Recording, What, masked, recorded_runs
from ostler.history.replay_harness import ReplayedModel, ReplayedTool, ReplayHooks
from ostler.models.scripted import RecordedAnswer
from ostler.schema import events
from ostler.schema.errors import CallRefused
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.ids import new_id
from ostler.schema.outcomes import Failed, FinalOutcome, Ok, failed
from ostler.schema.requests import AnyRequest, Steer
from ostler.store.memory import MemoryStore
from ostler.store.portable import as_own
from ostler.tools.child_process import stop_background

Judged = Literal["results", "hooks"]
"""What a replay compares besides requests: the results of tools that ran, and the effect of hooks."""

FROM_OUTSIDE = ("tool_cancelled", "tool_interrupted")
"""Failures of calls that were cancelled or whose process died: a replayed tool would not fail so."""


class RunReplay:
    """Follows the loop through one recorded run. `difference` is the first one, if there is any.

    A run that was cut is cancelled at the end of its recording. Calls that had not begun by then are not
    compared.
    """

    def __init__(
        self,
        run: RecordedRun,
        then: SessionState,
        journal: Journal,
        cancel: CancelToken,
        folders: tuple[str, str],
        judged: set[Judged],
    ) -> None:
        self.run = run
        self.difference: Difference | None = None
        self.requests = self.exact = self.results = 0
        self.is_over = False
        self._then = then
        """The recorded state at the request that is being compared."""
        self._applied = 0
        self._is_steady = True
        """The run's settings did not change: what the log does not hold is the same in all its requests."""
        self._journal = journal
        self._folders = folders
        self._judged = judged
        self._cancel = cancel
        self._from_log: set[str] = set()
        self._asked_about: dict[str, int] = {}
        self._left = len(run.answers) + sum(not run.was_cut(call) for call in run.results)
        self._steers = dict(run.steers)

    # --- the model's side ---------------------------------------------------------------------------

    @property
    def model_name(self) -> str:
        """The name of the model whose recorded answer is next."""
        return self._next_answer.called.model if self._next_answer else self.run.event.model

    def ask(self, request: ModelRequest) -> RecordedAnswer | None:
        """The recorded answer if the request is the recorded one; None ends the replay of this run."""
        answer = self._next_answer
        if answer is not None:
            self._compare_request(request, answer)
            if self.difference is None:
                self.requests += 1
                if answer.end is not None:
                    return answer
        # Limits belong to a process, and the one that reached a limit may not have begun the run.
        elif self.run.ends_itself and self.run.ended and self.run.ended.status != "limit":
            replayed = _request(self._journal.state, request)
            self._differ_at_end("one more request than was recorded", replayed)
        self._stop()
        return None

    def count(self) -> None:
        """Counts one recorded answer or result as replayed."""
        self._left -= 1
        if not self._left and not self.run.ends_itself:
            self._stop()

    def retries(self) -> bool:
        """Whether the recorded run tried again after the last failure."""
        end = self.run.answers[self.requests - 1].end
        return isinstance(end, events.ModelFailed) and end.retry_in is not None

    @property
    def _next_answer(self) -> RecordedAnswer | None:
        return self.run.answers[self.requests] if self.requests < len(self.run.answers) else None

    def _compare_request(self, request: ModelRequest, answer: RecordedAnswer) -> None:
        called = answer.called
        while self._applied < len(self.run.facts) and self.run.facts[self._applied].seq <= answer.fact:
            fact = self.run.facts[self._applied]
            self._then.apply(fact)
            self._is_steady = self._is_steady and fact.type != "settings_changed"
            self._applied += 1
        if request.digest() == called.digest:
            self.exact += 1
            return
        now, then = self._journal.state, self._then
        recorded, replayed = _request(then), _request(now, request)
        if "hooks" in self._judged and called.messages != len(request.transcript):
            recorded["messages told"], replayed["messages told"] = called.messages, len(request.transcript)
        is_same = then.transcript.digest() == now.transcript.digest()
        if not is_same or any(recorded[name] != replayed[name] for name in recorded if name != "messages"):
            self._differ("request", "the request", answer.fact, recorded, replayed)
        elif self.requests and self.exact == self.requests and self._is_steady:
            text = "the request, in what the log does not hold (system prompt, descriptions), or the log"
            digests = {"digest": called.digest}, {"digest": request.digest()}
            self._differ("request", text, answer.fact, *digests)

    # --- the tools' side ----------------------------------------------------------------------------

    def may_run(self, call: str) -> bool:
        """Whether the tool may run; otherwise the log has its result."""
        recorded = self.run.results.get(call)
        return recorded is not None and recorded.result.failed not in FROM_OUTSIDE

    def from_log(self, call: str) -> FinalOutcome:
        """A placeholder for the recorded result, which `compare_result` puts in its place."""
        recorded = self.run.results.get(call)
        if recorded is None:
            return failed("the recording ends before this result")
        self._from_log.add(call)
        result = recorded.result
        if result.failed is None:
            return Ok(summary=result.summary, ends_run=result.ends_run)
        return Failed(result.failed, summary=result.summary, ends_run=result.ends_run)

    def compare_result(self, finished: FinishedCall) -> FinishedCall:
        """The result of a tool that ran, after comparing it; else the recorded result."""
        recorded = self.run.results.get(finished.call)
        if recorded is None:
            return finished
        result = recorded.result
        from_log = msgspec.structs.replace(
            finished, content=result.content, failed=result.failed, details=result.details
        )
        if self.is_over or self.run.was_cut(finished.call):
            return from_log
        if finished.call in self._from_log or "results" not in self._judged:
            finished = from_log
        elif (finished.content, finished.failed) != (result.content, result.failed):
            then, now = _result(result), _result(finished)
            text = f"the result of {finished.name}"
            self._differ("result", text, recorded.fact, then, now, finished.call, finished.name)
        if self.difference is None:
            self.results += 1
            self.count()
        return finished

    # --- people's side ------------------------------------------------------------------------------

    def take(self) -> list[Steer]:
        """The recorded steers before the next step."""
        run = self._journal.state.run
        messages = self._steers.pop(run.steps + 1, []) if run else []
        return [Steer(id=message.request, content=message.content) for message in messages]

    async def answer(self, asked: events.QuestionAsked) -> Any:
        """The recorded answer to the next question about this call."""
        recorded = self.run.questions.get(asked.call, [])
        number = self._asked_about.get(asked.call, 0)
        self._asked_about[asked.call] = number + 1
        answered = recorded[number].answered if number < len(recorded) else None
        if answered is None:
            raise CallRefused("the log has no answer to this question")
        if answered.outcome != "answered":
            raise CallRefused(answered.answer if isinstance(answered.answer, str) else "")
        return answered.answer

    # --- the end ------------------------------------------------------------------------------------

    def finish(self, outcome: RunEnded | RunWaiting) -> None:
        """Compares the end, unless the replay cancelled the run."""
        if self.is_over:
            return
        status = outcome.status if isinstance(outcome, RunEnded) else "waiting"
        end = {"end": {"status": status, "reason": outcome.reason}}
        if (missing := self._next_answer) is not None:
            text = f"the run is {status} before this request"
            self._differ("request", text, missing.fact, {"model_called": missing.called.model}, end)
        elif self.run.ended and self.run.ended.status != status:
            self._differ_at_end("the end of the run", end)

    def _stop(self) -> None:
        self.is_over = True
        ended = self.run.ended
        if ended and ended.status == "cancelled":
            self._cancel.cancel(ended.reason, ended.request)
        else:
            self._cancel.cancel("the recording ends here")

    def _differ_at_end(self, text: str, replayed: dict[str, Any]) -> None:
        ended = self.run.ended
        assert ended is not None
        recorded = {"end": {"status": ended.status, "reason": ended.reason}}
        self._differ("end", text, self.run.facts[-1].seq, recorded, replayed)

    def _differ(
        self,
        what: What,
        text: str,
        fact: int,
        recorded: dict[str, Any],
        replayed: dict[str, Any],
        call: str = "",
        tool: str = "",
    ) -> None:
        """Ends the replay, unless both are equal once masked."""
        then, now = masked(recorded, *self._folders), masked(replayed, *self._folders)
        if then == now or self.difference is not None:
            return
        run = self._journal.state.run
        step = run.steps if run else 0
        self.difference = Difference(what, text, fact, self.run.number, step, call, tool, then, now)
        self._stop()


def _request(state: SessionState, request: ModelRequest | None = None) -> dict[str, Any]:
    """What a log holds of a request: of the recorded one, or of `request`."""
    step = state.run.step if state.run else None
    offered = [offer.name for offer in request.tools] if request else list(step.tools if step else ())
    return {"messages": list(state.transcript), "tools": offered}


def _result(result: events.ToolResultFact | FinishedCall) -> dict[str, Any]:
    return {"content": result.content, "failed": result.failed}


class ReplayResult(msgspec.Struct, frozen=True):
    """The result of a replay: how much was the same, and the first difference."""

    runs: int
    requests: int
    exact: int
    """Requests that were the same to the byte, with what a log does not hold: system prompt, descriptions of
    tools, model settings."""
    results: int
    difference: Difference | None = None

    @property
    def identical(self) -> bool:
        return self.difference is None


class Stage(msgspec.Struct, frozen=True):
    """How a recording is replayed."""

    harness: Harness
    live: bool = False
    """Tools really run; else their results come from the log."""
    own: bool = False
    """The harness is the tested agent's: the replay offers its tools and compares the effect of its hooks.
    Else tools and hooks are taken from the log."""
    before_run: Callable[[Harness, RecordedRun], None] | None = None
    """Prepares the harness for a run."""
    memory: dict[str, Any] = {}
    """The state of the tools, for all runs of the recording."""


class ReplaySession:
    """The session of a replayed run, as the loop sees it."""

    def __init__(self, journal: Journal, harness: Harness, memory: dict[str, Any]) -> None:
        self.journal = journal
        self.harness = harness
        self.memory = memory
        self.questions = Questions()
        self.position: TreePosition | None = None
        self.children: Children | None = None
        self.budget: Budget | None = None
        self.loop: Loop | None = None
        self.is_running = True

    @property
    def id(self) -> str:
        return self.journal.session

    @property
    def spawned(self) -> SpawnedChildren:
        return SpawnedChildren(self, None)

    def cancel(self, reason: str = "") -> None:
        pass

    async def read_inbox(self) -> None:
        pass

    async def handle(self, request: AnyRequest) -> None:
        pass


class _Tape(MemoryStore):
    """A store whose one session can start again with other facts; its blobs stay."""

    def rewind(self, facts: Sequence[Fact]) -> None:
        self._sessions.clear()
        self._add(facts)


async def replay(recording: Recording, stage: Stage) -> ReplayResult:
    """Replays every run, until one differs. Raises `UsageError` for a session that cannot be replayed."""
    # Never the session's own id: tools' processes are identified by the session that they belong to.
    session = new_id("ses")
    facts = [msgspec.structs.replace(fact, session=session) for fact in recording.facts]
    facts[0] = as_own(facts[0])  # a recorded answer counts in its replay
    runs = recorded_runs(recording.facts)
    tape = _Tape()
    await tape.import_session(facts[:1], recording.blobs)
    requests = exact = results = 0
    try:
        for run in runs:
            tape.rewind(facts[: run.seed])
            replayed = await _replay_run(run, tape, session, stage)
            requests += replayed.requests
            exact += replayed.exact
            results += replayed.results
            if replayed.difference:
                return ReplayResult(run.number, requests, exact, results, replayed.difference)
    finally:
        await stop_background(stage.memory)
        if stage.live:
            World().kill_processes_of(session)
    return ReplayResult(len(runs), requests, exact, results)


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
    level = cast(ReasoningLevel, then.settings.reasoning)
    harness = msgspec.structs.replace(
        own,
        model=model,
        hooks=ReplayHooks(own.hooks, replaying, model, own_counts=stage.own),
        fallbacks=(),
        make_model=None,
        limits=run.limits,
        reasoning=level if level in get_args(ReasoningLevel) else own.reasoning,
        asker=replaying.answer if run.questions else None,
        wait_for_answers=False,
        listeners=[],
    )
    offered = {name for step in run.steps.values() for name in step.tools}
    names = own.tools if stage.own else offered
    harness.set_tools([ReplayedTool(name, own.tools.get(name), replaying, live=stage.live) for name in names])
    loop = Loop(ReplaySession(journal, harness, stage.memory), cancel)
    loop.take_steers = replaying.take  # type: ignore[method-assign]
    replaying.finish(await loop.advance())
    return replaying
