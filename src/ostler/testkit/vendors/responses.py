"""The Responses wire as its vendor speaks it: what it streams, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ostler.schema.messages import StopReason
from ostler.schema.usage import Usage
from ostler.testkit.vendors.chat import error_body as error_body
from ostler.testkit.vendors.script import Call, Cite, Say, Think, Turn

PATH = re.compile(r"(/openai)?/v1/responses")

MALFORMED = b"event: response.output_text.delta\ndata: {this is no JSON\n\n"


_CUT_SHORT: dict[StopReason, str] = {"length": "max_output_tokens", "other": "max_messages"}

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_HOSTED = {"web_search", "file_search", "code_interpreter", "image_generation", "mcp", "tool_search"}
"""Tools that the vendor runs; what they need is not looked at here."""

_IMAGE = re.compile(r"https://.*|data:image/(jpeg|png|gif|webp);base64,.+")

_DOCUMENT = re.compile(r"data:application/(pdf|msword|vnd\.(ms-|openxmlformats)[a-z.-]+);base64,.+")

_EFFORTS = (
    (r"gpt-4", ""),
    (r"gpt-5(-mini|-nano)?$", "minimal low medium high"),
    (r"gpt-5\.\d$|gpt-6-sol$", "none low medium high xhigh"),
    (r"", "low medium high"),
)


class _Stream:
    """Frames with their running number, and the response that the first and the last of them hold."""

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
        return _frame(name, sequence_number=self._sent - 1, **fields)

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
        annotations = [_annotation(source, len(text)) for source in sources]
        for index, annotation in enumerate(annotations):
            told = {"annotation_index": index, "annotation": annotation}
            yield self.frame("response.output_text.annotation.added", **place, **told)
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
        yield self.frame(
            "response.function_call_arguments.done", **place, name=part.name, arguments=arguments
        )
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
    for index, part in enumerate(turn.parts):
        if isinstance(part, Call):
            yield from stream.call(part)
        elif isinstance(part, Think):
            yield from stream.reasoning(part)
        elif not isinstance(part, Cite):
            pieces = part.pieces if isinstance(part, Say) else (part,)
            yield from stream.message(pieces, _sources(turn.parts[index + 1 :]))
    response = stream.response | {"output": stream.output, "usage": _usage(turn.usage)}
    silent = not any(item["type"] == "message" for item in stream.output)
    reason = _CUT_SHORT.get(turn.stop_reason) or (
        "content_filter" if turn.stop_reason == "refusal" and silent else None
    )
    if reason:
        response |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
        yield stream.frame("response.incomplete", response=response)
    else:
        yield stream.frame("response.completed", response=response | {"status": "completed"})


def _sources(parts: tuple[object, ...]) -> list[Cite]:
    """Those that follow a text before anything else does."""
    found = []
    for part in parts:
        if not isinstance(part, Cite):
            break
        found.append(part)
    return found


def _annotation(source: Cite, end: int) -> dict[str, Any]:
    place = {"start_index": 0, "end_index": end}
    return {"type": "url_citation", "url": source.url, "title": source.title, **place}


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    told = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": told,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": told + usage.output_tokens,
    }


def error_frame(code: str, message: str) -> bytes:
    return _frame("error", error={"type": code, "code": code, "message": message, "param": None})


def key_of(headers: Mapping[str, str]) -> str:
    return headers.get("api-key") or headers.get("authorization", "").removeprefix("Bearer ")


def _frame(name: str, /, **fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode({"type": name, **fields}))


def complaint(request: dict[str, Any], headers: Mapping[str, str]) -> str:
    """Why the vendor would refuse this request, or nothing."""
    if not request.get("stream"):
        return "stream: only streams are served"
    if (request.get("max_output_tokens") or 16) < 16:
        return "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"
    if not request.get("input"):
        return "Missing required parameter: 'input'."
    return _reasoning_complaint(request) or _tools_complaint(request) or _input_complaint(request)


def _reasoning_complaint(request: dict[str, Any]) -> str:
    model = request["model"]
    known = next(efforts for pattern, efforts in _EFFORTS if re.match(pattern, model)).split()
    if not known and request.get("reasoning"):
        return "Unsupported parameter: 'reasoning.effort' is not supported with this model."
    if not known and "reasoning.encrypted_content" in (request.get("include") or []):
        return "Encrypted content is not supported with this model."
    effort = (request.get("reasoning") or {}).get("effort")
    if effort and effort not in known:
        return f"Unsupported value: '{effort}' is not supported with the '{model}' model."
    return ""


def _tools_complaint(request: dict[str, Any]) -> str:
    offered = request.get("tools") or []
    problem = next(filter(None, (_tool_complaint(tool, f"tools[{i}]") for i, tool in enumerate(offered))), "")
    if problem:
        return problem
    names = [tool["name"] for tool in offered if "name" in tool]
    choice = request.get("tool_choice")
    if isinstance(choice, dict) and choice["name"] not in names:
        return f"Tool choice '{choice['name']}' not found in 'tools' parameter."
    form = (request.get("text") or {}).get("format") or {}
    if form.get("strict") and form["schema"].get("additionalProperties") is not False:
        return "Invalid schema for response_format: 'additionalProperties' is required to be false."
    return ""


def _tool_complaint(tool: dict[str, Any], where: str) -> str:
    kind = tool.get("type")
    if kind in _HOSTED:
        return ""
    if kind not in ("function", "custom", "namespace") or not _NAME.fullmatch(tool.get("name", "")):
        return f"Invalid '{where}.name': string does not match pattern."
    if kind == "function" and (tool.get("strict") is not False or tool["parameters"].get("type") != "object"):
        return f"Invalid schema for function '{tool['name']}'"
    if kind != "namespace":
        return ""
    grouped = tool.get("tools") or []
    if not tool.get("description") or any(one.get("type") not in ("function", "custom") for one in grouped):
        return f"Invalid '{where}': a namespace has a description, and functions or custom tools in it."
    return next(filter(None, (_tool_complaint(one, f"{where}.tools") for one in grouped)), "")


def _input_complaint(request: dict[str, Any]) -> str:
    items = request["input"]
    if isinstance(items, str):
        return ""
    waiting: list[str] = []
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            problem = _call_complaint(item)
            waiting.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in waiting:
                return f"No tool call found for function call output with call_id {item['call_id']}."
            waiting.remove(item["call_id"])
            problem = _content_complaint(item["output"])
        elif kind == "reasoning":
            problem = _replay_complaint(item, items[index + 1 :], stored=request.get("store", True))
        elif kind == "message":
            problem = _message_complaint(item)
        else:
            problem = f"Invalid value: '{kind}'"
        if problem:
            return f"input[{index}]: {problem}"
    return f"No tool output found for function call {waiting[0]}." if waiting else ""


def _call_complaint(item: dict[str, Any]) -> str:
    if not _NAME.fullmatch(item["call_id"]) or not _NAME.fullmatch(item["name"]):
        return "call_id and name must match '^[a-zA-Z0-9_-]{1,64}$'"
    try:
        msgspec.json.decode(item["arguments"], type=dict[str, Any])
    except msgspec.DecodeError:
        return "arguments must be the JSON of an object"
    return ""


def _replay_complaint(item: dict[str, Any], rest: list[dict[str, Any]], *, stored: bool) -> str:
    unknown = item.keys() - {"type", "id", "summary", "encrypted_content"}
    if unknown:
        return f"Unknown parameter: {sorted(unknown)}"
    if "summary" not in item or not item["id"].startswith("rs_"):
        return "a reasoning item needs its 'id' and its 'summary'"
    if not stored and not item.get("encrypted_content"):
        return f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."
    following = rest[0] if rest else {}
    if following.get("role") != "assistant" and following.get("type") not in ("function_call", "reasoning"):
        return f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
    return ""


def _message_complaint(item: dict[str, Any]) -> str:
    role, content = item.get("role"), item["content"]
    if role not in ("user", "assistant", "system", "developer"):
        return f"Invalid value: {role!r}"
    if not content:
        return "expected a content that is not empty"
    if role == "assistant":
        said = isinstance(content, str) or all(part["type"] == "output_text" for part in content)
        return (
            "" if said else "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'."
        )
    return _content_complaint(content)


def _content_complaint(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return ""
    return next(filter(None, map(_part_complaint, content)), "")


def _part_complaint(part: dict[str, Any]) -> str:
    kind = part["type"]
    if kind == "input_text":
        return "" if part["text"] else "expected a text that is not empty"
    if kind == "input_image":
        return "" if _IMAGE.fullmatch(part["image_url"]) else "unsupported image"
    if kind == "input_file":
        usable = part.get("file_url", "").startswith("https://") or (
            part.get("filename") and _DOCUMENT.fullmatch(part.get("file_data", ""))
        )
        return "" if usable else "unsupported file"
    return f"Invalid value: '{kind}'"
