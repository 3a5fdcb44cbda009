"""The messages that a screen amounts to."""
# MERGED: The conversation of a terminal agent, as its session's log has it.
# MERGED: The conversation with an agent that has no screen, as text: what the clients of screens are shown.

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
    """Only its last message ever changes, and only while it is the agent's."""

    def __init__(self, agent_type: str, time: float) -> None:
        self.messages: list[AgentMessage] = [AgentMessage(0, "agent", "", time)]
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
            self.messages.append(AgentMessage(len(self.messages), "agent", text, time))
        elif text != self.messages[-1].text:
            self.messages[-1] = AgentMessage(self.messages[-1].id, "agent", text, time)
        else:
            return
        self.revision += 1

    def add_user_message(self, text: str, before: str, time: float) -> None:
        """`before` is the screen as it was before the message was written."""
        self.messages.append(AgentMessage(len(self.messages), "user", text, time))
        self._before, self._user_text, self._restored, self._read = before, text, False, None
        self.revision += 1

    def restore(self, messages: Sequence[AgentMessage]) -> None:
        """Go on with an earlier conversation: its last answer stays until the user says something."""
        self.messages = [
            AgentMessage(number, message.role, message.text, message.time)
            for number, message in enumerate(messages)
        ]
        self._restored = bool(messages) and messages[-1].role == "agent"
        self._read = None
        self._user_text = next((m.text for m in reversed(messages) if m.role == "user"), "")
        self.revision += 1


class StoredMessage(msgspec.Struct, frozen=True):
    """A message, and the number of its fact."""

    seq: int
    message: AgentMessage


def stored_messages(facts: Iterable[Fact]) -> list[StoredMessage]:
    """What the agent was told and has taken, and what it said, as it was drawn at last."""
    said: dict[int, AgentMessage] = {}
    delivered: set[int] = set()
    for fact in facts:
        time = fact.time_ms / 1000
        match fact.event:
            case events.UserMessage(content=content):
                said[fact.seq] = AgentMessage(0, "user", text_of(content), time)
            case events.AssistantMessage(content=content):
                said[fact.seq] = AgentMessage(0, "agent", text_of(content), time)
            case events.MessageRevised(message=seq, content=content) if seq in said:
                said[seq] = msgspec.structs.replace(said[seq], text=text_of(content), time=time)
            case events.Delivered(message=seq):
                delivered.add(seq)
    taken = {seq: one for seq, one in said.items() if one.role == "agent" or seq in delivered}
    return [
        StoredMessage(seq, msgspec.structs.replace(message, id=place))
        for place, (seq, message) in enumerate(taken.items())
    ]


class ProtocolConversation:
    """It begins empty. Each prompt adds a message of the user's and one of the agent's, which grows.

    The answer to a prompt that failed is taken out; no other message ever gets its number.
    """

    def __init__(self) -> None:
        self._messages: list[AgentMessage] = []
        self._unsaid: list[str] = []
        """Pieces of the last message that are not in it yet: joined when somebody looks."""
        self._next = 0
        self._calls: dict[str, bool] = {}
        """Those of the present turn, and whether each is open."""

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        if self._unsaid:
            last = self._messages[-1]
            text = last.text + "".join(self._unsaid)
            self._messages[-1] = AgentMessage(last.id, last.role, text, last.time)
            self._unsaid = []
        return tuple(self._messages)

    @property
    def answer(self) -> str:
        """What the agent has said to the last prompt so far."""
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
                self._unsaid.append(text)
            case ToolUpdate(id=call, begins=begins) if call not in self._calls or (
                begins and not self._calls[call]
            ):
                self._calls[call] = True
                self._unsaid.append(f"\n[Tool: {update.kind or 'other'}] {update.title or update.name}\n")
            case ToolUpdate(id=call, status=status) if status and self._calls[call]:
                self._calls[call] = status not in ("completed", "failed")
                self._unsaid.append(f"[Tool Status: {status}]\n")

    def ask(self, question: Question, session: str) -> None:
        """Clients of screens know no questions: they are told what waits, and who can be told the answer."""
        offered = f" ({' / '.join(question.choices)})" if question.choices else ""
        self._unsaid.append(f"[Question] {question.text}{offered} [ostler answer {session} …]\n")

    def take_out_answer(self) -> None:
        self._messages.pop()
        self._unsaid = []

    def recall(self, facts: Iterable[Fact]) -> None:
        """What was said in earlier lives of the agent, as the log has it."""
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
                    self.take_out_answer()
