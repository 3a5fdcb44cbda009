"""A session that a newer version wrote: it can be read and copied, and is not gone on with."""

from __future__ import annotations

import pytest

from ostler.core.harness import Harness
from ostler.models.scripted import ScriptedModel
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.sessions.session import open_session
from ostler.store.memory import MemoryStore


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
