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
from functools import cache
from math import ceil
from typing import Any

import msgspec

from ostler.core.context import Confidence, Count, Tokenizer
from ostler.core.model import ToolOffer
from ostler.models.wires.encoder import text_of_file
from ostler.schema.messages import Block, File, Image, Message, Opaque, Reasoning, Text, ToolCall

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of JPEG after which a frame's size stands."""


def picture_size(head: bytes) -> tuple[int, int] | None:
    """In pixels; None where it is not said there, or the format is another than PNG, JPEG, GIF or WebP."""
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack_from(">II", head, 16)
            return width, height
        if head.startswith((b"GIF87a", b"GIF89a")):
            width, height = struct.unpack_from("<HH", head, 6)
            return width, height
        if head.startswith(b"\xff\xd8"):
            return _jpeg(head)
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return _webp(head)
    except struct.error:  # the head ends before the size
        return None
    return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        marker, length = struct.unpack_from(">HH", head, at)
        if marker >> 8 != 0xFF:
            return None
        if marker & 0xFF in _FRAMES:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        at += 2 + length


def _webp(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (packed,) = struct.unpack_from("<I", head, 21)
            return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        case b"VP8X":
            (width,) = struct.unpack_from("<I", head, 24)
            (height,) = struct.unpack_from("<I", head, 27)
            return (width & 0xFFFFFF) + 1, (height & 0xFFFFFF) + 1
        case _:
            return None


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


CountText = Callable[[str], int]
MESSAGE_FRAME = 5
CALL_FRAME = 13
RESULT_FRAME = 10
TOOL_FRAME = 24
TOOLS_FRAME = 80

CLAUDE_TOOLS_FRAME = 350
"""Claude is told how to call tools in a prompt of its own; the vendor counts 346 tokens for it."""

SEALED_CHARACTERS = 5
"""Of each token in what a vendor has encrypted: four of text, a third more in base64."""

_SHORTEST_SEALED = 100
"""Shorter strings of a vendor's own data are ids and the like, which no model reads."""


def count_message(message: Message, model: str, text: CountText) -> tuple[int, Confidence]:
    """Its tokens, and how certain they are if those of its texts are certain."""
    counting = _Counting(model, text)
    return MESSAGE_FRAME + counting.blocks(message.content), counting.confidence


def count_tools(offers: Sequence[ToolOffer], model: str, text: CountText) -> int:
    if not offers:
        return 0
    frame = CLAUDE_TOOLS_FRAME if "claude" in model.lower() else TOOLS_FRAME
    return frame + sum(
        TOOL_FRAME
        + text(offer.name)
        + text(offer.description)
        + text(msgspec.json.encode(offer.schema).decode())
        for offer in offers
    )


class _Counting:
    """One message being counted."""

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
            said = self._text(f"{block.id} {block.name} {block.arguments}")
            return CALL_FRAME + said + self._sealed(block.opaque)
        if isinstance(block, Reasoning):
            # Without a vendor's data, or with another's, it is for people only.
            return (
                max(self._text(block.text), self._sealed(block.opaque)) if self._is_own(block.opaque) else 0
            )
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
    elif isinstance(data, dict):
        for value in data.values():
            yield from _strings(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _strings(value)


_CONTINUATION = bytes(range(0x80, 0xC0))

_WEIGHTS: tuple[tuple[float, tuple[bytes, ...]], ...] = (
    (1.0, (b" a", b".a", b"\na", b"0a")),  # a word begins
    (0.5, (b"a" * 7,)),  # and is long
    (7.0, (b"a" * 24,)),  # or no word at all
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
"""Tokens for each occurrence of these kinds, one behind the other; `2`, `3` and `4` are characters of as many
bytes. The sum grows with the text: none of them is negative."""


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
    # Google's SDK says Gemma 4 of the later ones: it gives the same counts, and loads five times as long.
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
"""By how the last part of a model's name begins."""


@cache
def vocabulary_of(model: str) -> str | None:
    """The name of a model's vocabulary, where it is known and on board."""
    name = model.lower().rpartition("/")[2]
    return next((vocabulary for pattern, vocabulary in _VOCABULARIES if re.match(pattern, name)), None)


class SplintrTokenizer:
    """See `Tokenizer`. Its vocabulary is loaded when it is made, in 30 to 150 ms.

    Raises ImportError where splintr is not installed, and ValueError where it has no such vocabulary.
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
        # How a vendor writes tools down for its model is not public.
        return Count(tokens, "tokenizer", "medium" if offers else "high")

    def _tokens(self, text: str) -> int:
        if not text:
            return 0
        try:
            return len(self._encode(text))
        except UnicodeEncodeError:  # half of a surrogate pair, which tools may cut out of a text
            return len(self._encode(text.encode("utf-8", "replace").decode()))


@cache
def _encoder(vocabulary: str) -> Callable[[str], Sequence[int]]:
    from splintr import Tokenizer

    # Text that spells a special token is text: who wrote it must not be able to make it count as one.
    return Tokenizer.from_pretrained(vocabulary).encode_ordinary


_ESTIMATING = EstimatingTokenizer()


@cache
def tokenizer_for(model: str) -> Tokenizer:
    """The model's own vocabulary where the extra `tokens` is installed and has it, else the estimate."""
    vocabulary = vocabulary_of(model)
    if vocabulary is None:
        return _ESTIMATING
    try:
        return SplintrTokenizer(vocabulary)
    except (ImportError, ValueError):  # not installed, or a version without this vocabulary
        return _ESTIMATING


class RoutedTokenizer:
    """See `Tokenizer`. Counts with what `tokenizer_for` says of each model."""

    def text(self, text: str, model: str) -> Count:
        return tokenizer_for(model).text(text, model)

    def message(self, message: Message, model: str) -> Count:
        return tokenizer_for(model).message(message, model)

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count:
        return tokenizer_for(model).tools(offers, model)
