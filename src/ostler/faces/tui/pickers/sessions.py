"""Sessions as rows, read page by page from the store's index."""

from __future__ import annotations

import time
from pathlib import Path

from ostler.faces.cli.session_listing import as_it_is
from ostler.faces.cli.session_rows import age
from ostler.faces.tui.pickers.picker import Choice
from ostler.kernel.store import SessionSummary, Store
from ostler.vocabulary.errors import NotFound

PAGE = 200
MOST_HITS = 60


class SessionPages:
    """Newest first, without children's and those in which nothing was said."""

    def __init__(self, store: Store, cwd: str | None, present: str, *, is_titled: bool = False) -> None:
        self._store = store
        self._cwd = cwd
        self._present = present
        self._is_titled = is_titled
        self._limit = PAGE
        self._read = 0
        self._seen: dict[str, SessionSummary] = {}

    async def more(self) -> list[Choice]:
        """The next page; nothing when there are no more. Pages get longer: few people go far."""
        shown: list[SessionSummary] = []
        while not shown and self._limit:
            found = await self._store.sessions(cwd=self._cwd, limit=self._limit)
            new = [one for one in found[self._read :] if one.id not in self._seen]
            self._seen.update((one.id, one) for one in new)
            shown = [one for one in new if self._is_meant(one)]
            self._read = len(found)
            self._limit = self._limit * 4 if len(found) == self._limit else 0
        return [await self._choice(one) for one in shown]

    async def saying(self, query: str) -> list[Choice]:
        """Those in which somebody said all the words of a query. One or two letters begin a word in every
        message there is: to look for them takes long, and finds nothing."""
        words = [word for word in query.split() if len(word) > 2 or not word.isascii()]
        found: dict[str, Choice] = {}
        for hit in await self._store.search(" ".join(words), limit=MOST_HITS) if words else ():
            if hit.session in found:
                continue
            summary = self._seen.get(hit.session) or await self._summary(hit.session)
            if summary and self._is_meant(summary) and self._cwd in (None, summary.cwd):
                found[hit.session] = await self._choice(summary, f"#{hit.seq} says: {hit.snippet}")
        return list(found.values())

    async def _summary(self, session: str) -> SessionSummary | None:
        try:
            return await self._store.summary(session)
        except NotFound:  # deleted since it was found
            return None

    def _is_meant(self, one: SessionSummary) -> bool:
        said = one.title if self._is_titled else one.preview or one.title or one.status
        return bool(said) and not one.child_of

    async def _choice(self, one: SessionSummary, about: str = "") -> Choice:
        text = one.title or one.preview or "(no prompt)"
        status = (await as_it_is(self._store, one)).status or "new"
        cells = [age(time.time() - one.updated_ms / 1000), status]
        if self._cwd is None:
            cells.append(Path(one.cwd).name)
        is_present = one.id == self._present
        about = about or ("this one" if is_present else f"opens {one.id}, of {one.cwd}")
        return Choice(text, one.id, tuple(cells), f"{one.id} {one.cwd}", about, is_present)
