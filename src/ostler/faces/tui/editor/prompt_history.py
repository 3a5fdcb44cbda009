"""What was typed, across sessions: a file to which every process appends, read from its end.

A line that begins with a blank is kept nowhere. Neither is one that holds a key we know of.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ostler.faces.completing import fuzzy
from ostler.faces.tui.editor.chips import Kept
from ostler.runs.home import state_folder
from ostler.vocabulary.errors import ConfigurationError

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
    kept: Kept
    positions: tuple[int, ...]
    """The letters of its text that were found."""


def history_file() -> Path:
    return state_folder() / "prompts.jsonl"


class PromptHistory:
    """What the file held when it was first looked at, and what has been added here since: the newest is
    number 0."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or history_file()
        self._added: list[Kept] = []
        self._read: list[Kept] = []
        self._older = _lines_from_end(self._path)
        self._reading = threading.Lock()

    def add(self, kept: Kept) -> None:
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

    def get(self, number: int) -> Kept | None:
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
            at = (fuzzy.folded(kept.text) if folds else kept.text).find(query)
            if at >= 0:
                seen.add(kept.text)
                yield Hit(kept, tuple(range(at, at + len(query))))
        rest: dict[str, Kept] = {}
        for kept in self._all():
            if kept.text not in seen:
                rest.setdefault(kept.text, kept)
        yield from _with_letters(query, list(rest.values()))

    def _all(self) -> Iterator[Kept]:
        number = 0
        while kept := self.get(number):
            yield kept
            number += 1

    def _read_one(self) -> bool:
        for line in self._older:
            try:
                kept = msgspec.json.decode(line, type=Kept)
            except (msgspec.DecodeError, UnicodeDecodeError):  # half of a line, or somebody edited it
                continue
            if not self._read or self._read[-1] != kept:
                self._read.append(kept)
                return True
        return False


def _with_letters(query: str, older: Sequence[Kept]) -> Iterator[Hit]:
    texts = [kept.text[:_SEARCHED_LETTERS] for kept in older]
    for found in fuzzy.best(query, texts, _MOST_BY_LETTERS):
        yield Hit(older[found.place], found.match.positions)


def _has_key(kept: Kept) -> bool:
    from ostler.models.keys import without_keys

    return any(without_keys(text) != text for text in (kept.text, *kept.pasted.values()))


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
