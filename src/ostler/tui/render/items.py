"""How items are drawn: closed ones in full, open ones by their end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ostler.core.lazy import lazy_module
from ostler.core.tool import default_summary
from ostler.extensions.ui.themes import ThemeColors
from ostler.history.items import (
    CallItem,
    ChildItem,
    Level,
    NoticeItem,
    PrintedItem,
    ReasoningItem,
    RunEndItem,
    UserItem,
    image_text,
)
from ostler.permissions.rules import preview
from ostler.schema.messages import Text
from ostler.schema.text import cells, cut, cut_start, one_line, printable
from ostler.tui.plain.items import child_line, run_totals, stage_text
from ostler.tui.render.boxes import framed, inside, notice_rows, printed_rows, user_rows
from ostler.tui.render.diff import change_rows
from ostler.tui.render.markdown import markdown_rows, part_rows
from ostler.tui.render.spans import DIM, Piece, drawn, fitted, folded, sgr, styled, tint, wrapped
from ostler.tui.render.terminal_text import TerminalText, terminal_rows
from ostler.tui.status import Part, elapsed

if TYPE_CHECKING:
    from ostler.tui.render import call_arguments
    from ostler.tui.render.call_arguments import ArgumentsStream
    from ostler.tui.render.markdown_stream import Part as MarkdownPart
else:
    call_arguments = lazy_module("ostler.tui.render.call_arguments")

RESULT_ROWS = 12
"""Of a result that is not a change of a file."""

CHANGE_ROWS = 40
PROMPT_ROWS = 40
TAIL_ROWS = 12
UNFOLD = " · ctrl+o shows all"
_SLOTS = {"failed": "error", "refused": "warning"}
_ENDS = {"completed": "✓", "cancelled": "■", "refused": "✗", "limit": "■", "interrupted": "■", "failed": "✗"}
_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\")


class TextPart(msgspec.Struct, frozen=True):
    """A part of an answer: a paragraph, a list, a piece of code."""

    part: MarkdownPart


PrintableItem = UserItem | TextPart | ReasoningItem | CallItem | NoticeItem | PrintedItem | RunEndItem


def notice(text: str, level: Level = "info") -> NoticeItem:
    return NoticeItem("", text=text, level=level)


class OpenCallView:
    """A call without a result, as it is drawn: its arguments grow, then its output does."""

    def __init__(self, item: CallItem, since: float, cwd: Path | None = None) -> None:
        self.item = item
        self.since = since
        self.seconds = 0.0
        self.output = TerminalText()
        self._has_started = item.stage == "running"
        self._cwd = cwd
        self._unread: list[str] = []
        self._has_arguments = False
        self._arguments: ArgumentsStream | None = None
        self.write(item.arguments_text)
        self._take_arguments(item)

    def write(self, fragment: str) -> None:
        if fragment:
            self._unread.append(fragment)
            self._has_arguments = True

    def change(self, item: CallItem, now: float) -> None:
        if item.stage == "running" and not self._has_started:
            self._has_started, self.since = True, now
        self.item = item
        self._take_arguments(item)

    def _take_arguments(self, item: CallItem) -> None:
        """The arguments of a call whose text did not stream."""
        if not self._has_arguments and item.arguments is not None:
            self.write(item.arguments_text or msgspec.json.encode(item.arguments).decode())

    @property
    def state(self) -> Literal["writing", "waiting", "running"]:
        if self._has_started:
            return "running"
        return "writing" if self.item.arguments is None else "waiting"

    @property
    def arguments(self) -> ArgumentsStream:
        """As far as they are written. They are parsed when they are drawn: those of most calls never are."""
        if self._arguments is None:
            self._arguments = call_arguments.arguments_stream(self.item.name, self._cwd)
        if self._unread:
            text, self._unread = "".join(self._unread), []
            self._arguments.feed(text)
        return self._arguments


class CallRendering(msgspec.Struct, frozen=True):
    """How an extension shows a call. What is empty is drawn as usual."""

    title: str = ""
    color: str = ""
    background: str = ""
    markdown: bool = False
    header: str | None = None
    body: str | None = None


class ItemRenderer:
    """Draws in the colours of a theme, or without colours."""

    def __init__(self, colors: ThemeColors | None = None) -> None:
        self.colors = colors
        self.open_dress: Callable[[CallItem, int], CallRendering | None] = lambda block, width: None
        """How extensions show an open call."""

    def closed(self, block: PrintableItem, width: int, dress: CallRendering | None = None) -> list[str]:
        """The rows of an item that will not change; with a blank one before what begins something new."""
        match block:
            case UserItem():
                rows = user_rows(block.text, width, self.colors, attachments=block.attachments)
                rows = folded(rows, PROMPT_ROWS, width, self.colors)
                steer = [self._dim("while it worked:", width)] if block.source == "steer" else []
                return ["", *steer, *rows, ""]
            case TextPart(part=part):
                rows = part_rows(part, width, self.colors)
                return ["", *rows] if part.begins and rows else rows
            case ReasoningItem():
                return ["", self._reasoning(block, width)]
            case CallItem():
                return ["", *self._call(block, width, dress)]
            case NoticeItem(text=text, level=level):
                return notice_rows(text, width, self.colors, level=level)
            case PrintedItem(printed=printed):
                return printed_rows(printed, width, self.colors)
            case RunEndItem():
                return ["", *self._run_end(block, width)]

    def opened(self, block: PrintableItem | OpenCallView, width: int, most: int) -> list[str]:
        """The end of something that still changes."""
        match block:
            case OpenCallView():
                return ["", *self._open_call(block, width, most)]
            case ReasoningItem():
                text = f"✻ thinking, {len(block.text.split())} words"
                return ["", self._dim(text, width), *self._last_thoughts(block, width)]
            case _:
                return fitted(self.closed(block, width), width)[-most:]

    # --- thinking -------------------------------------------------------------------------------------

    def _reasoning(self, block: ReasoningItem, width: int) -> str:
        took = f" for {elapsed(block.seconds)}" if block.seconds >= 1 else ""
        return self._dim(f"✻ thought{took}, {len(block.text.split())} words · ctrl+t shows them", width)

    def thoughts(self, text: str, width: int) -> list[str]:
        """What the model thought, unfolded."""
        style = sgr(self.colors, "muted") or DIM
        rows = wrapped([Piece(printable(text).strip(), style)], inside(width))
        about = f"{len(text.split())} words"
        return ["", *framed([drawn(row) for row in rows], width, self.colors, title="thought", about=about)]

    def _last_thoughts(self, block: ReasoningItem, width: int) -> list[str]:
        lines = printable(block.text).strip().splitlines()[-2:]
        return [f"  {self._dim(line, width - 2)}" for line in lines]

    # --- calls ----------------------------------------------------------------------------------------

    def _call(self, block: CallItem, width: int, dress: CallRendering | None) -> list[str]:
        text, summary, seconds = "", "", 0.0
        if block.result is not None:
            text, summary = block.result.text, block.result.summary
            seconds = block.result.duration_ms / 1000
        is_repeated_below = block.stage != "done" and (
            text.startswith(summary) or summary == default_summary([Text(text)])
        )
        note = "" if is_repeated_below else summary
        note = note or ("" if block.stage == "done" else stage_text(block))
        if seconds >= 1:
            note = f"{note} · {elapsed(seconds)}" if note else elapsed(seconds)
        rows = self._result(block, inside(width))
        if dress is not None:
            rows = self._dressed_result(block, dress, inside(width), rows)
        children = [child for child in block.children if child.status != "running"]
        rows = [*self._children(children, inside(width)), *rows, *self._images(block, inside(width))]
        slot = _SLOTS.get(block.stage, "muted_border")
        return self._framed_call(block, rows, width, self._about(block), one_line(note), slot, dress)

    def _framed_call(
        self,
        block: CallItem,
        rows: list[str],
        width: int,
        about: str,
        note: str,
        slot: str,
        dress: CallRendering | None,
    ) -> list[str]:
        title, edge, background = self._title(block), "", ""
        if dress is not None:
            title = dress.title or title
            if dress.header is not None:
                title, about, rows = self._dressed_heading(dress.header, title, width, rows)
            if self.colors and self.colors.name:
                edge = styled(dress.color) if slot not in _SLOTS.values() else ""
                background = tint(dress.background, dress.background, 1.0)
        made = framed(
            rows, width, self.colors, title=title, about=about, note=note, slot=slot, edge_style=edge
        )
        return [on_background(row, background, width) for row in made] if background else made

    def _dressed_heading(
        self, header: str, title: str, width: int, rows: list[str]
    ) -> tuple[str, str, list[str]]:
        """A plain line stands in the edge; what has colours or more lines stands below the title."""
        if "\n" not in header.strip() and "\x1b" not in header:
            return header, "", rows
        return title, "", [*terminal_rows(header, inside(width), self.colors), *rows]

    def _dressed_result(
        self, block: CallItem, dress: CallRendering, width: int, rows: list[str]
    ) -> list[str]:
        if dress.body is None and not dress.markdown:
            return rows
        text = block.result.text if block.result else ""
        body = text if dress.body is None else dress.body
        drawn_as = markdown_rows if dress.markdown else terminal_rows
        return folded(drawn_as(body, width, self.colors), CHANGE_ROWS, width, self.colors, UNFOLD)

    def _result(self, block: CallItem, width: int) -> list[str]:
        if block.result is None:
            return []
        text, details = block.result.text, block.result.details or {}
        if details.get("diff") and block.stage == "done":
            return change_rows(details, width, self.colors, most=CHANGE_ROWS, hint=UNFOLD)
        if block.display and block.display.view == "markdown":
            rows = markdown_rows(text, width, self.colors)
            return folded(rows, CHANGE_ROWS, width, self.colors, UNFOLD)
        if block.tool_kind in ("read", "search") and block.stage == "done":
            return []  # the summary says how much it was
        if block.stage == "refused":  # a sentence, and not the output of a program
            return [drawn(row) for row in wrapped([Piece(printable(text).strip())], width)]
        rows = terminal_rows(text, width, self.colors, len(text))
        return folded(rows, RESULT_ROWS, width, self.colors, UNFOLD)

    def _open_call(self, call: OpenCallView, width: int, most: int) -> list[str]:
        block, room = call.item, max(1, min(TAIL_ROWS, most - 3))
        rows = call.output.rows(inside(width), self.colors, room)
        rows = [*self._children(block.children, inside(width)), *rows]
        if not rows and block.stage != "asking":  # the question shows what it would do
            rows = call.arguments.tail(room, inside(width), self.colors)
        if call.state == "writing":
            about, note = call.arguments.path, call.arguments.note
        else:
            about = self._about(block)
            note = elapsed(call.seconds) if call.state == "running" else "waits"
        dress = self.open_dress(block, width)
        rows = fitted(rows, inside(width))[-room:]
        return self._framed_call(block, rows, width, one_line(about), note, "accent", dress)

    def waiting_call(self, call: OpenCallView, width: int) -> str:
        """In one row."""
        block = call.item
        return framed(
            [], width, self.colors, title=self._title(block), about=self._about(block), note="waits"
        )[0]

    def _children(self, children: Sequence[ChildItem], width: int) -> list[str]:
        return [self._child(child, width) for child in children]

    def _child(self, child: ChildItem, width: int) -> str:
        name, line = f"⚙ {one_line(child.agent or 'child')}", one_line(child_line(child))
        if not line:
            return self._dim(name, width)
        room = width - cells(name) - 2
        text = cut_start(line, room) if child.talking and room > 0 else line
        return self._dim(f"{name}: {text}", width)

    def _images(self, block: CallItem, width: int) -> list[str]:
        images = block.result.images if block.result else ()
        return [self._dim(image_text(image), width) for image in images]

    def _title(self, block: CallItem) -> str:
        icon = f"{block.display.icon} " if block.display and block.display.icon else ""
        return f"{icon}{block.name}"

    def _about(self, block: CallItem) -> str:
        arguments = block.arguments or {}
        if block.display and (title := block.display.title_for(arguments)):
            return one_line(title)
        return one_line(preview(block.name, arguments))

    # --- the rest -------------------------------------------------------------------------------------

    def _run_end(self, block: RunEndItem, width: int) -> list[str]:
        parts = [f"{_ENDS.get(block.status, '·')} {block.status}"]
        if block.reason and block.reason != block.status:
            parts.append(block.reason)
        parts += run_totals(block)
        style = sgr(self.colors, "error" if block.status == "failed" else "muted") or DIM
        return [drawn(row) for row in wrapped([Piece(one_line(" · ".join(parts)), style)], width)]

    def note(self, text: str, width: int) -> list[str]:
        """For what is drawn anew with each frame."""
        return fitted(notice_rows(text, width, self.colors), width)

    def parts(self, parts: Sequence[Part], between: str = "  ") -> str:
        pieces = [Piece(one_line(part.text), sgr(self.colors, part.slot)) for part in parts]
        joined = [piece for one in pieces for piece in (Piece(between), one)][1:]
        return drawn(joined)

    def _dim(self, text: str, width: int) -> str:
        return drawn([Piece(cut(one_line(text), width), sgr(self.colors, "muted") or DIM)])


def on_background(row: str, background: str, width: int) -> str:
    """A row that is drawn, on a background as wide as the terminal."""
    taken = cells(_SEQUENCE.sub("", row))
    inner = row.replace("\x1b[0m", f"\x1b[0;{background}m")
    left = width - taken if taken <= width else -taken % width
    return f"\x1b[{background}m{inner}{' ' * left}\x1b[0m"
