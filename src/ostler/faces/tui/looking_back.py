"""Looking at what was said and done in this session, in full: all of it in a list, or the last that was
folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ostler.faces.tui.copying import copy
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.messages import BlobRef

if TYPE_CHECKING:
    from ostler.faces.tui.session_entries import SessionEntry
    from ostler.faces.tui.tui import Tui


class LookingBack:
    def __init__(self, tui: Tui) -> None:
        self._tui = tui

    async def choose(self) -> None:
        """Whoever closes what was read is back in the list."""
        from ostler.faces.tui.pickers.picker import Choice, Picker

        tui, entries = self._tui, await self._entries()
        present, query = len(entries) - 1, ""
        while True:
            choices = [
                Choice(entry.about, at, (entry.who,), about="enter reads it", is_present=at == present)
                for at, entry in enumerate(entries)
            ]
            picker = Picker("messages", choices, tui.colors, query=query, keys={"ctrl+y": "copies it"})
            picked = await picker.ask(tui.panels)
            if picked is None:
                return
            present, query = picked.choice.value, picked.query
            if picked.key == "ctrl+y":
                tui.notice = await copy(tui, entries[present].text)
                return
            present = await self._read(entries, present)

    async def last(self) -> None:
        """The last call that runs, or the last call or thought: they are shown only in part."""
        entries = await self._entries()
        running = [at for at, entry in enumerate(entries) if entry.is_running]
        folded = [at for at, entry in enumerate(entries) if entry.who in ("call", "thought")]
        await self._read(entries, (running or folded or [len(entries) - 1])[-1])

    async def _entries(self) -> list[SessionEntry]:
        from ostler.faces.tui.session_entries import entries_of, open_entry

        tui = self._tui
        done = entries_of(await tui.conversation.session.journal.history())
        entries = [*done, *map(open_entry, tui.transcript.calls)]
        if not entries:
            raise UsageError("nothing was said in this session yet")
        return entries

    async def _read(self, entries: list[SessionEntry], at: int) -> int:
        from ostler.faces.tui.pickers.reader import Reader
        from ostler.faces.tui.session_entries import open_entry, whole

        tui = self._tui

        asked: set[int] = set()

        async def complete(at: int) -> None:
            entries[at] = await whole(entries[at], self._blob)
            tui.panels.refresh()

        def renew(at: int) -> None:
            if entries[at].is_running:
                for call in tui.transcript.calls:
                    if call.block.call == entries[at].call:
                        entries[at] = open_entry(call)
            elif entries[at].output is not None and at not in asked:
                asked.add(at)
                tui.writing.soon(complete(at))

        def copy_it(text: str) -> None:
            tui.writing.soon(copied(text))

        async def copied(text: str) -> None:
            reader.note = await copy(tui, text)
            tui.panels.refresh()

        reader = Reader(entries, at, tui.colors, copy_it, renew)
        return await reader.read(tui.panels)

    async def _blob(self, blob: BlobRef) -> bytes:
        conversation = self._tui.conversation
        return await conversation.store.read_blob(conversation.session.id, blob.id)
