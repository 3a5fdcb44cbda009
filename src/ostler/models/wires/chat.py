"""The Chat Completions wire: requests to OpenAI, and to most servers of open models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from ostler.core.model import ModelRequest, ToolOffer
from ostler.models.families import nearest
from ostler.models.wires import encoder
from ostler.models.wires.chat_dialects import ChatDialect
from ostler.models.wires.wire_model import RequestSupport, WireModel
from ostler.schema.messages import Block, File, Image, Message, Reasoning, Text, ToolCall, ToolResult, text_of

WIRE = "chat"


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: str


class _Call(msgspec.Struct, gc=False):
    id: str
    type: str
    function: _Function


class _Result(msgspec.Struct, gc=False):
    role: str
    tool_call_id: str
    content: str


class MessageEncoder:
    """Encodes a message as items: none, one, or several separated by commas.

    `key` names everything that changes the result.
    """

    def __init__(self, provider: str, dialect: ChatDialect) -> None:
        self._provider = provider
        self._dialect = dialect
        self._call_id = re.compile(dialect.call_id) if dialect.call_id else None
        spelling = (dialect.call_id, dialect.replay, dialect.missing_reasoning, dialect.pdf)
        self.key = f"{WIRE}/{provider}/{spelling}"

    def __call__(self, message: Message) -> bytes:
        items: Sequence[_Result | dict[str, Any]]
        if message.role == "tool":
            items = self._tool_messages(message)
        elif message.role == "assistant":
            items = self._assistant_message(message)
        else:
            items = self._user_message(message.content)
        return encoder.encode_json(items)[1:-1]

    def _user_message(self, content: Iterable[Block]) -> list[dict[str, Any]]:
        parts = [part for block in content if (part := self._part(block)) is not None]
        if not parts:
            return []
        if all(part["type"] == "text" for part in parts):
            # Many servers of this wire accept a list of parts only for models that see pictures.
            return [{"role": "user", "content": "\n".join(part["text"] for part in parts)}]
        return [{"role": "user", "content": parts}]

    def _part(self, block: Block) -> dict[str, Any] | None:
        if isinstance(block, Text):
            return {"type": "text", "text": block.text} if block.text else None
        if description := encoder.refused_by_vendor(block, pdf=self._dialect.pdf != "never"):
            return {"type": "text", "text": encoder.placeholder(description)}
        if isinstance(block, File):
            return _file_part(block)
        if isinstance(block, Image):
            url = block.url or f"data:{block.media_type};base64,{block.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        return None

    def _assistant_message(self, message: Message) -> list[dict[str, Any]]:
        texts: list[str] = []
        calls: list[_Call] = []
        thoughts: list[Reasoning] = []
        for block in message.content:  # `isinstance` takes longer, and a session has thousands of these
            if type(block) is ToolCall:
                call = block.id if self._call_id is None else encoder.sendable_id(block.id, self._call_id)
                function = _Function(
                    encoder.sendable_name(block.name), encoder.sendable_arguments(block.arguments)
                )
                calls.append(_Call(call, "function", function))
            elif type(block) is Text:
                texts.append(block.text)
            elif type(block) is Reasoning:
                thoughts.append(block)
        text = "\n".join(texts)
        if not calls and not text:
            return []
        item: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            item["tool_calls"] = calls
        replay = self._dialect.replay
        if thoughts and (replay == "always" or (calls and replay == "with_calls")):
            item |= self._reasoning(thoughts)
        if calls and self._dialect.missing_reasoning:
            item.setdefault("reasoning_content", self._dialect.missing_reasoning)
        return [item]

    def _reasoning(self, thoughts: Iterable[Reasoning]) -> dict[str, Any]:
        """The vendor's own reasoning, in the fields in which it came."""
        fields: dict[str, Any] = {}
        for block in thoughts:
            data = block.opaque.data if block.opaque is not None and block.opaque.wire == WIRE else {}
            if data.get("provider") != self._provider:
                continue
            if "field" in data:
                fields[data["field"]] = fields.get(data["field"], "") + block.text
            if "details" in data:
                fields["reasoning_details"] = data["details"]
        return fields

    def _tool_messages(self, message: Message) -> list[_Result | dict[str, Any]]:
        items: list[_Result | dict[str, Any]] = []
        attached: list[Block] = []
        for block in message.content:
            if type(block) is not ToolResult:
                continue
            call = block.call if self._call_id is None else encoder.sendable_id(block.call, self._call_id)
            parts = block.content
            text = text_of(parts) or "(no text)"
            items.append(_Result("tool", call, f"[error] {text}" if block.failed else text))
            if len(parts) == 1 and type(parts[0]) is Text:
                continue
            if media := [part for part in parts if type(part) is not Text]:
                attached += Text(f"{block.name} also returned:"), *media
        # A tool's message holds only text, so media follow in their own message.
        return [*items, *self._user_message(attached)] if attached else items


