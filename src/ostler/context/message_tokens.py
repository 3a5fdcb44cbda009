"""What a message and the offered tools come to, given how many tokens a text has.

Most vendors do not say how they frame messages, calls and tools. The figures are the larger ones of Qwen 3's
and gpt-oss's formats, which are public; calibration takes care of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from ostler.context.media_tokens import file_tokens, picture_tokens
from ostler.kernel.model import ToolOffer
from ostler.kernel.tokenizer import Confidence
from ostler.vocabulary.messages import Block, File, Image, Message, Opaque, Reasoning, Text, ToolCall

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
