"""Blocks in words: for a screen reader, nothing is said by colours, frames or places."""
# MERGED: What extensions show, said when a person asks for it: in plain lines nothing stays in sight.

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ostler.history.costs import dollars
from ostler.permissions.rules import preview
from ostler.schema.text import one_line, printable
from ostler.tui.items import (
    CallItem,
    Item,
    NoticeItem,
    PrintedItem,
    ReasoningItem,
    RunEndItem,
    TextItem,
    UserItem,
)
from ostler.tui.status import elapsed, short

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost


RESULT_LINES = 20
"""Of a result that are read out; how many more there are is said."""


_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")

_LEVELS = {"info": "note", "warning": "warning", "error": "error"}


def block_words(block: Item) -> list[str]:
    """Lines. Thoughts are left out: that there were some was said when they began."""
    match block:
        case UserItem(text=text, attachments=attached):
            return [f"You: {plain(text)}", *(f"attached: {one_line(name)}" for name in attached)]
        case TextItem(part=part):
            return plain(part.text).strip("\n").split("\n")
        case ReasoningItem():
            return []
        case CallItem():
            return _call(block)
        case NoticeItem(text=text, level=level):
            return [f"{_LEVELS[level]}: {plain(text)}"]
        case PrintedItem(printed=printed):
            who = f"{printed.extension}: " if printed.extension else ""
            title = f"{one_line(printed.title)}: " if printed.title else ""
            mark = "error: " if printed.level == "error" else ""
            return f"{who}{mark}{title}{plain(printed.text)}".split("\n")
        case RunEndItem():
            return [_receipt(block)]


def call_words(name: str, arguments: dict[str, object] | None) -> str:
    """A call that begins."""
    return f"calling {name}: {one_line(preview(name, arguments or {}))}"


def _call(block: CallItem) -> list[str]:
    how = "" if block.stage == "done" else f" {block.stage}"
    said = [f"result of {block.name}{how}: {one_line(block.summary)}".removesuffix(": ")]
    if block.images:
        from ostler.tui.render.images import image_words

        said += map(image_words, block.images)
    if block.kind in ("read", "search") and block.stage == "done":
        return said
    diff = (block.details or {}).get("diff")
    lines = plain(str(diff) if diff and block.stage == "done" else block.result).strip("\n").split("\n")
    shown = [line for line in lines if line and line != block.summary][:RESULT_LINES]
    if len(lines) > len(shown) == RESULT_LINES:
        shown.append(f"and {len(lines) - RESULT_LINES} more lines")
    return [*said, *shown]


def _receipt(block: RunEndItem) -> str:
    said = [block.status]
    if block.reason and block.reason != block.status:
        said.append(one_line(block.reason))
    return ", ".join([*said, *taken(block)])


def taken(block: RunEndItem) -> list[str]:
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
    return printable(_SEQUENCES.sub("", text)).expandtabs(4)


_NAMES = ("header", "widget:", "footer", "status:")

_COLUMNS = 80


async def printed_text(host: ExtensionHost | None, session: str) -> list[str]:
    """In the order of the terminal; a line for each, and more for what has more."""
    values = host.ui.live_values(session) if host else {}
    said: list[str] = []
    for kind in _NAMES:
        for name, value in values.items():
            if host is not None and name.startswith(kind):
                first, *rest = (await _text(host, session, value)).splitlines() or [""]
                if first or rest:
                    said += [f"{value['extension']}, {kind.rstrip(':')}: {first}", *rest]
    return said or ["nothing is shown by extensions"]


async def _text(host: ExtensionHost, session: str, value: dict[str, Any]) -> str:
    if render := value.get("render"):
        drawn = await host.ui.render(session, render["id"], _COLUMNS)
        if drawn is not None:
            return plain(drawn)
    return plain(value.get("markdown") or value.get("text") or "")
