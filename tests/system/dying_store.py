"""A store that stops with its process, at a fact that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ostler.core.processes import ProcessId
from ostler.core.store import NO_REQUESTS, Lease
from ostler.schema.errors import LeaseLost
from ostler.schema.facts import Fact
from ostler.store.memory import MemoryStore

Moment = Callable[[Fact], bool]


class DyingStore(MemoryStore):
    """Whoever uses it dies right after that fact is in the log; then it is `revived` for the next process."""

    def __init__(self, at: Moment) -> None:
        super().__init__()
        self.at: Moment | None = at
        self._dead = False

    async def create(self, first: Fact, owner: ProcessId) -> Lease:
        self._require_life()
        lease = await super().create(first, owner)
        self._die_at([first])
        return lease

    def append_now(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> bool:
        self._require_life()
        super().append_now(lease, facts, settled)
        self._die_at(facts)
        return True

    def revive(self, at: Moment | None = None) -> None:
        self._dead, self.at = False, at
        for session in self._sessions.values():
            session.lease = None

    def children(self) -> list[str]:
        return [name for name, session in self._sessions.items() if session.summary.child_of]

    def _die_at(self, facts: Sequence[Fact]) -> None:
        self._dead = self._dead or (self.at is not None and any(map(self.at, facts)))

    def _require_life(self) -> None:
        if self._dead:
            raise LeaseLost("the process is dead")
