"""The Responses wire: requests to OpenAI's models, also those that Azure serves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ostler.core.model import ModelRequest, ToolOffer
from ostler.models.families import nearest, openai_levels, reasoning_fields
from ostler.models.wires import encoder
from ostler.models.wires.wire_model import RequestSupport, WireModel
from ostler.schema.messages import (
    Block,
    File,
    Image,
    Message,
    Opaque,
    PlainBlock,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    text_of,
)

WIRE = "responses"

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OFFICE = "application/vnd.openxmlformats-officedocument"

_DOCUMENTS = {
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
    f"{_OFFICE}.presentationml.presentation": "pptx",
}
"""The types that it reads beside plain text, with the suffix of a file's name."""

_Own = Callable[[Opaque | None], dict[str, Any]]
"""Returns the fields that only this vendor understands."""


def _message_encoder(provider: str, model: str) -> Callable[[Message], bytes]:
    """An encoder of one message as items: none, one, or several separated by commas."""

    def own(opaque: Opaque | None) -> dict[str, Any]:
        if opaque is None or opaque.wire != WIRE:
            return {}
        data: dict[str, Any] = opaque.data
        return data["fields"] if (data["provider"], data["model"]) == (provider, model) else {}

    def encode(message: Message) -> bytes:
        if message.role == "tool":
            results = [block for block in message.content if isinstance(block, ToolResult)]
            items = [_tool_output(result) for result in results]
        elif message.role == "assistant":
            items = _answer_items(message.content, own)
        else:
            parts = _parts([block for block in message.content if isinstance(block, PlainBlock)])
            items = [{"role": "user", "content": parts}] if parts else []
        return encoder.encode_json(items)[1:-1]

    return encode


def _refused(block: Block) -> str:
    """As `refused_by_vendor`, for this vendor."""
    if isinstance(block, File) and block.media_type in _DOCUMENTS:
        return ""
    return encoder.refused_by_vendor(block)


def _answer_items(content: Iterable[Block], own: _Own) -> list[dict[str, Any]]:
    items = [item for block in content if (item := _answer_item(block, own)) is not None]
    # Reasoning is refused without the item after it, which is missing if the answer was cut off.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _answer_item(block: Block, own: _Own) -> dict[str, Any] | None:
    if isinstance(block, ToolCall):
        return {
            "type": "function_call",
            "call_id": encoder.sendable_id(block.id, _CALL_ID),
            "name": encoder.sendable_name(block.name),
            "arguments": encoder.sendable_arguments(block.arguments),
        }
    if isinstance(block, Text):
        item = {"role": "assistant", "content": block.text}
        return item | own(block.opaque) if block.text else None
    if isinstance(block, Reasoning):
        thought = own(block.opaque)
        return {"type": "reasoning", **thought} if thought else None
    return None


def _tool_output(result: ToolResult) -> dict[str, Any]:
    output: str | list[dict[str, Any]]
    if all(isinstance(part, Text) for part in result.content):
        text = text_of(result.content) or "(no text)"
        output = f"[error] {text}" if result.failed else text
    else:
        output = _parts([Text("[error]"), *result.content] if result.failed else result.content)
    return {
        "type": "function_call_output",
        "call_id": encoder.sendable_id(result.call, _CALL_ID),
        "output": output,
    }


def _parts(content: Iterable[PlainBlock]) -> list[dict[str, Any]]:
    return [part for block in content if (part := _part(block)) is not None]


def _part(block: PlainBlock) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return _text(block.text) if block.text else None
    if description := _refused(block):
        return _text(encoder.placeholder(description))
    if isinstance(block, Image):
        url = block.url or f"data:{block.media_type};base64,{block.data}"
        return {"type": "input_image", "detail": "auto", "image_url": url}
    return _file(block)


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _file(file: File) -> dict[str, Any]:
    text = encoder.text_of_file(file)
    if text is not None:
        return _text(f"{file.name or 'A file'}:\n{text}")
    if file.url:
        return {"type": "input_file", "file_url": file.url}
    name = file.name or f"file.{_DOCUMENTS[file.media_type]}"
    data = f"data:{file.media_type};base64,{file.data}"
    return {"type": "input_file", "filename": name, "file_data": data}


_LEAST_OUTPUT = 16
"""The vendor refuses a smaller limit."""


class ResponsesModel(WireModel):
    """A model behind the Responses wire."""

    DECODER = "ostler.models.wires.responses_stream:ResponsesDecoder"
    MESSAGES = "input"

    def url(self) -> str:
        return f"{self._base_url}/responses"

    def _configure(self) -> None:
        self._levels = openai_levels(self._model, self._settings)
        self._encoding = f"{WIRE}/{self._provider}/{self._model}"
        self._encode_message = _message_encoder(self._provider, self._model)
        self._refused = _refused

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        functions = [
            {"type": "function", "name": tool.name, "description": tool.description}
            # Without `strict`, the vendor tries to make the schema a strict one.
            | {"parameters": encoder.tool_schema(tool), "strict": False}
            for tool in tools
        ]
        return encoder.encode_json(functions)

    def _support(self, request: ModelRequest) -> RequestSupport:
        level = nearest(request.reasoning, self._levels)
        return RequestSupport(
            level=level if level and self._levels[level] else None,
            schema=request.answer_schema is None or encoder.is_strict(request.answer_schema),
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
                named = {"type": "function", "name": request.tool_choice}
                is_mode = request.tool_choice in ("none", "required")
                head["tool_choice"] = request.tool_choice if is_mode else named
        schema = request.answer_schema
        if schema is not None:
            answer = {
                "type": "json_schema",
                "name": "answer",
                "strict": encoder.is_strict(schema),
                "schema": schema,
            }
            head["text"] = {"format": answer}
        if request.session:
            head["prompt_cache_key"] = request.session
        if request.system:
            head["instructions"] = request.system
        return head
