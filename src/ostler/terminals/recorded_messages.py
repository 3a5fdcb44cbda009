"""The conversation of a terminal agent, as its session's log has it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ostler.terminals.conversation import ScreenMessage
from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import text_of


class RecordedMessage(msgspec.Struct, frozen=True):
    """A message, and the number of its fact."""

    seq: int
    message: ScreenMessage


def recorded_messages(facts: Iterable[Fact]) -> list[RecordedMessage]:
    """What the agent was told and has taken, and what it said, as it was drawn at last."""
    said: dict[int, ScreenMessage] = {}
    delivered: set[int] = set()
    for fact in facts:
        time = fact.time_ms / 1000
        match fact.event:
            case events.UserMessage(content=content):
                said[fact.seq] = ScreenMessage(0, "user", text_of(content), time)
            case events.AssistantMessage(content=content):
                said[fact.seq] = ScreenMessage(0, "agent", text_of(content), time)
            case events.MessageRevised(message=seq, content=content) if seq in said:
                said[seq] = msgspec.structs.replace(said[seq], text=text_of(content), time=time)
            case events.Delivered(message=seq):
                delivered.add(seq)
    taken = {seq: one for seq, one in said.items() if one.role == "agent" or seq in delivered}
    return [
        RecordedMessage(seq, msgspec.structs.replace(message, id=place))
        for place, (seq, message) in enumerate(taken.items())
    ]
