"""A tool that runs in an extension's process."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

from ostler.extensions.calling import CodeFailed
from ostler.extensions.foreign import frames
from ostler.extensions.foreign.client import Client
from ostler.kernel.json_schema import mismatch, schema_problem
from ostler.kernel.tool import ToolContext, ToolSpec
from ostler.tools.file_kinds import image_type
from ostler.vocabulary.errors import InvalidArguments, ToolFailed, UsageError
from ostler.vocabulary.messages import Image, PlainBlock, Text
from ostler.vocabulary.outcomes import Failed, Ok, Outcome

NO_CONTENT = "(the extension returned no content)"
_SNIFFED = 64


class ForeignTool:
    """A `Tool`. Its arguments are checked here, so the extension gets only what fits the schema."""

    def __init__(self, registered: frames.RegisterTool, client: Client, extension: str) -> None:
        self.spec = ToolSpec(
            registered.name,
            registered.description,
            _checked_schema(registered),
            kind=registered.kind,
            parallel=registered.parallel,
            timeout=registered.timeout,
        )
        self._client = client
        self._extension = extension

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if problem := mismatch(arguments, self.spec.schema, where="the object of arguments"):
            raise InvalidArguments(f"invalid arguments for {self.spec.name}: {problem}")
        return arguments

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Outcome:
        client = self._client
        asked = frames.ToolCall(client.new_id(), self.spec.name, arguments, context.session, context.call)
        try:
            result = await client.ask(
                asked, frames.ToolResult, on_output=lambda one: context.output(one.text, one.stream)
            )
        except CodeFailed as failure:
            raise ToolFailed(f"the extension {self._extension} failed: {failure}") from None
        except asyncio.CancelledError:
            client.send(frames.ToolCancel(asked.id, context.cancel.reason or "it took too long"))
            raise
        content = tuple(map(_block, result.content)) or (Text(NO_CONTENT),)
        return Failed("tool_failed", content) if result.is_error else Ok(content)


def _checked_schema(registered: frames.RegisterTool) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **registered.schema}
    try:
        problem = schema_problem(schema)
        mismatch({}, schema)
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
    if not problem and schema["type"] != "object":
        problem = "its type must be object"
    if problem:
        raise UsageError(f"the tool {registered.name} was not registered: its schema is wrong: {problem}")
    return schema


def _block(block: frames.ContentBlock) -> PlainBlock:
    if block.type == "text":
        return Text(block.text)
    if block.type != "image":
        return Text(f"(the extension returned a block of the unknown type {block.type!r:.60})")
    try:
        content = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        raise ToolFailed("the extension returned an image that is not base64") from None
    media_type = image_type(content[:_SNIFFED])
    if media_type is None:
        raise ToolFailed("the extension returned an image that is no PNG, JPEG, GIF or WebP")
    return Image(media_type, data=block.data)
