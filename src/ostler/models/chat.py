"""The Chat Completions wire: OpenAI, and most servers of open models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.kernel.model import ModelRequest, ToolOffer
from ostler.models.chat_dialect import ChatDialect
from ostler.models.chat_messages import MessageEncoder, encode_system, encode_tools
from ostler.models.reasoning_levels import nearest
from ostler.models.sendable import hidden
from ostler.models.settings import ModelSettings
from ostler.models.transport import Transport
from ostler.models.wire_model import WireModel, key_headers
from ostler.vocabulary.messages import Block

if TYPE_CHECKING:  # loaded when something is asked
    from ostler.models.chat_stream import ChatDecoder
    from ostler.models.shortfalls import Taken

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
        super().__init__(
            model,
            url=f"{base_url.rstrip('/')}/chat/completions",
            headers=key_headers(api_key, key_header),
            secret=api_key,
            provider=provider,
            transport=transport,
            settings=settings,
        )
        self._dialect = dialect = dialect or ChatDialect()
        knob = dialect.knob(model)
        self._levels = knob.levels.had(self._settings.reasoning_levels, self._settings.reasons)
        self._unasked = {} if self._settings.reasons is False else knob.unasked
        self._takes_schema = re.search(dialect.schemas, model) is not None
        if not self._settings.input:
            self._sees_images = re.search(dialect.seeing, model) is not None
        self._reads_files = self._reads_files or dialect.pdf == "always"
        self._encode_message = MessageEncoder(provider, dialect)

    def _body(self, request: ModelRequest) -> bytes:
        parts = [_encode(self._head(request))[:-1]]
        if request.tools:
            parts += b',"tools":', self._encoded_tools(request.tools)
        messages = self._encoded_messages(request, self._encode_message.key, self._encode_message)
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
        level = "off" if self._is_stopped(choice) else nearest(request.reasoning, self._levels)
        head |= self._levels.get(level, {}) if level else self._unasked
        if choice is not None:
            head["tool_choice"] = choice
        schema = request.answer_schema
        if schema is not None and self._takes_schema:
            from ostler.models.schemas import is_strict

            answer = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
            head["response_format"] = {"type": "json_schema", "json_schema": answer}
        return head

    def _is_stopped(self, choice: str | dict[str, Any] | None) -> bool:
        """Whether the model may not reason because of the tool that it is made to call."""
        return self._dialect.forced_tools == "without_reasoning" and choice not in (None, "none")

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
        from ostler.models.chat_stream import ChatDecoder

        return ChatDecoder(request, self._provider, self._model, self._settings.prices)

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        return encode_tools(tools)

    def _refused(self, block: Block) -> str:
        return hidden(block, pdf=self._dialect.pdf != "never")

    def _taken(self, request: ModelRequest) -> Taken:
        from ostler.models.shortfalls import Taken

        choice, level = self._tool_choice(request), nearest(request.reasoning, self._levels)
        made: Literal["as_asked", "any", "free"] = "as_asked"
        if choice is None and request.tools and request.tool_choice != "auto":
            made = "free"
        elif choice == "required" and request.tool_choice != "required":
            made = "any"
        return Taken(
            level=level if level and self._levels[level] else None,
            stopped=self._is_stopped(choice) and bool(self._levels) and request.reasoning != "off",
            schema=self._takes_schema,
            choice=made,
        )
