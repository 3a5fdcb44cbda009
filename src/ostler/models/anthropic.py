"""The Messages wire: Anthropic's own models, and whatever else speaks it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from ostler.kernel.model import ModelEvent, ModelRequest, ToolOffer
from ostler.models.anthropic_families import family_of, limits_for
from ostler.models.anthropic_messages import WIRE, encode_message, encode_system, encode_tools, with_marker
from ostler.models.anthropic_stream import AnthropicDecoder
from ostler.models.exchange import Endpoint
from ostler.models.settings import ModelSettings
from ostler.models.transport import Transport

API_VERSION = "2023-06-01"
_MARKED_MESSAGES = 2
"""With the system prompt and the tools these are the four breakpoints the vendor allows.

The last message is marked for the next request to find; the one before, because the vendor looks for an
earlier breakpoint only a few blocks back, and one step may have added more than that.
"""

_encode = msgspec.json.Encoder().encode


class AnthropicModel:
    """A model behind the Messages wire. See `Model` for what it promises."""

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
        self.name = f"{provider}/{model}"
        self._model = model
        self._provider = provider
        self._settings = settings or ModelSettings()
        self._family = family_of(model)
        self._tools: tuple[tuple[ToolOffer, ...], bytes] = ((), b"")
        self._endpoint = Endpoint(
            provider,
            f"{base_url.rstrip('/').removesuffix('/v1')}/v1/messages",
            {"anthropic-version": API_VERSION} | ({"x-api-key": api_key} if api_key else {}),
            secret=api_key,
            extra_headers=self._settings.headers,
            transport=transport,
        )

    def prepare(self) -> None:
        """Loads what the first request needs; may be called from any thread, to save time at the start."""
        self._endpoint.prepare()

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        decoder = AnthropicDecoder(request, self._provider, self._model, self._settings.prices)
        return self._endpoint.answer(lambda: self.body(request), decoder)

    def body(self, request: ModelRequest) -> bytes:
        """The request's bytes: the same request gives the same, and a longer transcript only adds to them."""
        choice = _tool_choice(request)
        head: dict[str, Any] = {"model": self._model, "stream": True}
        head |= limits_for(
            self._family,
            request.reasoning,
            request.max_output_tokens or self._settings.max_output_tokens,
            forced_tool=choice.get("type") in ("any", "tool"),
        )
        if choice:
            head["tool_choice"] = choice
        parts = [_encode(head)[:-1]]
        if request.system.strip():
            parts += b',"system":', encode_system(request.system)
        if request.tools:
            parts += b',"tools":', self._encoded_tools(request.tools)
        parts += b',"messages":[', b",".join(_marked(request)), b"]}"
        return b"".join(parts)

    def _encoded_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        if self._tools[0] != tools:
            self._tools = (tools, encode_tools(tools))
        return self._tools[1]


def _marked(request: ModelRequest) -> list[bytes]:
    transcript = request.transcript
    messages = list(transcript.encoded(WIRE, encode_message))
    left = _MARKED_MESSAGES
    for index in range(len(messages) - 1, -1, -1):
        if not left:
            break
        if messages[index] and transcript[index].role != "assistant":
            messages[index] = with_marker(messages[index])
            left -= 1
    return [message for message in messages if message]


def _tool_choice(request: ModelRequest) -> dict[str, str]:
    if not request.tools or request.tool_choice == "auto":
        return {}
    if request.tool_choice == "none":
        return {"type": "none"}
    if request.tool_choice == "required":
        return {"type": "any"}
    return {"type": "tool", "name": request.tool_choice}
