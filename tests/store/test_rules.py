"""Words in searches: all stores split text the same way, and no query is an error."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.core.store import Store
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.store.memory import MemoryStore
from ostler.store.rules import words_of
from ostler.store.sqlite import SqliteStore
from tests.support.small_session import first

LETTERS = "aAbBéÉe\u0301ñçßøæœłΑαΩωЖжйё0123日本語한글ا"
MARKS = " \t\n.,;:!?-_/\\'\"()[]{}<>*+^~=|&%$#@`🦊🎉…—“”"

texts = st.text(st.sampled_from(LETTERS + MARKS), max_size=30)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The quick-brown_fox", ["the", "quick", "brown", "fox"]),
        ('"quoted" AND (grouped)*', ["quoted", "and", "grouped"]),
        ("Café cafe\u0301", ["cafe", "cafe"]),
        ("naïve; drop table", ["naive", "drop", "table"]),
        ("한글 日本語", ["한글", "日本語"]),
        ("🦊 … \0", []),
        ("v1.2", ["v1", "2"]),
    ],
)
def test_words_are_runs_of_letters_and_digits(text: str, words: list[str]) -> None:
    assert words_of(text) == words


async def search(store: Store, messages: list[str], queries: list[str]) -> list[list[int]]:
    facts = [first()]
    for seq, message in enumerate(messages, 2):
        event = events.UserMessage(as_content(message))
        facts.append(Fact.of(event, seq=seq, session="ses_1", run="", time_ms=1, parent=0))
    await store.import_session(facts)
    hits = [sorted(hit.seq for hit in await store.search(query)) for query in queries]
    await store.close()
    return hits


@settings(max_examples=60)
@given(st.lists(texts, max_size=5), st.lists(texts, min_size=1, max_size=5))
def test_both_stores_give_the_same_search_results(messages: list[str], queries: list[str]) -> None:
    queries += [message[:7] for message in messages]
    in_memory = asyncio.run(search(MemoryStore(), messages, queries))
    with tempfile.TemporaryDirectory() as folder:
        in_sqlite = asyncio.run(search(SqliteStore(Path(folder, "store.db")), messages, queries))
    assert in_memory == in_sqlite
