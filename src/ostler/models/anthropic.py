"""The Messages wire: Anthropic's own models, and whatever else speaks it."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.kernel.model import ModelRequest, ToolOffer
from ostler.models.anthropic_families import claude_levels, claude_family, limits_for
from ostler.models.anthropic_messages import WIRE, encode_message, encode_system, encode_tools, with_marker
from ostler.models.anthropic_stream import AnthropicDecoder
from ostler.models.reasoning_levels import nearest
from ostler.models.schemas import closed
from ostler.models.settings import ModelSettings
from ostler.models.shortfalls import Taken
from ostler.models.transport import Transport
from ostler.models.wire_model import WireModel

API_VERSION = "2023-06-01"
_MARKED_MESSAGES = 2
"""With the system prompt and the tools these are the four breakpoints the vendor allows.

The last message is marked for the next request to find; the one before, because the vendor looks for an
earlier breakpoint only a few blocks back, and one step may have added more than that.
"""

_encode = msgspec.json.Encoder().encode


class AnthropicModel(WireModel):
    """A model behind the Messages wire."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "https://api.anthropic.com",
        api_key: str = "",
        transport: Transport | None = None,
        settings: ModelSettings | None = None,
        provider: str = "anthropic",
    ) -> None:
        super().__init__(
            model,
            url=f"{base_url.rstrip('/').removesuffix('/v1')}/v1/messages",
            headers={"anthropic-version": API_VERSION} | ({"x-api-key": api_key} if api_key else {}),
            secret=api_key,
            provider=provider,
            transport=transport,
            settings=settings,
        )
        self._family = claude_family(model)
        levels = claude_levels(self._family)
        self._levels = levels.had(self._settings.reasoning_levels, self._settings.reasons)

    def _body(self, request: ModelRequest) -> bytes:
        parts = [_encode(self._head(request))[:-1]]
        if request.system.strip():
            parts += b',"system":', encode_system(request.system)
        if request.tools:
            parts += b',"tools":', self._encoded_tools(request.tools)
        parts += b',"messages":[', b",".join(self._marked_messages(request)), b"]}"
        return b"".join(parts)

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        choice = _tool_choice(request)
        head: dict[str, Any] = {"model": self._model, "stream": True}
        head |= self._limits(request)
        if request.answer_schema is not None and self._family.schemas:
            answer = {"format": {"type": "json_schema", "schema": closed(request.answer_schema)}}
            head["output_config"] = head.get("output_config", {}) | answer
        if choice:
            head["tool_choice"] = choice
        return head

    def _limits(self, request: ModelRequest) -> dict[str, Any]:
        return limits_for(
            self._family,
            request.reasoning,
            nearest(request.reasoning, self._levels),
            self._output_limit(request),
            self._settings.output_limit,
            forced_tool=_is_forced(request),
        )

    def _decoder(self, request: ModelRequest) -> AnthropicDecoder:
        return AnthropicDecoder(request, self._provider, self._model, self._settings.prices)

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        return encode_tools(tools)

    def _marked_messages(self, request: ModelRequest) -> list[bytes]:
        messages = list(self._encoded_messages(request, WIRE, encode_message))
        left = _MARKED_MESSAGES
        for index in range(len(request.transcript) - 1, -1, -1):
            if not left:
                break
            if messages[index] and request.transcript[index].role != "assistant":
                messages[index] = with_marker(messages[index])
                left -= 1
        return [message for message in messages if message]

    def _taken(self, request: ModelRequest) -> Taken:
        level, asked = nearest(request.reasoning, self._levels), self._output_limit(request)
        output = self._limits(request)["max_tokens"]
        return Taken(
            level=level,
            stopped=level not in (None, "off") and request.reasoning != "off" and _is_forced(request),
            schema=self._family.schemas,
            output_tokens=output if asked and output > asked else None,
        )


def _is_forced(request: ModelRequest) -> bool:
    return bool(request.tools) and request.tool_choice not in ("auto", "none")


def _tool_choice(request: ModelRequest) -> dict[str, str]:
    if not request.tools or request.tool_choice == "auto":
        return {}
    if request.tool_choice == "none":
        return {"type": "none"}
    if request.tool_choice == "required":
        return {"type": "any"}
    return {"type": "tool", "name": request.tool_choice}
