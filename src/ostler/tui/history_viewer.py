"""The history viewer: each message and each call of a session in full, to scroll, search and copy."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.extensions.ui.themes import ThemeColors
from ostler.history.item_builder import items_of
from ostler.history.items import CallItem, CallResult, Item, ReasoningItem, TextItem, UserItem, image_text
from ostler.permissions.rules import preview
from ostler.schema.errors import UsageError
from ostler.schema.messages import BlobRef, File, text_of
from ostler.schema.text import cells, cut, one_line, printable
from ostler.tui.editor.paste import copy
from ostler.tui.panels.panel import ModalPanel, edited
from ostler.tui.panels.picker import Choice, Picker
from ostler.tui.render.boxes import framed, inside
from ostler.tui.render.code import code_rows
from ostler.tui.render.diff import change_rows
from ostler.tui.render.items import OpenCallView
from ostler.tui.render.markdown import markdown_rows
from ostler.tui.render.spans import BOLD, DIM, REVERSE, Piece, drawn, fitted, muted_row, sgr, wrapped
from ostler.tui.render.terminal_text import terminal_rows

if TYPE_CHECKING:
    from ostler.tui.terminal_ui import TerminalUI


class HistoryViewer:
    def __init__(self, tui: TerminalUI) -> None:
        self._tui = tui

    async def choose(self) -> None:
        """Closing an entry leads back to the list."""
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
        """The entries on the path to the leaf; a call stands where its result does, and open calls last."""
        facts = await self._tui.conversation.session.journal.history()
        entries = [entry for item in items_of(facts) if (entry := _entry(item)) is not None]
        entries = sorted(entries, key=lambda entry: entry.seq)
        entries += map(open_entry, self._tui.transcript.calls)
        if not entries:
            raise UsageError("this session has no messages yet")
        return entries

    async def _read(self, entries: list[SessionEntry], at: int) -> int:
        tui, requested = self._tui, set[int]()

        async def complete(at: int) -> None:
            entries[at] = await full_text(entries[at], self._blob)
            tui.panels.refresh()

        def update(at: int) -> None:
            if entries[at].is_running:
                for call in tui.transcript.calls:
                    if call.item.call == entries[at].call:
                        entries[at] = open_entry(call)
            elif entries[at].output is not None and at not in requested:
                requested.add(at)
                tui.composer.soon(complete(at))

        async def copy_text(text: str) -> None:
            reader.note = await copy(tui, text)
            tui.panels.refresh()

        reader = Reader(entries, at, tui.colors, lambda text: tui.composer.soon(copy_text(text)), update)
        return await reader.ask(tui.panels)

    async def _blob(self, blob: BlobRef) -> bytes:
        conversation = self._tui.conversation
        return await conversation.store.read_blob(conversation.session.id, blob.id)


Who = Literal["you", "answer", "thought", "call"]
ALL = 1_000_000
"""Rows: nothing is folded."""


class SessionEntry(msgspec.Struct, frozen=True):
    who: Who
    about: str
    """Its first words, in a line."""
    text: str
    """All of it, as it is copied."""
    arguments: dict[str, Any] = {}
    result: str = ""
    details: dict[str, Any] | None = None
    output: BlobRef | None = None
    """The whole of what a result has only a part of."""
    seq: int = 0
    is_running: bool = False
    call: str = ""
    """Its id, while it has no result."""


def _entry(item: Item) -> SessionEntry | None:
    match item:
        case UserItem(hidden=False, content=content):
            attached = [image_text(image) for image in item.images]
            attached += [block.name or block.media_type for block in content if isinstance(block, File)]
            text = "\n".join(filter(None, [text_of(content), *(f"[{name}]" for name in attached)]))
            return _text_entry("you", text, item.seq)
        case TextItem(complete=True, text=text) if text:
            return _text_entry("answer", text, item.seq)
        case ReasoningItem(complete=True, text=text):
            return _text_entry("thought", text, item.seq)
        case CallItem(result=result) if result is not None:
            return _call_entry(item, result)
    return None


def open_entry(call: OpenCallView) -> SessionEntry:
    """A call that has no result yet, with what it has printed so far."""
    item, arguments = call.item, call.item.arguments or {}
    printed = "\n".join(call.output.rows(10_000, None))
    about = f"{item.name} {one_line(preview(item.name, arguments) or call.arguments.path)}"
    is_running = call.state == "running"
    return SessionEntry("call", about, printed, arguments, printed, is_running=is_running, call=item.call)


async def full_text(entry: SessionEntry, read: Callable[[BlobRef], Awaitable[bytes]]) -> SessionEntry:
    """With the output that was too long for the model."""
    if entry.output is None:
        return entry
    text = (await read(entry.output)).decode("utf-8", "replace")
    return msgspec.structs.replace(entry, result=text, text=text, output=None)


def entry_rows(entry: SessionEntry, width: int, colors: ThemeColors | None) -> list[str]:
    match entry.who:
        case "answer":
            return markdown_rows(entry.text, width, colors)
        case "call":
            return _call_rows(entry, width, colors)
        case _:
            text = printable(entry.text).expandtabs(4)
            return [drawn(row) for line in text.split("\n") for row in wrapped([Piece(line)], width)]


def _text_entry(who: Who, text: str, seq: int) -> SessionEntry:
    return SessionEntry(who, one_line(text[:400]) or "(no text)", text.strip("\n"), seq=seq)


def _call_entry(call: CallItem, result: CallResult) -> SessionEntry:
    arguments = call.arguments or {}
    if not call.call:  # a person's `!command`
        command = str(arguments["command"])
        text = f"$ {command}\n{result.text}"
        return SessionEntry("call", f"! {one_line(command)}", text, arguments, result.text, seq=result.seq)
    text = "\n".join(filter(None, [result.text, *map(image_text, result.images)]))
    about = f"{call.name} {one_line(preview(call.name, arguments))}"
    if note := one_line(result.summary) or result.failed:
        about += f" · {note}"
    return SessionEntry("call", about, text, arguments, text, result.details, result.output, result.seq)


def _call_rows(entry: SessionEntry, width: int, colors: ThemeColors | None) -> list[str]:
    details = entry.details or {}
    has_change = bool(details.get("diff"))
    rows: list[str] = []
    path = str(entry.arguments.get("path", ""))
    for name, value in entry.arguments.items():
        if not has_change or name not in ("content", "edits"):  # the diff shows these
            rows += _argument_rows(name, value, path, width, colors)
    if has_change:
        rows += ["", *change_rows(details, width, colors, most=ALL)]
    if entry.result:
        rows += ["", *terminal_rows(entry.result, width, colors, ALL)]
    return rows


def _argument_rows(name: str, value: Any, path: str, width: int, colors: ThemeColors | None) -> list[str]:
    """In one row with its name where it fits, else below it."""
    text = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value)).decode()
    style = sgr(colors, "secondary", BOLD)
    if "\n" not in text and cells(f"{name}: {printable(text)}") <= width:
        return [drawn([Piece(f"{name}:", style), Piece(f" {printable(text)}")])]
    language = "json" if not isinstance(value, str) else "bash" if name == "command" else ""
    rows = code_rows(text, width, colors, language=language, path=path if name == "content" else "")
    return [drawn([Piece(cut(f"{name}:", width), style)]), *rows]


_STYLES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\")
_LINES = {"up": -1, "k": -1, "ctrl+p": -1, "down": 1, "j": 1, "ctrl+n": 1, "enter": 1}
_PAGES = {"pgup": -1.0, "b": -1.0, "ctrl+u": -0.5, "pgdown": 1.0, " ": 1.0, "ctrl+d": 0.5}
_ENDS = {"home": 0, "g": 0, "end": 1_000_000_000, "G": 1_000_000_000}
_STEPS = {"left": -1, "h": -1, "right": 1, "l": 1}
_HINT = "esc closes · ←→ other messages · u U yours · / searches · y copies · # numbers"


class Reader(ModalPanel[int]):
    """A panel on the whole screen that shows one entry. `ask` returns the entry shown last."""

    is_tall = True

    def __init__(
        self,
        entries: Sequence[SessionEntry],
        at: int,
        colors: Callable[[], ThemeColors | None],
        copy: Callable[[str], None],
        update: Callable[[int], None],
    ) -> None:
        self._entries = entries
        """Each of which `update` brings up to date, or completes later."""
        self._update = update
        self.at = at
        self._colors = colors
        self._copy = copy
        self._top = 0
        self._page = 1
        self._drawn: tuple[tuple[object, ...], list[str]] = ((), [])
        self._has_numbers = False
        self._query = ""
        self._is_typing = False
        self.note = ""
        """The result of the last key, until the next one."""

    # --- keys -----------------------------------------------------------------------------------------

    @property
    def takes_pastes(self) -> bool:
        return self._is_typing

    def key(self, key: str) -> None:
        self.note = ""
        if self._is_typing:
            self._type(key)
        elif key == "esc" and self._query:
            self._query = ""
        elif key in ("esc", "q"):
            self.answer(self.at)
        elif key in _LINES:
            self._top += _LINES[key]
        elif key in _PAGES:
            self._top += int(_PAGES[key] * self._page)
        elif key in _ENDS:
            self._top = _ENDS[key]
        elif key in _STEPS:
            self._go(self.at + _STEPS[key])
        elif key in ("u", "U"):
            self._go_to_own(-1 if key == "u" else 1)
        elif key == "/":
            self._is_typing, self._query = True, ""
        elif key in ("n", "N") and self._query:
            self._search(self._top + (1 if key == "n" else -1), -1 if key == "N" else 1)
        elif key == "y":
            self._copy(self._entries[self.at].text)
        elif key == "#":
            self._has_numbers = not self._has_numbers

    def _type(self, key: str) -> None:
        if key in ("enter", "esc"):
            self._is_typing = False
            self._query = self._query if key == "enter" else ""
        elif key != "ctrl+u":
            self._query = edited(self._query, key)
        if self._query:
            self._search(self._top, 1)

    def _go(self, at: int) -> None:
        if 0 <= at < len(self._entries):
            self.at, self._top = at, 0

    def _go_to_own(self, step: int) -> None:
        at = self.at + step
        while 0 <= at < len(self._entries) and self._entries[at].who != "you":
            at += step
        self._go(at)

    # --- searching ------------------------------------------------------------------------------------

    def _search(self, start: int, step: int) -> None:
        """Goes to the next row with a match, from a row on and around."""
        rows = self._drawn[1]
        places = ((start + step * number) % len(rows) for number in range(len(rows)))
        self.note = "not found"
        if (place := next((at for at in places if self._matches(rows[at])), None)) is not None:
            self._top, self.note = place, ""

    def _matches(self, row: str) -> list[tuple[int, int]]:
        """The spans of the query; its case counts if it has capital letters."""
        flags = 0 if self._query != self._query.lower() else re.IGNORECASE
        return [match.span() for match in re.finditer(re.escape(self._query), _STYLES.sub("", row), flags)]

    def _marked(self, row: str) -> str:
        if not self._query or not (spans := self._matches(row)):
            return row
        text, pieces, end = _STYLES.sub("", row), [], 0
        for start, stop in spans:
            pieces += [Piece(text[end:start]), Piece(text[start:stop], REVERSE)]
            end = stop
        return drawn([*pieces, Piece(text[end:])])

    # --- rows -----------------------------------------------------------------------------------------

    def rows(self, width: int, most: int) -> list[str]:
        self._update(self.at)
        entry, room, colors = self._entries[self.at], inside(width), self._colors()
        was_at_end = self._top + self._page >= len(self._drawn[1])
        rows = self._rows(entry, room, colors)
        self._page = max(1, most - (3 if room < width else 2))
        if entry.is_running and was_at_end:
            self._top = len(rows)
        self._top = max(0, min(self._top, len(rows) - self._page))
        visible = [self._marked(row) for row in rows[self._top : self._top + self._page]]
        hint = muted_row(one_line(self._below()), room, colors)
        part = f"{self._top + 1}-{self._top + len(visible)} of {len(rows)}"
        note = f"{part} · {self.at + 1} of {len(self._entries)}"
        rows = [*visible, hint]
        return framed(rows, width, colors, title=entry.who, about=entry.about, note=note, slot="info")[:most]

    def _below(self) -> str:
        if self._is_typing:
            return f"/{self._query}▏{self.note}"
        if self.note:
            return self.note
        return f"/{self._query} · n N next and previous match · esc ends the search" if self._query else _HINT

    def _rows(self, entry: SessionEntry, room: int, colors: ThemeColors | None) -> list[str]:
        state = (id(entry), room, colors, self._has_numbers)
        if self._drawn[0] != state:
            rows = fitted(entry_rows(entry, room, colors), room)
            if self._has_numbers:
                digits, style = len(str(len(rows))) + 1, sgr(colors, "very_muted") or DIM
                room = max(1, room - digits - 1)
                rows = fitted(entry_rows(entry, room, colors), room)
                numbers = (drawn([Piece(f"{at:>{digits}} ", style)]) for at in range(1, len(rows) + 1))
                rows = [number + row for number, row in zip(numbers, rows, strict=True)]
            self._drawn = (state, rows)
        return self._drawn[1]
