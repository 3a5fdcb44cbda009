"""A session as a Markdown page to read. What was said is quoted, so that nothing in it can pass for ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

import msgspec

from ostler.faces.cli.about_call import about_call
from ostler.faces.cli.columns import one_line
from ostler.faces.cli.reading import (
    Done,
    Noted,
    Said,
    clean,
    entries_elsewhere,
    pieces_of,
    used_in_words,
)
from ostler.kernel.store import SessionSummary
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import Block, File, Image, PlainBlock, Reasoning, Text

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
