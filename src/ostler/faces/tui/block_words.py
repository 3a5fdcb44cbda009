"""Blocks in words: for a screen reader, nothing is said by colours, frames or places."""

from __future__ import annotations

import re

from ostler.faces.tui.blocks import (
    CallBlock,
    Item,
    NoticeBlock,
    PrintedBlock,
    ReasoningBlock,
    ReceiptBlock,
    TextBlock,
    UserBlock,
)
from ostler.faces.tui.drawing.pieces import harmless, one_line
from ostler.faces.tui.status import elapsed, short
from ostler.runs.costs import dollars
from ostler.tools.permissions import preview

RESULT_LINES = 20
"""Of a result that are read out; how many more there are is said."""

_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_LEVELS = {"info": "note", "warning": "warning", "error": "error"}


def block_words(block: Item) -> list[str]:
    """Lines. Thoughts are left out: that there were some was said when they began."""
    match block:
        case UserBlock(text=text, attachments=attached):
            return [f"You: {plain(text)}", *(f"attached: {one_line(name)}" for name in attached)]
        case TextBlock(part=part):
            return plain(part.text).strip("\n").split("\n")
        case ReasoningBlock():
            return []
        case CallBlock():
            return _call(block)
        case NoticeBlock(text=text, level=level):
            return [f"{_LEVELS[level]}: {plain(text)}"]
        case PrintedBlock(printed=printed):
            who = f"{printed.extension}: " if printed.extension else ""
            title = f"{one_line(printed.title)}: " if printed.title else ""
            mark = "error: " if printed.level == "error" else ""
            return f"{who}{mark}{title}{plain(printed.text)}".split("\n")
        case ReceiptBlock():
            return [_receipt(block)]


def call_words(name: str, arguments: dict[str, object] | None) -> str:
    """A call that begins."""
    return f"calling {name}: {one_line(preview(name, arguments or {}))}"


def _call(block: CallBlock) -> list[str]:
    how = "" if block.stage == "done" else f" {block.stage}"
    said = [f"result of {block.name}{how}: {one_line(block.summary)}".removesuffix(": ")]
    if block.images:
        from ostler.faces.tui.drawing.pictures import image_words

        said += map(image_words, block.images)
    if block.kind in ("read", "search") and block.stage == "done":
        return said
    diff = (block.details or {}).get("diff")
    lines = plain(str(diff) if diff and block.stage == "done" else block.result).strip("\n").split("\n")
    shown = [line for line in lines if line and line != block.summary][:RESULT_LINES]
    if len(lines) > len(shown) == RESULT_LINES:
        shown.append(f"and {len(lines) - RESULT_LINES} more lines")
    return [*said, *shown]


def _receipt(block: ReceiptBlock) -> str:
    said = [block.status]
    if block.reason and block.reason != block.status:
        said.append(one_line(block.reason))
    return ", ".join([*said, *taken(block)])


def taken(block: ReceiptBlock) -> list[str]:
    """What a run took."""
    said = [f"{block.tools} call{'' if block.tools == 1 else 's'}"] if block.tools else []
    if block.tokens is None:
        said.append("tokens unknown")
    elif block.tokens:
        said.append(f"{short(block.tokens)} tokens")
    if block.cost:
        said.append(dollars(block.cost))
    if block.seconds >= 1:
        said.append(elapsed(block.seconds))
    return said


def plain(text: str) -> str:
    """Without styles, and without what a terminal would obey."""
    return harmless(_SEQUENCES.sub("", text)).expandtabs(4)
