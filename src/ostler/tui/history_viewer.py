"""The history viewer: each message and each call of a session in full, to scroll, search and copy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.extensions.ui.themes import ThemeColors
from ostler.history.item_builder import items_of
from ostler.history.items import CallItem, CallResult, Item, ReasoningItem, TextItem, UserItem, image_text
from ostler.permissions.rules import preview
from ostler.schema.errors import UsageError
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef, File, text_of
from ostler.schema.text import cut, one_line, printable
from ostler.tui.editor.paste import copy
from ostler.tui.panels.panel import Panels
from ostler.tui.render.boxes import framed, inside
from ostler.tui.render.code import code_rows
from ostler.tui.render.diff import change_rows
from ostler.tui.render.items import OpenCallView
from ostler.tui.render.markdown import markdown_rows
from ostler.tui.render.spans import BOLD, DIM, REVERSE, Piece, drawn, fitted, sgr, wrapped
from ostler.tui.render.terminal_text import terminal_rows

if TYPE_CHECKING:
    from ostler.tui.terminal_ui import TerminalUI


class HistoryViewer:
    def __init__(self, tui: TerminalUI) -> None:
        self._tui = tui

    async def choose(self) -> None:
        """Closing an entry leads back to the list."""
        from ostler.tui.panels.picker import Choice, Picker

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

        tui = self._tui
        done = entries_of(await tui.conversation.session.journal.history())
        entries = [*done, *map(open_entry, tui.transcript.calls)]
        if not entries:
            raise UsageError("nothing was said in this session yet")
        return entries

    async def _read(self, entries: list[SessionEntry], at: int) -> int:

        tui = self._tui

        asked: set[int] = set()

        async def complete(at: int) -> None:
            entries[at] = await full_text(entries[at], self._blob)
            tui.panels.refresh()

        def renew(at: int) -> None:
            if entries[at].is_running:
                for call in tui.transcript.calls:
                    if call.item.call == entries[at].call:
                        entries[at] = open_entry(call)
            elif entries[at].output is not None and at not in asked:
                asked.add(at)
                tui.composer.soon(complete(at))

        def copy_it(text: str) -> None:
            tui.composer.soon(copied(text))

        async def copied(text: str) -> None:
            reader.note = await copy(tui, text)
            tui.panels.refresh()

        reader = Reader(entries, at, tui.colors, copy_it, renew)
        return await reader.read(tui.panels)

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


def entries_of(facts: Sequence[Fact]) -> list[SessionEntry]:
    """The entries on the path to the leaf, in their order; a call stands where its result does."""
    entries = [entry for item in items_of(facts) if (entry := _entry(item)) is not None]
    return sorted(entries, key=lambda entry: entry.seq)


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
    note = one_line(result.summary) or result.failed or ""
    return SessionEntry(
        "call",
        f"{about} · {note}" if note else about,
        text,
        arguments,
        text,
        result.details,
        result.output,
        result.seq,
    )


def _call_rows(entry: SessionEntry, width: int, colors: ThemeColors | None) -> list[str]:
    details = entry.details or {}
    has_change = bool(details.get("diff"))
    rows: list[str] = []
    for name, value in entry.arguments.items():
        if has_change and name in ("content", "edits"):
            continue  # the change says it better
        rows += _argument_rows(name, value, entry.arguments, width, colors)
    if has_change:
        rows += ["", *change_rows(details, width, colors, most=ALL)]
    if entry.result:
        rows += ["", *terminal_rows(entry.result, width, colors, ALL)]
    return rows


def _argument_rows(
    name: str, value: Any, beside: dict[str, Any], width: int, colors: ThemeColors | None
) -> list[str]:
    """In one row with its name where it fits, else below it."""
    text = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value)).decode()
    style = sgr(colors, "secondary", BOLD)
    short = f"{name}: {printable(text)}"
    if "\n" not in text and cut(short, width) == short:
        return [drawn([Piece(f"{name}:", style), Piece(f" {printable(text)}")])]
    language = "json" if not isinstance(value, str) else "bash" if name == "command" else ""
    path = str(beside.get("path", "")) if name == "content" else ""
    return [
        drawn([Piece(cut(f"{name}:", width), style)]),
        *code_rows(text, width, colors, language=language, path=path),
    ]


_STYLES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\")
_LINES = {"up": -1, "k": -1, "ctrl+p": -1, "down": 1, "j": 1, "ctrl+n": 1, "enter": 1}
_PAGES = {"pgup": -1.0, "b": -1.0, "ctrl+u": -0.5, "pgdown": 1.0, " ": 1.0, "ctrl+d": 0.5}
_ENDS = {"home": 0, "g": 0, "end": 1_000_000_000, "G": 1_000_000_000}
_STEPS = {"left": -1, "h": -1, "right": 1, "l": 1}
_LEAVE = ("esc", "q")
_HINT = "esc closes · ←→ other messages · u U yours · / finds · y copies · # numbers"


class Reader:
    """A panel with all the room that there is. `read` opens it, and returns where it was left."""

    takes_text = True
    is_tall = True

    def __init__(
        self,
        entries: Sequence[SessionEntry],
        at: int,
        colors: Callable[[], ThemeColors | None],
        copy: Callable[[str], None],
        renew: Callable[[int], None],
    ) -> None:
        self._entries = entries
        """Each of which `renew` brings up to date, or completes later."""
        self._renew = renew
        self.at = at
        self._colors = colors
        self._copy = copy
        self._left: asyncio.Future[int] | None = None
        self._top = 0
        self._page = 1
        self._drawn: tuple[tuple[object, ...], list[str]] = ((), [])
        self._has_numbers = False
        self._query = ""
        self._is_typing = False
        self.note = ""
        """What came of the last key, until the next."""

    async def read(self, panels: Panels) -> int:
        self._left = asyncio.get_running_loop().create_future()
        panels.open(self)
        try:
            return await self._left
        finally:
            panels.close(self)

    # --- keys -----------------------------------------------------------------------------------------

    @property
    def takes_pastes(self) -> bool:
        return self._is_typing

    def takes(self, key: str) -> bool:
        return True

    def key(self, key: str) -> None:
        self.note = ""
        if self._is_typing:
            self._type(key)
        elif key in _LEAVE:
            self._leave(key)
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

    def _leave(self, key: str) -> None:
        if key == "esc" and self._query:
            self._query = ""
        elif self._left is not None and not self._left.done():
            self._left.set_result(self.at)

    def _type(self, key: str) -> None:
        match key:
            case "enter" | "esc":
                self._is_typing = False
                self._query = self._query if key == "enter" else ""
            case "backspace":
                self._query = self._query[:-1]
            case _ if len(key) == 1 and key.isprintable():
                self._query += key
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
        """To the next row that has it, from there and around."""
        rows = self._drawn[1]
        places = [(start + step * number) % len(rows) for number in range(len(rows))] if rows else []
        found = next((at for at in places if self._matches(rows[at])), None)
        if found is None:
            self.note = "not found"
        else:
            self._top = found

    def _matches(self, row: str) -> list[tuple[int, int]]:
        """Where it has it; capital letters count if there are some in what is looked for."""
        flags = 0 if self._query != self._query.lower() else re.IGNORECASE
        return [found.span() for found in re.finditer(re.escape(self._query), _STYLES.sub("", row), flags)]

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
        self._renew(self.at)
        entry, room, colors = self._entries[self.at], inside(width), self._colors()
        was_at_end = self._top + self._page >= len(self._drawn[1])
        rows = self._rows(entry, room, colors)
        self._page = max(1, most - (3 if room < width else 2))
        if entry.is_running and was_at_end:
            self._top = len(rows)
        self._top = max(0, min(self._top, len(rows) - self._page))
        shown = [self._marked(row) for row in rows[self._top : self._top + self._page]]
        last = drawn([Piece(cut(one_line(self._below()), room), sgr(colors, "muted") or DIM)])
        seen = f"{self._top + 1}-{self._top + len(shown)} of {len(rows)}"
        note = f"{seen} · {self.at + 1} of {len(self._entries)}"
        return framed(
            [*shown, last], width, colors, title=entry.who, about=entry.about, note=note, slot="info"
        )[:most]

    def _below(self) -> str:
        if self._is_typing:
            return f"/{self._query}▏{self.note}"
        if self.note:
            return self.note
        return f"/{self._query} · n N the next and the one before · esc forgets it" if self._query else _HINT

    def _rows(self, entry: SessionEntry, room: int, colors: ThemeColors | None) -> list[str]:
        state = (id(entry), room, colors, self._has_numbers)
        if self._drawn[0] != state:
            self._drawn = (state, self._numbered(entry, room, colors))
        return self._drawn[1]

    def _numbered(self, entry: SessionEntry, room: int, colors: ThemeColors | None) -> list[str]:
        if not self._has_numbers:
            return fitted(entry_rows(entry, room, colors), room)
        digits = len(str(len(fitted(entry_rows(entry, room, colors), room)))) + 1
        style = sgr(colors, "very_muted") or DIM
        narrower = max(1, room - digits - 1)
        rows = fitted(entry_rows(entry, narrower, colors), narrower)
        return [f"{drawn([Piece(f'{number:>{digits}} ', style)])}{row}" for number, row in enumerate(rows, 1)]
