"""A session that a newer version wrote: it can be read and copied, and is not gone on with."""

from __future__ import annotations

import pytest

from ostler.kernel.harness import Harness
from ostler.log.memory import MemoryStore
from ostler.models.scripted import ScriptedModel
from ostler.runs.session import open_session
from ostler.vocabulary import events
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import as_content


async def test_a_session_with_an_unknown_critical_entry_is_not_advanced() -> None:
    started = Fact.of(events.SessionStarted("/", "9.0"), seq=1, session="ses_1", run="", time_ms=1)
    entry = Fact(2, "ses_1", "", 2, b'{"type":"entry_of_tomorrow","critical":true}', parent=0)
    store = MemoryStore()
    await store.import_session([started, entry])
    session = await open_session(store, "ses_1", Harness(ScriptedModel(["never"])))
    with pytest.raises(UsageError, match="newer version"):
        await session.prompt(as_content("go"))
    with pytest.raises(UsageError, match="newer version"):
        await session.advance()
    assert await store.read("ses_1") == [started, entry]
