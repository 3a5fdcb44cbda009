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
from ostler.history import items
from ostler.history.items import CallItem, ChildItem, NoticeItem, ReasoningItem, UserItem, image_text
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


PrintableItem = (
    UserItem | TextPart | ReasoningItem | CallItem | NoticeItem | items.PrintedItem | items.RunEndItem
)


def notice(text: str, level: items.Level = "info") -> NoticeItem:
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
        self.open_rendering: Callable[[CallItem, int], CallRendering | None] = lambda item, width: None
        """How extensions show an open call."""

    def closed(self, item: PrintableItem, width: int, rendering: CallRendering | None = None) -> list[str]:
        """The rows of an item that will not change; with a blank one before what begins something new."""
        match item:
            case UserItem():
                rows = user_rows(item.text, width, self.colors, attachments=item.attachments)
                rows = folded(rows, PROMPT_ROWS, width, self.colors)
                steer = [self._dim("during the run:", width)] if item.source == "steer" else []
                return ["", *steer, *rows, ""]
            case TextPart(part=part):
                rows = part_rows(part, width, self.colors)
                return ["", *rows] if part.begins and rows else rows
            case ReasoningItem():
                took = f" for {elapsed(item.seconds)}" if item.seconds >= 1 else ""
                text = f"✻ thought{took}, {len(item.text.split())} words · ctrl+t shows them"
                return ["", self._dim(text, width)]
            case CallItem():
                return ["", *self._call(item, width, rendering)]
            case NoticeItem(text=text, level=level):
                return notice_rows(text, width, self.colors, level=level)
            case items.PrintedItem(printed=printed):
                return printed_rows(printed, width, self.colors)
            case items.RunEndItem():
                return ["", *self._run_end(item, width)]

    def opened(self, item: PrintableItem | OpenCallView, width: int, most: int) -> list[str]:
        """The end of something that still changes."""
        match item:
            case OpenCallView():
                return ["", *self._open_call(item, width, most)]
            case ReasoningItem():
                text = f"✻ thinking, {len(item.text.split())} words"
                lines = printable(item.text).strip().splitlines()[-2:]
                return ["", self._dim(text, width), *(f"  {self._dim(line, width - 2)}" for line in lines)]
            case _:
                return fitted(self.closed(item, width), width)[-most:]

    # --- thinking -------------------------------------------------------------------------------------

    def reasoning(self, text: str, width: int) -> list[str]:
        """The reasoning of the model, unfolded."""
        style = sgr(self.colors, "muted") or DIM
        rows = wrapped([Piece(printable(text).strip(), style)], inside(width))
        about = f"{len(text.split())} words"
        return ["", *framed([drawn(row) for row in rows], width, self.colors, title="thought", about=about)]

    # --- calls ----------------------------------------------------------------------------------------

    def _call(self, item: CallItem, width: int, rendering: CallRendering | None) -> list[str]:
        text, summary, seconds = "", "", 0.0
        if item.result is not None:
            text, summary = item.result.text, item.result.summary
            seconds = item.result.duration_ms / 1000
        is_repeated_below = item.stage != "done" and (
            text.startswith(summary) or summary == default_summary([Text(text)])
        )
        note = "" if is_repeated_below else summary
        note = note or ("" if item.stage == "done" else stage_text(item))
        if seconds >= 1:
            note = f"{note} · {elapsed(seconds)}" if note else elapsed(seconds)
        rows = [self._child(child, inside(width)) for child in item.children if child.status != "running"]
        rows += self._result(item, inside(width), rendering)
        rows += [
            self._dim(image_text(one), inside(width)) for one in (item.result.images if item.result else ())
        ]
        slot = _SLOTS.get(item.stage, "muted_border")
        return self._framed_call(item, rows, width, self._about(item), one_line(note), slot, rendering)

    def _framed_call(
        self,
        item: CallItem,
        rows: list[str],
        width: int,
        about: str,
        note: str,
        slot: str,
        rendering: CallRendering | None,
    ) -> list[str]:
        title, edge, background = self._title(item), "", ""
        if rendering is not None:
            title = rendering.title or title
            if (header := rendering.header) is not None:
                about = ""
                if "\n" not in header.strip() and "\x1b" not in header:
                    title = header
                else:  # colours or several lines stand below the title
                    rows = [*terminal_rows(header, inside(width), self.colors), *rows]
            if self.colors and self.colors.name:
                edge = styled(rendering.color) if slot not in _SLOTS.values() else ""
                background = tint(rendering.background, rendering.background, 1.0)
        rows = framed(
            rows, width, self.colors, title=title, about=about, note=note, slot=slot, edge_style=edge
        )
        return [on_background(row, background, width) for row in rows] if background else rows

    def _result(self, item: CallItem, width: int, rendering: CallRendering | None) -> list[str]:
        text = item.result.text if item.result else ""
        if rendering is not None and (rendering.body is not None or rendering.markdown):
            body = text if rendering.body is None else rendering.body
            draw = markdown_rows if rendering.markdown else terminal_rows
            return folded(draw(body, width, self.colors), CHANGE_ROWS, width, self.colors, UNFOLD)
        if item.result is None:
            return []
        details = item.result.details or {}
        if details.get("diff") and item.stage == "done":
            return change_rows(details, width, self.colors, most=CHANGE_ROWS, hint=UNFOLD)
        if item.display and item.display.view == "markdown":
            rows = markdown_rows(text, width, self.colors)
            return folded(rows, CHANGE_ROWS, width, self.colors, UNFOLD)
        if item.tool_kind in ("read", "search") and item.stage == "done":
            return []  # the summary says how much it was
        if item.stage == "refused":  # a sentence, and not the output of a program
            return [drawn(row) for row in wrapped([Piece(printable(text).strip())], width)]
        rows = terminal_rows(text, width, self.colors, len(text))
        return folded(rows, RESULT_ROWS, width, self.colors, UNFOLD)

    def _open_call(self, call: OpenCallView, width: int, most: int) -> list[str]:
        item, room = call.item, max(1, min(TAIL_ROWS, most - 3))
        rows = [self._child(child, inside(width)) for child in item.children]
        rows += call.output.rows(inside(width), self.colors, room)
        if not rows and item.stage != "asking":  # the question shows what it would do
            rows = call.arguments.tail(room, inside(width), self.colors)
        if call.state == "writing":
            about, note = call.arguments.path, call.arguments.note
        else:
            about = self._about(item)
            note = elapsed(call.seconds) if call.state == "running" else "waits"
        rendering = self.open_rendering(item, width)
        rows = fitted(rows, inside(width))[-room:]
        return self._framed_call(item, rows, width, one_line(about), note, "accent", rendering)

    def waiting_call(self, call: OpenCallView, width: int) -> str:
        """In one row."""
        title, about = self._title(call.item), self._about(call.item)
        return framed([], width, self.colors, title=title, about=about, note="waits")[0]

    def _child(self, child: ChildItem, width: int) -> str:
        name, line = f"⚙ {one_line(child.agent or 'child')}", one_line(child_line(child))
        if not line:
            return self._dim(name, width)
        room = width - cells(name) - 2
        text = cut_start(line, room) if child.talking and room > 0 else line
        return self._dim(f"{name}: {text}", width)

    def _title(self, item: CallItem) -> str:
        icon = f"{item.display.icon} " if item.display and item.display.icon else ""
        return f"{icon}{item.name}"

    def _about(self, item: CallItem) -> str:
        arguments = item.arguments or {}
        if item.display and (title := item.display.title_for(arguments)):
            return one_line(title)
        return one_line(preview(item.name, arguments))

    # --- other items --------------------------------------------------------------------------------

    def _run_end(self, item: items.RunEndItem, width: int) -> list[str]:
        parts = [f"{_ENDS.get(item.status, '·')} {item.status}"]
        if item.reason and item.reason != item.status:
            parts.append(item.reason)
        parts += run_totals(item)
        style = sgr(self.colors, "error" if item.status == "failed" else "muted") or DIM
        return [drawn(row) for row in wrapped([Piece(one_line(" · ".join(parts)), style)], width)]

    def note(self, text: str, width: int) -> list[str]:
        """For what is drawn anew with each frame."""
        return fitted(notice_rows(text, width, self.colors), width)

    def parts(self, parts: Sequence[Part], between: str = "  ") -> str:
        pieces = [Piece(one_line(part.text), sgr(self.colors, part.slot)) for part in parts]
        return drawn([piece for one in pieces for piece in (Piece(between), one)][1:])

    def _dim(self, text: str, width: int) -> str:
        return drawn([Piece(cut(one_line(text), width), sgr(self.colors, "muted") or DIM)])


def on_background(row: str, background: str, width: int) -> str:
    """A row that is drawn, on a background as wide as the terminal."""
    columns = cells(_SEQUENCE.sub("", row))
    text = row.replace("\x1b[0m", f"\x1b[0;{background}m")
    left = width - columns if columns <= width else -columns % width
    return f"\x1b[{background}m{text}{' ' * left}\x1b[0m"
