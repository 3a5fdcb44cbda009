"""A session as a recording: what came from outside in each of its runs, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ostler.kernel.journal import World
from ostler.kernel.state import fold
from ostler.kernel.store import BlobPart, Store
from ostler.kernel.time_limit import is_time_limit
from ostler.log.memory import MemoryStore
from ostler.log.named_blobs import blobs_named_by, read_in_parts
from ostler.log.portable import import_session
from ostler.models.recorded import RecordedAnswer, recorded_answers
from ostler.vocabulary import events
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.facts import Fact


class Recording(msgspec.Struct, frozen=True):
    """The facts of a session, and the blobs that they name."""

    facts: tuple[Fact, ...]
    blobs: tuple[BlobPart, ...] = ()


class RecordedResult(msgspec.Struct, frozen=True):
    """What came of a call, and the number of its fact."""

    fact: int
    result: events.ToolResultFact


class RecordedQuestion(msgspec.Struct):
    """A question about a call; `answered` is None while nobody has."""

    asked: events.QuestionAsked
    answered: events.QuestionAnswered | None = None


class RecordedRun(msgspec.Struct, frozen=True):
    """One run of a recording."""

    number: int
    id: str
    started: Fact
    seed: int
    """The number of the last fact that is not the loop's own: the run's start, or its prompt."""
    facts: tuple[Fact, ...]
    """Those after the seed."""
    answers: tuple[RecordedAnswer, ...]
    results: dict[str, RecordedResult]
    begun: frozenset[str]
    """The calls that were started."""
    questions: dict[str, list[RecordedQuestion]]
    """By their call, in order."""
    steps: dict[int, events.StepStarted]
    refused_steps: dict[int, str]
    """Why those were refused that no model was asked in."""
    steers: dict[int, list[events.UserMessage]]
    """What was said before the step with that number."""
    ended: events.RunEnded | None = None

    @property
    def event(self) -> events.RunStarted:
        assert isinstance(self.started.event, events.RunStarted)
        return self.started.event

    @property
    def ends_itself(self) -> bool:
        """The loop came to the end by itself; otherwise somebody or something cut the run there."""
        last = self.answers[-1].end if self.answers else None
        failed = last if isinstance(last, events.ModelFailed) else None
        if self.ended is None or (failed and failed.retry_in is not None):
            return False
        if self.ended.status == "failed":
            return failed is not None
        if is_time_limit(self.ended):
            return False
        return self.ended.status in ("completed", "refused", "limit")

    @property
    def limits(self) -> events.Limits:
        """Those it was started with, unless a process with others went on beyond them."""
        limits = msgspec.structs.replace(self.event.limits, seconds=None)
        is_kept = limits.steps is None or len(self.steps) <= limits.steps
        return limits if is_kept else msgspec.structs.replace(limits, steps=None)

    def was_cut(self, call: str) -> bool:
        """The end of the run came before the call had begun, or while somebody was asked about it."""
        found = self.results.get(call)
        return found is not None and found.result.failed == "tool_cancelled" and call not in self.begun


async def recording_of(store: Store, session: str) -> Recording:
    """The recording of a session in a store."""
    facts = await store.read(session)
    named = blobs_named_by(facts)
    blobs = [part for blob in named async for part in read_in_parts(store, session, blob)]
    return Recording(tuple(facts), tuple(blobs))


async def recording_in(lines: Iterable[bytes]) -> Recording:
    """The recording in a file that `ostler sessions export` wrote."""
    store = MemoryStore()
    return await recording_of(store, await import_session(store, lines, "", World()))


def recorded_runs(facts: Sequence[Fact]) -> list[RecordedRun]:
    """The runs of a session that can be replayed; raises `UsageError` for one that cannot."""
    session = facts[0].session
    state = fold(facts)
    if state.driver != "agent":
        raise UsageError(f"session {session} was a {state.driver}'s, and only an agent's can be replayed")
    if state.undecipherable:
        raise UsageError(
            f"session {session} has a {state.undecipherable!r} entry of a newer version; "
            "only that version can replay it"
        )
    starts = [number for number, fact in enumerate(facts) if fact.type == "run_started"]
    if not starts:
        raise UsageError(f"session {session} has no runs: there is nothing to replay")
    ends = [*starts[1:], len(facts)]
    return [
        _run(number, facts[start:end])
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
    ]


def _run(number: int, facts: Sequence[Fact]) -> RecordedRun:
    started = facts[0]
    seed = 2 if len(facts) > 1 and _is_prompt(facts[1]) else 1
    inside: list[Fact] = []
    results: dict[str, RecordedResult] = {}
    begun: set[str] = set()
    questions: dict[str, RecordedQuestion] = {}
    steps: dict[int, events.StepStarted] = {}
    refused_steps: dict[int, str] = {}
    steers: dict[int, list[events.UserMessage]] = {}
    ended: events.RunEnded | None = None
    was_asked = False
    for fact in facts[seed:]:
        inside.append(fact)
        match fact.event:
            case events.StepStarted(number=step) as begins:
                steps[step] = begins
                was_asked = False
            case events.ModelCalled():
                was_asked = True
            case events.StepEnded(number=step, refused=refused) if refused and not was_asked:
                refused_steps[step] = refused
            case events.UserMessage(source="steer") as message:
                steers.setdefault(len(steps) + 1, []).append(message)
            case events.ToolStarted(call=call):
                begun.add(call)
            case events.ToolResultFact(call=call) as result:
                results[call] = RecordedResult(fact.seq, result)
            case events.QuestionAsked(id=question) as asked:
                questions[question] = RecordedQuestion(asked)
            case events.QuestionAnswered(id=question) as answered if question in questions:
                questions[question].answered = answered
            case events.RunEnded() as end:
                ended = end
                break
    by_call: dict[str, list[RecordedQuestion]] = {}
    for one in questions.values():
        by_call.setdefault(one.asked.call, []).append(one)
    return RecordedRun(
        number,
        started.run,
        started,
        facts[seed - 1].seq,
        tuple(inside),
        tuple(recorded_answers(inside)),
        results,
        frozenset(begun),
        by_call,
        steps,
        refused_steps,
        steers,
        ended,
    )


def _is_prompt(fact: Fact) -> bool:
    return isinstance(fact.event, events.UserMessage) and fact.event.source == "prompt"
