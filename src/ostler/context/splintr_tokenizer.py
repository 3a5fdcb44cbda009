"""Counts by a model's own vocabulary, with `splintr` (the extra `tokens`), which has them on board.

Which model has which is data, and only what somebody vouches for: `tiktoken` for OpenAI's models, Google's
SDK for Gemini, and splintr, which compares itself with the originals, for the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from ostler.context.message_tokens import count_message, count_tools
from ostler.kernel.model import ToolOffer
from ostler.kernel.tokenizer import Count
from ostler.vocabulary.messages import Message

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
