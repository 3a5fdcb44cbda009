"""Each message and each call of a session by itself, to be looked at in full."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.code import code_rows
from ostler.faces.tui.drawing.diff import change_rows
from ostler.faces.tui.drawing.markdown import markdown_rows
from ostler.faces.tui.drawing.pictures import image_words
from ostler.faces.tui.drawing.pieces import BOLD, Piece, cut, drawn, harmless, one_line, sgr, wrapped
from ostler.faces.tui.drawing.terminal_text import terminal_rows
from ostler.faces.tui.open_calls import OpenCall
from ostler.faces.tui.shell_entry import shell_block
from ostler.kernel.state import path_of
from ostler.tools.permissions import preview
from ostler.vocabulary.events import AssistantMessage, ExtensionEntry, ToolResultFact, UserMessage
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import BlobRef, File, Image, Reasoning, Text, ToolCall, text_of

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
    """Of the branch where the session stands, in their order."""
    path = path_of(facts)
    calls: dict[str, ToolCall] = {}
    entries: list[SessionEntry] = []
    for fact in facts:
        if fact.seq not in path:
            continue
        match fact.event:
            case UserMessage(hidden=False, content=content):
                attached = [image_words(one) for one in content if isinstance(one, Image)]
                attached += [one.name or one.media_type for one in content if isinstance(one, File)]
                text = "\n".join(filter(None, [text_of(content), *(f"[{one}]" for one in attached)]))
                entries.append(_said("you", text, fact.seq))
            case AssistantMessage() as message:
                calls |= {one.id: one for one in message.content if isinstance(one, ToolCall)}
                entries += _answer(message, fact.seq)
            case ToolResultFact() as result:
                entries.append(_call(result, calls.pop(result.call, None), fact.seq))
            case ExtensionEntry() as entry if (block := shell_block(entry)) is not None:
                command = str(block.arguments["command"])
                text = f"$ {command}\n{block.result}"
                entries.append(
                    SessionEntry(
                        "call", f"! {one_line(command)}", text, block.arguments, block.result, seq=fact.seq
                    )
                )
    return entries


def open_entry(call: OpenCall) -> SessionEntry:
    """A call that has no result yet, with what it has printed so far."""
    block = call.block
    printed = "\n".join(call.output.rows(10_000, None))
    about = f"{block.name} {one_line(preview(block.name, block.arguments) or call.arguments.path)}"
    return SessionEntry(
        "call", about, printed, block.arguments, printed, is_running=block.stage == "running", call=block.call
    )


async def whole(entry: SessionEntry, read: Callable[[BlobRef], Awaitable[bytes]]) -> SessionEntry:
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
            text = harmless(entry.text).expandtabs(4)
            return [drawn(row) for line in text.split("\n") for row in wrapped([Piece(line)], width)]


def _said(who: Who, text: str, seq: int) -> SessionEntry:
    return SessionEntry(who, one_line(text[:400]) or "(no text)", text.strip("\n"), seq=seq)


def _answer(message: AssistantMessage, seq: int) -> list[SessionEntry]:
    if message.suppressed:
        return []
    entries: list[SessionEntry] = []
    for block in message.content if message.shown is None else message.shown:
        match block:
            case Reasoning(text=text) if text.strip():
                entries.append(_said("thought", text, seq))
            case Text(text=text) if text.strip():
                entries.append(_said("answer", text, seq))
    return entries


def _call(result: ToolResultFact, call: ToolCall | None, seq: int) -> SessionEntry:
    arguments = _arguments(call)
    images = [image_words(one) for one in result.content if isinstance(one, Image)]
    text = "\n".join(filter(None, [text_of(result.content), *images]))
    about = f"{result.name} {one_line(preview(result.name, arguments))}"
    note = one_line(result.summary) or ("" if result.failed is None else result.failed)
    return SessionEntry(
        "call",
        f"{about} · {note}" if note else about,
        text,
        arguments,
        text,
        result.details,
        result.output,
        seq,
    )


def _arguments(call: ToolCall | None) -> dict[str, Any]:
    try:
        read = msgspec.json.decode(call.arguments) if call else {}
    except msgspec.DecodeError:
        return {}
    return read if isinstance(read, dict) else {}


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
    short = f"{name}: {harmless(text)}"
    if "\n" not in text and cut(short, width) == short:
        return [drawn([Piece(f"{name}:", style), Piece(f" {harmless(text)}")])]
    language = "json" if not isinstance(value, str) else "bash" if name == "command" else ""
    path = str(beside.get("path", "")) if name == "content" else ""
    return [
        drawn([Piece(cut(f"{name}:", width), style)]),
        *code_rows(text, width, colors, language=language, path=path),
    ]
