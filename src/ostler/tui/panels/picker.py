"""A list to choose from: typing narrows it, and the selected row says what choosing it does.

Only visible rows are drawn, and further ones are loaded near the end, so the length of a list costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec

from ostler.app import completion
from ostler.extensions.ui.themes import ThemeColors
from ostler.schema.text import cells, cut, one_line, printable
from ostler.tui.panels.panel import ModalPanel, Panels, edited
from ostler.tui.render.boxes import framed, inside
from ostler.tui.render.spans import BOLD, DIM, UNDERLINE, Piece, Row, cells_of, drawn, muted_row, sgr

MOST_MATCHES = 200
NARROWEST_TEXT = 16
BETWEEN = 2
AHEAD = 50
"""Rows before the end at which more are loaded."""

TYPING_SECONDS = 0.12
"""Seconds without a key before `elsewhere` is searched."""

_MOVES = {"up": -1, "ctrl+p": -1, "shift+tab": -1, "down": 1, "ctrl+n": 1}
_ONE_LINE = {ord(one): " " for one in "\r\n\t"}
More = Callable[[], Awaitable[Sequence["Choice"]]]
"""Loads the next choices; empty at the end."""

Elsewhere = Callable[[str], Awaitable[Sequence["Choice"]]]
"""Finds choices by a query outside of their rows."""


class Choice(msgspec.Struct, frozen=True):
    """A row: its text, and columns that give way where there is no room."""

    text: str
    value: Any = None
    cells: tuple[str, ...] = ()
    searched: str = ""
    """Further text that a query matches."""
    about: str = ""
    """What choosing it does."""
    is_present: bool = False
    """It is the current one."""


NOTHING = Choice("")
"""What a key of the picker chooses in an empty list."""


class Picked(msgspec.Struct, frozen=True):
    choice: Choice
    key: str = "enter"
    query: str = ""


Match = tuple[Choice, tuple[int, ...]]


class Picker(ModalPanel[Picked | None]):
    """A list to choose from. `ask` returns the choice; None if the person cancels.

    `keys` are further keys that choose, with a word for each. With `elsewhere`, rows are sentences in an
    order that matters: rows with the words of the query come first, then those found elsewhere, then matches
    in `searched`; scattered letters count only without any other match.
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        colors: Callable[[], ThemeColors | None],
        *,
        query: str = "",
        keys: dict[str, str] | None = None,
        more: More | None = None,
        elsewhere: Elsewhere | None = None,
        place: int | None = None,
        moved: Callable[[Choice], None] | None = None,
        empty: str = "nothing to choose from",
    ) -> None:
        self.title = title
        self._choices = list(choices)
        self._colors = colors
        self.keys = keys or {}
        self._more = more
        self._moved = moved
        self._empty = empty
        self._fetch_task: asyncio.Task[None] | None = None
        self._elsewhere = elsewhere
        self._search_task: asyncio.Task[None] | None = None
        self._elsewhere_matches: list[Choice] = []
        """Matches of `elsewhere`."""
        self._panels: Panels | None = None
        self._texts: list[str] = []
        self._folded: list[str] = []
        self._matches: list[Match] | None = None
        """Matches of the query with the positions of their letters; None without a query."""
        self._top = 0
        self._page = 1
        self.query = query
        if place is None:
            place = next((at for at, one in enumerate(self._choices) if one.is_present), 0)
        self.place = place
        self._search()

    async def ask(self, panels: Panels) -> Picked | None:
        self._panels = panels
        self._load_more()
        self._search_elsewhere()
        try:
            return await super().ask(panels)
        finally:
            for task in filter(None, (self._fetch_task, self._search_task)):
                task.cancel()

    # --- matches ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._choices) if self._matches is None else len(self._matches)

    @property
    def present(self) -> Choice | None:
        return self._at(self.place)[0] if len(self) else None

    def _at(self, place: int) -> Match:
        return (self._choices[place], ()) if self._matches is None else self._matches[place]

    def _search(self) -> None:
        self._matches = self._matching() if self.query.strip() else None
        self.place = max(0, min(self.place, len(self) - 1))

    def _matching(self) -> list[Match]:
        for one in self._choices[len(self._texts) :]:
            self._texts.append(" ".join(filter(None, (one.text, *one.cells, one.searched))))
        if self._elsewhere is None:
            return self._fuzzy()
        visible, hidden = self._by_words()
        values = {choice.value for choice, _ in visible}
        elsewhere = {one.value: one for one in self._elsewhere_matches if one.value not in values}
        matches = [*visible, *((one, ()) for one in elsewhere.values())]
        matches += [one for one in hidden if one[0].value not in elsewhere]
        return matches or self._fuzzy()

    def _fuzzy(self) -> list[Match]:
        ranked = completion.best(self.query, self._texts, MOST_MATCHES, MOST_MATCHES)
        return [(self._choices[one.place], one.match.positions) for one in ranked]

    def _by_words(self) -> tuple[list[Match], list[Match]]:
        """Rows with all words of the query, and rows that only match in `searched`, such as the folder of a
        session. Scattered letters would match almost every long text."""
        self._folded += map(completion.folded, self._texts[len(self._folded) :])
        words = completion.folded(self.query).split()
        visible: list[Match] = []
        hidden: list[Match] = []
        for choice, text in zip(self._choices, self._folded, strict=True):
            if all(word in text for word in words):
                places = [(text.index(word), len(word)) for word in words]
                letters = tuple(at for begin, size in places for at in range(begin, begin + size))
                is_visible = max(letters) < len(text) - len(choice.searched)
                (visible if is_visible else hidden).append((choice, letters))
        return visible, hidden

    def _load_more(self) -> None:
        """Loads more: everything for a query, else a little more than is visible."""
        is_near = self._matches is not None or self.place + AHEAD >= len(self._choices)
        if self._more is not None and is_near and (self._fetch_task is None or self._fetch_task.done()):
            self._fetch_task = self._soon(self._fetch(self._more))

    async def _fetch(self, more: More) -> None:
        fetched = await more()
        if not fetched:
            self._more = None
            return
        self._choices += fetched
        self._search()
        self._fetch_task = None
        self._load_more()
        if self._panels is not None:
            self._panels.refresh()

    def _search_elsewhere(self) -> None:
        """Searches elsewhere; earlier matches stay until new ones arrive."""
        if self._search_task is not None:
            self._search_task.cancel()
            self._search_task = None
        if self._elsewhere is not None and self.query.strip():
            self._search_task = self._soon(self._find_elsewhere(self._elsewhere))
        elif self._elsewhere_matches:
            self._elsewhere_matches = []
            self._search()

    async def _find_elsewhere(self, elsewhere: Elsewhere) -> None:
        await asyncio.sleep(TYPING_SECONDS)
        self._elsewhere_matches = list(await elsewhere(self.query))
        self._search_task = None
        self._search()
        if self._panels is not None:
            self._panels.refresh()

    def _soon(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Raises errors to the caller of `ask`."""
        if not task.cancelled() and (error := task.exception()) and self._answer and not self._answer.done():
            self._answer.set_exception(error)

    # --- keys -------------------------------------------------------------------------------------------

    def key(self, key: str) -> None:
        if key == "esc":
            self.answer(None)
        elif key in self.keys or (key == "enter" and len(self)):
            self.answer(Picked(self.present or NOTHING, key, self.query))
        elif key in _MOVES:
            if len(self):
                self._go((self.place + _MOVES[key]) % len(self))
        elif key in ("pgup", "pgdown"):
            self._go(self.place + (self._page if key == "pgdown" else -self._page))
        elif key in ("home", "end"):
            self._go(0 if key == "home" else len(self) - 1)
        elif key in ("backspace", "ctrl+u") or len(key) == 1:
            self.query = edited(self.query, key)
            self.place = 0
            self._search()
            self._go(0)
            if self._panels is not None:
                self._search_elsewhere()

    def _go(self, place: int) -> None:
        self.place = max(0, min(place, len(self) - 1))
        if self._moved is not None and (choice := self.present) is not None:
            self._moved(choice)
        if self._panels is not None:
            self._load_more()

    # --- rows -------------------------------------------------------------------------------------------

    def rows(self, width: int, most: int) -> list[str]:
        room, colors = inside(width), self._colors()
        about = self.present.about if self.present else ""
        keys = " · ".join(f"{key} {word}" for key, word in self.keys.items())
        below = [muted_row(one_line(text), room, colors) for text in (about, keys) if text]
        frame = 2 if room < width else 1
        self._page = max(1, most - frame - 1 - len(below))
        self._top = max(0, min(self._top, self.place, len(self) - self._page))
        self._top = max(self._top, self.place - self._page + 1)
        visible = [self._at(at) for at in range(self._top, min(len(self), self._top + self._page))]
        query = Piece(cut(_flat(self.query), room - 3))
        typed = drawn([Piece("› ", sgr(colors, "accent", BOLD)), query, Piece("▏")])
        rows = self._table(visible, room, colors) or [muted_row(self._empty, room, colors)]
        more = "+" if self._more is not None else ""
        notes = (
            f"{self.place + 1} of {len(self)}{more}" if len(self) else "",
            "…" if self._search_task else "",
        )
        note, rows = " ".join(filter(None, notes)), [typed, *rows, *below]
        return framed(rows, width, colors, title=self.title, note=note, slot="accent")[:most]

    def _table(self, visible: Sequence[Match], room: int, colors: ThemeColors | None) -> list[str]:
        if not visible:
            return []
        table = [[one_line(cell) for cell in choice.cells] for choice, _ in visible]
        number = max(map(len, table))
        widths = [max((cells(row[at]) for row in table if at < len(row)), default=0) for at in range(number)]
        while widths and room - 2 - sum(widths) - BETWEEN * len(widths) < NARROWEST_TEXT:
            widths.pop()
        text_room = room - 2 - sum(widths) - BETWEEN * len(widths)
        text_width = min(text_room, max(cells(_flat(choice.text)) for choice, _ in visible))
        muted = sgr(colors, "muted") or DIM
        rows = []
        for at, ((choice, positions), row) in enumerate(zip(visible, table, strict=True), self._top):
            is_marked = at == self.place
            style = sgr(colors, "accent", BOLD) if is_marked else sgr(colors, "text")
            mark = "❯ " if is_marked else "• " if choice.is_present else "  "
            pieces = [Piece(mark, style), *_text(choice.text, positions, text_width, style)]
            pieces.append(Piece(" " * (text_width + 2 - cells_of(pieces))))
            for width, cell in zip(widths, row, strict=False):
                text_cell = cut(cell, width)
                pieces.append(Piece(" " * BETWEEN + text_cell + " " * (width - cells(text_cell)), muted))
            rows.append(drawn(pieces))
        return rows


def _flat(text: str) -> str:
    """One line that keeps its spaces, since they indent trees."""
    return printable(text.translate(_ONE_LINE))


def _text(text: str, positions: Sequence[int], room: int, style: str) -> Row:
    """Underlines the visible letters that matched."""
    visible = cut(_flat(text), room)
    if not positions or not text.startswith(visible.removesuffix("…")):
        return [Piece(visible, style)]
    matched = {at for at in positions if at < len(visible)}
    under = ";".join(filter(None, (style, UNDERLINE)))
    return [Piece(letter, under if at in matched else style) for at, letter in enumerate(visible)]
