"""`Window`: the context of a session from step to step, which only grows until a rule or a limit cuts it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ostler.context.policy import ContextPolicy
from ostler.context.selection import (
    Conversation,
    Decision,
    RequiredEntry,
    join_messages,
    plan,
    required_entries,
)
from ostler.core.context import FIRST
from ostler.core.transcript import Transcript
from ostler.schema.messages import Message, Text

LEFT_OUT = "[{} earlier messages of this conversation are omitted because they do not fit.]"
Count = Callable[[Message], int]


class Tally:
    """The tokens of each message of a transcript, counted once."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._of = Transcript()
        self.counts: list[int] = []
        self.total = 0

    def take(self, transcript: Transcript) -> None:
        """Counts new messages."""
        if transcript is not self._of or len(transcript) < len(self.counts):
            self._of, self.counts, self.total = transcript, [], 0
        for place in range(len(self.counts), len(transcript)):
            self.counts.append(self._count(transcript[place]))
            self.total += self.counts[-1]


class VisibleMessage(msgspec.Struct, frozen=True):
    """The part of a conversation that the model gets."""

    transcript: Transcript
    tokens: int
    decisions: tuple[Decision, ...]
    """Decisions about all messages that are not sent verbatim."""
    changed: str
    """Why the messages of the previous step are not sent unchanged; empty if they are."""


class Window:
    """Takes in new messages. The result depends only on the messages, not on how often it was called.

    Decisions are made only where the model was called before, which the answers mark.
    """

    def __init__(self, policy: ContextPolicy, count: Count) -> None:
        self._policy = policy
        self._count = count
        rules = policy.tool_history
        self.has_rules = rules.results != "full" or bool(rules.by_tool) or policy.reasoning.keep is not None
        self._changed = ""
        self._begin(Transcript(), 0)

    def _begin(self, source: Transcript, room: int) -> None:
        self._source = source
        self._room = room
        self._taken = 0
        self._messages: list[Message] = []
        self._sources: list[int] = []
        self._counts: list[int] = []
        self._tokens = 0
        self._decisions: list[Decision] = []
        self._left_out = 0
        self._inserted: tuple[Message, ...] = ()
        self._prompt = 0
        self._derived: Transcript | None = None
        """None while all messages are sent verbatim."""

    @property
    def is_cut(self) -> bool:
        """Whether a message is not sent verbatim."""
        return self._derived is not None

    def show(
        self, whole: Conversation, source: Transcript, room: int, inserts: tuple[Message, ...]
    ) -> VisibleMessage:
        """The messages that fit, with `inserts` before the prompt of the current run."""
        self._changed = ""
        is_another = source is not self._source or len(source) < self._taken
        if is_another or room < self._tokens < self._room:
            was_sent = self._taken > 0
            self._begin(source, room)
            why = "the conversation is another one" if is_another else "there is less room"
            self._changed = why if was_sent else FIRST
        self._room = room
        for place in range(self._taken + 1, len(source)):
            if source[place].role == "assistant":
                self._take(whole, place)
        self._take(whole, len(source))
        prompt = next((one for one in reversed(self._sources) if one in whole.prompts), 0)
        if inserts != self._inserted or (inserts and prompt != self._prompt):
            self._inserted, self._prompt = inserts, prompt
            self._derive()
            self._changed = self._changed or "by the context providers"
        transcript = self._source if self._derived is None else self._derived
        return VisibleMessage(transcript, self._tokens, tuple(self._decisions), self._changed)

    def _take(self, whole: Conversation, until: int) -> None:
        """Takes in the messages up to there, which are sent together for the first time."""
        first, self._taken = self._taken, until
        new, numbers = whole.messages[first:until], whole.sources[first:until]
        self._messages += new
        self._sources += numbers
        self._counts += whole.counts[first:until]
        self._tokens += sum(whole.counts[first:until])
        begins_run = not whole.prompts.isdisjoint(numbers)
        if self._tokens > self._room or (begins_run and self.has_rules):
            self._plan(whole)
        elif self._derived is not None:
            for message in new:
                self._derived.append(message)

    def required(self, whole: Conversation) -> tuple[RequiredEntry, ...]:
        """The rule by which each part stays, when there is no room."""
        return required_entries(self._current(whole), self._policy)

    def _current(self, whole: Conversation) -> Conversation:
        """The messages in the window; what was left out once stays out."""
        counted = (self._messages, self._sources, self._counts)
        return Conversation(*counted, whole.prompts, self._count, whole.steers)

    def _plan(self, whole: Conversation) -> None:
        planned = plan(self._current(whole), self._policy, max(0, self._room - self._note_tokens()))
        if not planned.decisions:
            if self._derived is not None:
                self._derive()
            return
        self._left_out += planned.left_out
        self._decisions = [*join_messages([*self._decisions, *planned.decisions])]
        self._messages, self._sources, self._counts = planned.messages, planned.sources, planned.counts
        self._tokens = sum(planned.counts) + self._note_tokens()
        self._derive()
        rules = sorted({decision.rule for decision in planned.decisions})
        self._changed = self._changed or f"by the rules of {' and '.join(rules)}"

    def _derive(self) -> None:
        messages = list(self._messages)
        if self._inserted:
            place = next((at for at, one in enumerate(self._sources) if one == self._prompt), len(messages))
            messages[place:place] = self._inserted
        if self._left_out:
            messages.insert(0, self._note())
        self._derived = Transcript(messages)

    def _note_tokens(self) -> int:
        return self._count(self._note()) if self._left_out else 0

    def _note(self) -> Message:
        return Message("user", (Text(LEFT_OUT.format(self._left_out)),))
