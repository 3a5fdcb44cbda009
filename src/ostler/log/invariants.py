"""What must hold for every log, whatever happened to the processes that wrote it.

Each invariant has a number that stays its own for ever, a sentence, and a check over the facts of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from ostler.log import run_invariants as of_runs
from ostler.log.session_invariants import (
    entries_form_a_tree,
    facts_can_be_read,
    named_entries_exist,
    numbers_have_no_holes,
    opening_needs_only_its_part,
    requests_are_taken_up_once,
    the_model_can_be_told,
    usage_adds_up,
)
from ostler.vocabulary.facts import Fact

Check = Callable[[Sequence[Fact]], Iterator[str]]


class Invariant(msgspec.Struct, frozen=True):
    """A sentence that holds for every log. The check yields what contradicts it."""

    number: str
    sentence: str
    check: Check
    only_at_rest: bool = False
    """It need not hold while a run is driven, nor after a crash until somebody has driven the run on."""


class Violation(msgspec.Struct, frozen=True):
    """What contradicts the invariant of that number."""

    number: str
    problem: str

    def __str__(self) -> str:
        return f"{self.number}: {self.problem}"


INVARIANTS = (
    Invariant("L1", "Every fact can be read, and is of the type that it says.", facts_can_be_read),
    Invariant(
        "L2",
        "A session begins with `session_started`, and its facts are numbered 1, 2, 3 …",
        numbers_have_no_holes,
    ),
    Invariant("L3", "An entry's parent is an earlier entry; records have none.", entries_form_a_tree),
    Invariant(
        "L4",
        "Where a fact names an entry by its number, that is an earlier entry.",
        named_entries_exist,
    ),
    Invariant(
        "L5",
        "One run at a time, in the promised order, with one end; what belongs to a run stands inside it, "
        "and the leaf is moved only between runs.",
        of_runs.runs_are_well_ordered,
    ),
    Invariant(
        "L6",
        "The steps of a run are counted 1, 2, 3 …, and so are the attempts at the answer of a step.",
        of_runs.steps_are_counted,
    ),
    Invariant(
        "L7",
        "A model call comes before its one `usage`, which names the same model and purpose, and before its "
        "one message or failure.",
        of_runs.model_calls_are_paired,
    ),
    Invariant(
        "L8",
        "A tool call comes before its beginning and its one result; nothing succeeds that neither began "
        "nor asked nor repeats a result.",
        of_runs.tool_calls_are_paired,
    ),
    Invariant(
        "L9",
        "A question comes before its one answer, and the answer to a secret one is not kept.",
        of_runs.questions_are_answered_once,
    ),
    Invariant(
        "L10",
        "A call begins once, unless it is idempotent, has a child, or was called again with an answer.",
        of_runs.effects_are_not_repeated,
    ),
    Invariant("L11", "A run waits for questions and calls that are open.", of_runs.waiting_is_for_something),
    Invariant(
        "L12",
        "Usage is never negative, and the cumulative one is the sum of all before it.",
        usage_adds_up,
    ),
    Invariant(
        "L13",
        "The totals of a run are the sums of its facts, and only a run with children counts some.",
        of_runs.totals_are_sums,
    ),
    Invariant(
        "L14",
        "A request is taken up once, or refused, and never both.",
        requests_are_taken_up_once,
    ),
    Invariant(
        "L15",
        "The facts that opening reads add up to the same state as all facts.",
        opening_needs_only_its_part,
    ),
    Invariant(
        "L16",
        "In what the model is told every call is answered in the message that follows it.",
        the_model_can_be_told,
    ),
    Invariant("L17", "Every run has ended, or waits.", of_runs.runs_come_to_rest, only_at_rest=True),
    Invariant(
        "L18",
        "Every model call has its usage, and every step's one its message or failure.",
        of_runs.model_calls_come_to_rest,
        only_at_rest=True,
    ),
    Invariant(
        "L19",
        "Every tool call has its result, unless its run waits.",
        of_runs.tool_calls_come_to_rest,
        only_at_rest=True,
    ),
    Invariant(
        "L20",
        "Every question has its answer, unless its run waits.",
        of_runs.questions_come_to_rest,
        only_at_rest=True,
    ),
    Invariant(
        "L21",
        "A child begins once and ends once, under its call or, if an extension spawned it, under none; "
        "and no run ends before its children.",
        of_runs.children_end_before_their_parent,
    ),
    Invariant(
        "L22",
        "A result that repeats another names one of the same tool with the same key, which had succeeded.",
        of_runs.repeats_name_what_they_repeat,
    ),
    Invariant(
        "L23",
        "When a run ends, its calls have their results and its questions their answers.",
        of_runs.ends_leave_nothing_open,
    ),
)


def broken(facts: Sequence[Fact], *, at_rest: bool = True) -> Iterator[Violation]:
    """What contradicts the invariants. When a fact cannot be read, nothing can be said of the others."""
    first, *others = INVARIANTS
    unreadable = [Violation(first.number, problem) for problem in first.check(facts)]
    yield from unreadable
    if unreadable:
        return
    for invariant in others:
        if at_rest or not invariant.only_at_rest:
            for problem in invariant.check(facts):
                yield Violation(invariant.number, problem)


def violations(facts: Sequence[Fact]) -> list[str]:
    """What is wrong with the log of a session at rest; an empty list when all is well."""
    return [str(violation) for violation in broken(facts)]
