"""Watching a test: whatever sessions it drives, the invariants must hold when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ostler.kernel.journal import Journal
from ostler.kernel.state import fold
from ostler.log.invariants import violations
from ostler.log.memory import MemoryStore
from ostler.log.sqlite import SqliteStore
from ostler.log.tree_invariants import tree_violations
from ostler.testkit.prefixes import watched_prefixes
from ostler.vocabulary.errors import NotFound
from ostler.vocabulary.facts import Fact


@contextmanager
def watched_sessions() -> Iterator[None]:
    """Checks every session that was opened inside the block, once the block is over.

    ```python
    @pytest.fixture(autouse=True)
    def invariants():
        with watched_sessions():
            yield
    ```
    """
    journals: list[Journal] = []
    original = Journal.__init__

    def remember(self: Journal, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        journals.append(self)

    Journal.__init__ = remember  # type: ignore[method-assign]
    try:
        with watched_prefixes(_place) as prefixes:
            yield
    finally:
        Journal.__init__ = original  # type: ignore[method-assign]
    # A later journal of the same session took it over: only that one's state is live.
    newest = {(_place(journal), journal.session): journal for journal in journals}
    logs: dict[Any, dict[str, list[Fact]]] = {}
    for (place, session), journal in newest.items():
        facts = check_journal(journal)
        if facts is not None:
            logs.setdefault(place, {})[session] = facts
            problems = prefixes.problems((place, session), facts)
            assert not problems, f"session {session}: " + "; ".join(problems)
    for in_one_place in logs.values():
        problems = tree_violations(in_one_place)
        assert not problems, "; ".join(problems)


def _place(journal: Journal) -> Any:
    return getattr(journal.store, "path", id(journal.store))


def check_journal(journal: Journal) -> list[Fact] | None:
    """The facts of its session. Raises AssertionError when an invariant does not hold for it."""
    facts = _facts_of(journal)
    if facts is None or journal.failed:
        return None  # deleted meanwhile, or the log could not be written: recovery has yet to come
    problems = violations(facts)
    live, folded = journal.state.snapshot(), fold(facts).snapshot()
    problems += [
        f"live {name} {live[name]!r} is not {folded[name]!r}" for name in live if live[name] != folded[name]
    ]
    assert not problems, f"session {journal.session}: " + "; ".join(problems)
    return facts


def _facts_of(journal: Journal) -> list[Fact] | None:
    store = journal.store
    if isinstance(store, MemoryStore):
        return _read(store, journal.session)
    if isinstance(store, SqliteStore) and store.path.exists():
        fresh = SqliteStore(store.path)
        try:
            return _read(fresh, journal.session)
        finally:
            asyncio.run(fresh.close())
    return None


def _read(store: MemoryStore | SqliteStore, session: str) -> list[Fact] | None:
    try:
        return asyncio.run(store.read(session))
    except NotFound:
        return None
