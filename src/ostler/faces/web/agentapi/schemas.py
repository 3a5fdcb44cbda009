"""The components of the API's document. Names and texts are those its clients were generated from."""

from __future__ import annotations

from typing import Any

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
