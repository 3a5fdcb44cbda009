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
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.app import completion
from ostler.core.files import write_atomically
from ostler.core.lazy import lazy_module
from ostler.schema.errors import ConfigurationError
from ostler.schema.text import cells, cut, printable
from ostler.store.paths import state_folder
from ostler.tui.editor.chips import Chips, PromptDraft, SavedChips
from ostler.tui.panels.panel import Panels, edited
from ostler.tui.render.items import ItemRenderer
from ostler.tui.render.spans import BOLD, DIM, Piece, drawn, sgr

if TYPE_CHECKING:
    from ostler.models import credentials
    from ostler.tui.editor.input_line import InputLine
else:
    credentials = lazy_module("ostler.models.credentials")

MOST_BYTES = 4 * 1024 * 1024
"""Largest size of the file; then its older half is dropped."""

MOST_OF_A_LINE = 256 * 1024
"""A longer prompt is not stored; large pastes are left out before."""

_READ_AT_ONCE = 64 * 1024
_LOCK_SECONDS = 1.0
_SEARCHED_LETTERS = 500
"""Characters of each prompt that a fuzzy search reads."""

_MOST_BY_LETTERS = 100


class Hit(msgspec.Struct, frozen=True):
    entry: SavedChips
    positions: tuple[int, ...]
    """Positions of the letters that matched."""


def history_file() -> Path:
    return state_folder() / "prompts.jsonl"


