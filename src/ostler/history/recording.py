"""A session as a recording: the input of each of its runs, and what they did with it.

Two recordings are compared as canonical JSON. Ids of Ostler and of calls become `id-1`, `id-2` … in the order
of appearance, times become `<time>`, and the working directory becomes `<cwd>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from itertools import islice
from typing import Any, Literal

import msgspec

from ostler.core.budget import is_time_limit
from ostler.core.journal import World
from ostler.core.state import fold
from ostler.core.store import BlobPart, Store
from ostler.models.scripted import RecordedAnswer, recorded_answers
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.facts import Fact
from ostler.store.memory import MemoryStore
from ostler.store.portable import import_session
from ostler.store.rules import blobs_named_by, read_in_parts


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


LONGEST_DIFF = 60
"""Lines."""


_OWN_ID = re.compile(r"\b[a-z]+_[0-9a-hjkmnp-tv-z]{26}\b")

_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z\b|[+-]\d\d:?\d\d\b))?")

_CALL_FIELDS = {"tool_call": "id", "tool_result": "call"}


What = Literal["request", "result", "end"]


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first thing that came out otherwise than it is recorded."""

    what: What
    text: str
    """One line for people."""
    fact: int
    """The number of the recorded fact."""
    run: int
    """Runs count from 1 in a session, steps from 1 in a run."""
    step: int = 0
    call: str = ""
    tool: str = ""
    recorded: Any = None
    replayed: Any = None

    def diff(self) -> str:
        """From the recorded to the replayed, as `diff -u` shows it."""
        recorded, replayed = _lines(self.recorded), _lines(self.replayed)
        lines = list(unified_diff(recorded, replayed, "recorded", "replayed", n=2, lineterm=""))
        left_out = len(lines) - LONGEST_DIFF
        cut = [f"… {left_out} more lines"] if left_out > 0 else []
        return "\n".join([*islice(lines, LONGEST_DIFF), *cut])


def masked(value: Any, *folders: str) -> Any:
    """The value as JSON says it, with what differs from one run to the next masked."""
    return _Mask(folders).of(msgspec.to_builtins(value))


class _Mask:
    def __init__(self, folders: Iterable[str]) -> None:
        named = sorted({folder for folder in folders if len(folder) > 1}, key=len, reverse=True)
        self._folders = re.compile(f"(?:{'|'.join(map(re.escape, named))})(?![\\w.-])") if named else None
        self._names: dict[str, str] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list | tuple):
            return [self.of(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        holds_id = _CALL_FIELDS.get(value.get("type", ""))
        return {
            name: self._name(inner) if name == holds_id else self.of(inner)
            for name, inner in sorted(value.items())
        }

    def _text(self, text: str) -> str:
        if self._folders is not None:
            text = self._folders.sub("<cwd>", text)
        return _MOMENT.sub("<time>", _OWN_ID.sub(lambda found: self._name(found[0]), text))

    def _name(self, known: str) -> str:
        return self._names.setdefault(known, f"id-{len(self._names) + 1}")


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    return json.dumps(_in_lines(value), indent=1, sort_keys=True, ensure_ascii=False).split("\n")


def _in_lines(value: Any) -> Any:
    """A text of several lines as a list of them, so that a diff shows the line that differs."""
    if isinstance(value, str) and "\n" in value:
        return value.split("\n")
    if isinstance(value, dict):
        return {name: _in_lines(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_in_lines(inner) for inner in value]
    return value
