"""What every store demands of facts before it writes them."""

from __future__ import annotations

from collections.abc import Sequence

from ostler.vocabulary.errors import StoreError
from ostler.vocabulary.facts import Fact


def require_order(session: str, facts: Sequence[Fact], first: int) -> None:
    """Raises `StoreError` unless the facts are of this session and numbered from `first` on."""
    if not facts:
        raise StoreError(f"an append to session {session} needs at least one fact")
    for expected, fact in enumerate(facts, first):
        if fact.seq != expected:
            raise StoreError(
                f"the next fact of session {session} must have number {expected}, not {fact.seq}"
            )
        if fact.session != session:
            raise StoreError(f"a fact of session {fact.session} cannot be appended to session {session}")


def require_whole_session(facts: Sequence[Fact]) -> None:
    """Raises `StoreError` unless the facts are a session from its beginning on."""
    if not facts or facts[0].type != "session_started":
        raise StoreError("a session must begin with session_started")
    require_order(facts[0].session, facts, 1)
