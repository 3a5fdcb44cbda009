"""The tables of invariants: ours, and where those of linnkit's test kit are found."""

from __future__ import annotations

from collections.abc import Iterator

from docs_tables import row
from ostler.store.invariants import INVARIANTS, TREE_INVARIANTS
from ostler.store.sqlite_maintenance import MENDABLE, STORE_INVARIANTS

_OF_LINNKIT: dict[str, tuple[str, tuple[str, ...], str]] = {
    "I1": ("the root run has ended", ("L17",), "a run that waits for somebody is at rest, too"),
    "I2": ("a parent's total of its children is their sum", ("L13", "T3"), "over all that is below it"),
    "I3": ("every tool call has an output", ("L19",), ""),
    "I4": (
        "every model call has an audit of why that model",
        (),
        "`model_called` names the model; `model_failed` names the one that takes over, and why",
    ),
    "I5": (
        "a cancelled run has an audit of its cancelling",
        (),
        "`run_ended` itself says the reason and names the request",
    ),
    "I6": ("the run of an event is known", ("L5",), ""),
    "I7": ("the ids of what is kept only grow", ("L2",), "they have no holes either"),
    "I8": ("no event of an old type", (), "there is none to forbid; an unknown type is kept as it is"),
    "I9": (
        "the signal was fired exactly if the run was cancelled",
        (),
        "the token is not in the log; that a run has one end is L5",
    ),
    "I10": ("the run of a usage is known", ("L5", "L7"), "and so is its call"),
    "I11": ("no cost is negative", ("L12",), ""),
    "I12": ("the run of an audit is known", ("L5",), ""),
    "I13": ("who waits for a person has a run that waits", ("L11",), ""),
    "I14": ("what a detached run came to is what is recorded of it", ("S2",), ""),
    "I15": ("nothing is in flight after draining", ("L17", "L18", "L19", "L20", "T4"), ""),
}
"""What each says, which of ours it is, and a remark."""


def invariant_table() -> Iterator[str]:
    yield "| number | what holds | when |"
    yield "|---|---|---|"
    for one in INVARIANTS:
        yield row(one.number, one.sentence, "at rest" if one.only_at_rest else "always")


def tree_invariant_table() -> Iterator[str]:
    yield "| number | what holds |"
    yield "|---|---|"
    for one in TREE_INVARIANTS:
        yield row(one.number, one.sentence)


def store_invariant_table() -> Iterator[str]:
    yield "| number | what holds | `repair` |"
    yield "|---|---|---|"
    for number, sentence in STORE_INVARIANTS.items():
        mends = "where an index is damaged" if number == "S1" else "yes" if number in MENDABLE else "–"
        yield row(number, sentence, mends)


def linnkit_invariant_table() -> Iterator[str]:
    known = {one.number for one in (*INVARIANTS, *TREE_INVARIANTS)} | STORE_INVARIANTS.keys()
    yield "| there | what it says | here | |"
    yield "|---|---|---|---|"
    for number, (says, ours, remark) in _OF_LINNKIT.items():
        if unknown := sorted(set(ours) - known):
            raise SystemExit(f"{number}: there is no invariant {unknown[0]}")
        yield row(number, says, ", ".join(ours) or "–", remark)
