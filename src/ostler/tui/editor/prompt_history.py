"""The prompt history across sessions, and the panel that searches it.

Every process appends to one file, which is read from its end. A prompt that begins with a space, or contains
a known key, is not stored.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.app import completion
from ostler.core.lazy import lazy_module
from ostler.schema.errors import ConfigurationError
from ostler.schema.text import cells, cut, printable
from ostler.store.paths import state_folder
from ostler.tui.editor.chips import Chips, PromptDraft, SavedChips
from ostler.tui.panels.panel import Panels
from ostler.tui.render.items import ItemRenderer
from ostler.tui.render.spans import BOLD, DIM, Piece, drawn, sgr

if TYPE_CHECKING:
    from ostler.models import credentials
    from ostler.tui.editor.input_line import InputLine
else:
    credentials = lazy_module("ostler.models.credentials")

MOST_BYTES = 4 * 1024 * 1024
"""Of the file: when there are more, the older half goes. Nothing further back is ever read."""

MOST_OF_A_LINE = 256 * 1024
"""A longer prompt is not kept; `Chips.kept` leaves large pastes out of it before."""

_READ_AT_ONCE = 64 * 1024

_LOCK_SECONDS = 1.0

_SEARCHED_LETTERS = 500
"""Of each prompt, when letters are searched that need not be neighbours."""

_MOST_BY_LETTERS = 100


class Hit(msgspec.Struct, frozen=True):
    kept: SavedChips
    positions: tuple[int, ...]
    """The letters of its text that were found."""


def history_file() -> Path:
    return state_folder() / "prompts.jsonl"


class PromptHistory:
    """What the file held when it was first looked at, and what has been added here since: the newest is
    number 0."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or history_file()
        self._added: list[SavedChips] = []
        self._read: list[SavedChips] = []
        self._older = _lines_from_end(self._path)
        self._reading = threading.Lock()

    def add(self, kept: SavedChips) -> None:
        """Here at once, and then in the file; the same twice in a row is kept once.

        Raises `ConfigurationError` when the file cannot be written. May wait a moment for other processes:
        not for the event loop."""
        if kept.text[:1].isspace() or not kept.text or _has_key(kept):
            return
        if kept != self.get(0):
            self._added.append(kept)
        line = msgspec.json.encode(kept) + b"\n"
        if len(line) > MOST_OF_A_LINE:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(self._path):
                if next(_lines_from_end(self._path), None) != line[:-1]:
                    _append(self._path, line)
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written: {error.strerror}") from None

    def get(self, number: int) -> SavedChips | None:
        """None when there are not as many."""
        if number < len(self._added):
            return self._added[-1 - number]
        number -= len(self._added)
        with self._reading:
            while number >= len(self._read):
                if not self._read_one():
                    return None
        return self._read[number]

    def search(self, query: str) -> Iterator[Hit]:
        """Different ones that have the query in them, newest first; then those that only have its letters,
        best first. Reads as it is asked for more."""
        seen: set[str] = set()
        folds = query == query.lower()
        for kept in self._all():
            if kept.text in seen:
                continue
            at = (completion.folded(kept.text) if folds else kept.text).find(query)
            if at >= 0:
                seen.add(kept.text)
                yield Hit(kept, tuple(range(at, at + len(query))))
        rest: dict[str, SavedChips] = {}
        for kept in self._all():
            if kept.text not in seen:
                rest.setdefault(kept.text, kept)
        yield from _with_letters(query, list(rest.values()))

    def _all(self) -> Iterator[SavedChips]:
        number = 0
        while kept := self.get(number):
            yield kept
            number += 1

    def _read_one(self) -> bool:
        for line in self._older:
            try:
                kept = msgspec.json.decode(line, type=SavedChips)
            except (msgspec.DecodeError, UnicodeDecodeError):  # half of a line, or somebody edited it
                continue
            if not self._read or self._read[-1] != kept:
                self._read.append(kept)
                return True
        return False


def _with_letters(query: str, older: Sequence[SavedChips]) -> Iterator[Hit]:
    texts = [kept.text[:_SEARCHED_LETTERS] for kept in older]
    for found in completion.best(query, texts, _MOST_BY_LETTERS):
        yield Hit(older[found.place], found.match.positions)


def _has_key(kept: SavedChips) -> bool:
    return any(credentials.redact_keys(text) != text for text in (kept.text, *kept.pasted.values()))


def _lines_from_end(path: Path) -> Iterator[bytes]:
    """The last whole lines, newest first, at most `MOST_BYTES` of them. The file is read piece by piece."""
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        at = file.seek(0, os.SEEK_END)
        least = max(0, at - MOST_BYTES)
        rest = b""
        while at > least and len(rest) <= MOST_OF_A_LINE:
            size = min(_READ_AT_ONCE, at - least)
            at -= size
            file.seek(at)
            first, *lines = (file.read(size) + rest).split(b"\n")
            yield from (line for line in reversed(lines) if line)
            rest = first
        if at == 0 and rest:
            yield rest


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Beside the file, which is replaced when it is shortened."""
    end = time.monotonic() + _LOCK_SECONDS
    with path.with_suffix(".lock").open("wb") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ConfigurationError(f"another process holds {lock.name}") from None
                time.sleep(0.005)
        yield


def _append(path: Path, line: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        if size and os.pread(descriptor, 1, size - 1) != b"\n":  # somebody was cut off in his line
            line = b"\n" + line
        file.write(line)
    if size + len(line) > MOST_BYTES:
        _shorten(path)


def _shorten(path: Path) -> None:
    kept: list[bytes] = []
    size = 0
    for line in _lines_from_end(path):
        size += len(line) + 1
        if size > MOST_BYTES // 2:
            break
        kept.append(line + b"\n")
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(reversed(kept))
    new.replace(path)


MOST_ROWS = 8

MOST_HITS = 50

_KEYS = frozenset({"up", "down", "enter", "tab", "esc", "backspace", "ctrl+r", "ctrl+s", "ctrl+u"})

_OLDER, _NEWER = frozenset({"up", "ctrl+r"}), frozenset({"down", "ctrl+s"})


class HistorySearch:
    """The newest stands at the bottom, next to the line."""

    takes_text = True

    def __init__(self, line: InputLine, panels: Panels, draw: ItemRenderer) -> None:
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
            self._line.put(PromptDraft(chips.restored(self._hits[self._marked].kept), chips))
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
        asked = cut(f"search: {printable(self._query)}", width)
        about = Piece(cut(hint, width - cells(asked)), sgr(self._draw.colors, "muted") or DIM)
        return [*rows, drawn([Piece(asked, BOLD), about])]

    def _row(self, hit: Hit, is_marked: bool, width: int) -> str:
        colors = self._draw.colors
        text = printable(hit.kept.text).replace("\n", "⏎").replace("\t", " ")
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
