"""How blocks are drawn: closed ones whole, open ones by their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.blocks import (
    Block,
    CallBlock,
    NoticeBlock,
    PrintedBlock,
    ReasoningBlock,
    ReceiptBlock,
    TextBlock,
    UserBlock,
)
from ostler.faces.tui.drawing.boxes import framed, inside, notice_rows, printed_rows, user_rows
from ostler.faces.tui.drawing.diff import change_rows
from ostler.faces.tui.drawing.folding import folded
from ostler.faces.tui.drawing.markdown import markdown_rows, part_rows
from ostler.faces.tui.drawing.pieces import BOLD, DIM, Piece, cut, drawn, harmless, one_line, sgr
from ostler.faces.tui.drawing.terminal_text import terminal_rows
from ostler.faces.tui.questions import OpenQuestions
from ostler.faces.tui.status import Part, elapsed, short
from ostler.faces.tui.transcript import OpenCall
from ostler.runs.costs import dollars
from ostler.tools.permissions import preview

RESULT_ROWS = 12
"""Of a result that is not a change of a file."""
CHANGE_ROWS = 40
TAIL_ROWS = 12

_SLOTS = {"failed": "error", "refused": "warning"}
_ENDS = {"completed": "✓", "cancelled": "■", "refused": "✗", "limit": "■", "interrupted": "■", "failed": "✗"}


class BlockRows:
    """Draws in the colours of one theme; without any, if there is none."""

    def __init__(self, colors: ThemeColors | None = None) -> None:
        self.colors = colors

    def closed(self, block: Block, width: int) -> list[str]:
        """The rows of a block that will not change; with a blank one before what begins something new."""
        match block:
            case UserBlock(text=text, attachments=attached):
                return ["", *user_rows(text, width, self.colors, attachments=attached), ""]
            case TextBlock(part=part):
                return part_rows(part, width, self.colors)
            case ReasoningBlock():
                return [self._reasoning(block, width)]
            case CallBlock():
                return ["", *self._call(block, width)]
            case NoticeBlock(text=text, level=level):
                return notice_rows(text, width, self.colors, level=level)
            case PrintedBlock(printed=printed):
                return printed_rows(printed, width, self.colors)
            case ReceiptBlock():
                return ["", self._receipt(block, width)]

    def opened(self, block: Block | OpenCall, width: int, most: int) -> list[str]:
        """The end of something that still changes."""
        match block:
            case OpenCall():
                return self._open_call(block, width, most)
            case ReasoningBlock():
                return [self._reasoning(block, width), *self._last_thoughts(block, width)]
            case _:
                return self.closed(block, width)[-most:]

    # --- thinking -------------------------------------------------------------------------------------

    def _reasoning(self, block: ReasoningBlock, width: int) -> str:
        took = f" for {elapsed(block.seconds)}" if block.seconds >= 1 else ""
        return self._dim(f"✻ thought{took}, {len(block.text.split())} words", width)

    def _last_thoughts(self, block: ReasoningBlock, width: int) -> list[str]:
        lines = harmless(block.text).strip().splitlines()[-2:]
        return [self._dim(f"  {line}", width) for line in lines]

    # --- calls ----------------------------------------------------------------------------------------

    def _call(self, block: CallBlock, width: int) -> list[str]:
        note = block.summary or ("refused" if block.stage == "refused" else "")
        if block.seconds >= 1:
            note = f"{note} · {elapsed(block.seconds)}" if note else elapsed(block.seconds)
        return framed(
            self._result(block, inside(width)),
            width,
            self.colors,
            title=self._title(block),
            about=self._about(block),
            note=one_line(note),
            slot=_SLOTS.get(block.stage, "muted_border"),
        )

    def _result(self, block: CallBlock, width: int) -> list[str]:
        details = block.details or {}
        if details.get("diff") and block.stage == "done":
            return change_rows(details, width, self.colors, most=CHANGE_ROWS)
        if block.display and block.display.view == "markdown":
            return folded(markdown_rows(block.result, width, self.colors), CHANGE_ROWS, width, self.colors)
        if block.kind in ("read", "search") and block.stage == "done":
            return []  # what was looked at is the model's affair; its summary says how much it was
        rows = terminal_rows(block.result, width, self.colors)
        return folded(rows, RESULT_ROWS, width, self.colors)

    def _open_call(self, call: OpenCall, width: int, most: int) -> list[str]:
        block, room = call.block, max(1, min(TAIL_ROWS, most - 2))
        if block.stage == "writing":
            rows = call.arguments.tail(room, inside(width), self.colors)
            about, note = call.arguments.path, "…"
        else:
            rows = call.output.rows(inside(width), self.colors, room)
            rows += [self._dim(f"⚙ {line}", inside(width)) for line in block.children]
            about = self._about(block)
            note = elapsed(block.seconds) if block.stage == "running" else "waits"
        return framed(
            rows[-room:],
            width,
            self.colors,
            title=self._title(block),
            about=one_line(about),
            note=note,
            slot="accent",
        )

    def _title(self, block: CallBlock) -> str:
        icon = f"{block.display.icon} " if block.display and block.display.icon else ""
        return f"{icon}{block.name}"

    def _about(self, block: CallBlock) -> str:
        if block.display and (title := block.display.title_for(block.arguments)):
            return one_line(title)
        return one_line(preview(block.name, block.arguments))

    # --- the rest -------------------------------------------------------------------------------------

    def _receipt(self, block: ReceiptBlock, width: int) -> str:
        said = [f"{_ENDS.get(block.status, '·')} {block.status}"]
        if block.reason and block.reason != block.status:
            said.append(block.reason)
        if block.tools:
            said.append(f"{block.tools} call{'' if block.tools == 1 else 's'}")
        if block.tokens:
            said.append(f"{short(block.tokens)} tokens")
        if block.cost:
            said.append(dollars(block.cost))
        if block.seconds >= 1:
            said.append(elapsed(block.seconds))
        return self._dim(" · ".join(said), width)

    def note(self, text: str, width: int) -> list[str]:
        return notice_rows(text, width, self.colors)

    def question(self, questions: OpenQuestions, width: int) -> list[str]:
        """What is asked, with what a person needs to see to judge it, and what can be answered."""
        asked = questions.present
        if asked is None:
            return []
        question, room = asked.question, inside(width)
        rows = markdown_rows(question.text, room, self.colors)
        rows += self._details(question.details or {}, room)
        for place, (_, said) in enumerate(questions.options):
            is_marked = place == questions.marked
            text = cut(f"{'❯' if is_marked else ' '} {place + 1}. {one_line(said)}", room)
            rows.append(drawn([Piece(text, sgr(self.colors, "accent", BOLD) if is_marked else "")]))
        if not questions.options:
            rows.append(self._dim("type the answer, enter sends it, esc declines", room))
        more = f"{questions.behind} more" if questions.behind else ""
        return framed(rows, width, self.colors, title="?", about=asked.asked_by, note=more, slot="warning")

    def _details(self, details: dict[str, Any], width: int) -> list[str]:
        if details.get("diff"):
            return change_rows(details, width, self.colors, most=CHANGE_ROWS)
        if command := details.get("command"):
            return terminal_rows(f"$ {command}", width, self.colors)
        return []

    def parts(self, parts: Sequence[Part], between: str = "  ") -> str:
        pieces = [Piece(one_line(part.text), sgr(self.colors, part.slot)) for part in parts]
        joined = [piece for one in pieces for piece in (Piece(between), one)][1:]
        return drawn(joined)

    def _dim(self, text: str, width: int) -> str:
        return drawn([Piece(cut(one_line(text), width), sgr(self.colors, "muted") or DIM)])
