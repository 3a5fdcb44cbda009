"""How blocks are drawn: closed ones whole, open ones by their end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from ostler.core.tool import default_summary
from ostler.extensions.ui.themes import ThemeColors
from ostler.permissions.rules import preview
from ostler.schema.messages import Text
from ostler.schema.text import cells, cut, cut_start, one_line, printable
from ostler.tui.call_items import OpenCall
from ostler.tui.items import (
    CallItem,
    ChildItem,
    Item,
    NoticeItem,
    PrintedItem,
    ReasoningItem,
    RunEndItem,
    TextItem,
    UserItem,
)
from ostler.tui.plain.items import taken
from ostler.tui.render.boxes import framed, inside, notice_rows, printed_rows, user_rows
from ostler.tui.render.diff import change_rows
from ostler.tui.render.markdown import markdown_rows, part_rows
from ostler.tui.render.spans import DIM, Piece, drawn, fitted, folded, sgr, styled, tint, wrapped
from ostler.tui.render.terminal_text import terminal_rows
from ostler.tui.status import Part, elapsed

RESULT_ROWS = 12
"""Of a result that is not a change of a file."""

CHANGE_ROWS = 40

PROMPT_ROWS = 40

TAIL_ROWS = 12

UNFOLD = " · ctrl+o shows all"


_SLOTS = {"failed": "error", "refused": "warning"}

_ENDS = {"completed": "✓", "cancelled": "■", "refused": "✗", "limit": "■", "interrupted": "■", "failed": "✗"}


_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\")


class CallRendering(msgspec.Struct, frozen=True):
    """What an extension says of how a call is shown. What is empty is drawn as usual."""

    title: str = ""
    color: str = ""
    background: str = ""
    markdown: bool = False
    header: str | None = None
    body: str | None = None


class ItemRenderer:
    """Draws in the colours of one theme; without any, if there is none."""

    def __init__(self, colors: ThemeColors | None = None) -> None:
        self.colors = colors
        self.open_dress: Callable[[CallItem, int], CallRendering | None] = lambda block, width: None
        """How extensions want a call to look that is under way."""

    def closed(self, block: Item, width: int, dress: CallRendering | None = None) -> list[str]:
        """The rows of a block that will not change; with a blank one before what begins something new."""
        match block:
            case UserItem(text=text, attachments=attached):
                rows = user_rows(text, width, self.colors, attachments=attached)
                rows = folded(rows, PROMPT_ROWS, width, self.colors)
                return ["", *([self._dim("while it worked:", width)] if block.is_steer else []), *rows, ""]
            case TextItem(part=part):
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
                return ["", *self._receipt(block, width)]

    def opened(self, block: Item | OpenCall, width: int, most: int) -> list[str]:
        """The end of something that still changes."""
        match block:
            case OpenCall():
                return ["", *self._open_call(block, width, most)]
            case ReasoningItem():
                said = f"✻ thinking, {len(block.text.split())} words"
                return ["", self._dim(said, width), *self._last_thoughts(block, width)]
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
        is_said_below = block.stage != "done" and (
            block.result.startswith(block.summary) or block.summary == default_summary([Text(block.result)])
        )
        note = "" if is_said_below else block.summary
        note = note or ("" if block.stage == "done" else block.stage)
        if block.seconds >= 1:
            note = f"{note} · {elapsed(block.seconds)}" if note else elapsed(block.seconds)
        rows = self._result(block, inside(width))
        if dress is not None:
            rows = self._dressed_result(block, dress, inside(width), rows)
        rows = [*self._children(block, inside(width)), *rows, *self._images(block, inside(width))]
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
        body = block.result if dress.body is None else dress.body
        drawn_as = markdown_rows if dress.markdown else terminal_rows
        return folded(drawn_as(body, width, self.colors), CHANGE_ROWS, width, self.colors, UNFOLD)

    def _result(self, block: CallItem, width: int) -> list[str]:
        details = block.details or {}
        if details.get("diff") and block.stage == "done":
            return change_rows(details, width, self.colors, most=CHANGE_ROWS, hint=UNFOLD)
        if block.display and block.display.view == "markdown":
            rows = markdown_rows(block.result, width, self.colors)
            return folded(rows, CHANGE_ROWS, width, self.colors, UNFOLD)
        if block.kind in ("read", "search") and block.stage == "done":
            return []  # what was looked at is the model's affair; its summary says how much it was
        if block.stage == "refused":  # a sentence, and not the output of a program
            return [drawn(row) for row in wrapped([Piece(printable(block.result).strip())], width)]
        rows = terminal_rows(block.result, width, self.colors, len(block.result))
        return folded(rows, RESULT_ROWS, width, self.colors, UNFOLD)

    def _open_call(self, call: OpenCall, width: int, most: int) -> list[str]:
        block, room = call.block, max(1, min(TAIL_ROWS, most - 3))
        rows = call.output.rows(inside(width), self.colors, room)
        rows = [*self._children(block, inside(width)), *rows]
        if not rows and not call.is_asked:
            rows = call.arguments.tail(room, inside(width), self.colors)
        if block.stage == "writing":
            about, note = call.arguments.path, call.arguments.note
        else:
            about = self._about(block)
            note = elapsed(block.seconds) if block.stage == "running" else "waits"
        dress = self.open_dress(block, width)
        rows = fitted(rows, inside(width))[-room:]
        return self._framed_call(block, rows, width, one_line(about), note, "accent", dress)

    def waiting_call(self, call: OpenCall, width: int) -> str:
        """In one row."""
        block = call.block
        return framed(
            [], width, self.colors, title=self._title(block), about=self._about(block), note="waits"
        )[0]

    def _children(self, block: CallItem, width: int) -> list[str]:
        return [self._child(child, width) for child in block.children]

    def _child(self, child: ChildItem, width: int) -> str:
        name, line = f"⚙ {one_line(child.name)}", one_line(child.line)
        if not line:
            return self._dim(name, width)
        room = width - cells(name) - 2
        said = cut_start(line, room) if child.is_growing and room > 0 else line
        return self._dim(f"{name}: {said}", width)

    def _images(self, block: CallItem, width: int) -> list[str]:
        if not block.images:
            return []
        from ostler.tui.render.images import image_words

        return [self._dim(image_words(one), width) for one in block.images]

    def _title(self, block: CallItem) -> str:
        icon = f"{block.display.icon} " if block.display and block.display.icon else ""
        return f"{icon}{block.name}"

    def _about(self, block: CallItem) -> str:
        if block.display and (title := block.display.title_for(block.arguments)):
            return one_line(title)
        return one_line(preview(block.name, block.arguments))

    # --- the rest -------------------------------------------------------------------------------------

    def _receipt(self, block: RunEndItem, width: int) -> list[str]:
        said = [f"{_ENDS.get(block.status, '·')} {block.status}"]
        if block.reason and block.reason != block.status:
            said.append(block.reason)
        said += taken(block)
        style = sgr(self.colors, "error" if block.status == "failed" else "muted") or DIM
        return [drawn(row) for row in wrapped([Piece(one_line(" · ".join(said)), style)], width)]

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
