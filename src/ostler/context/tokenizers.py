"""Token counts: by a model's own vocabulary if `splintr` (the extra `tokens`) is installed, else estimated.

- Text: bytes are grouped into a few classes (letters, digits, spaces, line ends, punctuation, lead bytes),
  and what starts a token in most vocabularies is counted. The weights are fitted to o200k, Gemma 3, DeepSeek
  V3, Kimi K3 and Qwen 3 on some fifty texts. Code, JSON and most prose are within 25 % of each, usually
  above; rare scripts are further off.
- Messages and tools: most vendors do not publish their framing. The figures are the larger ones of Qwen 3's
  and gpt-oss's public formats; calibration corrects the difference.
- Pictures count by pixels: Claude uses one token for 750 of them, up to 4,800; Gemini a constant; OpenAI
  about 800 for a square of 1,000 pixels. A PDF page is 1,500 to 3,000 tokens with Claude, fewer with others.
  A text file counts as its text, any other file by its size.
- Vocabularies: which model uses which is data, taken only from `tiktoken`, Google's SDK and splintr.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from math import ceil
from typing import Any

import msgspec

from ostler.core.context import Confidence, Count, Tokenizer
from ostler.core.model import ToolOffer
from ostler.models.wires.encoder import text_of_file
from ostler.schema.messages import Block, File, Image, Message, Opaque, Reasoning, Text, ToolCall

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The JPEG markers before a frame's size."""


def picture_size(head: bytes) -> tuple[int, int] | None:
    """The size in pixels of a PNG, JPEG, GIF or WebP; None if `head` does not contain it."""
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return _pair(">II", head, 16)
        if head.startswith((b"GIF87a", b"GIF89a")):
            return _pair("<HH", head, 6)
        if head.startswith(b"\xff\xd8"):
            return _jpeg(head)
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return _webp(head)
    except struct.error:  # the head ends before the size
        return None
    return None


def _pair(layout: str, head: bytes, at: int) -> tuple[int, int]:
    first, second = struct.unpack_from(layout, head, at)
    return first, second


