"""A prompt as the person who said it sees it: their words, and by name what was shown with them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ostler.vocabulary.messages import Block, File, Image, Text

_HEADING = re.compile(r"--- (.+), (?:as read shows it|without what is ignored or hidden) ---")
"""What `context/mentions.py` writes above the content of a file or a folder."""


def said(content: Sequence[Block]) -> str:
    """What was typed: the first text. Others hold what it mentions."""
    return next((block.text for block in content if isinstance(block, Text)), "")


def shown_with_it(content: Sequence[Block]) -> tuple[str, ...]:
    """Files, folders and pictures, a line each. Nobody wants to read a file again that they have named."""
    first = next((block for block in content if isinstance(block, Text)), None)
    names: list[str] = []
    is_captioned = False
    for block in content:
        if block is first:
            continue
        if not (is_captioned and isinstance(block, Image)):
            names.append(_name(block))
        is_captioned = isinstance(block, Text)  # a picture of a file comes behind a text with its name
    return tuple(filter(None, names))


def _name(block: Block) -> str:
    match block:
        case Text(text=text):
            heading, _, body = text.rstrip("\n").partition("\n")
            lines = len(body.splitlines())
            return _HEADING.sub(r"\1", heading) + (f" · {lines} line{'s' * (lines > 1)}" if lines else "")
        case Image():
            from ostler.faces.tui.drawing.pictures import image_words

            return image_words(block)
        case File(name=name, media_type=media_type):
            return name or media_type
        case _:
            return ""
