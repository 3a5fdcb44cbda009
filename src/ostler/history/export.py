"""A session as a person reads it afterwards: who said what, which tools were called, what came of it."""
# MERGED: A session as a Markdown page to read. What was said is quoted, so that nothing in it can pass for
# MERGED: ours.
# MERGED: The file of an exported session: its name, reading it, and writing it whole or not at all.
# MERGED: `ostler sessions export|import|fork`: sessions in files, and copies of them.

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from textwrap import indent
from typing import BinaryIO

import msgspec

from ostler.core.state import path_of
from ostler.core.store import SessionSummary, Store
from ostler.history.export_html import html_page
from ostler.history.item_builder import (
    Done,
    Noted,
    Said,
    as_revised,
    clean,
    entries_elsewhere,
    pieces_of,
    used_in_words,
)
from ostler.history.items import about_call
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import Block, File, Image, PlainBlock, Reasoning, Text
from ostler.schema.text import one_line, printable
from ostler.sessions.run_tree import current_status
from ostler.store.portable import export_session

_RESULT_LENGTH = 200


def transcript(summary: SessionSummary, facts: Sequence[Fact]) -> Iterator[str]:
    """Lines to print. Entries carry their number, so that one can be named to fork at."""
    yield f"session {summary.id}{': ' + one_line(summary.title) if summary.title else ''}"
    yield f"{summary.status or 'not run yet'}, begun {facts[0].time}, in {printable(summary.cwd)}"
    if summary.forked_from:
        yield f"forked from {summary.forked_from}"
    path = path_of(facts)
    elsewhere = 0
    for fact in facts:
        if fact.parent is not None and fact.seq not in path:
            elsewhere += 1
            continue
        yield from _told(fact)
    if elsewhere:
        yield ""
        yield f"({elsewhere} entries on other branches are not shown; --json has them)"


def _told(fact: Fact) -> Iterator[str]:
    event, number = fact.event, f"#{fact.seq}"
    match event:
        case events.UserMessage(hidden=False, source=source, content=content):
            yield from _block_text(f"{number} {'you' if source == 'prompt' else source}:", content)
        case events.AssistantMessage(suppressed=True):
            yield from _block_text(f"{number} assistant: (withheld)", ())
        case events.AssistantMessage(content=content, shown=shown):
            yield from _block_text(f"{number} assistant:", content if shown is None else shown)
        case events.ToolCalled(name=name):
            yield ""
            yield f"{number} {one_line(name)}: {about_call(event)}"
        case events.ChildStarted(child=child, agent=agent):
            yield f"  {one_line(agent) or 'subagent'}: session {child}"
        case events.ToolResultFact() as result:
            yield f"{number} {one_line(result.name)} {_outcome(result)}"
        case events.HistoryReplaced(messages=messages):
            yield from _block_text(f"{number} (the history was replaced by {len(messages)} messages)", ())
        case events.Compacted(summary=summary) | events.BranchCollapsed(summary=summary):
            yield from _block_text(f"{number} (summary)", (Text(summary),))
        case events.TodoUpdated(items=items):
            yield from _block_text(
                f"{number} to do:", [Text(f"[{item.status}] {item.text}") for item in items]
            )
        case UnknownEvent(type=tag) if fact.parent is not None:
            yield from _block_text(f"{number} ({one_line(tag)}, written by a newer version)", ())
        case events.QuestionAsked(question=question):
            yield f"  asked: {one_line(question.text)}"
        case events.QuestionAnswered(outcome=outcome, answer=answer):
            yield f"  {one_line(str(answer)) if outcome == 'answered' and answer is not None else outcome}"
        case events.ModelFailed(failure=failure, retry_in=None):
            yield f"  the model failed: {one_line(failure.message)}"
        case events.ModelFailed(failure=failure, rescue=rescue) if rescue:
            yield f"  the model failed: {one_line(failure.message)}; {one_line(rescue)} went on"
        case events.RunWaiting(reason=reason):
            yield f"  the run waits: {reason}"
        case events.RunEnded(status=status, reason=reason) if status != "completed":
            yield f"  the run ended: {status}{': ' + one_line(reason) if reason else ''}"


def _block_text(title: str, content: Iterable[Block]) -> Iterator[str]:
    texts = [text for block in content if (text := _readable(block))]
    if not texts and title.endswith(":"):
        return
    yield ""
    yield title
    for text in texts:
        yield indent(printable(text), "  ")


def _readable(block: Block) -> str:
    match block:
        case Text(text=text):
            return text.strip("\n")
        case Image(media_type=media_type) | File(media_type=media_type):
            return f"[{media_type}]"
    return ""


def _outcome(result: events.ToolResultFact) -> str:
    first = next((text for block in result.content if (text := _readable(block))), "")
    said = one_line(result.summary if result.summary and not result.failed else first)
    said = said if len(said) <= _RESULT_LENGTH else said[: _RESULT_LENGTH - 1] + "…"
    verdict = f"failed ({result.failed})" if result.failed else "ok"
    return f"{verdict}: {said}" if said else verdict


