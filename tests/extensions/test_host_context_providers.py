"""Context providers of extensions."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from ostler import Agent
from ostler.context.providers import ContextProvider, ProviderRequest
from ostler.context.session_context import SessionContext
from ostler.core.harness import Harness
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.host import ExtensionHost
from ostler.extensions.install.trial import try_loading
from ostler.extensions.loader.discovery import DiscoveredExtension
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.messages import as_content
from ostler.sessions.agents import DelegateTool
from ostler.sessions.session import Session, create_session
from ostler.store.memory import MemoryStore
from tests.extensions.loader.test_reload import Room
from tests.support.extension_session import extension, facts_of, session_with


def gardener(ostler: ExtensionAPI) -> None:
    @ostler.tool
    def dig() -> str:
        "Digs."
        return "a hole"

    @ostler.on(events.ToolStarted)
    def count(started: events.ToolStarted, context: ExtensionContext) -> None:
        context.state["dug"] = context.state.get("dug", 0) + 1

    @ostler.context_provider("weather", placement="end")
    def weather(request: ProviderRequest, context: ExtensionContext) -> str:
        return f"{context.state.get('dug', 0)} holes"

    ostler.context_provider(
        ContextProvider("law", lambda request: "Never dig on Sundays.", "system", must_keep=True)
    )


def make_context() -> SessionContext:
    return SessionContext()


async def traces(session: Session) -> list[dict[str, Any]]:
    return [called.trace for called in await facts_of(session, "model_called")]


async def test_context_providers_of_extensions_work_like_those_of_the_host() -> None:
    model = ScriptedModel([Call("dig"), "done"])
    session, _ = await session_with(model, extension("gardener", gardener), context=make_context())
    await session.prompt(as_content("go"))
    assert all(request.system.endswith("<law>\nNever dig on Sundays.\n</law>") for request in model.requests)
    tails = [request.tail[-1].text for request in model.requests]
    assert tails == ["<weather>\n0 holes\n</weather>", "<weather>\n1 holes\n</weather>"]
    kinds = [[kind for kind, *_ in trace["fences"]] for trace in await traces(session)]
    assert kinds == [["law", "weather"]] * 2
    await session.close()


async def test_context_providers_apply_in_children_and_in_every_run() -> None:
    task = Call("delegate", {"task": "dig"})
    model = ScriptedModel([task, "dug", "done", "again"])
    async with Agent(model, tools=[DelegateTool({})], extensions=[gardener]) as agent:
        await agent.run("go")
        await agent.run("go", context={"window": {"tokens": 60_000}})
    assert all("<law>" in request.system for request in model.requests)
    assert len(model.requests) == 4


@pytest.mark.parametrize("must_keep", [True, False])
@pytest.mark.parametrize("how", ["raises", "hangs", "hangs in a thread", "nonsense"])
async def test_a_failing_context_provider_is_reported_and_left_out(how: str, must_keep: bool) -> None:
    released = threading.Event()

    def setup(ostler: ExtensionAPI) -> None:
        async def hang(request: ProviderRequest) -> str:
            await asyncio.Event().wait()
            return "never"

        def fail(request: ProviderRequest) -> Any:
            if how == "nonsense":
                return 42
            if how == "hangs in a thread":
                released.wait(60)
            raise ValueError("no memory")

        source = hang if how == "hangs" else fail
        ostler.context_provider("memory", must_keep=must_keep, time_limit=0.05)(source)

    model = ScriptedModel(["done"])
    session, _ = await session_with(model, extension("elephant", setup), context=make_context())
    ended = await session.prompt(as_content("go"))
    released.set()
    assert isinstance(ended, events.RunEnded) and ended.status == "completed"
    (warned,) = await facts_of(session, "warned")
    assert warned.about == "extension" and warned.details["extension"] == "elephant"
    expected = {"raises": "ValueError: no memory (", "nonsense": "it returned 42, not a text ("}
    assert warned.text.startswith("the extension elephant failed in the context provider memory: ")
    assert expected.get(how, "took longer than 0.05 s (") in warned.text
    assert "test_host_context_providers.py:" in warned.text
    assert "memory" not in str(list(model.requests[0].transcript))
    await session.close()


async def test_a_run_is_cancelled_while_a_fence_hangs() -> None:
    called = asyncio.Event()

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.context_provider("memory")
        async def hang(request: ProviderRequest) -> str:
            called.set()
            await asyncio.Event().wait()
            return "never"

    model = ScriptedModel(["done"])
    session, _ = await session_with(model, extension("elephant", setup), context=make_context())
    async with asyncio.timeout(60):
        running = asyncio.ensure_future(session.prompt(as_content("go")))
        await called.wait()
        session.cancel("enough")
        ended = await running
    assert isinstance(ended, events.RunEnded) and ended.status == "cancelled"
    assert not model.requests
    await session.close()


SAYS = """
    def setup(ostler):
        @ostler.context_provider("memory", placement={placement!r})
        def memory(request):
            return {what!r}
