"""The Responses wire: OpenAI's own models, and those that Azure serves."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.kernel.model import ModelRequest, ToolOffer
from ostler.models.reasoning_levels import nearest
from ostler.models.responses_families import openai_levels, reasoning_fields
from ostler.models.responses_messages import WIRE, encode_tools, message_encoder, not_shown
from ostler.models.responses_stream import ResponsesDecoder
from ostler.models.schemas import is_strict
from ostler.models.settings import ModelSettings
from ostler.models.shortfalls import Taken
from ostler.models.transport import Transport
from ostler.models.wire_model import WireModel, key_headers
from ostler.vocabulary.messages import Block

_LEAST_OUTPUT = 16
"""The vendor refuses a smaller limit."""

_encode = msgspec.json.Encoder().encode


class ResponsesModel(WireModel):
    """A model behind the Responses wire. See `Model` for what it promises."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: str = "",
        key_header: str = "authorization",
        transport: Transport | None = None,
        settings: ModelSettings | None = None,
        provider: str = "openai",
    ) -> None:
        super().__init__(
            model,
            url=f"{base_url.rstrip('/')}/responses",
            headers=key_headers(api_key, key_header),
            secret=api_key,
            provider=provider,
            transport=transport,
            settings=settings,
        )
        self._levels = openai_levels(model, self._settings)
        self._encoding = f"{WIRE}/{provider}/{model}"
        self._encode_message = message_encoder(provider, model)

    def _body(self, request: ModelRequest) -> bytes:
        parts = [_encode(self._head(request))[:-1]]
        if request.tools:
            parts += b',"tools":', self._encoded_tools(request.tools)
        items = self._encoded_messages(request, self._encoding, self._encode_message)
        parts += b',"input":[', b",".join(filter(None, items)), b"]}"
        return b"".join(parts)

    def _decoder(self, request: ModelRequest) -> ResponsesDecoder:
        return ResponsesDecoder(request, self._provider, self._model, self._settings.prices)

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        return encode_tools(tools)

    def _refused(self, block: Block) -> str:
        return not_shown(block)

    def _taken(self, request: ModelRequest) -> Taken:
        level = nearest(request.reasoning, self._levels)
        return Taken(
            level=level if level and self._levels[level] else None,
            schema=request.answer_schema is None or is_strict(request.answer_schema),
        )

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        head: dict[str, Any] = {"model": self._model, "stream": True, "store": False}
        head |= reasoning_fields(self._levels, self._settings.reasons, request.reasoning)
        output = self._output_limit(request)
        if output:
            head["max_output_tokens"] = max(output, _LEAST_OUTPUT)
        if request.tools:
            head["parallel_tool_calls"] = True
            if request.tool_choice != "auto":
                head["tool_choice"] = _tool_choice(request.tool_choice)
        schema = request.answer_schema
        if schema is not None:
            answer = {"type": "json_schema", "name": "answer", "strict": is_strict(schema), "schema": schema}
            head["text"] = {"format": answer}
        if request.session:
            head["prompt_cache_key"] = request.session
        if request.system:
            head["instructions"] = request.system
        return head


def _tool_choice(choice: str) -> str | dict[str, str]:
    if choice in ("none", "required"):
        return choice
    return {"type": "function", "name": choice}
