"""Searching what was typed before: a panel with the prompts that have what is typed now."""

from __future__ import annotations

import asyncio
from itertools import islice

from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.drawing.pieces import BOLD, DIM, Piece, cells, cut, drawn, harmless, sgr
from ostler.faces.tui.editor.chips import Chips
from ostler.faces.tui.editor.prompt_history import Hit
from ostler.faces.tui.input_line import InputLine, Typed
from ostler.faces.tui.panels import Panels

MOST_ROWS = 8
MOST_HITS = 50
_KEYS = frozenset({"up", "down", "enter", "tab", "esc", "backspace", "ctrl+r", "ctrl+s", "ctrl+u"})
_OLDER, _NEWER = frozenset({"up", "ctrl+r"}), frozenset({"down", "ctrl+s"})


class HistorySearch:
    """The newest stands at the bottom, next to the line."""

    takes_text = True

    def __init__(self, line: InputLine, panels: Panels, draw: BlockRows) -> None:
        self._line = line
        self._panels = panels
        self._draw = draw
        self._query = ""
        self._hits: list[Hit] = []
        self._marked = 0
        self._looking: asyncio.Future[None] | None = None

    def open(self) -> None:
        self._query = self._line.text if "\n" not in self._line.text else ""
        self._panels.open(self)
        self._look()

    def _look(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._looking = asyncio.ensure_future(self._search(self._query))

    async def _search(self, query: str) -> None:
        found = await asyncio.to_thread(lambda: list(islice(self._line.history.search(query), MOST_HITS)))
        self._hits, self._marked, self._looking = found, 0, None
        self._panels.refresh()

    def takes(self, key: str) -> bool:
        return key in _KEYS

    def key(self, key: str) -> None:
        if key in _OLDER:
            self._marked = min(self._marked + 1, max(0, len(self._hits) - 1))
        elif key in _NEWER:
            self._marked = max(0, self._marked - 1)
        elif key in ("enter", "tab"):
            self._choose()
        elif key == "esc":
            self._close()
        else:
            self._query = _edited(self._query, key)
            self._look()

    def _choose(self) -> None:
        if self._looking is not None:  # what is shown is not what was asked for
            return
        if self._hits:
            chips = Chips()
            self._line.put(Typed(chips.restored(self._hits[self._marked].kept), chips))
        self._close()

    def _close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._panels.close(self)

    def rows(self, width: int, most: int) -> list[str]:
        room = max(1, min(MOST_ROWS, most - 1))
        first = max(0, min(self._marked - room // 2, len(self._hits) - room))
        shown = list(enumerate(self._hits[first : first + room], first))
        rows = [self._row(hit, place == self._marked, width) for place, hit in reversed(shown)]
        count = f"{len(self._hits)} found" if self._hits else "nothing found"
        hint = f"  {count} · enter takes it, ctrl+r goes on, esc closes"
        asked = cut(f"search: {harmless(self._query)}", width)
        about = Piece(cut(hint, width - cells(asked)), sgr(self._draw.colors, "muted") or DIM)
        return [*rows, drawn([Piece(asked, BOLD), about])]

    def _row(self, hit: Hit, is_marked: bool, width: int) -> str:
        colors = self._draw.colors
        text = harmless(hit.kept.text).replace("\n", "⏎").replace("\t", " ")
        found = frozenset(hit.positions)
        begin = max(0, min(hit.positions, default=0) - width // 2)
        shown = cut(text[begin:], width - 2)
        style = sgr(colors, "accent", BOLD) if is_marked else ""
        pieces = [Piece("❯ " if is_marked else "  ", style)]
        pieces += [
            Piece(letter, sgr(colors, "accent", BOLD) if place in found else style)
            for place, letter in enumerate(shown, begin)
        ]
        return drawn(pieces)


def _edited(query: str, key: str) -> str:
    match key:
        case "backspace":
            return query[:-1]
        case "ctrl+u":
            return ""
        case _:
            return query + key if key.isprintable() else query
