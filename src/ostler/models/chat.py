"""The Chat Completions wire: OpenAI, and most servers of open models."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import msgspec

from ostler.kernel.model import ModelRequest, ToolOffer
from ostler.models.chat_dialect import ChatDialect, Levels
from ostler.models.chat_messages import MessageEncoder, encode_system, encode_tools
from ostler.models.chat_stream import ChatDecoder
from ostler.models.schemas import is_strict
from ostler.models.sendable import hidden
from ostler.models.settings import ModelSettings
from ostler.models.shortfalls import shortfalls
from ostler.models.transport import Transport
from ostler.models.wire_model import WireModel

_encode = msgspec.json.Encoder().encode


class ChatModel(WireModel):
    """A model behind the Chat Completions wire."""

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
        dialect: ChatDialect | None = None,
    ) -> None:
        """A `key_header` other than `authorization` carries the bare key."""
        key = f"Bearer {api_key}" if key_header == "authorization" else api_key
        super().__init__(
            model,
            url=f"{base_url.rstrip('/')}/chat/completions",
            headers={key_header: key} if api_key else {},
            secret=api_key,
            provider=provider,
            transport=transport,
            settings=settings,
        )
        self._dialect = dialect = dialect or ChatDialect()
        self._levels: Levels = {} if self._settings.reasons is False else dialect.levels(model)
        self._takes_schema = re.search(dialect.schemas, model) is not None
        sees = re.search(dialect.seeing, model) is not None
        self._encode_message = MessageEncoder(provider, dialect, images=sees)
        self._hidden = partial(hidden, images=sees, pdf=dialect.pdf)

    def body(self, request: ModelRequest) -> bytes:
        parts = [_encode(self._head(request))[:-1]]
        if request.tools:
            parts += b',"tools":', self._encoded_tools(request.tools)
        messages = request.transcript.encoded(self._encode_message.key, self._encode_message)
        if request.system:
            messages = [encode_system(request.system), *messages]
        parts += b',"messages":[', b",".join(filter(None, messages)), b"]}"
        return b"".join(parts)

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        head: dict[str, Any] = {"model": self._model, "stream": True}
        if self._dialect.usage_option:
            head["stream_options"] = {"include_usage": True}
        output = self._output_limit(request)
        if output:
            head[self._dialect.output_limit] = output
        choice = self._tool_choice(request)
        stopped = self._dialect.forced_tools == "without_reasoning" and choice not in (None, "none")
        head |= self._levels.get("off" if stopped else request.reasoning, {})
        if choice is not None:
            head["tool_choice"] = choice
        schema = request.answer_schema
        if schema is not None and self._takes_schema:
            answer = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
            head["response_format"] = {"type": "json_schema", "json_schema": answer}
        return head

    def _tool_choice(self, request: ModelRequest) -> str | dict[str, Any] | None:
        choice, dialect = request.tool_choice, self._dialect
        if not request.tools or choice == "auto" or dialect.forced_tools == "never":
            return None
        if choice == "none":
            return choice
        stoppable = "off" in self._levels or self._settings.reasons is False
        if dialect.forced_tools == "without_reasoning" and not stoppable:
            return None
        if choice == "required" or not dialect.named_tools:
            return "required"
        return {"type": "function", "function": {"name": choice}}

    def _decoder(self, request: ModelRequest) -> ChatDecoder:
        return ChatDecoder(request, self._provider, self._model, self._settings.prices)

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        return encode_tools(tools)

    def _shortfalls(self, request: ModelRequest) -> list[str]:
        return shortfalls(
            self.name,
            request,
            level=request.reasoning in self._levels,
            schema=self._takes_schema,
            choice=self._tool_choice(request) is not None,
            hidden=self._hidden,
        )
