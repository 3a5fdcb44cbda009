"""The Chat Completions wire: OpenAI, and most servers of open models."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from ostler.kernel.model import ModelEvent, ModelRequest, ToolOffer
from ostler.models.chat_messages import WIRE, encode_system, encode_tools, message_encoder
from ostler.models.chat_stream import ChatDecoder
from ostler.models.exchange import Endpoint
from ostler.models.settings import ModelSettings
from ostler.models.transport import Transport

_encode = msgspec.json.Encoder().encode


class ChatDialect(msgspec.Struct, frozen=True):
    """In what the servers of this wire differ."""

    output_limit: str = "max_tokens"
    """The field that limits the answer's length."""
    usage_option: bool = True
    """Usage has to be asked for; a server that reports it anyway may refuse the question."""
    no_reasoning: str = ""
    """The effort that stands for no reasoning, where there is one."""
    call_id: str = ""
    """A pattern for the ids it takes; empty for any."""


class ChatModel:
    """A model behind the Chat Completions wire. See `Model` for what it promises."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: str = "",
        transport: Transport | None = None,
        settings: ModelSettings | None = None,
        provider: str = "openai",
        dialect: ChatDialect | None = None,
    ) -> None:
        self.name = f"{provider}/{model}"
        self._model = model
        self._provider = provider
        self._settings = settings or ModelSettings()
        self._dialect = dialect or ChatDialect()
        self._tools: tuple[tuple[ToolOffer, ...], bytes] = ((), b"")
        self._encoding = f"{WIRE}/{provider}/{self._dialect.call_id}"
        self._encode_message = message_encoder(
            provider, re.compile(self._dialect.call_id) if self._dialect.call_id else None
        )
        self._endpoint = Endpoint(
            provider,
            f"{base_url.rstrip('/')}/chat/completions",
            {"authorization": f"Bearer {api_key}"} if api_key else {},
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
        decoder = ChatDecoder(request, self._provider, self._model, self._settings.prices)
        return self._endpoint.answer(lambda: self.body(request), decoder)

    def body(self, request: ModelRequest) -> bytes:
        """The request's bytes: the same request gives the same, and a longer transcript only adds to them."""
        parts = [_encode(self._head(request))[:-1]]
        if request.tools:
            parts += b',"tools":', self._encoded_tools(request.tools)
        messages = request.transcript.encoded(self._encoding, self._encode_message)
        if request.system:
            messages = [encode_system(request.system), *messages]
        parts += b',"messages":[', b",".join(filter(None, messages)), b"]}"
        return b"".join(parts)

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        head: dict[str, Any] = {"model": self._model, "stream": True}
        if self._dialect.usage_option:
            head["stream_options"] = {"include_usage": True}
        output = request.max_output_tokens or self._settings.max_output_tokens
        if output:
            head[self._dialect.output_limit] = output
        effort = self._dialect.no_reasoning if request.reasoning == "off" else request.reasoning
        if effort:
            head["reasoning_effort"] = effort
        if request.tools and request.tool_choice != "auto":
            head["tool_choice"] = _tool_choice(request.tool_choice)
        return head

    def _encoded_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        if self._tools[0] != tools:
            self._tools = (tools, encode_tools(tools))
        return self._tools[1]


def _tool_choice(choice: str) -> str | dict[str, Any]:
    if choice in ("none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}
