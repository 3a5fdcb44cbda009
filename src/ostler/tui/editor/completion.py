"""The completion popup above the input line: commands, their arguments, and paths."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ostler.app import completion
from ostler.app.completion import CommandEntry, mention_of
from ostler.context.markdown import outside_code
from ostler.core.lazy import lazy_module
from ostler.schema.text import cells, cut, one_line
from ostler.tui.editor.input_line import InputLine
from ostler.tui.panels.panel import Panels
from ostler.tui.render.items import ItemRenderer
from ostler.tui.render.spans import BOLD, DIM, Piece, drawn, muted_row, sgr
from ostler.tui.shell import shell_line

if TYPE_CHECKING:
    from ostler.app import project_files
    from ostler.app.project_files import FileMatch, ProjectFiles
else:
    project_files = lazy_module("ostler.app.project_files")

MOST_ROWS = 8
_KEYS = frozenset({"up", "down", "tab", "shift+tab", "enter", "esc", "ctrl+n", "ctrl+p"})
_MOVES = {"up": -1, "ctrl+p": -1, "shift+tab": -1, "down": 1, "ctrl+n": 1}


class CompletionPopup:
    """Updates on every key. `tab` and `enter` complete; `enter` also sends a command without arguments."""

    takes_text = False

    def __init__(
        self,
        line: InputLine,
        panels: Panels,
        draw: ItemRenderer,
        *,
        cwd: Path,
        commands: Callable[[], Sequence[CommandEntry]],
        complete_arguments: CompleteArguments,
        submit: Callable[[], None],
    ) -> None:
        self._line = line
        self._panels = panels
        self._draw = draw
        self._cwd = cwd
        self._commands = commands
        self._complete_arguments = complete_arguments
        self._submit = submit
        self._entries: Sequence[CommandEntry] = ()
        self._files: ProjectFiles | None = None
        self._search_task: asyncio.Future[None] | None = None
        self._has_more = False
        """More files arrived during the search."""
        self._completes_when_ready = False
        self._completions: Completions | None = None
        self._completed_at = ("", 0)
        self._marked = 0
        self._dismissed: int | None = None
        """The start of the word for which the popup was closed."""

    # --- searching --------------------------------------------------------------------------------------

    def update(self) -> None:
        self._completes_when_ready = False
        if self._search_task is not None:
            self._search_task.cancel()
            self._search_task = None
        wanted = self._wanted()
        if wanted is None or self._panels.present not in (None, self):
            self._dismissed = None
            self._hide()
        elif wanted.begin != self._dismissed:
            self._search_task = asyncio.ensure_future(self._search())

    async def _search(self) -> None:
        text, cursor = self._present()
        has_commands = self._completions is not None and self._completions.wanted.kind == "command"
        if text.lstrip().startswith("/") and not has_commands:
            self._entries = await asyncio.to_thread(self._commands)
        completions = await completions_at(
            text, cursor, self._entries, self._complete_arguments, self._search_files
        )
        self._search_task = None
        if self._has_more:
            self._update_paths()
        is_in_the_way = self._panels.present not in (None, self)
        if completions is None or is_in_the_way or (text, cursor) != self._present():
            self._hide()
            return
        is_the_same = self._completions is not None and self._completions.items == completions.items
        self._completions, self._completed_at = completions, (text, cursor)
        self._marked = self._marked if is_the_same else 0
        self._panels.open(self)
        if self._completes_when_ready and self._search_task is None:
            self._accept()

    def complete_when_ready(self) -> None:
        """Completes when the search ends: the person was faster."""
        self._completes_when_ready = self._search_task is not None

    def _present(self) -> tuple[str, int]:
        return self._line.text, self._line.buffer.cursor_position

    def _wanted(self) -> Wanted | None:
        text, cursor = self._present()
        return wanted_at(text, cursor) if "/" in text or "@" in text else None

    async def _search_files(self, query: str) -> Sequence[FileMatch]:
        if self._files is None:
            loop = asyncio.get_running_loop()

            def on_more() -> None:
                loop.call_soon_threadsafe(self._update_paths)

            self._files = project_files.ProjectFiles(self._cwd, on_more)
        return await asyncio.to_thread(self._files.search, query)

    def _update_paths(self) -> None:
        """Searches again, since more files arrived."""
        self._has_more = self._search_task is not None
        wanted = self._wanted()
        if wanted is not None and wanted.kind == "path" and not self._has_more:
            completes = self._completes_when_ready
            self.update()
            self._completes_when_ready = completes

    def close(self) -> None:
        """Called before the event loop ends."""
        if self._search_task is not None:
            self._search_task.cancel()
        if self._files is not None:
            self._files.close()

    def _hide(self) -> None:
        if self._completions is not None:
            self._completions = None
            self._panels.close(self)

    # --- keys -------------------------------------------------------------------------------------------

    def takes(self, key: str) -> bool:
        if key not in _KEYS or self._completions is None or self._completed_at != self._present():
            return False
        return key != "enter" or not self._is_complete()

    def _is_complete(self) -> bool:
        """Enter would change nothing, or replace a command that is typed in full."""
        assert self._completions is not None
        wanted = self._completions.wanted
        typed = self._line.text[wanted.begin : wanted.end]
        names = (f"/{name}" for one in self._entries for name in (one.name, *one.aliases))
        if wanted.kind == "command" and typed in names:
            return True
        return self._completions.items[self._marked].text.rstrip() == typed

    def key(self, key: str) -> None:
        assert self._completions is not None
        if key in _MOVES:
            self._marked = (self._marked + _MOVES[key]) % len(self._completions.items)
        elif key == "esc":
            self._dismissed = self._completions.wanted.begin
            self._hide()
        else:
            wanted, item = self._completions.wanted, self._completions.items[self._marked]
            is_all = wanted.kind == "command" and wanted.end == len(self._line.text)
            self._accept()
            if key == "enter" and is_all and not item.text.endswith(" "):
                self._submit()

    def _accept(self) -> None:
        assert self._completions is not None
        wanted, item = self._completions.wanted, self._completions.items[self._marked]
        self._line.replace(wanted.begin, wanted.end, item.text, wanted.begin + item.cursor)
        following = self._wanted()
        if following is not None and following.kind == "command":
            self._dismissed = following.begin
            self.update()
            self._hide()

    # --- drawing ----------------------------------------------------------------------------------------

    def rows(self, width: int, most: int) -> list[str]:
        if self._completions is None or (self._completed_at != self._present() and self._search_task is None):
            return []
        items = self._completions.items
        has_more = len(items) > min(MOST_ROWS, most)
        room = min(MOST_ROWS, max(1, most - has_more))
        first = max(0, min(self._marked - room // 2, len(items) - room))
        wide = [cells(one_line(item.label)) for item in items if item.description]
        column = max((one for one in wide if one <= width // 3), default=0)
        rows = [
            self._row(item, place == self._marked, width, column)
            for place, item in enumerate(items[first : first + room], first)
        ]
        if has_more:
            arrows = "↑" * (first > 0) + "↓" * (first + room < len(items))
            rows.append(muted_row(f"  {arrows} more", width, self._draw.colors))
        return rows

    def _row(self, item: Completion, is_marked: bool, width: int, column: int) -> str:
        """Descriptions are aligned in one column, unless a name is too long."""
        colors = self._draw.colors
        style = sgr(colors, "accent", BOLD) if is_marked else ""
        matched = sgr(colors, "accent", BOLD)
        label = cut(one_line(item.label), width - 2)
        pieces = [Piece("❯ " if is_marked else "  ", style)]
        positions = frozenset(item.positions)
        pieces += [
            Piece(letter, matched if place in positions else style) for place, letter in enumerate(label)
        ]
        blank = max(0, column - cells(label)) + 2
        room = width - 2 - cells(label) - blank
        if item.description and room > 8:
            about = cut(one_line(item.description), room)
            pieces += [Piece(" " * blank), Piece(about, sgr(colors, "muted") or DIM)]
        return drawn(pieces)


MOST_ARGUMENTS = 100
_COMMAND = re.compile(r"\s*(/([A-Za-z0-9_.:?-]*))")
_MENTION = re.compile(r'(?<![A-Za-z0-9_.+\-/@\\%=&])@(?:"((?:[^"\\\n]|\\["\\])*)|((?:[^\s"\\]|\\[^\n])*))\Z')
_REST_OF_WORD = re.compile(r"""(?:[^\s"\\)\]}>,;!?']|\\[^\n])*""")
"""A closing bracket or full stop is not part of the path."""

_REST_OF_QUOTED = re.compile(r'(?:(?:[^"\\\n]|\\["\\])*")?')
CompleteArguments = Callable[[str, str], Awaitable[Sequence[str]]]
"""Returns completions for a command and its typed arguments."""

SearchFiles = Callable[[str], Awaitable[Sequence["FileMatch"]]]
"""`ProjectFiles.search`, in a thread."""


class Wanted(msgspec.Struct, frozen=True):
    """What to complete at the cursor; a completion replaces `begin` to `end`."""

    kind: Literal["command", "argument", "path"]
    query: str
    """The typed text up to the cursor."""
    begin: int
    end: int
    command: str = ""
    """The command whose argument it is."""


class Completion(msgspec.Struct, frozen=True):
    text: str
    """The text that replaces the range."""
    label: str
    positions: tuple[int, ...] = ()
    """Positions of the letters of `label` that matched."""
    description: str = ""
    cursor: int = 0
    """The cursor afterwards, from the beginning of the range."""


class Completions(msgspec.Struct, frozen=True):
    wanted: Wanted
    items: tuple[Completion, ...]


def wanted_at(text: str, cursor: int) -> Wanted | None:
    """What to complete; None in a shell command, in code and in plain words."""
    if shell_line(text):
        return None
    return _mention_at(text, cursor) or _command_at(text, cursor)


async def completions_at(
    text: str,
    cursor: int,
    commands: Sequence[CommandEntry],
    complete_arguments: CompleteArguments,
    search_files: SearchFiles,
) -> Completions | None:
    """The completions; None without any."""
    wanted = wanted_at(text, cursor)
    if wanted is None:
        return None
    following = text[wanted.end : wanted.end + 1]
    match wanted.kind:
        case "command":
            items = _commands(wanted.query, commands, following)
        case "argument":
            items = _arguments(wanted.query, await complete_arguments(wanted.command, wanted.query))
        case "path":
            items = [_path(hit, following) for hit in await search_files(wanted.query)]
    return Completions(wanted, tuple(items)) if items else None


def _mention_at(text: str, cursor: int) -> Wanted | None:
    mention = _MENTION.search(text, 0, cursor)
    if mention is None or not any(begin <= mention.start() < end for begin, end in outside_code(text)):
        return None
    quoted, plain = mention.groups()
    word_end = (_REST_OF_WORD if quoted is None else _REST_OF_QUOTED).match(text, cursor)
    assert word_end is not None
    query = re.sub(r"\\(.)", r"\1", plain if quoted is None else quoted)
    return Wanted("path", query, mention.start(), word_end.end())


def _command_at(text: str, cursor: int) -> Wanted | None:
    command = _COMMAND.match(text)
    if command is None or cursor <= command.start(1):
        return None
    begin, end = command.span(1)
    if cursor <= end:
        is_whole = text[end : end + 1] in ("", " ", "\n", "\t")
        return Wanted("command", text[begin + 1 : cursor], begin, end) if is_whole else None
    if not text[end].isspace() or "\n" in text[end:cursor]:
        return None
    query = text[end:cursor].lstrip(" \t")
    return Wanted("argument", query, cursor - len(query), cursor, command[2])


def _commands(query: str, commands: Sequence[CommandEntry], following: str) -> list[Completion]:
    """Commands by name; one that matches only by an alias names it."""
    names = [(one, name) for one in commands for name in (one.name, *one.aliases)]
    best: dict[str, Completion] = {}
    for hit in _in_order(query, [name for _, name in names]):
        command, name = names[hit.place]
        if name == command.name or command.name not in best:
            best[command.name] = _command(command, name, hit.match.positions, following)
    return list(best.values())


def _in_order(query: str, names: Sequence[str]) -> Sequence[completion.Ranked]:
    """Prefix matches first, then fuzzy ones; all in order without a query."""
    hits = completion.best(query, names, len(names))
    if not query:
        return sorted(hits, key=lambda one: one.place)
    return sorted(hits, key=lambda one: not one.text.lower().startswith(query.lower()))


def _command(command: CommandEntry, name: str, positions: tuple[int, ...], following: str) -> Completion:
    word, shift = f"/{command.name}", 1
    text, cursor = _with_blank(word, following) if command.arguments else (word, len(word))
    label = f"{word} {command.arguments}".rstrip()
    if name != command.name:
        label += f" (/{name})"
        shift = len(label) - len(name) - 1
    return Completion(text, label, tuple(place + shift for place in positions), command.description, cursor)


def _with_blank(word: str, following: str) -> tuple[str, int]:
    """The word with a space after it, which may exist already, and the cursor behind it."""
    if following in ("", "\n"):
        return f"{word} ", len(word) + 1
    return word, len(word) + following.isspace()


def _arguments(query: str, offered: Sequence[str]) -> list[Completion]:
    return [
        Completion(hit.text, hit.text, hit.match.positions, cursor=len(hit.text))
        for hit in _in_order(query, offered)[:MOST_ARGUMENTS]
        if hit.text != query
    ]


def _path(hit: FileMatch, following: str) -> Completion:
    """For a folder the cursor stays behind its slash."""
    mention = mention_of(hit.path)
    if hit.path.endswith("/"):
        return Completion(mention, hit.path, hit.positions, cursor=len(mention) - mention.endswith('"'))
    text, cursor = _with_blank(mention, following)
    return Completion(text, hit.path, hit.positions, cursor=cursor)
