"""Which tokenizer counts for which model, where the host brings none of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ostler.context.estimating import EstimatingTokenizer
from ostler.context.splintr_tokenizer import SplintrTokenizer, vocabulary_of
from ostler.kernel.model import ToolOffer
from ostler.kernel.tokenizer import Count, Tokenizer
from ostler.vocabulary.messages import Message

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
