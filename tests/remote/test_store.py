"""The store of a server, seen from afar: the same facts, and nothing of it can be held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ostler.app.remote_sessions import RemoteSessions, as_typed
from ostler.core.call_context import CallContext
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.state import fold
from ostler.core.store import Store
from ostler.models.scripted import Call
from ostler.remote.client import Remote, Unauthorized, address_of
from ostler.remote.store import RemoteStore
from ostler.schema.errors import LeaseLost, NotFound, SessionHeld, UsageError
from ostler.schema.events import QuestionAsked, RunEnded, SessionRenamed, SessionStarted
from ostler.schema.facts import Fact
from ostler.schema.messages import Text, as_content
from ostler.schema.outcomes import NeedUser, Question
from ostler.schema.requests import Prompt, Rename
from ostler.sessions.lease import new_owner
from ostler.sessions.session import follow_session
from ostler.tui.attach.session_view import RemoteModel
from ostler.tui.conversation import Conversation
from ostler.tui.editor.chips import Chips, PromptDraft
from tests.server.served import Served, serving


@asynccontextmanager
async def from_afar(served: Served, token: str = "", **options: Any) -> AsyncIterator[RemoteStore]:
    remote = Remote(address_of(served.base_url), token or served.token)
    try:
        yield RemoteStore(remote, **options)
    finally:
        await remote.aclose()


async def test_what_is_read_there_is_what_is_stored(tmp_path: Path) -> None:
    async with serving(tmp_path, "the answer", "another") as served, from_afar(served) as store:
        assert isinstance(store, RemoteSessions)
        session = await served.new_session("look for the heron")
        await served.rest(session)
        stored = await served.store.read(session)
        assert await store.read(session) == stored
        assert await store.read(session, 2, 3) == stored[2:5]
        assert fold(await store.read_opening(session)).last_seq == len(stored)
        assert await store.last_seq(session) == len(stored)
        assert (await store.summary(session)).preview == "look for the heron"
        assert [one.id for one in await store.sessions(limit=5)] == [session]
        assert [one.id for one in await store.sessions(prefix=session[:9])] == [session]
        assert await store.sessions(prefix="none") == []
        assert {hit.session for hit in await store.search("heron")} == {session}
        assert await store.usages(session=session) == await served.store.usages(session=session)
        await served.store.append_blob(session, "out_1", b"0123456789")
        assert await store.read_blob(session, "out_1", 2, 3) == b"234"
        assert await store.read_blob(session, "out_1") == b"0123456789"
        ref = await store.blob(session, "out_1")
        assert ref is not None and ref.size == 10
        assert await store.blob(session, "none") is None
        with pytest.raises(NotFound):
            await store.read("none")
        assert await store.submit(session, Rename(id="r1", by="tui", title="Birds"))
        settled = await store.settlement(session, "r1")
        assert settled == len(stored) + 1
        assert (await store.read(session, settled - 1, 1))[0].type == "session_renamed"
        followed = store.follow(session, len(stored))
        assert [fact.type for fact in await anext(followed)] == ["session_renamed"]


async def test_a_session_with_fewer_facts_than_before_is_read_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, from_afar(served) as store:
        began = (await served.store.read(await served.new_session()))[0].event
        assert isinstance(began, SessionStarted)
        happened = [began, SessionRenamed("Birds")]
        facts = [
            Fact.of(event, seq=seq, session="ses_kept", run="", time_ms=0)
            for seq, event in enumerate(happened, 1)
        ]
        await served.store.import_session(facts)
        assert await store.read("ses_kept") == facts
        assert (await served.http.delete("sessions/ses_kept")).status_code == 204
        await served.store.import_session(facts[:1])
        with pytest.raises(UsageError, match="no fact 2: its last one is 1"):
            await store.read("ses_kept")
        assert await store.read("ses_kept") == facts[:1]


async def test_nothing_can_be_held_or_written_from_afar(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, from_afar(served) as remote:
        store: Store = remote
        session = await served.new_session()
        watched = await follow_session(store, session, Harness(RemoteModel("far"), cwd=tmp_path))
        journal = watched.journal
        with pytest.raises(SessionHeld, match=f"runs at {remote.host}"):
            await store.acquire(session, new_owner(journal.world))
        with pytest.raises(LeaseLost):
            await store.renew(journal.lease)
        with pytest.raises(SessionHeld):
            await store.arrivals(session, -1)
        for write in (
            store.append(journal.lease, []),
            store.create((await store.read(session))[0], journal.lease.owner),
            store.import_session([]),
            store.append_blob(session, "x", b""),
        ):
            with pytest.raises(UsageError, match="cannot be done from here"):
                await write
        await store.release(journal.lease)


async def test_read_only_sends_no_requests_and_a_wrong_token_is_reported(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, from_afar(served, read_only=True) as store:
        session = await served.new_session()
        with pytest.raises(UsageError, match="this is read-only: attach without --read-only"):
            await store.submit(session, Prompt(id="p", content=as_content("go")))
        assert await store.pending(session) == []
        async with from_afar(served, "wrong") as unknown:
            with pytest.raises(Unauthorized, match="requires a login"):
                await unknown.summary(session)


async def test_a_secret_is_typed_here_and_handed_over_there(tmp_path: Path) -> None:
    told: list[Any] = []

    @tool
    async def unlock(context: CallContext) -> str | NeedUser:
        if context.answer is None:
            return NeedUser(Question("Password?", secret=True), resume="again")
        told.append(context.answer)
        return "open"

    def bring_lock(harness: Harness) -> None:
        harness.set_tools([unlock])

    async def answer(asked: QuestionAsked) -> Any:
        return "sesame-4711"

    async with (
        serving(tmp_path, Call("unlock"), "done", change=bring_lock) as served,
        from_afar(served) as store,
    ):
        session = await served.new_session()
        ended = asyncio.Event()

        def see(batch: Any) -> None:
            if any(isinstance(one, Fact) and isinstance(one.event, RunEnded) for one in batch):
                ended.set()

        harness = Harness(RemoteModel("far"), cwd=tmp_path, asker=answer, make_model=RemoteModel)
        conversation = Conversation(await follow_session(store, session, harness), None, see)
        conversation.begin()
        await conversation.prompt(as_content("open it"))
        async with asyncio.timeout(60):
            await ended.wait()
        await conversation.close()
        assert told == ["sesame-4711"]
        assert harness.model.name == "scripted/model"
        assert all(
            b"sesame-4711" not in file.read_bytes() for file in served.home.iterdir() if file.is_file()
        )


async def test_a_file_that_is_mentioned_is_the_servers_and_a_paste_mentions_none(tmp_path: Path) -> None:
    async with serving(tmp_path, "one", "two") as served, from_afar(served) as store:
        (served.work / "note.txt").write_text("written there")
        session = await served.new_session()
        chips = Chips()
        label = chips.paste("\n".join(["@note.txt", *"abcdefghijklmnop"]))
        for number, typed in enumerate(
            [PromptDraft("see @note.txt", Chips()), PromptDraft(f"see {label}", chips)]
        ):
            await store.submit(session, Prompt(id=f"p{number}", by="tui", content=as_typed(typed)))
            await served.rest(session)
        first, second = [fact for fact in await store.read(session) if fact.type == "user_message"]
        assert "written there" in first.body.decode()
        assert "written there" not in second.body.decode()
        assert "@note.txt" in second.body.decode()


def test_a_paste_that_looks_like_a_command_stands_behind_what_was_typed() -> None:
    chips = Chips()
    label = chips.paste("\n".join(["/exit now", *"abcdefghijklmnop"]))
    first, behind = as_typed(PromptDraft(label, chips))
    assert first == Text(label)
    assert isinstance(behind, Text) and "/exit now" in behind.text
    assert as_typed(PromptDraft(" plain ", Chips())) == (Text("plain"),)
