"""A tokenizer whose counts are known beforehand, for tests of budgets."""

from __future__ import annotations

from collections.abc import Sequence

from ostler.kernel.model import ToolOffer
from ostler.kernel.tokenizer import Count
from ostler.vocabulary.messages import Message


class FixedTokenizer:
    """Implements `Tokenizer`: every text, message and tool counts the same. `models` were asked about."""

    def __init__(self, *, text: int = 10, message: int = 50, tool: int = 0) -> None:
        self._text = text
        self._message = message
        self._tool = tool
        self.models: list[str] = []

    def text(self, text: str, model: str) -> Count:
        return self._count(self._text if text else 0, model)

    def message(self, message: Message, model: str) -> Count:
        return self._count(self._message, model)

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count:
        return self._count(self._tool * len(offers), model)

    def _count(self, tokens: int, model: str) -> Count:
        self.models.append(model)
        return Count(tokens, "tokenizer", "high")
