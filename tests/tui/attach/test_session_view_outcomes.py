"""Commands over attach confirm the outcome, also if the stream of facts is late.

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
    """Sends nothing new until it may."""

    may_send: asyncio.Event

    async def batches(self) -> AsyncGenerator[Batch, None]:
        async with aclosing(super().batches()) as batches:
            async for batch in batches:
                await self.may_send.wait()
                yield batch


class LateStore(RemoteStore):
    """Its stream is behind its answers. It records when a client read an outcome."""

    def __init__(self, remote: Remote) -> None:
        super().__init__(remote)
        self.may_send, self.sent = asyncio.Event(), asyncio.Event()

    def relay(self, session: str, after: int) -> RemoteRelay:
        relay = LateRelay(self._remote, session, after, self._owner, self.learn)
        relay.may_send = self.may_send
        return relay

    async def settlement(self, session: str, request: str) -> int | None:
        seq = await super().settlement(session, request)
        if seq is not None:
            self.sent.set()
        return seq


class Lines(PlainFrontEnd):
    """Records printed lines."""

    def __init__(self) -> None:
        super().__init__()
        self.printed: list[str] = []

    def say(self, *lines: str) -> None:
        self.printed += lines


class RemoteUi:
    def __init__(self, plain: PlainConversation, front_end: Lines, store: LateStore) -> None:
        self.plain = plain
        self.context = plain
        self.conversation = plain.conversation
        self.printed = front_end.printed
        self.store = store
        self.commands = Commands(plain)

    async def late(self, work: asyncio.Future[object]) -> None:
        """Waits for the work, whose outcome arrives before the stream has it."""
        await asyncio.wait_for(self.store.sent.wait(), PATIENCE)
        for _ in range(3):  # more than it takes to read that outcome
            await self.store.summary(self.conversation.session.id)
        assert not work.done(), self.printed
        self.store.may_send.set()
        await asyncio.wait_for(work, PATIENCE)
        self.store.sent.clear()
        self.store.may_send.clear()


def _names(harness: Harness) -> None:
    def named(name: str) -> ScriptedModel:
        model = ScriptedModel(["the answer"])
        model.name = name
        return model

    harness.make_model = named


@asynccontextmanager
async def late_stream(served: Served, session: str) -> AsyncIterator[RemoteUi]:
    remote = Remote(address_of(served.base_url), served.token)
    store = LateStore(remote)
    harness = Harness(RemoteModel("openai/fake"), cwd=served.work, make_model=RemoteModel)
    front_end = Lines()
    plain = PlainConversation(await follow_session(store, session, harness), front_end)
    plain.conversation.begin()
    try:
        yield RemoteUi(plain, front_end, store)
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
async def test_a_confirmation_names_the_new_value_despite_a_late_stream(
    tmp_path: Path, typed: str, confirmed: str
) -> None:
    async with (
        serving(tmp_path, change=_names) as served,
        late_stream(served, await served.new_session()) as remote_ui,
    ):
        await remote_ui.late(asyncio.ensure_future(remote_ui.commands.run(typed)))
        assert remote_ui.printed == [f"note: {confirmed}"]
        state, harness = remote_ui.conversation.session.state, remote_ui.conversation.harness
        is_so = (f"the model is now {harness.model.name}", f"this session is now called {state.title!r}")
        assert confirmed.startswith(is_so)
        assert harness.reasoning == ("high" if "thinking" in confirmed else None)


async def test_pressing_the_thinking_key_twice_advances_two_levels(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, change=_names) as served,
        late_stream(served, await served.new_session()) as remote_ui,
    ):
        level = ThinkingLevel(remote_ui.context)
        presses = [asyncio.ensure_future(level.next()) for _ in range(2)]
        for press in presses:
            await remote_ui.late(press)
        assert remote_ui.printed == ["note: thinking: off", "note: thinking: minimal"]


async def test_tree_commands_take_effect_before_they_are_confirmed(tmp_path: Path) -> None:
    async with serving(tmp_path, "the answer", change=_names) as served:
        session = await served.new_session("look for the heron")
        await served.rest(session)
        async with late_stream(served, session) as remote_ui:
            conversation = remote_ui.conversation
            prompt = next(fact for fact in await served.store.read(session) if fact.type == "user_message")
            labels = conversation.ask(lambda id: Label(id=id, by="tui", entry=prompt.seq, label="begin"))
            await remote_ui.late(asyncio.ensure_future(labels))
            assert conversation.session.state.labels == {prompt.seq: "begin"}
            assert len(conversation.session.state.transcript)
            goes = conversation.ask(lambda id: Navigate(id=id, by="tui", entry=0))
            await remote_ui.late(asyncio.ensure_future(goes))
            assert conversation.session.state.leaf == 0
            assert not len(conversation.session.state.transcript)


async def test_a_new_remote_session_keeps_the_chosen_model(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, change=_names) as served,
        late_stream(served, await served.new_session()) as remote_ui,
    ):
        await remote_ui.late(asyncio.ensure_future(remote_ui.commands.run("/model openai/other")))
        remote_ui.store.may_send.set()
        await remote_ui.commands.run("/new")
        there = remote_ui.plain.conversation
        assert there.session.id != remote_ui.conversation.session.id
        assert there.harness.model.name == there.session.state.settings.model == "openai/other"
        stored = await served.store.read(there.session.id)
        assert [fact.type for fact in stored] == ["session_started", "settings_changed"]
