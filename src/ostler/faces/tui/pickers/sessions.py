"""Sessions as rows, read page by page from the store's index."""

from __future__ import annotations

import time

from ostler.faces.cli.session_rows import age
from ostler.faces.tui.pickers.picker import Choice
from ostler.kernel.store import SessionSummary, Store

PAGE = 200


class SessionPages:
    """Newest first, without children's and those in which nothing was said."""

    def __init__(self, store: Store, cwd: str | None, present: str) -> None:
        self._store = store
        self._cwd = cwd
        self._present = present
        self._limit = PAGE
        self._read = 0
        self._seen: set[str] = set()

    async def more(self) -> list[Choice]:
        """The next page; nothing when there are no more. Pages get longer: few people go far."""
        shown: list[SessionSummary] = []
        while not shown and self._limit:
            found = await self._store.sessions(cwd=self._cwd, limit=self._limit)
            new = [one for one in found[self._read :] if one.id not in self._seen]
            self._seen.update(one.id for one in new)
            shown = [one for one in new if not one.child_of and (one.preview or one.title or one.status)]
            self._read = len(found)
            self._limit = self._limit * 4 if len(found) == self._limit else 0
        now = time.time()
        return [self._choice(one, now) for one in shown]

    def _choice(self, one: SessionSummary, now: float) -> Choice:
        text = one.title or one.preview or "(no prompt)"
        cells = (age(now - one.updated_ms / 1000), one.status or "new")
        is_present = one.id == self._present
        about = "this one" if is_present else f"opens {one.id}, of {one.cwd}"
        return Choice(text, one.id, cells, f"{one.id} {one.cwd}", about, is_present)
