"""What a command confirms is what came of it, also where the news of it is late.

A server's answer about a request and its stream of facts are two connections: either may be first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from ostler.core.harness import Harness
from ostler.models.scripted import ScriptedModel
from ostler.remote.client import Remote, address_of
from ostler.remote.store import RemoteRelay, RemoteStore
from ostler.schema.requests import Label, Navigate
from ostler.sessions.live_socket import Batch
from ostler.sessions.session import follow_session
from ostler.tui.attach.session_view import RemoteModel
from ostler.tui.commands.registry import Commands
from ostler.tui.model_setup import ThinkingLevel
from ostler.tui.plain.conversation import PlainConversation, PlainFrontEnd
from tests.server.served import Served, serving

PATIENCE = 60


class LateRelay(RemoteRelay):
    """Tells nothing new until it may."""

    may_tell: asyncio.Event

    async def batches(self) -> AsyncGenerator[Batch, None]:
        async with aclosing(super().batches()) as batches:
            async for batch in batches:
                await self.may_tell.wait()
                yield batch


class LateStore(RemoteStore):
    """Its stream is behind its answers. Knows when an outcome was told to whoever asked for it."""

    def __init__(self, remote: Remote) -> None:
        super().__init__(remote)
        self.may_tell, self.told = asyncio.Event(), asyncio.Event()

    def relay(self, session: str, after: int) -> RemoteRelay:
        relay = LateRelay(self._remote, session, after, self._owner, self.learn)
        relay.may_tell = self.may_tell
        return relay

    async def settlement(self, session: str, request: str) -> int | None:
        seq = await super().settlement(session, request)
        if seq is not None:
            self.told.set()
        return seq


class Lines(PlainFrontEnd):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, *lines: str) -> None:
        self.said += lines


class FromAfar:
    def __init__(self, plain: PlainConversation, front_end: Lines, store: LateStore) -> None:
        self.plain = plain
        self.context = plain
        self.conversation = plain.conversation
        self.said = front_end.said
        self.store = store
        self.commands = Commands(plain)

    async def late(self, work: asyncio.Future[object]) -> None:
        """The work ends; its outcome is known before the stream tells it."""
        await asyncio.wait_for(self.store.told.wait(), PATIENCE)
        for _ in range(3):  # more than it takes to read that outcome
            await self.store.summary(self.conversation.session.id)
        assert not work.done(), self.said
        self.store.may_tell.set()
        await asyncio.wait_for(work, PATIENCE)
        self.store.told.clear()
        self.store.may_tell.clear()


def _names(harness: Harness) -> None:
    def named(name: str) -> ScriptedModel:
        model = ScriptedModel(["the answer"])
        model.name = name
        return model

    harness.make_model = named


@asynccontextmanager
async def seen_late(served: Served, session: str) -> AsyncIterator[FromAfar]:
    remote = Remote(address_of(served.base_url), served.token)
    store = LateStore(remote)
    harness = Harness(RemoteModel("openai/fake"), cwd=served.work, make_model=RemoteModel)
    front_end = Lines()
    plain = PlainConversation(await follow_session(store, session, harness), front_end)
    plain.conversation.begin()
    try:
        yield FromAfar(plain, front_end, store)
    finally:
        await plain.close()
        await remote.aclose()


@pytest.mark.parametrize(
    ("typed", "confirmed"),
    [
        ("/model openai/other", "the model is now openai/other"),
        ("/thinking high", "the model is now openai/fake, thinking: high"),
        ("/rename Rare birds", "this session is now called 'Rare birds'"),
    ],
)
async def test_a_confirmation_names_what_was_set_though_the_stream_is_late(
    tmp_path: Path, typed: str, confirmed: str
) -> None:
    async with (
        serving(tmp_path, change=_names) as served,
        seen_late(served, await served.new_session()) as afar,
    ):
        await afar.late(asyncio.ensure_future(afar.commands.run(typed)))
        assert afar.said == [f"note: {confirmed}"]
        state, harness = afar.conversation.session.state, afar.conversation.harness
        is_so = (f"the model is now {harness.model.name}", f"this session is now called {state.title!r}")
        assert confirmed.startswith(is_so)
        assert harness.reasoning == ("high" if "thinking" in confirmed else None)


async def test_a_key_that_is_pressed_twice_goes_two_levels_on(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, change=_names) as served,
        seen_late(served, await served.new_session()) as afar,
    ):
        level = ThinkingLevel(afar.context)
        presses = [asyncio.ensure_future(level.next()) for _ in range(2)]
        for press in presses:
            await afar.late(press)
        assert afar.said == ["note: thinking: off", "note: thinking: minimal"]


async def test_what_is_asked_of_the_tree_is_so_when_it_is_confirmed(tmp_path: Path) -> None:
    async with serving(tmp_path, "the answer", change=_names) as served:
        session = await served.new_session("look for the heron")
        await served.rest(session)
        async with seen_late(served, session) as afar:
            conversation = afar.conversation
            prompt = next(fact for fact in await served.store.read(session) if fact.type == "user_message")
            labels = conversation.ask(lambda id: Label(id=id, by="tui", entry=prompt.seq, label="begin"))
            await afar.late(asyncio.ensure_future(labels))
            assert conversation.session.state.labels == {prompt.seq: "begin"}
            assert len(conversation.session.state.transcript)
            goes = conversation.ask(lambda id: Navigate(id=id, by="tui", entry=0))
            await afar.late(asyncio.ensure_future(goes))
            assert conversation.session.state.leaf == 0
            assert not len(conversation.session.state.transcript)


async def test_a_new_session_at_the_server_goes_on_with_the_model_that_was_chosen(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, change=_names) as served,
        seen_late(served, await served.new_session()) as afar,
    ):
        await afar.late(asyncio.ensure_future(afar.commands.run("/model openai/other")))
        afar.store.may_tell.set()
        await afar.commands.run("/new")
        there = afar.plain.conversation
        assert there.session.id != afar.conversation.session.id
        assert there.harness.model.name == there.session.state.settings.model == "openai/other"
        stored = await served.store.read(there.session.id)
        assert [fact.type for fact in stored] == ["session_started", "settings_changed"]
