"""Events as server-sent events. None is larger than what the wire's own clients can read."""

from __future__ import annotations

from typing import Literal

import msgspec

from ostler.faces.web.agentapi.wire_json import for_html, timestamp, to_json
from ostler.terminals.conversation import ScreenMessage
from ostler.terminals.lines import ASCII_WHITESPACE
from ostler.terminals.tracker import Status

Level = Literal["warning", "error"]
WireStatus = Literal["stable", "running"]

MOST_EVENT = 127 * 1024
"""Bytes of an event: the Go client gives up at 128 KiB."""
MOST_SCREEN = 255 * 1024
"""Bytes of a screen: whoever is attached gives up at 256 KiB."""
LEFT_OUT = "\n\n[… the middle of this message is left out here; GET /messages has all of it …]\n\n"


class MessageUpdate(msgspec.Struct, frozen=True):
    id: int
    role: str
    message: str
    time: str


class StatusChange(msgspec.Struct, frozen=True):
    status: WireStatus
    agent_type: str


class AgentError(msgspec.Struct, frozen=True):
    message: str
    level: Level
    time: str


class ScreenUpdate(msgspec.Struct, frozen=True):
    screen: str


def message_frame(message: ScreenMessage) -> bytes:
    """Of a text that is too long, its beginning and its end: a client that is cut off would see nothing."""
    text = message.text
    frame = _frame_of_message(message, text)
    kept = len(text)
    while len(frame) > MOST_EVENT:
        kept = max(0, kept * MOST_EVENT // len(frame) - len(LEFT_OUT))
        half = kept // 2
        frame = _frame_of_message(message, text[:half] + LEFT_OUT + text[len(text) - half :])
    return frame


def _frame_of_message(message: ScreenMessage, text: str) -> bytes:
    update = MessageUpdate(message.id, message.role, text, timestamp(message.time))
    return _frame(b"message_update", update)


def wire_status(status: Status) -> WireStatus:
    """Clients know no other two."""
    return "stable" if status == "stable" else "running"


def status_frame(status: WireStatus, agent_type: str) -> bytes:
    return _frame(b"status_change", StatusChange(status, agent_type))


def error_frame(message: str, level: Level, time: float) -> bytes:
    return _frame(b"agent_error", AgentError(message, level, timestamp(time)))


def screen_frame(text: str) -> bytes:
    """Of a screen that is too large, its newest rows."""
    rows = text.rstrip(ASCII_WHITESPACE).split("\n")
    frame = _frame(b"screen", ScreenUpdate("\n".join(rows)))
    while len(frame) > MOST_SCREEN:
        rows = rows[len(rows) - len(rows) * MOST_SCREEN // len(frame) + 1 :]
        frame = _frame(b"screen", ScreenUpdate("\n".join(rows)))
    return frame


def _frame(name: bytes, data: msgspec.Struct) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, for_html(to_json(data)))