class PromptHistory:
    """The prompts of the file at the first read, and those added here since; number 0 is the newest."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or history_file()
        self._added: list[SavedChips] = []
        self._read: list[SavedChips] = []
        self._older = _lines_from_end(self._path)
        self._reading = threading.Lock()

    def add(self, entry: SavedChips) -> None:
        """Adds a prompt, unless it repeats the last one. Raises `ConfigurationError` if the file cannot be
        written. May wait for other processes: not for the event loop."""
        if entry.text[:1].isspace() or not entry.text or _has_key(entry):
            return
        if entry != self.get(0):
            self._added.append(entry)
        line = msgspec.json.encode(entry) + b"\n"
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
        """The prompt by number; None at the end."""
        if number < len(self._added):
            return self._added[-1 - number]
        number -= len(self._added)
        with self._reading:
            while number >= len(self._read):
                if not self._read_one():
                    return None
        return self._read[number]

    def search(self, query: str) -> Iterator[Hit]:
        """Distinct prompts that contain the query, newest first, read lazily; then fuzzy matches."""
        hits: set[str] = set()
        folds = query == query.lower()
        for entry in self._all():
            if entry.text in hits:
                continue
            at = (completion.folded(entry.text) if folds else entry.text).find(query)
            if at >= 0:
                hits.add(entry.text)
                yield Hit(entry, tuple(range(at, at + len(query))))
        others: dict[str, SavedChips] = {}
        for entry in self._all():
            if entry.text not in hits:
                others.setdefault(entry.text, entry)
        entries = list(others.values())
        texts = [entry.text[:_SEARCHED_LETTERS] for entry in entries]
        for hit in completion.best(query, texts, _MOST_BY_LETTERS):
            yield Hit(entries[hit.place], hit.match.positions)

    def _all(self) -> Iterator[SavedChips]:
        number = 0
        while entry := self.get(number):
            yield entry
            number += 1

    def _read_one(self) -> bool:
        for line in self._older:
            try:
                entry = msgspec.json.decode(line, type=SavedChips)
            except (msgspec.DecodeError, UnicodeDecodeError):  # an incomplete or edited line
                continue
            if not self._read or self._read[-1] != entry:
                self._read.append(entry)
                return True
        return False


def _has_key(entry: SavedChips) -> bool:
    return any(credentials.redact_keys(text) != text for text in (entry.text, *entry.pasted.values()))


def _lines_from_end(path: Path) -> Iterator[bytes]:
    """The last whole lines, newest first, at most `MOST_BYTES`; read in portions."""
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        at = file.seek(0, os.SEEK_END)
        least = max(0, at - MOST_BYTES)
        first = b""
        while at > least and len(first) <= MOST_OF_A_LINE:
            size = min(_READ_AT_ONCE, at - least)
            at -= size
            file.seek(at)
            first, *lines = (file.read(size) + first).split(b"\n")
            yield from (line for line in reversed(lines) if line)
        if at == 0 and first:
            yield first


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """A lock file beside the history, which is replaced when it is shortened."""
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
        if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a process was interrupted in its line
            line = b"\n" + line
        file.write(line)
    if size + len(line) > MOST_BYTES:
        _shorten(path)


def _shorten(path: Path) -> None:
    lines: list[bytes] = []
    size = 0
    for line in _lines_from_end(path):
        size += len(line) + 1
        if size > MOST_BYTES // 2:
            break
        lines.append(line + b"\n")
    write_atomically(path, b"".join(reversed(lines)), private=True)


MOST_ROWS = 8
MOST_HITS = 50
_KEYS = frozenset({"up", "down", "enter", "tab", "esc", "backspace", "ctrl+r", "ctrl+s", "ctrl+u"})
_OLDER, _NEWER = frozenset({"up", "ctrl+r"}), frozenset({"down", "ctrl+s"})


class HistorySearch:
    """Searches the history; the newest match is at the bottom, next to the line."""

    takes_text = True

    def __init__(self, line: InputLine, panels: Panels, draw: ItemRenderer) -> None:
        self._line = line
        self._panels = panels
        self._draw = draw
        self._query = ""
        self._hits: list[Hit] = []
        self._marked = 0
        self._search_task: asyncio.Future[None] | None = None

    def open(self) -> None:
        self._query = self._line.text if "\n" not in self._line.text else ""
        self._panels.open(self)
        self._start_search()

    def _start_search(self) -> None:
        if self._search_task is not None:
            self._search_task.cancel()
        self._search_task = asyncio.ensure_future(self._search(self._query))

    async def _search(self, query: str) -> None:
        hits = await asyncio.to_thread(lambda: list(islice(self._line.history.search(query), MOST_HITS)))
        self._hits, self._marked, self._search_task = hits, 0, None
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
            self._query = edited(self._query, key)
            self._start_search()

    def _choose(self) -> None:
        if self._search_task is not None:  # the hits are of an earlier query
            return
        if self._hits:
            chips = Chips()
            self._line.put(PromptDraft(chips.restored(self._hits[self._marked].entry), chips))
        self._close()

    def _close(self) -> None:
        if self._search_task is not None:
            self._search_task.cancel()
            self._search_task = None
        self._panels.close(self)

    def rows(self, width: int, most: int) -> list[str]:
        room = max(1, min(MOST_ROWS, most - 1))
        first = max(0, min(self._marked - room // 2, len(self._hits) - room))
        visible = list(enumerate(self._hits[first : first + room], first))
        rows = [self._row(hit, place == self._marked, width) for place, hit in reversed(visible)]
        count = f"{len(self._hits)} found" if self._hits else "no match"
        hint = f"  {count} · enter uses it, ctrl+r next, esc closes"
        asked = cut(f"search: {printable(self._query)}", width)
        about = Piece(cut(hint, width - cells(asked)), sgr(self._draw.colors, "muted") or DIM)
        return [*rows, drawn([Piece(asked, BOLD), about])]

    def _row(self, hit: Hit, is_marked: bool, width: int) -> str:
        colors = self._draw.colors
        text = printable(hit.entry.text).replace("\n", "⏎").replace("\t", " ")
        positions = frozenset(hit.positions)
        begin = max(0, min(hit.positions, default=0) - width // 2)
        visible = cut(text[begin:], width - 2)
        style = sgr(colors, "accent", BOLD) if is_marked else ""
        pieces = [Piece("❯ " if is_marked else "  ", style)]
        pieces += [
            Piece(letter, sgr(colors, "accent", BOLD) if place in positions else style)
            for place, letter in enumerate(visible, begin)
        ]
        return drawn(pieces)