def _jpeg(head: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        marker, length = _pair(">HH", head, at)
        if marker >> 8 != 0xFF:
            return None
        if marker & 0xFF in _FRAMES:
            height, width = _pair(">HH", head, at + 5)
            return width, height
        at += 2 + length


def _webp(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8 ":
            width, height = _pair("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (packed,) = struct.unpack_from("<I", head, 21)
            return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        case b"VP8X":
            (width,) = struct.unpack_from("<I", head, 24)
            (height,) = struct.unpack_from("<I", head, 27)
            return (width & 0xFFFFFF) + 1, (height & 0xFFFFFF) + 1
    return None


class PictureRule(msgspec.Struct, frozen=True):
    pixels: int
    """The pixels of a token."""
    least: int
    most: int
    """The tokens of a picture of unknown size, too."""


_PICTURES: tuple[tuple[str, PictureRule], ...] = (
    ("claude", PictureRule(750, 50, 4800)),
    ("gemini", PictureRule(750, 1120, 1120)),
)

_OTHER_PICTURES = PictureRule(750, 85, 1600)

_HEAD = 1 << 17
"""The base64 characters that are searched for the size of a picture; photographs begin with a thumbnail."""

PAGE_TOKENS = 2500
BYTES_A_TOKEN = 4

MOST_FILE_TOKENS = 100 * PAGE_TOKENS
"""A scan has many bytes and few pages; vendors accept about 100 pages in one request."""

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
    """The decoded data; empty if it is not base64. A head may end within a group of characters."""
    try:
        return base64.b64decode(data[: len(data) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


CountText = Callable[[str], int]
MESSAGE_FRAME = 5
CALL_FRAME = 13
RESULT_FRAME = 10
TOOL_FRAME = 24
TOOLS_FRAME = 80

CLAUDE_TOOLS_FRAME = 350
"""Claude gets a prompt about how to call tools, for which the vendor counts 346 tokens."""

SEALED_CHARACTERS = 5
"""The characters of a token in data that a vendor has encrypted: four of text, a third more in base64."""

_SHORTEST_SEALED = 100
"""Shorter strings in a vendor's own data are ids, which no model reads."""


def count_message(message: Message, model: str, text: CountText) -> tuple[int, Confidence]:
    """The tokens of a message, and the confidence if those of its texts are certain."""
    counter = _MessageCounter(model, text)
    return MESSAGE_FRAME + counter.blocks(message.content), counter.confidence


def count_tools(offers: Sequence[ToolOffer], model: str, text: CountText) -> int:
    if not offers:
        return 0
    tokens = CLAUDE_TOOLS_FRAME if "claude" in model.lower() else TOOLS_FRAME
    for offer in offers:
        schema = msgspec.json.encode(offer.schema).decode()
        tokens += TOOL_FRAME + text(offer.name) + text(offer.description) + text(schema)
    return tokens


class _MessageCounter:
    def __init__(self, model: str, text: CountText) -> None:
        self._model = model
        self._provider = model.partition("/")[0]
        self._text = text
        self.confidence: Confidence = "high"

    def blocks(self, blocks: Sequence[Block]) -> int:
        return sum(map(self._block, blocks))

    def _block(self, block: Block) -> int:
        if isinstance(block, Text):
            return self._text(block.text) + self._sealed(block.opaque)
        if isinstance(block, ToolCall):
            text = self._text(f"{block.id} {block.name} {block.arguments}")
            return CALL_FRAME + text + self._sealed(block.opaque)
        if isinstance(block, Reasoning):
            if not self._is_own(block.opaque):
                return 0  # without data of this vendor, the reasoning is not sent
            return max(self._text(block.text), self._sealed(block.opaque))
        if isinstance(block, Image):
            self.confidence = "low"
            return picture_tokens(block, self._model)
        if isinstance(block, File):
            self.confidence = "low"
            return file_tokens(block, self._text)
        return RESULT_FRAME + self._text(f"{block.call} {block.name}") + self.blocks(block.content)

    def _is_own(self, opaque: Opaque | None) -> bool:
        return opaque is not None and opaque.provider in ("", self._provider)

    def _sealed(self, opaque: Opaque | None) -> int:
        if opaque is None or not self._is_own(opaque):
            return 0
        characters = sum(len(one) for one in _strings(opaque.data) if len(one) > _SHORTEST_SEALED)
        if characters and self.confidence == "high":
            self.confidence = "medium"
        return characters // SEALED_CHARACTERS


def _strings(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list | tuple):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _strings(value)


_CONTINUATION = bytes(range(0x80, 0xC0))

_WEIGHTS: tuple[tuple[float, tuple[bytes, ...]], ...] = (
    (1.0, (b" a", b".a", b"\na", b"0a")),  # a word begins
    (0.5, (b"a" * 7,)),  # and is long
    (7.0, (b"a" * 24,)),  # or is not a word
    (1.25, (b" A", b".A", b"\nA", b"0A", b"aA")),
    (0.25, (b"A",)),
    (0.75, (b"0",)),  # each, or three together: vocabularies differ
    (1.2, (b" 0",)),
    (0.2, (b".",)),
    (0.55, (b"a.", b"A.", b"0.", b" .", b"\n.")),
    (0.7, (b"\n",)),
    (0.6, (b"\n ",)),
    (0.3, (b" " * 16,)),
    (0.5, (b"2",)),
    (0.7, (b"3",)),
    (2.0, (b"4",)),
)
"""The tokens for each occurrence of these sequences; `2`, `3` and `4` are characters of as many bytes.
No weight is negative, so the sum grows with the text."""


def _kind(byte: int) -> int:
    character = chr(byte)
    if byte >= 0xF0:
        return ord("4")
    if byte >= 0xE0:
        return ord("3")
    if byte >= 0x80:
        return ord("2")
    if character.isalpha():
        return ord("a" if character.islower() else "A")
    if character.isdigit():
        return ord("0")
    if character in "\r\n":
        return ord("\n")
    return ord(" " if character in " \t" else ".")


_KINDS = bytes(map(_kind, range(256)))


def estimated_tokens(text: str) -> int:
    if not text:
        return 0
    kinds = f" {text}".encode("utf-8", "surrogatepass").translate(_KINDS, _CONTINUATION)
    tokens = 0.0
    for weight, patterns in _WEIGHTS:
        for pattern in patterns:
            tokens += weight * kinds.count(pattern)
    return max(ceil(tokens), 1)


class EstimatingTokenizer:
    """See `Tokenizer`. Fast, and the same for every model."""

    def text(self, text: str, model: str) -> Count:
        return Count(estimated_tokens(text), "estimated", "low")

    def message(self, message: Message, model: str) -> Count:
        tokens, _ = count_message(message, model, estimated_tokens)
        return Count(tokens, "estimated", "low")

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count:
        return Count(count_tools(offers, model, estimated_tokens), "estimated", "low")


_VOCABULARIES: tuple[tuple[str, str], ...] = (
    (r"gpt-oss", "gpt-oss"),
    (r"(chat)?gpt-(4o|4\.1|4\.5|5)|o[13](-|$)|o4-mini", "o200k_base"),
    (r"gpt-(4|3\.?5)(-|$)", "cl100k_base"),
    # Google's SDK uses Gemma 4 for the later ones: it counts the same, and loads five times as long.
    (r"gemini-(2\.|3-|3\.1-|3\.5-)|gemma-?[34]", "gemma3"),
    (r"(meta-)?llama-?3", "llama3"),
    (r"qwen-?(2|2\.5|3)([-_:]|$)", "qwen3"),
    (r"deepseek-(v3|r1(?!-distill))", "deepseek_v3"),
    (r"glm-4(\.5)?([-:]|$)", "glm4"),
    (r"kimi-k2", "kimi_k2"),
    (r"kimi-k3([-:]|$)", "kimi_k3"),
    (r"(open-)?mistral-nemo|pixtral", "mistral_v3"),
    (r"phi-?4(?!-m)", "phi4"),
)
"""Patterns for the beginning of the last part of a model's name, and the vocabulary."""


@cache
def vocabulary_of(model: str) -> str | None:
    """The name of a model's vocabulary, if splintr has it."""
    name = model.lower().rpartition("/")[2]
    return next((vocabulary for pattern, vocabulary in _VOCABULARIES if re.match(pattern, name)), None)


class SplintrTokenizer:
    """See `Tokenizer`. The constructor loads the vocabulary, in 30 to 150 ms.

    It raises ImportError if splintr is not installed, and ValueError if it has no such vocabulary.
    """

    def __init__(self, vocabulary: str) -> None:
        self._encode = _encoder(vocabulary)

    def text(self, text: str, model: str) -> Count:
        return Count(self._tokens(text), "tokenizer", "high")

    def message(self, message: Message, model: str) -> Count:
        tokens, confidence = count_message(message, model, self._tokens)
        return Count(tokens, "tokenizer", confidence)

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count:
        tokens = count_tools(offers, model, self._tokens)
        # Vendors do not publish how they present tools to their models.
        return Count(tokens, "tokenizer", "medium" if offers else "high")

    def _tokens(self, text: str) -> int:
        if not text:
            return 0
        try:
            return len(self._encode(text))
        except UnicodeEncodeError:  # half of a surrogate pair, which tools may produce
            return len(self._encode(text.encode("utf-8", "replace").decode()))


@cache
def _encoder(vocabulary: str) -> Callable[[str], Sequence[int]]:
    from splintr import Tokenizer

    # Text that spells a special token counts as text.
    return Tokenizer.from_pretrained(vocabulary).encode_ordinary


@cache
def tokenizer_for(model: str) -> Tokenizer:
    """The model's own vocabulary if the extra `tokens` is installed and has it, else the estimate."""
    vocabulary = vocabulary_of(model)
    if vocabulary is not None:
        with suppress(ImportError, ValueError):  # not installed, or a version without this vocabulary
            return SplintrTokenizer(vocabulary)
    return EstimatingTokenizer()


class RoutedTokenizer:
    """See `Tokenizer`. Counts with `tokenizer_for` each model."""

    def text(self, text: str, model: str) -> Count:
        return tokenizer_for(model).text(text, model)

    def message(self, message: Message, model: str) -> Count:
        return tokenizer_for(model).message(message, model)

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count:
        return tokenizer_for(model).tools(offers, model)
