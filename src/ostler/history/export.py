"""A session as plain text, as a Markdown page or as a portable file, and the names of such files.

A Markdown page quotes everything that people, models and tools wrote: none of it can pass for the page's own
text.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from html import escape
from operator import add
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from ostler.core import secrets
from ostler.core.lazy import lazy_module, load
from ostler.core.state import path_of
from ostler.core.store import SessionSummary, Store
from ostler.history.costs import CostTotals, priced
from ostler.history.item_builder import items_of
from ostler.history.items import (
    CallItem,
    CallResult,
    ChildItem,
    Item,
    MediaItem,
    NoticeItem,
    QuestionItem,
    ReasoningItem,
    RunEndItem,
    SummaryItem,
    TextItem,
    TodoListItem,
    UserItem,
)
from ostler.models.factory import learn_known_keys
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.facts import Fact
from ostler.schema.messages import Block, File, Image, Reasoning, Text
from ostler.schema.text import one_line, plural, printable
from ostler.sessions.run_tree import current_status

if TYPE_CHECKING:
    from ostler.store import portable
else:
    portable = lazy_module("ostler.store.portable")

_RESULT_LENGTH = 200
_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Message(msgspec.Struct, frozen=True):
    """A message, a summary or a to-do list."""

    seq: int
    who: str
    content: tuple[Block, ...]


Part = Message | CallItem | str
"""A part of a page; a string is a notice."""


def clean(text: str) -> str:
    """The text without control characters and lone surrogates, which no page can hold."""
    return _UNREADABLE.sub("\ufffd", text.replace("\r\n", "\n"))


def parts_of(facts: Sequence[Fact]) -> list[Part]:
    """The session on the path to its leaf, in the order of its facts."""
    items = items_of(facts)
    parts: list[tuple[int, Part]] = [(part.seq, part) for part in _messages(items)]
    for item in items:
        if isinstance(item, CallItem) and item.call and item.called_seq:
            parts.append((item.called_seq, item))
        parts += _notices(item)
    return [part for _, part in sorted(parts, key=lambda part: part[0])]


def _messages(items: Sequence[Item]) -> Iterator[Message]:
    answers: dict[int, list[Block]] = {}
    for item in items:
        match item:
            case UserItem(hidden=False, source=source, content=content):
                yield Message(item.seq, "you" if source == "prompt" else source, content)
            case TextItem(complete=True, text=text):
                answers.setdefault(item.seq, []).append(Text(text))
            case ReasoningItem(complete=True, text=text):
                answers.setdefault(item.seq, []).append(Reasoning(text))
            case MediaItem(content=content):
                answers.setdefault(item.seq, []).append(content)
            case SummaryItem(source="compaction" | "branch", text=text):
                yield Message(item.seq, "summary", (Text(text),))
            case TodoListItem(items=rows):
                text = "\n".join(f"[{row.status}] {row.text}" for row in rows)
                yield Message(item.seq, "to do", (Text(text),))
    for seq, blocks in answers.items():
        yield Message(seq, "assistant", tuple(blocks))


def _notices(item: Item) -> Iterator[tuple[int, str]]:
    match item:
        case NoticeItem(code="withheld" | "waiting" | "unknown", text=text):
            yield item.seq, text
        case NoticeItem(code="model_failed" | "fallback", text=text):
            yield item.seq, f"the model failed: {text}"
        case SummaryItem(source="history", text=text):
            yield item.seq, text
        case QuestionItem(asked=events.QuestionAsked(question=question)):
            yield item.seq, f"asked: {question.text}"
            if item.answered_seq and item.state == "answered" and item.answer is not None:
                yield item.answered_seq, f"answered: {item.answer}"
            elif item.answered_seq:
                yield item.answered_seq, f"the question was {item.state}"
        case ChildItem(agent=agent, session=session):
            yield item.seq, f"{agent or 'a subagent'} works on it in session {session}"
        case CallItem(children=children):
            for child in children:
                yield from _notices(child)
        case RunEndItem(status=status, reason=reason) if status != "completed":
            yield item.seq, f"the run ended: {status}{': ' if reason else ''}{reason}"


def outcome_of(call: CallItem) -> str:
    if call.result is None:
        return "not finished"
    return f"failed ({call.result.failed})" if call.result.failed else "ok"


def entries_elsewhere(facts: Sequence[Fact]) -> int:
    """How many entries are on other branches than the one to the leaf."""
    path = path_of(facts)
    return sum(1 for fact in facts if fact.parent is not None and fact.seq not in path)


def usage_rows(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    """The table at the end of a page: the session's own model calls, and its children's."""
    usages = [fact.event.usage for fact in facts if isinstance(fact.event, events.UsageReported)]
    spent = reduce(add, map(CostTotals.by, usages), CostTotals())
    usage = spent.usage
    rows = [
        ("model calls", spent.calls),
        ("input tokens", usage.input_tokens),
        ("read from the cache", usage.cache_read_tokens),
        ("written to the cache", usage.cache_write_tokens),
        ("output tokens", usage.output_tokens),
    ]
    table = [*((name, f"{number:,}") for name, number in rows), ("cost", spent.in_words())]
    by_children: list[events.Totals] = []
    for fact in facts:
        match fact.event:
            case events.ChildEnded(own=own, children=children):
                by_children += [own, children]
            case events.ChildUsed(totals=totals):
                by_children.append(totals)
    if by_children:
        total = reduce(add, by_children)
        calls = plural(total.model_calls, "model call")
        price = priced(total.usage.cost)
        table.append(("subagents", f"{calls}, {total.usage.total_tokens:,} tokens, {price}"))
    return table


# --- text -----------------------------------------------------------------------------------------------


def transcript(summary: SessionSummary, facts: Sequence[Fact]) -> Iterator[str]:
    """The lines of `sessions show`, with the number of each entry."""
    yield f"session {summary.id}{': ' + one_line(summary.title) if summary.title else ''}"
    yield f"{summary.status or 'not run yet'}, begun {facts[0].time}, in {printable(summary.cwd)}"
    if summary.forked_from:
        yield f"forked from {summary.forked_from}"
    items = items_of(facts)
    parts = [(part.seq, list(_message_lines(part))) for part in _messages(items)]
    for item in items:
        parts += _item_lines(item)
    for _, lines in sorted(parts, key=lambda part: part[0]):
        yield from lines
    if elsewhere := entries_elsewhere(facts):
        yield ""
        yield f"({elsewhere} entries on other branches are not shown; --json has them)"


def _message_lines(message: Message) -> Iterator[str]:
    title = "(summary)" if message.who == "summary" else f"{message.who}:"
    texts = [text for block in message.content if (text := _block_text(block))]
    if texts or message.who == "summary":
        yield ""
        yield f"#{message.seq} {title}"
        for text in texts:
            yield indent(printable(text), "  ")


def _item_lines(item: Item) -> Iterator[tuple[int, list[str]]]:
    number = f"#{item.seq}"
    match item:
        case CallItem(call=call, called_seq=called, result=result) if call:
            if called:
                yield called, ["", f"#{called} {one_line(item.name)}: {item.title}"]
            for child in item.children:
                yield from _item_lines(child)
            if result is not None:
                yield result.seq, [f"#{result.seq} {one_line(item.name)} {_result_text(result)}"]
        case ChildItem(agent=agent, session=session):
            yield item.seq, [f"  {one_line(agent) or 'subagent'}: session {session}"]
        case NoticeItem(code="withheld"):
            yield item.seq, ["", f"{number} assistant: (withheld)"]
        case NoticeItem(code="unknown", text=text) | SummaryItem(source="history", text=text):
            yield item.seq, ["", f"{number} ({one_line(text)})"]
        case QuestionItem(asked=events.QuestionAsked(question=question)):
            yield item.seq, [f"  asked: {one_line(question.text)}"]
            if item.answered_seq:
                has_answer = item.state == "answered" and item.answer is not None
                yield item.answered_seq, [f"  {one_line(str(item.answer)) if has_answer else item.state}"]
        case _:
            for seq, text in _notices(item):
                yield seq, [f"  {one_line(text)}"]


def _block_text(block: Block) -> str:
    match block:
        case Text(text=text):
            return text.strip("\n")
        case Image(media_type=media_type) | File(media_type=media_type):
            return f"[{media_type}]"
    return ""


def _result_text(result: CallResult) -> str:
    first = next((text for block in result.content if (text := _block_text(block))), "")
    text = one_line(result.summary if result.summary and not result.failed else first)
    text = text if len(text) <= _RESULT_LENGTH else text[: _RESULT_LENGTH - 1] + "…"
    verdict = f"failed ({result.failed})" if result.failed else "ok"
    return f"{verdict}: {text}" if text else verdict


# --- Markdown -------------------------------------------------------------------------------------------

_MEANINGFUL = re.compile(r"([\\`*_\[\]<>&|~])")


def markdown_page(summary: SessionSummary, facts: Sequence[Fact]) -> Iterator[str]:
    yield f"# {_plain(summary.title or summary.preview or summary.id)}\n\n"
    state = f"session {summary.id}, {summary.status or 'not run yet'}, begun {facts[0].time}"
    yield f"*{_plain(state)}*\n\n"
    for part in parts_of(facts):
        match part:
            case Message(seq=seq, who=who, content=content):
                if blocks := [text for block in content if (text := _block_markdown(block))]:
                    yield f"## {who.capitalize()} (#{seq})\n\n"
                    yield "".join(f"{block}\n\n" for block in blocks)
            case CallItem():
                yield _call_markdown(part)
            case _:
                yield f"*{_plain(part)}*\n\n"
    if elsewhere := entries_elsewhere(facts):
        yield f"*{elsewhere} entries on other branches are not here*\n\n"
    yield "## Usage\n\n| | |\n|---|---|\n"
    for name, value in usage_rows(facts):
        yield f"| {name} | {_plain(value)} |\n"


def _block_markdown(block: Block) -> str:
    match block:
        case Text(text=text) if text.strip():
            return "\n".join(f"> {line}".rstrip() for line in _lines(text.strip("\n")))
        case Reasoning(text=text) if text.strip():
            return _folded("reasoning", _fenced(text))
        case Image(media_type=kind) | File(media_type=kind):
            return f"> ({_plain(kind)})"
    return ""


def _call_markdown(call: CallItem) -> str:
    title = f"#{call.called_seq} {call.name}: {call.title}: {outcome_of(call)}"
    parts = [_fenced(arguments_json(call), "json")]
    if call.result is not None:
        if call.result.diff:
            parts.append(_fenced(call.result.diff, "diff"))
        for block in call.result.content:
            parts.append(_fenced(block.text) if isinstance(block, Text) else f"({_plain(block.media_type)})")
    return _folded(title, "\n\n".join(parts)) + "\n\n"


def arguments_json(call: CallItem) -> str:
    return msgspec.json.format(msgspec.json.encode(call.arguments or {}), indent=2).decode()


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{escape(one_line(title))}</summary>\n\n{body}\n\n</details>"


def _fenced(text: str, language: str = "") -> str:
    """The text in a fence that is longer than any in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *_lines(text), fence])


