"""Google's Gemini API: what it streams, and what it refuses."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ostler.schema.messages import StopReason
from ostler.schema.usage import Usage
from ostler.testkit.vendors.script import (
    Call,
    Cite,
    Refusal,
    Say,
    Think,
    Turn,
    is_json_object,
    prompt_tokens,
)

PATH = re.compile(r"/v1(?:beta)?/models/(?P<model>[^/:]+):streamGenerateContent")
MALFORMED = b"data: {this is no JSON\n\n"

_STOP_REASONS: dict[StopReason, str] = {"length": "MAX_TOKENS", "refusal": "SAFETY", "other": "OTHER"}

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")

_INLINE_TYPES = re.compile(r"image/(png|jpeg|webp|heic|heif)|application/pdf|text/.*|audio/.*|video/.*")

_DATA = ("text", "functionCall", "functionResponse", "inlineData", "fileData")

_FREE = {"parametersJsonSchema", "responseJsonSchema", "args", "response"}
"""Fields whose content has names of the client's choice."""

_LEVELS = {"MINIMAL", "LOW", "MEDIUM", "HIGH"}


def frames(turn: Turn, request: dict[str, Any], number: int) -> Iterator[bytes]:
    head = {"modelVersion": request["model"], "responseId": f"response-{number:04d}"}
    usage = turn.usage
    if usage is not None:
        tokens = prompt_tokens(usage)
        head["usageMetadata"] = {"promptTokenCount": tokens, "totalTokenCount": tokens}
    if turn.stop_reason == "refusal" and not turn.parts:
        yield _frame({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **head})
        return
    answer = _Parts(number, strict=_strict(request["model"]))
    for part in turn.blocks:
        for piece in answer.of(part):
            content = {"role": "model", "parts": [piece]}
            yield _frame({"candidates": [{"content": content, "index": 0}], **head})
    last = {"role": "model", "parts": [{"text": ""} | answer.signature()]}
    reason = _STOP_REASONS.get(turn.stop_reason, "STOP")
    end: dict[str, Any] = {"content": last, "finishReason": reason, "index": 0}
    if answer.malformed:
        end["finishReason"], end["finishMessage"] = "MALFORMED_FUNCTION_CALL", answer.malformed
    if usage is not None:
        head["usageMetadata"] = _usage(usage)
    yield _frame({"candidates": [end | _sources(turn)], **head})


class _Parts:
    """The parts of one answer. A signature belongs to the next call, or else to the last part."""

    def __init__(self, number: int, *, strict: bool) -> None:
        self.malformed = ""
        self._number = number
        self._strict = strict
        self._calls = 0
        self._signature = ""

    def of(self, part: Say | Think | Call | Cite) -> Iterator[dict[str, Any]]:
        if isinstance(part, Call):
            yield from self._call(part)
        elif isinstance(part, Think):
            if self._signature:
                yield {"text": "", "thought": True} | self.signature()
            yield from ({"text": piece, "thought": True} for piece in part.pieces)
            self._signature = part.signature or part.redacted
        elif isinstance(part, Say):
            yield from ({"text": piece} for piece in part.pieces)

    def _call(self, part: Call) -> Iterator[dict[str, Any]]:
        text = "".join(part.pieces) or "{}"
        if not is_json_object(text):
            self.malformed = f"Malformed function call: {part.name}({text})"
            return
        call: dict[str, Any] = {"name": part.name, "args": msgspec.Raw(text.encode())}
        if part.id or self._strict:
            call["id"] = part.id or f"function-call-{self._number:04d}-{self._calls}"
        if self._strict and not self._calls:
            self._signature = self._signature or "made by this model"
        self._calls += 1
        yield {"functionCall": call} | self.signature()

    def signature(self) -> dict[str, str]:
        signature, self._signature = self._signature, ""
        return {"thoughtSignature": base64.b64encode(signature.encode()).decode()} if signature else {}


def _strict(model: str) -> bool:
    """Whether the model is of the third generation or a later one."""
    return not re.search(r"gemini-[12]|gemma", model)


def _usage(usage: Usage) -> dict[str, int]:
    counts = {
        "promptTokenCount": prompt_tokens(usage),
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": prompt_tokens(usage) + usage.output_tokens,
    }
    return {name: count for name, count in counts.items() if count}


def _sources(turn: Turn) -> dict[str, Any]:
    cites = [part for part in turn.parts if isinstance(part, Cite)]
    web = [{"web": {"uri": cite.url, "title": cite.title}} for cite in cites if cite.title]
    plain = [{"startIndex": 0, "endIndex": 1, "uri": cite.url} for cite in cites if not cite.title]
    sources: dict[str, Any] = {"groundingMetadata": {"groundingChunks": web}} if web else {}
    return sources | ({"citationMetadata": {"citationSources": plain}} if plain else {})


def error_frame(code: str, message: str) -> bytes:
    numbers = {status: number for number, status in _STATUSES.items()}
    number = {"code": numbers[code]} if code in numbers else {}
    return _frame({"error": {**number, "message": message, "status": code}})


def error_body(refusal: Refusal, number: int) -> bytes:
    status = refusal.code or _STATUSES.get(refusal.status, "UNKNOWN")
    error = {"code": refusal.status, "message": refusal.message, "status": status}
    return msgspec.json.encode({"error": error})


