"""The smallest session there is, written fact by fact."""

from __future__ import annotations

from ostler.kernel.processes import current_process
from ostler.kernel.store import Store
from ostler.log.sqlite_connection import Durability
from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import as_content

HERE = current_process()
DURABILITIES: tuple[Durability, ...] = ("process", "power")


def first(session: str = "ses_1") -> Fact:
    return Fact.of(events.SessionStarted("/", "0"), seq=1, session=session, run="", time_ms=1)


def said(seq: int, text: str = "hello", session: str = "ses_1") -> Fact:
    message = events.UserMessage(as_content(text))
    return Fact.of(message, seq=seq, session=session, run="", time_ms=seq, parent=0)


async def numbers(store: Store, session: str = "ses_1") -> list[int]:
    return [fact.seq for fact in await store.read(session)]
