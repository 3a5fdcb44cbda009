"""OpenAI's Responses API: what it streams, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from ostler.schema.messages import StopReason
from ostler.schema.usage import Usage
from ostler.testkit.vendors.chat import error_body as error_body
from ostler.testkit.vendors.script import (
    Call,
    Cite,
    Say,
    Think,
    Turn,
    event_frame,
    is_json_object,
    prompt_tokens,
)

PATH = re.compile(r"(/openai)?/v1/responses")
MALFORMED = b"event: response.output_text.delta\ndata: {this is no JSON\n\n"

_CUT_SHORT: dict[StopReason, str] = {"length": "max_output_tokens", "other": "max_messages"}

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_HOSTED = {"web_search", "file_search", "code_interpreter", "image_generation", "mcp", "tool_search"}
"""Tools that the vendor runs; their fields are not checked here."""

_IMAGE = re.compile(r"https://.*|data:image/(jpeg|png|gif|webp);base64,.+")
_DOCUMENT = re.compile(r"data:application/(pdf|msword|vnd\.(ms-|openxmlformats)[a-z.-]+);base64,.+")

_EFFORTS = (
    (r"gpt-4", ""),
    (r"gpt-5(-mini|-nano)?$", "minimal low medium high"),
    (r"gpt-5\.\d$|gpt-6-sol$", "none low medium high xhigh"),
    (r"", "low medium high"),
)


class _Stream:
    """Numbers the frames, and builds the response that the first and the last of them contain."""

    def __init__(self, turn: Turn, request: dict[str, Any], number: int) -> None:
        self._number = number
        self._sent = 0
        self._replay = "reasoning.encrypted_content" in (request.get("include") or [])
        self._refused = turn.stop_reason == "refusal"
        self.output: list[dict[str, Any]] = []
        self.response: dict[str, Any] = {
            "id": f"resp_{number:04d}",
            "object": "response",
            "created_at": 1_700_000_000,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": request.get("instructions"),
            "max_output_tokens": request.get("max_output_tokens"),
            "metadata": {},
            "model": request["model"],
            "output": [],
            "parallel_tool_calls": request.get("parallel_tool_calls", True),
            "previous_response_id": None,
            "reasoning": request.get("reasoning") or {"effort": None, "summary": None},
            "store": request.get("store", True),
            "temperature": 1.0,
            "text": request.get("text") or {"format": {"type": "text"}},
            "tool_choice": request.get("tool_choice", "auto"),
            "tools": request.get("tools", []),
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
        }

    def frame(self, name: str, /, **fields: Any) -> bytes:
        self._sent += 1
        return event_frame(name, sequence_number=self._sent - 1, **fields)

    def message(self, pieces: tuple[str, ...], sources: list[Cite]) -> Iterator[bytes]:
        item = {"id": self._id("msg"), "type": "message", "role": "assistant", "content": []}
        yield self._added(item)
        field = "refusal" if self._refused else "text"
        part: dict[str, Any] = {"type": "refusal" if self._refused else "output_text", field: ""}
        if not self._refused:
            part |= {"annotations": [], "logprobs": []}
        place = {"item_id": item["id"], "output_index": len(self.output), "content_index": 0}
        event = f"response.{part['type']}"
        extra: dict[str, Any] = {} if self._refused else {"logprobs": []}
        yield self.frame("response.content_part.added", **place, part=part)
        for piece in pieces:
            yield self.frame(f"{event}.delta", **place, delta=piece, **extra, obfuscation="x" * 5)
        text = "".join(pieces)
        annotations = [
            {
                "type": "url_citation",
                "url": cite.url,
                "title": cite.title,
                "start_index": 0,
                "end_index": len(text),
            }
            for cite in sources
        ]
        for index, annotation in enumerate(annotations):
            numbered = {"annotation_index": index, "annotation": annotation}
            yield self.frame("response.output_text.annotation.added", **place, **numbered)
        yield self.frame(f"{event}.done", **place, **{field: text}, **extra)
        part = part | {field: text} | ({} if self._refused else {"annotations": annotations})
        yield self.frame("response.content_part.done", **place, part=part)
        yield self._done(item | {"content": [part]})

    def call(self, part: Call) -> Iterator[bytes]:
        call_id = part.id or f"call_{self._number:04d}_{len(self.output)}"
        item = {"id": self._id("fc"), "type": "function_call", "name": part.name, "call_id": call_id}
        yield self._added(item | {"arguments": ""})
        place = {"item_id": item["id"], "output_index": len(self.output)}
        for piece in part.pieces:
            yield self.frame("response.function_call_arguments.delta", **place, delta=piece)
        arguments = "".join(part.pieces)
        done = {"name": part.name, "arguments": arguments}
        yield self.frame("response.function_call_arguments.done", **place, **done)
        yield self._done(item | {"arguments": arguments})

    def reasoning(self, part: Think) -> Iterator[bytes]:
        item: dict[str, Any] = {"id": self._id("rs"), "type": "reasoning", "summary": []}
        yield self._added(item, status=None)
        if part.pieces:
            place = {"item_id": item["id"], "output_index": len(self.output), "summary_index": 0}
            text = {"type": "summary_text", "text": "".join(part.pieces)}
            empty = {"type": "summary_text", "text": ""}
            yield self.frame("response.reasoning_summary_part.added", **place, part=empty)
            for piece in part.pieces:
                yield self.frame("response.reasoning_summary_text.delta", **place, delta=piece)
            yield self.frame("response.reasoning_summary_text.done", **place, text=text["text"])
            yield self.frame("response.reasoning_summary_part.done", **place, part=text)
            item["summary"] = [text]
        item["encrypted_content"] = (part.redacted or part.signature or None) if self._replay else None
        yield self._done(item, status=None)

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._number:04d}_{len(self.output)}"

    def _added(self, item: dict[str, Any], status: str | None = "in_progress") -> bytes:
        item = item | ({"status": status} if status else {})
        return self.frame("response.output_item.added", output_index=len(self.output), item=item)

    def _done(self, item: dict[str, Any], status: str | None = "completed") -> bytes:
        self.output.append(item | ({"status": status} if status else {}))
        index = len(self.output) - 1
        return self.frame("response.output_item.done", output_index=index, item=self.output[-1])


def frames(turn: Turn, request: dict[str, Any], number: int) -> Iterator[bytes]:
    stream = _Stream(turn, request, number)
    started = stream.frame("response.created", response=stream.response)
    yield started + stream.frame("response.in_progress", response=stream.response)
    for index, part in enumerate(turn.blocks):
        if isinstance(part, Call):
            yield from stream.call(part)
        elif isinstance(part, Think):
            yield from stream.reasoning(part)
        elif isinstance(part, Say):
            sources = takewhile(lambda part: isinstance(part, Cite), turn.parts[index + 1 :])
            yield from stream.message(part.pieces, [part for part in sources if isinstance(part, Cite)])
    response = stream.response | {"output": stream.output, "usage": _usage(turn.usage)}
    has_message = any(item["type"] == "message" for item in stream.output)
    reason = _CUT_SHORT.get(turn.stop_reason)
    if turn.stop_reason == "refusal" and not has_message:
        reason = "content_filter"
    if reason:
        response |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
        yield stream.frame("response.incomplete", response=response)
    else:
        yield stream.frame("response.completed", response=response | {"status": "completed"})


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "input_tokens": prompt_tokens(usage),
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": prompt_tokens(usage) + usage.output_tokens,
    }


def error_frame(code: str, message: str) -> bytes:
    return event_frame("error", error={"type": code, "code": code, "message": message, "param": None})


def key_of(headers: Mapping[str, str]) -> str:
    return headers.get("api-key") or headers.get("authorization", "").removeprefix("Bearer ")


def complaints(request: dict[str, Any], headers: Mapping[str, str]) -> Iterator[str]:
    if not request.get("stream"):
        yield "stream: only streams are served"
    if (request.get("max_output_tokens") or 16) < 16:
        yield "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"
    if not request.get("input"):
        yield "Missing required parameter: 'input'."
    yield from _reasoning_complaints(request)
    yield from _tools_complaints(request)
    if not isinstance(request["input"], str):
        yield from _input_complaints(request["input"], stored=request.get("store", True))


def _reasoning_complaints(request: dict[str, Any]) -> Iterator[str]:
    model = request["model"]
    efforts = next(efforts for pattern, efforts in _EFFORTS if re.match(pattern, model)).split()
    if not efforts and request.get("reasoning"):
        yield "Unsupported parameter: 'reasoning.effort' is not supported with this model."
    if not efforts and "reasoning.encrypted_content" in (request.get("include") or []):
        yield "Encrypted content is not supported with this model."
    effort = (request.get("reasoning") or {}).get("effort")
    if effort and effort not in efforts:
        yield f"Unsupported value: '{effort}' is not supported with the '{model}' model."


def _tools_complaints(request: dict[str, Any]) -> Iterator[str]:
    offered = request.get("tools") or []
    for index, tool in enumerate(offered):
        yield from _tool_complaints(tool, f"tools[{index}]")
    names = [tool["name"] for tool in offered if "name" in tool]
    choice = request.get("tool_choice")
    if isinstance(choice, dict) and choice["name"] not in names:
        yield f"Tool choice '{choice['name']}' not found in 'tools' parameter."
    form = (request.get("text") or {}).get("format") or {}
    if form.get("strict") and form["schema"].get("additionalProperties") is not False:
        yield "Invalid schema for response_format: 'additionalProperties' is required to be false."


def _tool_complaints(tool: dict[str, Any], where: str) -> Iterator[str]:
    kind = tool.get("type")
    if kind in _HOSTED:
        return
    if kind not in ("function", "custom", "namespace") or not _NAME.fullmatch(tool.get("name", "")):
        yield f"Invalid '{where}.name': string does not match pattern."
    if kind == "function" and (tool.get("strict") is not False or tool["parameters"].get("type") != "object"):
        yield f"Invalid schema for function '{tool['name']}'"
    if kind == "namespace":
        tools = tool.get("tools") or []
        if not tool.get("description") or any(one.get("type") not in ("function", "custom") for one in tools):
            yield f"Invalid '{where}': a namespace has a description, and functions or custom tools in it."
        for one in tools:
            yield from _tool_complaints(one, f"{where}.tools")


def _input_complaints(items: list[dict[str, Any]], *, stored: bool) -> Iterator[str]:
    waiting: list[str] = []
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        problems: Iterator[str] = iter([f"Invalid value: '{kind}'"])
        if kind == "function_call":
            problems = _call_complaints(item)
            waiting.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in waiting:
                yield f"No tool call found for function call output with call_id {item['call_id']}."
            waiting.remove(item["call_id"])
            problems = _content_complaints(item["output"])
        elif kind == "reasoning":
            following = items[index + 1] if index + 1 < len(items) else {}
            problems = _replay_complaints(item, following, stored=stored)
        elif kind == "message":
            problems = _message_complaints(item)
        yield from (f"input[{index}]: {problem}" for problem in problems)
    if waiting:
        yield f"No tool output found for function call {waiting[0]}."


def _call_complaints(item: dict[str, Any]) -> Iterator[str]:
    if not _NAME.fullmatch(item["call_id"]) or not _NAME.fullmatch(item["name"]):
        yield "call_id and name must match '^[a-zA-Z0-9_-]{1,64}$'"
    if not is_json_object(item["arguments"]):
        yield "arguments must be the JSON of an object"


def _replay_complaints(item: dict[str, Any], following: dict[str, Any], *, stored: bool) -> Iterator[str]:
    if unknown := item.keys() - {"type", "id", "summary", "encrypted_content"}:
        yield f"Unknown parameter: {sorted(unknown)}"
    if "summary" not in item or not item["id"].startswith("rs_"):
        yield "a reasoning item needs its 'id' and its 'summary'"
    if not stored and not item.get("encrypted_content"):
        yield f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."
    if following.get("role") != "assistant" and following.get("type") not in ("function_call", "reasoning"):
        yield f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."


def _message_complaints(item: dict[str, Any]) -> Iterator[str]:
    role, content = item.get("role"), item["content"]
    if role not in ("user", "assistant", "system", "developer"):
        yield f"Invalid value: {role!r}"
    if not content:
        yield "expected a content that is not empty"
    if role != "assistant":
        yield from _content_complaints(content)
    elif not isinstance(content, str) and any(part["type"] != "output_text" for part in content):
        yield "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'."


def _content_complaints(content: str | list[dict[str, Any]]) -> Iterator[str]:
    for part in () if isinstance(content, str) else content:
        match part:
            case {"type": "input_text", "text": text}:
                if not text:
                    yield "expected a text that is not empty"
            case {"type": "input_image", "image_url": url}:
                if not _IMAGE.fullmatch(url):
                    yield "unsupported image"
            case {"type": "input_file"}:
                is_document = part.get("filename") and _DOCUMENT.fullmatch(part.get("file_data", ""))
                if not is_document and not part.get("file_url", "").startswith("https://"):
                    yield "unsupported file"
            case _:
                yield f"Invalid value: '{part['type']}'"
