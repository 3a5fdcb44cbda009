"""agentapi's OpenAPI documents: 3.1 and 3.0, as JSON, as YAML and as an HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ostler import __version__

Schema = dict[str, Any]

_MESSAGE_ID = (
    "Unique identifier for the message. This identifier also represents the order of the message in the "
    "conversation history."
)

_MESSAGE_CONTENT = (
    "Message content. The message is formatted as it appears in the agent's terminal session, meaning that, "
    "by default, it consists of lines of text with 80 characters per line."
)

_AGENT_TYPE = "Type of the agent being used by the server."


def ref(name: str, description: str = "") -> Schema:
    return {"$ref": f"#/components/schemas/{name}"} | _described(description)


def _described(description: str) -> Schema:
    return {"description": description} if description else {}


def _text(description: str = "", **more: Any) -> Schema:
    return {"type": "string"} | _described(description) | more


def _time(description: str) -> Schema:
    return _text(description, format="date-time")


def _whole_number(description: str, **more: Any) -> Schema:
    return {"type": "integer", "format": "int64", "description": description, **more}


def _yes_or_no(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _one_of(name: str, example: str, *values: str) -> Schema:
    return {"type": "string", "title": name, "enum": list(values), "examples": [example]}


def _object(optional: tuple[str, ...] = (), **properties: Schema) -> Schema:
    required = [name for name in properties if name not in optional]
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return schema | ({"required": required} if required else {})


def _body(name: str, schema: Schema) -> Schema:
    """One that is sent by itself says where its schema is."""
    link = {
        "type": "string",
        "format": "uri",
        "description": "A URL to the JSON Schema for this object.",
        "readOnly": True,
        "examples": [f"https://example.com/schemas/{name}.json"],
    }
    return {**schema, "properties": {"$schema": link, **schema["properties"]}}


def _all_optional(**properties: Schema) -> Schema:
    return _object(tuple(properties), **properties)


def components() -> dict[str, Schema]:
    plain = {
        "AgentStatus": _one_of("AgentStatus", "stable", "stable", "running"),
        "ConversationRole": _one_of("ConversationRole", "user", "user", "agent"),
        "ErrorBody": _object(
            message=_text("Error message"),
            level=ref("ErrorLevel", "Error level"),
            time=_time("Timestamp when the error occurred"),
        ),
        "ErrorDetail": _all_optional(
            message=_text("Error message text"),
            location=_text("Where the error occurred, e.g. 'body.items[3].tags' or 'path.thing-id'"),
            value={"description": "The value at the given location"},
        ),
        "ErrorLevel": _one_of("ErrorLevel", "warning", "warning", "error"),
        "Message": _object(
            id=_whole_number(_MESSAGE_ID),
            content=_text(_MESSAGE_CONTENT, examples=["Hello world"]),
            role=ref("ConversationRole", "Role of the message author"),
            time=_time("Timestamp of the message"),
        ),
        "MessageType": _one_of("MessageType", "user", "user", "raw"),
        "MessageUpdateBody": _object(
            id=_whole_number(_MESSAGE_ID),
            role=ref("ConversationRole", "Role of the message author"),
            message=_text(_MESSAGE_CONTENT),
            time=_time("Timestamp of the message"),
        ),
        "ScreenUpdateBody": _object(screen=_text()),
        "StatusChangeBody": _object(status=ref("AgentStatus", "Agent status"), agent_type=_text(_AGENT_TYPE)),
        "Transport": _one_of("Transport", "pty", "acp", "pty"),
    }
    return plain | {name: _body(name, schema) for name, schema in _bodies().items()}


def _bodies() -> dict[str, Schema]:
    return {
        "ErrorModel": _error_model(),
        "MessageRequestBody": _object(
            content=_text("Message content", examples=["Hello, agent!"]),
            type=ref(
                "MessageType",
                "A 'user' type message will be logged as a user message in the conversation history and "
                "submitted to the agent. AgentAPI will wait until the agent starts carrying out the task "
                "described in the message before responding. A 'raw' type message will be written directly "
                "to the agent's terminal session as keystrokes and will not be saved in the conversation "
                "history. 'raw' messages are useful for sending escape sequences to the terminal.",
            ),
        ),
        "MessageResponseBody": _object(
            ok=_yes_or_no(
                "Indicates whether the message was sent successfully. For messages of type 'user', success "
                "means detecting that the agent began executing the task described. For messages of type "
                "'raw', success means the keystrokes were sent to the terminal."
            )
        ),
        "MessagesResponseBody": _object(
            messages={"type": "array", "items": ref("Message"), "description": "List of messages"}
        ),
        "StatusResponseBody": _object(
            status=ref(
                "AgentStatus",
                "Current agent status. 'running' means that the agent is processing a message, 'stable' "
                "means that the agent is idle and waiting for input.",
            ),
            agent_type=_text(_AGENT_TYPE),
            transport=ref("Transport", "Backend transport being used ('acp' or 'pty')."),
        ),
        "UploadResponseBody": _object(
            ok=_yes_or_no("Indicates whether the files were uploaded successfully."),
            filePath=_text("Path of the file"),
        ),
    }


def _error_model() -> Schema:
    return _all_optional(
        type=_text(
            "A URI reference to human-readable documentation for the error.",
            format="uri",
            default="about:blank",
            examples=["https://example.com/errors/example"],
        ),
        title=_text(
            "A short, human-readable summary of the problem type. This value should not change between "
            "occurrences of the error.",
            examples=["Bad Request"],
        ),
        status=_whole_number("HTTP status code", examples=[400]),
        detail=_text(
            "A human-readable explanation specific to this occurrence of the problem.",
            examples=["Property foo is required but is missing."],
        ),
        instance=_text(
            "A URI reference that identifies the specific occurrence of the problem.",
            format="uri",
            examples=["https://example.com/error-log/abc123"],
        ),
        errors={
            "type": ["array", "null"],
            "items": ref("ErrorDetail"),
            "description": "Optional list of individual error details",
        },
    )


_EVENTS = (
    "The events are sent as Server-Sent Events (SSE). Initially, the endpoint returns a list of events "
    "needed to reconstruct the current state of the conversation and the agent's status. After that, it "
    "only returns events that have occurred since the last event was sent.\n\nNote: When an agent is "
    "running, the last message in the conversation history is updated frequently, and the endpoint sends a "
    "new message update event each time."
)

_MESSAGE = (
    "Send a message to the agent. For messages of type 'user', the agent's status must be 'stable' for the "
    "operation to complete successfully. Otherwise, this endpoint will return an error."
)


def document() -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "AgentAPI",
            "version": __version__,
            "description": "HTTP API for Claude Code, Goose, and Aider.\n\nhttps://github.com/coder/agentapi",
        },
        "paths": _paths(),
        "components": {"schemas": components()},
    }


def _paths() -> dict[str, Any]:
    messages = "Returns a list of messages representing the conversation history with the agent."
    message = {"application/json": {"schema": ref("MessageRequestBody", "Message content and type")}}
    return {
        "/status": {
            "get": _operation(
                "get-status",
                "Get status",
                "Returns the current status of the agent.",
                _json("StatusResponseBody"),
            )
        },
        "/messages": {
            "get": _operation("get-messages", "Get messages", messages, _json("MessagesResponseBody"))
        },
        "/message": {
            "post": _operation("post-message", "Post message", _MESSAGE, _json("MessageResponseBody"))
            | {"requestBody": {"required": True, "content": message}}
        },
        "/upload": {
            "post": _operation(
                "post-upload",
                "Post upload",
                "Upload files to the specified upload path.",
                _json("UploadResponseBody"),
            )
            | {"requestBody": {"content": {"multipart/form-data": _form()}}}
        },
        "/events": {
            "get": _operation(
                "subscribeEvents", "Subscribe to events", _EVENTS, {"text/event-stream": _events()}
            )
        },
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": ref(name)}}


def _operation(id: str, summary: str, description: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": id,
        "summary": summary,
        "description": description,
        "responses": {
            "200": {"description": "OK", "content": content},
            "default": {
                "description": "Error",
                "content": {"application/problem+json": {"schema": ref("ErrorModel")}},
            },
        },
    }


def _form() -> dict[str, Any]:
    file = {
        "type": "string",
        "format": "binary",
        "contentEncoding": "binary",
        "contentMediaType": "application/octet-stream",
        "description": "file that needs to be uploaded",
    }
    return {
        "schema": {"type": "object", "properties": {"file": file}, "required": ["file"]},
        "encoding": {"file": {"contentType": "application/octet-stream"}},
    }


def _events() -> dict[str, Any]:
    events = {
        "message_update": "MessageUpdateBody",
        "status_change": "StatusChangeBody",
        "agent_error": "ErrorBody",
    }
    return {
        "schema": {
            "title": "Server Sent Events",
            "type": "array",
            "description": "Each oneOf object in the array represents one possible Server Sent Events (SSE) "
            "message, serialized as UTF-8 text according to the SSE specification.",
            "items": {"oneOf": [_event(name, data) for name, data in events.items()]},
        }
    }


def _event(name: str, data: str) -> Schema:
    return {
        "title": f"Event {name}",
        "type": "object",
        "properties": {
            "data": ref(data),
            "event": {"type": "string", "description": "The event name.", "const": name},
            "id": {"type": "integer", "description": "The event ID."},
            "retry": {"type": "integer", "description": "The retry time in milliseconds."},
        },
        "required": ["data", "event"],
    }


def downgraded(value: Any) -> Any:
    """As OpenAPI 3.0.3 says it: one example, and what may be null marked by itself."""
    if isinstance(value, list):
        return [downgraded(one) for one in value]
    if not isinstance(value, dict):
        return value
    lower: dict[str, Any] = {}
    for name, inner in value.items():
        if name == "openapi":
            lower[name] = "3.0.3"
        elif name == "examples" and isinstance(inner, list):
            lower["example"] = inner[0]
        elif name == "type" and isinstance(inner, list):
            lower["type"] = next(kind for kind in inner if kind != "null")
            lower["nullable"] = True
        else:
            lower[name] = downgraded(inner)
    return lower


def schema_file(name: str) -> bytes:
    """One component by itself; there is no answer but `null` to a name that is none."""
    schema = json.dumps(components().get(name), ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"#/components/schemas/(\w+)", r"/schemas/\1.json", schema).encode()


POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_FILES = ("openapi.json", "openapi.yaml", "openapi-3.0.json", "openapi-3.0.yaml")

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color-scheme:light dark}"
    "h2{margin-top:2.5rem}code,pre{font:14px/1.4 ui-monospace,monospace}"
    "pre{overflow:auto;padding:.75rem;border:1px solid #8886;border-radius:.4rem}"
)


def docs_page(document: dict[str, Any]) -> str:
    info = document["info"]
    parts = [
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>",
        _paragraphs(info["description"]),
        "<p>For programs: " + ", ".join(f'<a href="{name}">{name}</a>' for name in _FILES) + "</p>",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation_html(method, path, operation))
    parts.append("<h2>Schemas</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(f'<h3 id="{escape(name)}">{escape(name)}</h3>{_shown(schema)}')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _operation_html(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f'<h2 id="{operation["operationId"]}"><code>{method.upper()} {escape(path)}</code> '
        f"{escape(operation['summary'])}</h2>",
        _paragraphs(operation["description"]),
    ]
    if (body := operation.get("requestBody")) is not None:
        parts.append(f"<h4>Request</h4>{_shown(body['content'])}")
    for status, answer in operation["responses"].items():
        parts.append(f"<h4>Answer {escape(status)}</h4>{_shown(answer['content'])}")
    return "".join(parts)


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n"))


def _shown(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2))}</pre>"


def as_yaml(value: Any) -> str:
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _entry(f"{json.dumps(name)}:", inner)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _entry("-", inner)
    else:
        yield json.dumps(value, ensure_ascii=False)


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{head} {json.dumps(value, ensure_ascii=False)}"


_OPENAPI = "application/vnd.oai.openapi"


def documents() -> dict[str, Callable[[Request], Awaitable[Response]]]:
    return {
        "/openapi.json": _served(lambda: _as_json(document()), f"{_OPENAPI}+json"),
        "/openapi.yaml": _served(lambda: as_yaml(document()), f"{_OPENAPI}+yaml"),
        "/openapi-3.0.json": _served(lambda: _as_json(downgraded(document())), f"{_OPENAPI}+json"),
        "/openapi-3.0.yaml": _served(lambda: as_yaml(downgraded(document())), f"{_OPENAPI}+yaml"),
        "/docs": _served(lambda: docs_page(document()), "text/html", {"content-security-policy": POLICY}),
    }


def _served(
    make: Callable[[], str], content_type: str, headers: dict[str, str] | None = None
) -> Callable[[Request], Awaitable[Response]]:
    """Made when somebody first asks for it."""
    made = cache(make)

    async def serve(request: Request) -> Response:
        return Response(made(), headers={"content-type": content_type, **(headers or {})})

    return serve


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def schema_answer(request: Request) -> Response:
    name = request.scope["path"].rpartition("/")[2].removesuffix(".json")
    return Response(schema_file(name), headers={"content-type": "application/json"})
