"""The conversation as clients of a screen see it: from a screen, from the log, from an agent without one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ostler.drivers.driver import AgentMessage, TextUpdate, ToolUpdate, Update
from ostler.drivers.screen_text import format_message, new_text, split_tool_calls
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.messages import text_of
from ostler.schema.outcomes import Question


class Conversation:
    """The messages on a screen. Only the last one changes, and only while it is the agent's."""

    def __init__(self, agent_type: str, time: float) -> None:
        self.messages: list[AgentMessage] = [AgentMessage(0, "agent", "", time)]
        self._agent_type = agent_type
        self._before = ""
        self._user_text = ""
        self._restored = False
        self._read: str | None = None

    @property
    def unanswered(self) -> bool:
        return bool(self.messages) and self.messages[-1].role == "user"

    def read(self, screen: str, time: float) -> None:
        """Updates the agent's last message from the screen."""
        answered = bool(self.messages) and not self.unanswered
        if answered and (self._restored or screen == self._read):
            return
        self._read = screen
        new = new_text(self._before, screen, self._agent_type)
        message = format_message(self._agent_type, new, self._user_text)
        text, _calls = split_tool_calls(self._agent_type, message)
        if not answered:
            # Also when the text is that of an earlier answer: the same reply twice is two messages.
            self.messages.append(AgentMessage(len(self.messages), "agent", text, time))
        elif text != self.messages[-1].text:
            self.messages[-1] = AgentMessage(self.messages[-1].id, "agent", text, time)

    def add_user_message(self, text: str, before: str, time: float) -> None:
        """`before`: the screen before the message was typed."""
        self.messages.append(AgentMessage(len(self.messages), "user", text, time))
        self._before, self._user_text, self._restored, self._read = before, text, False, None

    def restore(self, messages: Sequence[AgentMessage]) -> None:
        """Continues an earlier conversation: its last answer stays until the next user message."""
        self.messages = [
            AgentMessage(number, message.role, message.text, message.time)
            for number, message in enumerate(messages)
        ]
        self._restored = bool(messages) and messages[-1].role == "agent"
        self._read = None
        self._user_text = next((m.text for m in reversed(messages) if m.role == "user"), "")


class StoredMessage(msgspec.Struct, frozen=True):
    """A message and the number of its fact."""

    seq: int
    message: AgentMessage


def stored_messages(facts: Iterable[Fact]) -> list[StoredMessage]:
    """The delivered messages of the user, and those of the agent as last revised."""
    messages: dict[int, AgentMessage] = {}
    delivered: set[int] = set()
    for fact in facts:
        time = fact.time_ms / 1000
        match fact.event:
            case events.UserMessage(content=content):
                messages[fact.seq] = AgentMessage(0, "user", text_of(content), time)
            case events.AssistantMessage(content=content):
                messages[fact.seq] = AgentMessage(0, "agent", text_of(content), time)
            case events.MessageRevised(message=seq, content=content) if seq in messages:
                messages[seq] = msgspec.structs.replace(messages[seq], text=text_of(content), time=time)
            case events.Delivered(message=seq):
                delivered.add(seq)
    stored = [(seq, one) for seq, one in messages.items() if one.role == "agent" or seq in delivered]
    return [
        StoredMessage(seq, msgspec.structs.replace(message, id=place))
        for place, (seq, message) in enumerate(stored)
    ]


class ProtocolConversation:
    """Each prompt adds a message of the user and one of the agent, which grows.

    The answer to a prompt that failed is removed; its number is not used again.
    """

    def __init__(self) -> None:
        self._messages: list[AgentMessage] = []
        self._pieces: list[str] = []
        """Pieces of the last message that are not in it yet: joined when it is read."""
        self._next = 0
        self._calls: dict[str, bool] = {}
        """The calls of the current turn, and whether each is open."""

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        if self._pieces:
            last = self._messages[-1]
            text = last.text + "".join(self._pieces)
            self._messages[-1] = AgentMessage(last.id, last.role, text, last.time)
            self._pieces = []
        return tuple(self._messages)

    @property
    def answer(self) -> str:
        """The answer to the last prompt so far."""
        messages = self.messages
        return messages[-1].text if messages and messages[-1].role == "agent" else ""

    def begin(self, prompt: str, time: float) -> None:
        self._messages = [
            *self.messages,
            AgentMessage(self._next, "user", prompt, time),
            AgentMessage(self._next + 1, "agent", "", time),
        ]
        self._next += 2
        self._calls = {}

    def take(self, update: Update) -> None:
        match update:
            case TextUpdate(text=text):
                self._pieces.append(text)
            case ToolUpdate(id=call, begins=begins) if call not in self._calls or (
                begins and not self._calls[call]
            ):
                self._calls[call] = True
                self._pieces.append(f"\n[Tool: {update.kind or 'other'}] {update.title or update.name}\n")
            case ToolUpdate(id=call, status=status) if status and self._calls[call]:
                self._calls[call] = status not in ("completed", "failed")
                self._pieces.append(f"[Tool Status: {status}]\n")

    def ask(self, question: Question, session: str) -> None:
        """Clients of screens have no questions: they see the question and the command that answers it."""
        choices = f" ({' / '.join(question.choices)})" if question.choices else ""
        self._pieces.append(f"[Question] {question.text}{choices} [ostler answer {session} …]\n")

    def remove_answer(self) -> None:
        self._messages.pop()
        self._pieces = []

    def recall(self, facts: Iterable[Fact]) -> None:
        """Adds the messages of earlier processes, from the log."""
        for fact in facts:
            match fact.event:
                case events.UserMessage(content=content):
                    self.begin(text_of(content), fact.time_ms / 1000)
                case events.AssistantMessage(content=content):
                    self.take(TextUpdate(text_of(content)))
                case events.ToolCalled(call=call, name=name, kind=kind, display=display):
                    title = display.title if display else ""
                    self.take(ToolUpdate(id=call, begins=True, kind=kind, name=name, title=title))
                case events.ToolResultFact(call=call, failed=failed):
                    self.take(ToolUpdate(id=call, status="failed" if failed else "completed"))
                case events.RunEnded(status="failed" | "interrupted"):
                    self.remove_answer()
