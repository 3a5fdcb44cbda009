"""The tables of invariants."""

from __future__ import annotations

from collections.abc import Iterator

from docs_tables import row
from ostler.store.invariants import INVARIANTS, TREE_INVARIANTS
from ostler.store.sqlite_maintenance import MENDABLE, STORE_INVARIANTS


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