_MEANINGFUL = re.compile(r"([\\`*_\[\]<>&|~])")


def markdown_page(summary: SessionSummary, facts: Sequence[Fact]) -> Iterator[str]:
    yield f"# {_plain(summary.title or summary.preview or summary.id)}\n\n"
    state = f"session {summary.id}, {summary.status or 'not run yet'}, begun {facts[0].time}"
    yield f"*{_plain(state)}*\n\n"
    for piece in pieces_of(facts):
        match piece:
            case Said():
                yield from _said(piece)
            case Done():
                yield from _done(piece)
            case Noted(text=text):
                yield f"*{_plain(text)}*\n\n"
    if elsewhere := entries_elsewhere(facts):
        yield f"*{elsewhere} entries on other branches are not here*\n\n"
    yield "## Usage\n\n| | |\n|---|---|\n"
    for name, value in used_in_words(facts):
        yield f"| {name} | {_plain(value)} |\n"


def _said(piece: Said) -> Iterator[str]:
    blocks = [text for block in piece.content if (text := _block_markdown(block))]
    if blocks:
        yield f"## {piece.who.capitalize()} (#{piece.seq})\n\n"
        yield "".join(f"{block}\n\n" for block in blocks)


def _block_markdown(block: Block) -> str:
    match block:
        case Text(text=text) if text.strip():
            return "\n".join(f"> {line}".rstrip() for line in _lines(text.strip("\n")))
        case Reasoning(text=text) if text.strip():
            return _folded("reasoning", _fenced(text))
        case Image(media_type=kind) | File(media_type=kind):
            return f"> ({_plain(kind)})"
    return ""


def _done(piece: Done) -> Iterator[str]:
    called = piece.called
    title = f"#{piece.seq} {called.name}: {about_call(called)}: {piece.outcome}"
    parts = [_fenced(msgspec.json.format(msgspec.json.encode(called.arguments), indent=2).decode(), "json")]
    if piece.diff:
        parts.append(_fenced(piece.diff, "diff"))
    parts += [_shown(block) for block in (piece.result.content if piece.result else ())]
    yield _folded(title, "\n\n".join(parts)) + "\n\n"


def _shown(block: PlainBlock) -> str:
    return _fenced(block.text) if isinstance(block, Text) else f"({_plain(block.media_type)})"


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{escape(one_line(title))}</summary>\n\n{body}\n\n</details>"


def _fenced(text: str, language: str = "") -> str:
    """In a fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *_lines(text), fence])


def _lines(text: str) -> list[str]:
    return clean(text).split("\n")


def _plain(text: str) -> str:
    """On one line, with nothing that Markdown would take for a mark."""
    return _MEANINGFUL.sub(r"\\\1", one_line(text))


EXTENSION = ".jsonl"

EXTENSIONS = {"jsonl": EXTENSION, "markdown": ".md", "html": ".html"}
"""What files of each format are called."""


_SLUG_LENGTH = 40

_ID_LENGTH = 14


def format_of(name: str) -> str:
    """The format that a file's name asks for."""
    return next((one for one, extension in EXTENSIONS.items() if name.endswith(extension)), "jsonl")


def export_target(wanted: Path, summary: SessionSummary, extension: str) -> Path:
    """The file as it was named, with the extension; in a directory, a name that tells the session."""
    if wanted.is_dir():
        return wanted / (file_name(summary) + extension)
    if wanted.name.endswith(extension) or (wanted.exists() and not wanted.is_file()):
        return wanted
    return wanted.with_name(wanted.name + extension)


def file_name(summary: SessionSummary) -> str:
    day = datetime.fromtimestamp(summary.created_ms / 1000, UTC).strftime("%Y-%m-%d")
    slug = re.sub(r"[^a-z0-9]+", "-", (summary.title or summary.preview).lower())[:_SLUG_LENGTH].strip("-")
    return "-".join(part for part in (day, summary.id[:_ID_LENGTH], slug) if part)


@contextmanager
def writing(target: Path) -> Iterator[BinaryIO]:
    """A new file that only its owner can read. It gets its name when it is whole, and replaces no other."""
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
    """The file that a session was written to; in a directory, one that is named after it."""
    target = export_target(target, await store.summary(session), EXTENSIONS[wanted])
    with writing(target) as file:
        async for piece in export_text(store, session, wanted):
            file.write(piece)
    return target


async def export_text(store: Store, session: str, wanted: str) -> AsyncIterator[bytes]:
    if wanted == "jsonl":
        async for line in export_session(store, session):
            yield line
        return
    summary = await current_status(store, await store.summary(session))
    facts = as_revised(await store.read(session))
    if wanted == "html":
        pieces = html_page(summary, facts)
    else:
        pieces = markdown_page(summary, facts)
    for piece in pieces:
        yield piece.encode(errors="replace")
