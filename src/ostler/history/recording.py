"""A session as a recording: the input and the result of each of its runs.

Two recordings are compared as canonical JSON. Ids become `id-1`, `id-2` … in the order of appearance, times
become `<time>`, and the working directory becomes `<cwd>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from itertools import islice, pairwise
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
from ostler.store.portable import read_export
from ostler.store.rules import blobs_named_by, read_in_parts


class Recording(msgspec.Struct, frozen=True):
    """The facts of a session, and the blobs that they name."""

    facts: tuple[Fact, ...]
    blobs: tuple[BlobPart, ...] = ()


class RecordedResult(msgspec.Struct, frozen=True):
    """The result of a call, and the number of its fact."""

    fact: int
    result: events.ToolResultFact


class RecordedQuestion(msgspec.Struct):
    """A question about a call; `answered` is None if there is no answer."""

    asked: events.QuestionAsked
    answered: events.QuestionAnswered | None = None


class RecordedRun(msgspec.Struct):
    """One run of a recording."""

    number: int
    started: Fact
    seed: int
    """The number of the last fact that the loop did not record: the run's start, or its prompt."""
    facts: tuple[Fact, ...]
    """Those after the seed, up to the end of the run."""
    answers: tuple[RecordedAnswer, ...]
    results: dict[str, RecordedResult] = {}
    begun: set[str] = set()
    """The calls that were started."""
    questions: dict[str, list[RecordedQuestion]] = {}
    """By their call, in order."""
    steps: dict[int, events.StepStarted] = {}
    refused_steps: dict[int, str] = {}
    """Why a hook refused those steps before a model was called."""
    steers: dict[int, list[events.UserMessage]] = {}
    """The messages before the step with that number."""
    ended: events.RunEnded | None = None

    @property
    def event(self) -> events.RunStarted:
        assert isinstance(self.started.event, events.RunStarted)
        return self.started.event

    @property
    def ends_itself(self) -> bool:
        """The loop ended the run; otherwise it was cut from outside."""
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
        """Those it was started with, unless a process with other limits continued the run beyond them."""
        limits = msgspec.structs.replace(self.event.limits, seconds=None)
        is_within = limits.steps is None or len(self.steps) <= limits.steps
        return limits if is_within else msgspec.structs.replace(limits, steps=None)

    def was_cut(self, call: str) -> bool:
        """The run ended before the call had begun, or while a person was asked about it."""
        recorded = self.results.get(call)
        return recorded is not None and recorded.result.failed == "tool_cancelled" and call not in self.begun


async def recording_of(store: Store, session: str) -> Recording:
    """The recording of a session in a store."""
    facts = await store.read(session)
    blobs = [part for blob in blobs_named_by(facts) async for part in read_in_parts(store, session, blob)]
    return Recording(tuple(facts), tuple(blobs))


async def recording_in(lines: Iterable[bytes]) -> Recording:
    """The recording in a file that `ostler sessions export` wrote."""
    export = read_export(lines, World().new_id("ses"), "")
    return Recording(tuple(export.facts), tuple(export.blobs))


def recorded_runs(facts: Sequence[Fact]) -> list[RecordedRun]:
    """The runs of a session that can be replayed; raises `UsageError` for one that cannot."""
    session = facts[0].session
    state = fold(facts)
    if state.driver != "agent":
        raise UsageError(f"session {session} has the driver {state.driver}; only an agent's can be replayed")
    if state.undecipherable:
        raise UsageError(
            f"session {session} has a {state.undecipherable!r} entry of a newer version; "
            "only that version can replay it"
        )
    starts = [number for number, fact in enumerate(facts) if fact.type == "run_started"]
    if not starts:
        raise UsageError(f"session {session} has no runs: there is nothing to replay")
    bounds = pairwise([*starts, len(facts)])
    return [_run(number, facts[start:end]) for number, (start, end) in enumerate(bounds, 1)]


def _run(number: int, facts: Sequence[Fact]) -> RecordedRun:
    seed = 2 if len(facts) > 1 and _is_prompt(facts[1]) else 1
    ends = (index for index, fact in enumerate(facts) if isinstance(fact.event, events.RunEnded))
    inside = tuple(facts[seed : next(ends, len(facts)) + 1])
    run = RecordedRun(number, facts[0], facts[seed - 1].seq, inside, tuple(recorded_answers(inside)))
    questions: dict[str, RecordedQuestion] = {}
    calls_model = False
    for fact in inside:
        match fact.event:
            case events.StepStarted(number=step) as started:
                run.steps[step] = started
                calls_model = False
            case events.ModelCalled():
                calls_model = True
            case events.StepEnded(number=step, refused=refused) if refused and not calls_model:
                run.refused_steps[step] = refused
            case events.UserMessage(source="steer") as message:
                run.steers.setdefault(len(run.steps) + 1, []).append(message)
            case events.ToolStarted(call=call):
                run.begun.add(call)
            case events.ToolResultFact(call=call) as result:
                run.results[call] = RecordedResult(fact.seq, result)
            case events.QuestionAsked(id=id, call=call) as asked:
                questions[id] = RecordedQuestion(asked)
                run.questions.setdefault(call, []).append(questions[id])
            case events.QuestionAnswered(id=id) as answered if id in questions:
                questions[id].answered = answered
            case events.RunEnded() as ended:
                run.ended = ended
    return run


def _is_prompt(fact: Fact) -> bool:
    return isinstance(fact.event, events.UserMessage) and fact.event.source == "prompt"


LONGEST_DIFF = 60
"""Lines."""

_OWN_ID = re.compile(r"\b[a-z]+_[0-9a-hjkmnp-tv-z]{26}\b")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z\b|[+-]\d\d:?\d\d\b))?")
_CALL_FIELDS = {"tool_call": "id", "tool_result": "call"}

What = Literal["request", "result", "end"]


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first thing that differs from the recording."""

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
        """A unified diff from the recorded to the replayed value."""
        recorded, replayed = _lines(self.recorded), _lines(self.replayed)
        lines = list(unified_diff(recorded, replayed, "recorded", "replayed", n=2, lineterm=""))
        left_out = len(lines) - LONGEST_DIFF
        cut = [f"… {left_out} more lines"] if left_out > 0 else []
        return "\n".join([*islice(lines, LONGEST_DIFF), *cut])


def masked(value: Any, *folders: str) -> Any:
    """The value as JSON, with ids, times and folders masked."""
    return _Mask(folders).of(msgspec.to_builtins(value))


class _Mask:
    def __init__(self, folders: Iterable[str]) -> None:
        longest_first = sorted({folder for folder in folders if len(folder) > 1}, key=len, reverse=True)
        names = "|".join(map(re.escape, longest_first))
        self._folders = re.compile(f"(?:{names})(?![\\w.-])") if names else None
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
        return _MOMENT.sub("<time>", _OWN_ID.sub(lambda match: self._name(match[0]), text))

    def _name(self, id: str) -> str:
        return self._names.setdefault(id, f"id-{len(self._names) + 1}")


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    return json.dumps(_in_lines(value), indent=1, sort_keys=True, ensure_ascii=False).split("\n")


def _in_lines(value: Any) -> Any:
    """Splits a text into a list of lines, so that a diff shows the line that differs."""
    if isinstance(value, str) and "\n" in value:
        return value.split("\n")
    if isinstance(value, dict):
        return {name: _in_lines(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_in_lines(inner) for inner in value]
    return value
