"""What an agent announces of its state outside of its screen: its window title, and OSC 7501."""

from __future__ import annotations

import re
from typing import Literal

Announced = Literal["", "working", "asking", "idle"]

# The end as one byte (9C) is no end here: it is part of characters such as the first of Claude's titles.
_SEQUENCE = re.compile(rb"\x1b\]([^\x07\x1b]*)(?:\x07|\x1b\\)")
_LONGEST = 4096
_TITLES = (b"0", b"2")
_STATE = b"7501"

_ASKING_TITLE = "Action Required"
_CLAUDE_IDLE = "✳"
_GEMINI_IDLE = "◇"

# `state` of OSC 7501, as Codex sends it: blocked is followed by a kind, such as permission.
_STATES: dict[str, Announced] = {"working": "working", "blocked": "asking", "idle": "idle", "done": "idle"}


class Announcements:
    """Reads the output of an agent; `state` is what it announced last, empty if it announces nothing.

    An announcement of a dialog counts even if the screen shows none. The others never make an agent ready.
    """

    def __init__(self, agent_type: str) -> None:
        self._agent_type = agent_type
        self._tail = b""
        self._by_title: Announced = ""
        self._by_state: Announced = ""

    @property
    def state(self) -> Announced:
        if "asking" in (self._by_title, self._by_state):
            return "asking"
        return self._by_state or self._by_title

    def feed(self, data: bytes) -> None:
        if not self._tail and b"\x1b" not in data:
            return
        data = self._tail + data
        end = 0
        for found in _SEQUENCE.finditer(data):
            self._take(found[1])
            end = found.end()
        start = data.rfind(b"\x1b]", end)
        if start < 0 and data.endswith(b"\x1b"):
            start = len(data) - 1
        self._tail = data[start:] if start >= 0 and len(data) - start <= _LONGEST else b""

    def _take(self, sequence: bytes) -> None:
        name, _, value = sequence.partition(b";")
        text = value.decode("utf-8", "replace")
        if name == _STATE:
            fields = dict(field.partition("=")[::2] for field in re.split("[:;]", text))
            if fields.get("kind") == "permission":
                self._by_state = "asking"
            elif (state := fields.get("state", "")) in _STATES:
                self._by_state = _STATES[state]
        elif name in _TITLES:
            self._by_title = _of_title(self._agent_type, text.strip())


def _of_title(agent_type: str, title: str) -> Announced:
    if agent_type in ("gemini", "codex") and _ASKING_TITLE in title:
        return "asking"
    if agent_type == "gemini" and title:
        return "idle" if title.startswith(_GEMINI_IDLE) else "working"
    if agent_type == "claude" and title:
        return "idle" if title.startswith(_CLAUDE_IDLE) else "working"
    return ""
