"""The messages that a screen amounts to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ostler.terminals.formatting import format_message, new_text
from ostler.terminals.tool_calls import split_tool_calls


class ScreenMessage(msgspec.Struct, frozen=True):
    """One message; `id` is its place in the conversation, `time` seconds since 1970."""

    id: int
    role: Literal["agent", "user"]
    text: str
    time: float


class Conversation:
    """Only its last message ever changes, and only while it is the agent's."""

    def __init__(self, agent_type: str, time: float) -> None:
        self.messages: list[ScreenMessage] = [ScreenMessage(0, "agent", "", time)]
        self.revision = 0
        self._agent_type = agent_type
        self._before = ""
        self._user_text = ""
        self._restored = False
        self._read: str | None = None

    @property
    def unanswered(self) -> bool:
        return bool(self.messages) and self.messages[-1].role == "user"

    def read(self, screen: str, time: float) -> None:
        """Bring the agent's last message up to date with the screen."""
        answered = bool(self.messages) and not self.unanswered
        if answered and (self._restored or screen == self._read):
            return
        self._read = screen
        shown = new_text(self._before, screen, self._agent_type)
        text, _calls = split_tool_calls(
            self._agent_type, format_message(self._agent_type, shown, self._user_text)
        )
        if not answered:
            # Also when the text is that of an earlier answer: the same reply twice is two messages.
            self.messages.append(ScreenMessage(len(self.messages), "agent", text, time))
        elif text != self.messages[-1].text:
            self.messages[-1] = ScreenMessage(self.messages[-1].id, "agent", text, time)
        else:
            return
        self.revision += 1

    def add_user_message(self, text: str, before: str, time: float) -> None:
        """`before` is the screen as it was before the message was written."""
        self.messages.append(ScreenMessage(len(self.messages), "user", text, time))
        self._before, self._user_text, self._restored, self._read = before, text, False, None
        self.revision += 1

    def restore(self, messages: Sequence[ScreenMessage]) -> None:
        """Go on with an earlier conversation: its last answer stays until the user says something."""
        self.messages = [
            ScreenMessage(number, message.role, message.text, message.time)
            for number, message in enumerate(messages)
        ]
        self._restored = bool(messages) and messages[-1].role == "agent"
        self._read = None
        self._user_text = next((m.text for m in reversed(messages) if m.role == "user"), "")
        self.revision += 1