"""


@pytest.mark.parametrize("placement", ["system", "prompt", "end"])
async def test_a_reload_changes_and_removes_context_providers(placement: str, tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.own = tmp_path / "extensions"
    room.harness.context = make_context()
    file = room.write("mine.py", SAYS, what="old", placement=placement)
    session = await room.open("a", "b", "c", "d", named=(file,), automatic=False)
    assert room.host is not None
    await session.prompt(as_content("one"))
    room.write("mine.py", SAYS, what="new", placement=placement)
    await room.host.reload()
    await session.prompt(as_content("two"))
    room.write("mine.py", "def setup(ostler): pass")
    await room.host.reload()
    await session.prompt(as_content("three"))
    await session.prompt(as_content("four"))
    kinds = [
        f"{request.system} {list(request.transcript)} {request.tail}"
        for request in room.harness.model.requests  # type: ignore[attr-defined]
    ]
    assert ["<memory>\\nold" in one.replace("\n", "\\n") for one in kinds] == [True, False, False, False]
    assert ["<memory>\\nnew" in one.replace("\n", "\\n") for one in kinds] == [False, True, False, False]
    notices = [bool(trace.get("changed")) for trace in await traces(session)]
    assert notices == [True, placement != "end", placement != "end", False]
    await session.close()


async def test_the_first_context_provider_of_a_kind_wins_and_the_host_comes_first() -> None:
    def bringing(what: str) -> Any:
        provider = ContextProvider("memory", lambda request: what, "system")
        return lambda ostler: ostler.context_provider(provider)

    notices: list[str] = []
    for own, kinds in (((), "first"), ((ContextProvider("memory", lambda request: "own", "system"),), "own")):
        model = ScriptedModel(["done"])
        harness = Harness(model, context=SessionContext(fences=own))
        both = [extension("one", bringing("first")), extension("two", bringing("second"))]
        ExtensionHost(both, say=notices.append).install_into(harness)
        session = await create_session(MemoryStore(), harness)
        await session.prompt(as_content("go"))
        assert f"<memory>\n{kinds}\n</memory>" in model.requests[0].system
        await session.close()
    taken = "the extension {} registers a context provider 'memory', but that name is taken"
    assert notices == [taken.format("two"), taken.format("two"), taken.format("one")]


def test_an_invalid_context_provider_is_an_error_of_its_extension() -> None:
    with pytest.raises(UsageError, match="a context provider's kind"):
        extension("bad", lambda ostler: ostler.context_provider("Bad Kind")(lambda request: ""))


def test_the_summary_of_an_extension_lists_its_context_providers(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text('def setup(ostler):\n    ostler.context_provider("memory")(lambda request: "tea")\n')
    (tried,) = try_loading([DiscoveredExtension("mine", "option", file, "file")], tmp_path)
    assert (tried.state, tried.fences) == ("loaded", ("memory",))
