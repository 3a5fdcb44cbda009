"""Messages that were redrawn after they had become facts, as they stand at last."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import Block


def as_revised(facts: Sequence[Fact]) -> Sequence[Fact]:
    """A terminal agent that paused while it answered has said only the beginning in its first fact."""
    told = [fact.event for fact in facts if fact.type == "message_revised"]
    at_last = {one.message: one.content for one in told if isinstance(one, events.MessageRevised)}
    return [_with(fact, at_last[fact.seq]) if fact.seq in at_last else fact for fact in facts]


def _with(fact: Fact, content: tuple[Block, ...]) -> Fact:
    if not isinstance(fact.event, events.AssistantMessage | events.UserMessage):
        return fact
    return Fact.of(
        msgspec.structs.replace(fact.event, content=content),
        seq=fact.seq,
        session=fact.session,
        run=fact.run,
        time_ms=fact.time_ms,
        parent=fact.parent,
    )
