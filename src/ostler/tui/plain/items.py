"""Items as plain lines, for screen readers; and what extensions show, which is printed on request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ostler.history import items
from ostler.history.costs import dollars
from ostler.history.items import CallItem, CallResult, ChildItem, image_text
from ostler.permissions.rules import preview
from ostler.schema.text import one_line, plural, printable
from ostler.schema.usage import Totals
from ostler.tui.status import elapsed, short

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost
    from ostler.tui.render.items import PrintableItem

RESULT_LINES = 20
"""Of a result; then only their number is printed."""

_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_LEVELS = {"info": "note", "warning": "warning", "error": "error"}


def item_lines(item: PrintableItem) -> list[str]:
    """The lines of an item. Reasoning has none."""
    match item:
        case items.UserItem():
            attached = [f"attached: {one_line(name)}" for name in item.attachments]
            return [f"You: {plain(item.text)}", *attached]
        case items.ReasoningItem():
            return []
        case CallItem():
            return _call(item)
        case items.NoticeItem(text=text, level=level):
            return [f"{_LEVELS[level]}: {plain(text)}"]
        case items.PrintedItem(printed=printed):
            who = f"{printed.extension}: " if printed.extension else ""
            title = f"{one_line(printed.title)}: " if printed.title else ""
            mark = "error: " if printed.level == "error" else ""
            return f"{who}{mark}{title}{plain(printed.text)}".split("\n")
        case items.RunEndItem():
            reason = one_line(item.reason) if item.reason != item.status else ""
            return [", ".join(filter(None, [item.status, reason, *run_totals(item)]))]
        case _:
            return plain(item.part.text).strip("\n").split("\n")


def call_words(name: str, arguments: dict[str, object] | None) -> str:
    """The line of a call that begins."""
    return f"calling {name}: {one_line(preview(name, arguments or {}))}"


def _call(call: CallItem) -> list[str]:
    result = call.result or CallResult()
    is_done = call.stage == "done"
    how = "" if is_done else f" {stage_text(call)}"
    first = [f"result of {call.name}{how}: {one_line(result.summary)}".removesuffix(": ")]
    first += map(image_text, result.images)
    if call.tool_kind in ("read", "search") and is_done:
        return first
    text = result.diff if result.diff and is_done else result.text
    lines = plain(text).strip("\n").split("\n")
    visible = [line for line in lines if line and line != result.summary][:RESULT_LINES]
    if len(lines) > len(visible) == RESULT_LINES:
        visible.append(f"and {len(lines) - RESULT_LINES} more lines")
    return [*first, *visible]


def stage_text(call: CallItem) -> str:
    return "stopped" if call.stage == "cancelled" else call.stage


def child_line(child: ChildItem) -> str:
    """What a child does, or how it ended and what it cost."""
    if child.status == "running":
        return child.activity or " ".join(child.task.split())[:200]
    totals = (child.totals or Totals()) + child.children
    calls = plural(totals.tool_calls, "call") if totals.tool_calls else ""
    cost = dollars(totals.least_cost) if totals.least_cost else ""
    status = child.reason if child.status != "completed" and child.reason else child.status
    return " · ".join(part for part in (status, calls, cost) if part)


def run_totals(item: items.RunEndItem) -> list[str]:
    """The calls, tokens, cost and time of a run."""
    totals = item.own + item.children
    usage, seconds = totals.usage, item.own.duration_ms / 1000
    parts = [plural(totals.tool_calls, "call")] if totals.tool_calls else []
    if usage.total_tokens:
        parts.append(f"{short(usage.total_tokens)} tokens")
    elif item.status == "completed" and usage.cost is None:
        parts.append("tokens unknown")
    if usage.cost:
        parts.append(dollars(usage.cost))
    if seconds >= 1:
        parts.append(elapsed(seconds))
    return parts


def plain(text: str) -> str:
    """The text without styles and control characters."""
    return printable(_SEQUENCES.sub("", text)).expandtabs(4)


_NAMES = ("header", "widget:", "footer", "status:")
_COLUMNS = 80


async def printed_text(host: ExtensionHost | None, session: str) -> list[str]:
    """What extensions show, in the order of the terminal."""
    values = host.ui.live_values(session) if host else {}
    printed: list[str] = []
    for kind in _NAMES:
        for name, value in values.items():
            if host is not None and name.startswith(kind) and (text := await _text(host, session, value)):
                printed += f"{value['extension']}, {kind.rstrip(':')}: {text}".splitlines()
    return printed or ["extensions show nothing"]


async def _text(host: ExtensionHost, session: str, value: dict[str, Any]) -> str:
    if render := value.get("render"):
        drawn = await host.ui.render(session, render["id"], _COLUMNS)
        if drawn is not None:
            return plain(drawn)
    return plain(value.get("markdown") or value.get("text") or "")