def _file_part(file: File) -> dict[str, Any]:
    name = file.name or "A file"
    text = encoder.text_of_file(file)
    if text is not None:
        return {"type": "text", "text": f"{name}:\n{text}"}
    if file.url:
        return {"type": "text", "text": f"{name} ({file.media_type}): {file.url}"}
    data = f"data:{file.media_type};base64,{file.data}"
    return {"type": "file", "file": {"filename": file.name or "file.pdf", "file_data": data}}


class ChatModel(WireModel):
    """A model behind the Chat Completions wire."""

    DECODER = "ostler.models.wires.chat_stream:ChatDecoder"

    def __init__(self, model: str, *, dialect: ChatDialect | None = None, **options: Any) -> None:
        self._dialect = dialect or ChatDialect()
        super().__init__(model, **options)

    def url(self) -> str:
        return f"{self._base_url}/chat/completions"

    def _configure(self) -> None:
        dialect, model = self._dialect, self._model
        control = dialect.control(model)
        self._levels = control.levels.available(self._settings.reasoning_levels, self._settings.reasons)
        self._without_level = {} if self._settings.reasons is False else control.without_level
        self._takes_schema = re.search(dialect.schemas, model) is not None
        if not self._settings.input:
            self._sees_images = re.search(dialect.seeing, model) is not None
        self._reads_files = self._reads_files or dialect.pdf == "always"
        self._refused = partial(encoder.refused_by_vendor, pdf=dialect.pdf != "never")
        encode_message = MessageEncoder(self._provider, dialect)
        self._encoding, self._encode_message = encode_message.key, encode_message

    def _messages(self, request: ModelRequest) -> list[bytes]:
        messages = super()._messages(request)
        if not request.system:
            return messages
        return [encoder.encode_json({"role": "system", "content": request.system}), *messages]

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        head: dict[str, Any] = {"model": self._model, "stream": True}
        if self._dialect.usage_option:
            head["stream_options"] = {"include_usage": True}
        output = self._output_limit(request)
        if output:
            head[self._dialect.output_limit] = output
        choice = self._tool_choice(request)
        level = "off" if self._is_stopped(choice) else nearest(request.reasoning, self._levels)
        head |= self._levels.get(level, {}) if level else self._without_level
        if choice is not None:
            head["tool_choice"] = choice
        schema = request.answer_schema
        if schema is not None and self._takes_schema:
            answer = {"name": "answer", "schema": schema, "strict": encoder.is_strict(schema)}
            head["response_format"] = {"type": "json_schema", "json_schema": answer}
        return head

    def _is_stopped(self, choice: str | dict[str, Any] | None) -> bool:
        """Whether the model may not reason because it must call a tool."""
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

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        functions = [
            {"name": tool.name, "description": tool.description, "parameters": encoder.tool_schema(tool)}
            for tool in tools
        ]
        return encoder.encode_json([{"type": "function", "function": function} for function in functions])

    def _support(self, request: ModelRequest) -> RequestSupport:
        sent, level = self._tool_choice(request), nearest(request.reasoning, self._levels)
        choice: Literal["as_asked", "any", "free"] = "as_asked"
        if sent is None and request.tools and request.tool_choice != "auto":
            choice = "free"
        elif sent == "required" and request.tool_choice != "required":
            choice = "any"
        return RequestSupport(
            level=level if level and self._levels[level] else None,
            stopped=self._is_stopped(sent) and bool(self._levels) and request.reasoning != "off",
            schema=self._takes_schema,
            choice=choice,
        )