def _lines(text: str) -> list[str]:
    return clean(text).split("\n")


def _plain(text: str) -> str:
    """The text on one line, with Markdown's special characters escaped."""
    return _MEANINGFUL.sub(r"\\\1", one_line(text))


# --- files ----------------------------------------------------------------------------------------------

EXTENSIONS = {"jsonl": ".jsonl", "markdown": ".md", "html": ".html"}
PAGES = {"markdown": "ostler.history.export:markdown_page", "html": "ostler.history.export_html:html_page"}

_SLUG_LENGTH = 40
_ID_LENGTH = 14


def format_of(name: str) -> str:
    """The format for a file name."""
    return next((one for one, extension in EXTENSIONS.items() if name.endswith(extension)), "jsonl")


def _with_extension(target: Path, summary: SessionSummary, extension: str) -> Path:
    if target.is_dir():
        return target / (file_name(summary) + extension)
    is_complete = target.name.endswith(extension) or (target.exists() and not target.is_file())
    return target if is_complete else target.with_name(target.name + extension)


def file_name(summary: SessionSummary) -> str:
    day = datetime.fromtimestamp(summary.created_ms / 1000, UTC).strftime("%Y-%m-%d")
    slug = re.sub(r"[^a-z0-9]+", "-", (summary.title or summary.preview).lower())[:_SLUG_LENGTH].strip("-")
    return "-".join(part for part in (day, summary.id[:_ID_LENGTH], slug) if part)


