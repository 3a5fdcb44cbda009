"""A minimal session, built fact by fact."""

from __future__ import annotations

from ostler.core.processes import current_process
from ostler.core.store import Store
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.store.sqlite_connection import Durability

HERE = current_process()
DURABILITIES: tuple[Durability, ...] = ("process", "power")


def first(session: str = "ses_1") -> Fact:
    return Fact.of(events.SessionStarted("/", "0"), seq=1, session=session, run="", time_ms=1)


def user_fact(seq: int, text: str = "hello", session: str = "ses_1") -> Fact:
    message = events.UserMessage(as_content(text))
    return Fact.of(message, seq=seq, session=session, run="", time_ms=seq, parent=0)


async def numbers(store: Store, session: str = "ses_1") -> list[int]:
    return [fact.seq for fact in await store.read(session)]
