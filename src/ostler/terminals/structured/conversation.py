"""The conversation with an agent that has no screen, as text: what the clients of screens are shown."""

from __future__ import annotations

from ostler.terminals.conversation import ScreenMessage
from ostler.terminals.structured.driver import Said, ToolUpdate, Update


class SpokenConversation:
    """It begins empty. Each prompt adds a message of the user's and one of the agent's, which grows.

    The answer to a prompt that failed is taken out; no other message ever gets its number.
    """

    def __init__(self) -> None:
        self.messages: list[ScreenMessage] = []
        self._next = 0
        self._calls: dict[str, bool] = {}
        """Those of the present turn, and whether each is open."""

    @property
    def answer(self) -> str:
        """What the agent has said to the last prompt so far."""
        last = self.messages[-1] if self.messages else None
        return last.text if last is not None and last.role == "agent" else ""

    def begin(self, prompt: str, time: float) -> None:
        self.messages.append(ScreenMessage(self._next, "user", prompt, time))
        self.messages.append(ScreenMessage(self._next + 1, "agent", "", time))
        self._next += 2
        self._calls = {}

    def take(self, update: Update) -> None:
        match update:
            case Said(text=text):
                self._add(text)
            case ToolUpdate(id=call, begins=begins) if call not in self._calls or (
                begins and not self._calls[call]
            ):
                self._calls[call] = True
                self._add(f"\n[Tool: {update.kind or 'other'}] {update.title or update.name}\n")
            case ToolUpdate(id=call, status=status) if status and self._calls[call]:
                self._calls[call] = status not in ("completed", "failed")
                self._add(f"[Tool Status: {status}]\n")

    def take_out_answer(self) -> None:
        self.messages.pop()

    def _add(self, text: str) -> None:
        last = self.messages[-1]
        self.messages[-1] = ScreenMessage(last.id, last.role, last.text + text, last.time)