@contextmanager
def writing(target: Path) -> Iterator[BinaryIO]:
    """A new file that only its owner can read. It gets its name once complete, and replaces no other file."""
    if target.is_file():
        raise UsageError(f"{target} exists already; name another file, or remove it")
    is_new = not target.exists()
    path = target.with_name(f"{target.name}.part") if is_new else target
    try:
        with open(path, "wb", opener=_private) as file:
            yield file
        if is_new:
            path.rename(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        if is_new:
            path.unlink(missing_ok=True)


@contextmanager
def read_export_file(name: str) -> Iterator[BinaryIO]:
    """The file, or standard input for `-`."""
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


async def write_export(store: Store, session: str, target: Path, wanted: str) -> Path:
    """Writes a session to a file, and returns its path; in a directory, it is named after the session."""
    target = _with_extension(target, await store.summary(session), EXTENSIONS[wanted])
    with writing(target) as file:
        async for piece in export_text(store, session, wanted):
            file.write(piece)
    return target


async def export_text(store: Store, session: str, wanted: str) -> AsyncIterator[bytes]:
    """The pieces of the file. Known keys in it are masked; the content of blobs is not changed."""
    learn_known_keys()
    if wanted == "jsonl":
        async for line in portable.export_session(store, session):
            yield secrets.mask_bytes(line)
        return
    summary = await current_status(store, await store.summary(session))
    for piece in load(PAGES[wanted])(summary, await store.read(session)):
        yield secrets.mask_bytes(piece.encode(errors="replace"))