def key_of(headers: Mapping[str, str]) -> str:
    return headers.get("x-goog-api-key", "")


def _frame(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\r\n\r\n"


def camel_case(value: Any) -> Any:
    """A request with the documented names of fields, which the vendor also accepts with underscores."""
    if isinstance(value, list):
        return [camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {
        re.sub(r"_([a-z])", lambda match: match[1].upper(), name): field for name, field in value.items()
    }
    return {name: field if name in _FREE else camel_case(field) for name, field in fields.items()}


def complaints(request: dict[str, Any], headers: Mapping[str, str]) -> Iterator[str]:
    request = camel_case(request)
    yield from _tools_complaints(request)
    yield from _generation_complaints(request["model"], request.get("generationConfig") or {})
    yield from _contents_complaints(request.get("contents") or [], _strict(request["model"]))


def _tools_complaints(request: dict[str, Any]) -> Iterator[str]:
    offered = [tool for tools in request.get("tools", []) for tool in tools.get("functionDeclarations", [])]
    names = [tool["name"] for tool in offered]
    if len(set(names)) < len(names):
        yield "Duplicate function declaration found"
    if not all(_NAME.fullmatch(name) for name in names):
        yield "Invalid function name. Must start with a letter or an underscore"
    if any(tool.get("parametersJsonSchema", {}).get("type") != "object" for tool in offered):
        yield "functionDeclarations.parameters schema should be of type OBJECT"
    config = (request.get("toolConfig") or {}).get("functionCallingConfig") or {}
    allowed = config.get("allowedFunctionNames", [])
    if allowed and (config["mode"] != "ANY" or set(allowed) - set(names)):
        yield "allowed_function_names should be set only when mode is ANY, and be names of declarations"
    form = (request.get("generationConfig") or {}).get("responseMimeType")
    if offered and form == "application/json" and not _strict(request["model"]):
        yield "Function calling with a response mime type: 'application/json' is unsupported"


def _generation_complaints(model: str, config: dict[str, Any]) -> Iterator[str]:
    thinking = config.get("thinkingConfig") or {}
    if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
        yield "responseJsonSchema needs the response mime type application/json"
    if thinking and re.search(r"gemini-(1|2\.0)|gemma", model):
        yield "Thinking is not supported for this model"
    if "thinkingLevel" in thinking:
        refused = {"MINIMAL"} if re.search(r"pro|gemini-3\.8|gemini-[4-9]", model) else set()
        if not _strict(model) or thinking["thinkingLevel"] not in _LEVELS - refused:
            yield "Thinking level is not supported for this model"
    if thinking.get("thinkingBudget") == 0 and "2.5-pro" in model:
        yield "Budget 0 is invalid. This model only works in thinking mode"


def _contents_complaints(contents: list[dict[str, Any]], strict: bool) -> Iterator[str]:
    if not contents:
        yield "contents is not specified"
    waiting: list[dict[str, Any]] = []
    turn = max((i for i, content in enumerate(contents) if _is_prompt(content)), default=0)
    for index, content in enumerate(contents):
        where, parts = f"contents[{index}]", content.get("parts") or []
        if content.get("role") not in ("user", "model"):
            yield f"{where}: Please use a valid role: user, model"
        if not parts:
            yield f"{where}.parts: contents.parts must not be empty"
        for part in parts:
            yield from (f"{where}: {problem}" for problem in _part_complaints(part, content["role"]))
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if len(results) != len(waiting) or (results and len(results) < len(parts)):
            yield (
                f"{where}: Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn"
            )
        if strict and [result.get("id") for result in results] != [call.get("id") for call in waiting]:
            yield f"{where}: function response ids must match those of the function call turn"
        calls = [part for part in parts if "functionCall" in part]
        waiting = [part["functionCall"] for part in calls]
        if strict and calls and index > turn and "thoughtSignature" not in calls[0]:
            yield f"{where}: Function call is missing a thought_signature in functionCall parts"
        if calls and (index == 0 or contents[index - 1]["role"] != "user"):
            yield f"{where}: Please ensure that function call turn comes immediately after a user turn"
    if waiting:
        yield "Please ensure that function call turn is followed by a function response turn"


def _is_prompt(content: dict[str, Any]) -> bool:
    parts = content.get("parts") or []
    return content.get("role") == "user" and not any("functionResponse" in part for part in parts)


def _part_complaints(part: dict[str, Any], role: str) -> Iterator[str]:
    if len([name for name in _DATA if name in part]) != 1:
        yield "required oneof field 'data' must have one initialized field"
    if not part.get("text", "-") and "thoughtSignature" not in part:
        yield "Unable to submit request because it must have a text parameter"
    if "inlineData" in part and not _INLINE_TYPES.fullmatch(part["inlineData"]["mimeType"]):
        yield f"Unsupported MIME type: {part['inlineData']['mimeType']}"
    if "functionCall" in part:
        call = part["functionCall"]
        if role != "model" or not _NAME.fullmatch(call["name"]) or not isinstance(call.get("args", {}), dict):
            yield "invalid functionCall: it needs the role of the model, a name and an object of arguments"
    if "functionResponse" in part:
        result = part["functionResponse"]
        if role != "user" or not _NAME.fullmatch(result["name"]) or not isinstance(result["response"], dict):
            yield "invalid functionResponse: it needs the role of the user, a name and an object"
