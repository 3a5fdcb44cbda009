"""Rules of thumb for pictures and files, which no vendor lets us count before they are sent.

Pictures are counted by their pixels. Claude takes one token for 750 of them, and up to 4,800; Gemini the
same number for every picture; OpenAI's models, in tiles or patches, about 800 for a square of 1,000 pixels
and seldom more than 1,600, like most others. A page of a PDF is text and a picture of it: 1,500 to 3,000
tokens with Claude, fewer with others. A text file counts as its text, and anything else by its size.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from math import ceil

import msgspec

from ostler.context.picture_size import picture_size
from ostler.models.sendable import text_of_file
from ostler.vocabulary.messages import File, Image


class PictureRule(msgspec.Struct, frozen=True):
    pixels: int
    """Of each token."""
    least: int
    most: int
    """Also where the size is not known."""


_PICTURES: tuple[tuple[str, PictureRule], ...] = (
    ("claude", PictureRule(750, 50, 4800)),
    ("gemini", PictureRule(750, 1120, 1120)),
)
_OTHER_PICTURES = PictureRule(750, 85, 1600)
_HEAD = 1 << 17
"""Characters of base64 in which the size of a picture is looked for; photographs begin with a thumbnail."""

PAGE_TOKENS = 2500
BYTES_A_TOKEN = 4
MOST_FILE_TOKENS = 100 * PAGE_TOKENS
"""A scan has many bytes and few pages; vendors take about as many pages in one request."""
_PAGE = re.compile(rb"/Type\s*/Page\b")


def picture_tokens(picture: Image, model: str) -> int:
    rule = next((rule for part, rule in _PICTURES if part in model.lower()), _OTHER_PICTURES)
    size = picture_size(_decoded(picture.data[:_HEAD]))
    if size is None:
        return rule.most
    return min(max(ceil(size[0] * size[1] / rule.pixels), rule.least), rule.most)


def file_tokens(file: File, text: Callable[[str], int]) -> int:
    content = text_of_file(file)
    if content is not None:
        return text(file.name) + text(content)
    data = _decoded(file.data)
    pages = len(_PAGE.findall(data)) if data.startswith(b"%PDF-") else 0
    tokens = pages * PAGE_TOKENS if pages else min(len(data) // BYTES_A_TOKEN, MOST_FILE_TOKENS)
    return text(file.name) + max(tokens, PAGE_TOKENS)


def _decoded(data: str) -> bytes:
    """What can be decoded of it: a head may end within a group, and data may be no base64 at all."""
    try:
        return base64.b64decode(data[: len(data) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""
