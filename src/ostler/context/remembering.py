"""Counts that are made once: messages live through thousands of steps, and none is counted twice."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

import msgspec

from ostler.kernel.model import ModelRequest, ToolOffer
from ostler.kernel.tokenizer import NO_TOKENS, Count, Tokenizer, total
from ostler.vocabulary.messages import Message


class RememberingTokenizer:
    """See `Tokenizer`. A message's count is kept for as long as somebody holds the message itself."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._messages: dict[str, dict[int, tuple[ref[Message], Count]]] = {}
        self._text: tuple[str, str, Count] = ("", "", NO_TOKENS)
        self._tools: tuple[Sequence[ToolOffer], str, Count] = ((), "", NO_TOKENS)

    def text(self, text: str, model: str) -> Count:
        """Only the newest text is kept: the system prompt is asked for again and again."""
        if self._text[:2] != (text, model):
            self._text = (text, model, self._tokenizer.text(text, model))
        return self._text[2]

    def message(self, message: Message, model: str) -> Count:
        kept = self._messages.setdefault(model, {})
        key = id(message)
        if (known := kept.get(key)) is not None:
            return known[1]
        count = self._tokenizer.message(message, model)
        # Removed before another message can have the same id.
        kept[key] = (ref(message, lambda _: kept.pop(key, None)), count)
        return count

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count:
        if self._tools[0] is not offers or self._tools[1] != model:
            self._tools = (offers, model, self._tokenizer.tools(offers, model))
        return self._tools[2]

    def request(self, request: ModelRequest) -> Count:
        """All of its input: system prompt, tools, messages, and the schema of the answer."""
        model = request.model
        counts = [self.message(message, model) for message in (*request.transcript, *request.tail)]
        counts += [self.text(request.system, model), self.tools(request.tools, model)]
        if request.answer_schema is not None:
            schema = msgspec.json.encode(request.answer_schema).decode()
            counts.append(self._tokenizer.text(schema, model))
        return total(counts)
