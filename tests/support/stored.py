"""Sessions built fact by fact."""

from __future__ import annotations

from collections.abc import Sequence

from ostler.core.store import Store
from ostler.schema.events import Entry, Event, LeafMoved, SessionStarted
from ostler.schema.facts import Fact

HOME = "/home/ada/project"


def facts_of(*bodies: Event | bytes, session: str = "ses_one", cwd: str = HOME) -> list[Fact]:
    """A session with these events. Bytes are of an unknown type; with the word `entry` they are entries."""
    facts = [Fact.of(SessionStarted(cwd, "0.1.0"), seq=1, session=session, run="", time_ms=1_700_000_000_000)]
    leaf = 0
    for seq, body in enumerate(bodies, 2):
        is_entry = isinstance(body, Entry) or (isinstance(body, bytes) and b"entry" in body)
        parent = leaf if is_entry else None
        time_ms = 1_700_000_000_000 + seq
        if isinstance(body, bytes):
            facts.append(Fact(seq, session, "run_one", time_ms, body, parent=parent))
        else:
            fact = Fact.of(body, seq=seq, session=session, run="run_one", time_ms=time_ms, parent=parent)
            facts.append(fact)
        leaf = body.to if isinstance(body, LeafMoved) else seq if is_entry else leaf
    return facts


async def put(store: Store, facts: Sequence[Fact]) -> str:
    await store.import_session(facts)
    return facts[0].session
