"""The conversation with an agent that has no screen, as text: what the clients of screens are shown."""

from __future__ import annotations

from collections.abc import Iterable

from ostler.terminals.conversation import ScreenMessage
from ostler.terminals.structured.driver import Said, ToolUpdate, Update
from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import text_of
from ostler.vocabulary.outcomes import Question


class SpokenConversation:
    """It begins empty. Each prompt adds a message of the user's and one of the agent's, which grows.

    The answer to a prompt that failed is taken out; no other message ever gets its number.
    """

    def __init__(self) -> None:
        self._messages: list[ScreenMessage] = []
        self._unsaid: list[str] = []
        """Pieces of the last message that are not in it yet: joined when somebody looks."""
        self._next = 0
        self._calls: dict[str, bool] = {}
        """Those of the present turn, and whether each is open."""

    @property
    def messages(self) -> tuple[ScreenMessage, ...]:
        if self._unsaid:
            last = self._messages[-1]
            text = last.text + "".join(self._unsaid)
            self._messages[-1] = ScreenMessage(last.id, last.role, text, last.time)
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
            ScreenMessage(self._next, "user", prompt, time),
            ScreenMessage(self._next + 1, "agent", "", time),
        ]
        self._next += 2
        self._calls = {}

    def take(self, update: Update) -> None:
        match update:
            case Said(text=text):
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
                    self.take(Said(text_of(content)))
                case events.ToolCalled(call=call, name=name, kind=kind, display=display):
                    title = display.title if display else ""
                    self.take(ToolUpdate(id=call, begins=True, kind=kind, name=name, title=title))
                case events.ToolResultFact(call=call, failed=failed):
                    self.take(ToolUpdate(id=call, status="failed" if failed else "completed"))
                case events.RunEnded(status="failed" | "interrupted"):
                    self.take_out_answer()
