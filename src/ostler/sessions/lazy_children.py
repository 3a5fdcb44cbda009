"""Children are loaded when a run first has one."""

from __future__ import annotations

from ostler.core.children import ChildRequest, ChildResult, ChildStatus
from ostler.core.harness import Children, Harness, ParentCall
from ostler.core.journal import Journal


class LazyChildren:
    """`ChildRuns`, which needs sessions itself, and which most runs never need."""

    def __init__(self, journal: Journal, together: int) -> None:
        self._journal = journal
        self._together = together
        self._made: Children | None = None

    def _children(self) -> Children:
        if self._made is None:
            from ostler.sessions.children import ChildRuns

            self._made = ChildRuns(self._journal.store, self._journal.world, self._together)
        return self._made

    async def run(self, child: str, request: ChildRequest, parent: ParentCall) -> ChildResult:
        return await self._children().run(child, request, parent)

    async def status(self, child: str) -> ChildStatus:
        return await self._children().status(child)

    async def end(self, child: str, reason: str, harness: Harness) -> ChildResult | None:
        return await self._children().end(child, reason, harness)

    async def cut(self, child: str, harness: Harness) -> ChildResult | None:
        return await self._children().cut(child, harness)
