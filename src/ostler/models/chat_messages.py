"""Messages as the Chat Completions wire spells them, each as a piece of JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ostler.kernel.model import ToolOffer
from ostler.models.chat_dialect import ChatDialect
from ostler.models.sendable import (
    hidden,
    placeholder,
    sendable_arguments,
    sendable_id,
    sendable_name,
    text_of_file,
)
from ostler.vocabulary.messages import (
    Block,
    File,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    text_of,
)

WIRE = "chat"

_encode = msgspec.json.Encoder().encode


def encode_system(text: str) -> bytes:
    return _encode({"role": "system", "content": text})


def encode_tools(tools: Iterable[ToolOffer]) -> bytes:
    return _encode(
        [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": {"type": "object", "properties": {}} | tool.schema,
                },
            }
            for tool in tools
        ]
    )


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
    """Encodes a message into the items it becomes: none, one, or several with commas between.

    `key` names all that changes the outcome.
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
        return _encode(items)[1:-1]

    def _user_message(self, content: Iterable[Block]) -> list[dict[str, Any]]:
        parts = [part for block in content if (part := self._part(block)) is not None]
        if not parts:
            return []
        if all(part["type"] == "text" for part in parts):
            # Many servers of this wire take a list of parts only from models that see pictures.
            return [{"role": "user", "content": "\n".join(part["text"] for part in parts)}]
        return [{"role": "user", "content": parts}]

    def _part(self, block: Block) -> dict[str, Any] | None:
        if isinstance(block, Text):
            return {"type": "text", "text": block.text} if block.text else None
        if what := hidden(block, pdf=self._dialect.pdf != "never"):
            return {"type": "text", "text": placeholder(what)}
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
                call = block.id if self._call_id is None else sendable_id(block.id, self._call_id)
                function = _Function(sendable_name(block.name), sendable_arguments(block.arguments))
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
        """What the vendor wants back of its own reasoning."""
        fields: dict[str, Any] = {}
        for block in thoughts:
            if block.opaque is None or block.opaque.wire != WIRE:
                continue
            data = block.opaque.data
            if data["provider"] != self._provider:
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
            call = block.call if self._call_id is None else sendable_id(block.call, self._call_id)
            parts = block.content
            text = text_of(parts) or "(no text)"
            items.append(_Result("tool", call, f"[error] {text}" if block.failed else text))
            if len(parts) == 1 and type(parts[0]) is Text:
                continue
            if pictures := [part for part in parts if type(part) is not Text]:
                attached += Text(f"What {block.name} returned beside its text:"), *pictures
        # A tool's message holds text only, so the rest follows in a message of its own.
        return [*items, *self._user_message(attached)] if attached else items


def _file_part(file: File) -> dict[str, Any]:
    name = file.name or "A file"
    text = text_of_file(file)
    if text is not None:
        return {"type": "text", "text": f"{name}:\n{text}"}
    if file.url:
        return {"type": "text", "text": f"{name} ({file.media_type}): {file.url}"}
    data = f"data:{file.media_type};base64,{file.data}"
    return {"type": "file", "file": {"filename": file.name or "file.pdf", "file_data": data}}
