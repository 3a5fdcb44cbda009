"""The API's document: OpenAPI 3.1, and 3.0 for programs that know no newer one."""

from __future__ import annotations

import json
import re
from typing import Any

from ostler import __version__
from ostler.faces.web.agentapi.schemas import Schema, components, ref

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
