"""A session as one HTML page: no scripts, no requests, and nothing of the session but text and images.

The content of a session may be hostile: `_text` escapes all of it, and an image has a type from a fixed list.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from html import escape

from ostler.core.store import SessionSummary
from ostler.history.export import (
    Message,
    arguments_json,
    clean,
    entries_elsewhere,
    outcome_of,
    parts_of,
    usage_rows,
)
from ostler.history.items import CallItem
from ostler.schema.facts import Fact
from ostler.schema.messages import Block, File, Image, Reasoning, Text
from ostler.schema.text import one_line

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_HEAD = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ --ink: #1c1c1a; --paper: #fdfdfb; --faint: #6b6b66;
  --line: #ddddd6; --you: #eef3ee; --bad: #a4262c; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6e6e1; --paper: #191a1b; --faint: #9a9a94;
    --line: #37383a; --you: #232a25; --bad: #f1707b; }}
}}
body {{ max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.4rem; }}
h2 {{ font-size: 0.9rem; margin: 0 0 0.3rem; color: var(--faint); }}
article, details, .note {{ margin: 1rem 0; }}
article.you {{ padding: 0.7rem 1rem; background: var(--you); border-radius: 0.5rem; }}
pre {{ margin: 0.3rem 0; white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; }}
details {{ border-left: 3px solid var(--line); padding-left: 0.8rem; }}
details.failed > summary {{ color: var(--bad); }}
details pre {{ font: 13px/1.45 ui-monospace, monospace; max-height: 30rem; overflow: auto; }}
summary {{ cursor: pointer; overflow-wrap: anywhere; }}
img {{ max-width: 100%; }}
.note, .meta, footer {{ color: var(--faint); }}
td {{ padding-right: 2rem; }}
</style>
</head>
<body>
"""


def html_page(summary: SessionSummary, facts: Sequence[Fact]) -> Iterator[str]:
    title = _text(one_line(summary.title or summary.preview or summary.id))
    yield _HEAD.format(title=title)
    state = f"{summary.id}, {summary.status or 'not run yet'}, begun {facts[0].time}"
    yield f'<h1 dir="auto">{title}</h1>\n<p class="meta">{_text(state)}</p>\n'
    for part in parts_of(facts):
        match part:
            case Message():
                yield from _message(part)
            case CallItem():
                yield from _call(part)
            case _:
                yield f'<p class="note" dir="auto">{_text(one_line(part))}</p>\n'
    if elsewhere := entries_elsewhere(facts):
        yield f'<p class="note">{elsewhere} entries on other branches are not here</p>\n'
    yield "<footer>\n<h2>Usage</h2>\n<table>\n"
    for name, value in usage_rows(facts):
        yield f"<tr><td>{name}</td><td>{_text(value)}</td></tr>\n"
    yield "</table>\n</footer>\n</body>\n</html>\n"


def _message(message: Message) -> Iterator[str]:
    blocks = [html for block in message.content if (html := _block(block))]
    if blocks:
        kind = ' class="you"' if message.who == "you" else ""
        yield f'<article{kind} id="entry-{message.seq}">\n<h2>{_text(message.who)} #{message.seq}</h2>\n'
        yield "".join(blocks)
        yield "</article>\n"


def _call(call: CallItem) -> Iterator[str]:
    result = call.result
    kind = ' class="failed"' if result and result.failed else ""
    title = one_line(f"{call.name}: {call.title}: {outcome_of(call)}")
    yield f'<details{kind} id="entry-{call.called_seq}">\n<summary dir="auto">{_text(title)}</summary>\n'
    yield _pre(arguments_json(call))
    if result:
        if result.diff:
            yield _pre(result.diff)
        yield "".join(_block(block) for block in result.content)
        if result.output:
            yield f'<p class="note">the whole output has {result.output.size:,} bytes</p>\n'
    yield "</details>\n"


def _block(block: Block) -> str:
    match block:
        case Text(text=text) if text.strip():
            return _pre(text.strip("\n"))
        case Reasoning(text=text) if text.strip():
            return f"<details>\n<summary>reasoning</summary>\n{_pre(text)}</details>\n"
        case Image():
            return _picture(block)
        case File(media_type=media_type, name=name):
            return f'<p class="note" dir="auto">{_text(one_line(f"({media_type} {name})"))}</p>\n'
    return ""


def _picture(image: Image) -> str:
    try:
        data = b64encode(b64decode(image.data, validate=True)).decode()
    except (binascii.Error, ValueError):
        data = ""
    if image.media_type not in PICTURES or not data:
        return f'<p class="note" dir="auto">{_text(one_line(f"({image.media_type} {image.url})"))}</p>\n'
    return f'<img alt="" src="data:{image.media_type};base64,{data}">\n'


def _pre(text: str) -> str:
    return f'<pre dir="auto">\n{_text(text)}</pre>\n'  # a <pre> ignores its first line break


def _text(text: str) -> str:
    return escape(clean(text), quote=True)
