"""Hot reload while sessions are open."""

from __future__ import annotations

import asyncio
import inspect
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from msgspec import structs

from ostler.cli.permissions import extensions_to_trust
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.extensions import idle_host
from ostler.extensions.host import ExtensionHost
from ostler.extensions.loader import reload
from ostler.extensions.loader.discovery import ExtensionSearch
from ostler.extensions.loader.extension_loader import ExtensionLoader, load_into, make_host
from ostler.models.scripted import Call, ScriptedModel
from ostler.permissions.trust import trust_edits
from ostler.schema.messages import as_content
from ostler.sessions.session import Session, create_session
from ostler.store.memory import MemoryStore
from tests.support import needed
from tests.support.extension_session import facts_of
from tests.support.process_extension import written

PATIENCE = 60
SAYS = """
    def setup(ostler):
        @ostler.command("say")
        def say(arguments):
            return {what!r}
"""


class Room:
    """A home, a project, and a session in it."""

    def __init__(self, folder: Path) -> None:
        self.own = folder / "home" / "extensions"
        self.project = folder / "project"
        (self.project / ".git").mkdir(parents=True)
        self.notices: list[str] = []
        self.harness = Harness(ScriptedModel([]), cwd=self.project)
        self.host: ExtensionHost | None = None

    def write(self, path: str, text: str, **values: Any) -> Path:
        file = self.own / path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = textwrap.dedent(text)
        file.write_text(text.format(**values) if values else text)
        return file

    async def open(self, *script: Any, **search: Any) -> Session:
        self.harness.model = ScriptedModel(script)
        self.host = await load_into(
            self.harness, ExtensionSearch(self.project, **search), say=self.notices.append
        )
        return await create_session(MemoryStore(), self.harness)

    async def output(self, session: Session, name: str = "say") -> str:
        (listener,) = self.harness.listeners
        output = await listener.run_command(session, name, "")
        assert output is not None
        return output

    async def wait_for_output(self, session: Session, what: str, name: str = "say") -> None:
        assert self.harness.listeners

        async def matches() -> bool:
            try:
                return await self.output(session, name) == what
            except Exception:
                return False

        await until(matches)


async def until(condition: Callable[[], Any]) -> Any:
    """What the condition is, once it holds. What it waits for happens in threads and files."""
    async with asyncio.timeout(PATIENCE):
        while True:
            holds = condition()
            if inspect.isawaitable(holds):
                holds = await holds
            if holds:
                return holds
            await asyncio.sleep(0.01)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(idle_host, "DELAY", 0.0)
    return Room(tmp_path)


@pytest.fixture(params=["with the watch extra", "without"])
def noticed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to notice a change."""
    if request.param == "without":
        monkeypatch.setattr(reload, "_notifier", lambda places: None)
        monkeypatch.setattr(reload, "SECONDS", 0.02)
    else:
        needed.module("watchfiles")


@pytest.mark.usefixtures("noticed")
async def test_a_saved_file_takes_effect_at_once_without_a_run(room: Room) -> None:
    room.write("gate.py", SAYS, what="old")
    session = await room.open("done")
    await session.prompt(as_content("go"))
    assert await room.output(session) == "old"
    room.write("gate.py", SAYS, what="new")
    await room.wait_for_output(session, "new")
    room.write("second.py", SAYS.replace('"say"', '"more"'), what="another")
    await room.wait_for_output(session, "another", "more")
    (room.own / "gate.py").unlink()
    assert room.host is not None
    await until(lambda: list(room.host.extensions) == ["second"])  # type: ignore[union-attr]
    await session.close()


@pytest.mark.usefixtures("noticed")
async def test_the_first_extension_may_appear_while_a_session_is_open(room: Room) -> None:
    session = await room.open("done", "done again")
    assert room.host is None
    child = await create_session(MemoryStore(), structs.replace(room.harness))
    await session.prompt(as_content("go"))
    room.write("helpers.py", "WHAT = 'first'")
    room.write(
        "gate.py",
        """
        import helpers
        from ostler.core.hooks import Handled

        def setup(ostler):
            @ostler.command("say")
            def say(arguments):
                return helpers.WHAT

            @ostler.input
            def deal(draft):
                return Handled("dealt with") if draft.text == "ping" else None
        """,
    )
    await room.wait_for_output(session, "first")
    host = idle_host.active_host(room.harness)
    assert host is not None and idle_host.active_host(child.harness) is host
    assert set(host.sessions) == {session.id, child.id}
    await child.close()
    ended = await session.prompt(as_content("ping"))
    assert getattr(ended, "reason", "") == "a hook handled the prompt"
    room.write("helpers.py", "WHAT = 'changed'")
    await room.wait_for_output(session, "changed")
    await session.close()


async def test_during_a_run_it_takes_effect_at_the_next_step(room: Room) -> None:
    room.write("gate.py", SAYS, what="old")
    received: list[Any] = []

    @tool
    async def edit() -> str:
        "Writes another version, and waits until it is loaded."
        room.write(
            "gate.py",
            """
            from ostler.core.hooks import Refuse

            def setup(ostler):
                @ostler.command("say")
                def say(arguments):
                    return "new"

                @ostler.tool
                def brought() -> str:
                    "A tool that was not there before."
                    return "here"

                @ostler.before_step
                def stop(plan):
                    return Refuse("enough") if plan.number > 2 else None
            """,
        )
        assert room.host is not None and room.host.reloading is not None
        await room.host.reloading._load()
        received.append(await room.output(session))
        return "written"

    room.harness.set_tools([edit])
    session = await room.open(Call("edit"), Call("brought"), "never")
    ended = await session.prompt(as_content("go"))
    assert received == ["old"]
    assert await room.output(session) == "new"
    results = await facts_of(session, "tool_result")
    assert [result.content[0].text for result in results] == ["written", "here"]
    assert getattr(ended, "reason", "") == "enough"
    await session.close()


async def test_the_old_version_is_removed_before_the_new_one_is_added(room: Room) -> None:
    text = """
        from ostler.extensions.extension_session import SessionLeft, SessionOpened

        def setup(ostler):
            ostler.option("mark", default="plain")

            @ostler.on(SessionOpened, SessionLeft)
            def note(moment, context):
                context.state["seen"] = [*context.state.get("seen", []), {what!r}, moment.reason]
                context.set_option("mark", context.option("mark") + "+")

            @ostler.command("say")
            def say(arguments, context):
                return context.option("mark")
    """
    room.write("gate.py", text, what="one")
    session = await room.open()
    room.write("gate.py", text, what="two")
    assert room.host is not None
    await room.host.reload()
    await room.wait_for_output(session, "plain+++")
    received = session.state.extension_state["gate"]["seen"]
    assert received == ["one", "open", "one", "reload", "two", "reload"]
    await session.close()


async def test_a_broken_file_is_reported_and_the_old_version_keeps_running(room: Room) -> None:
    room.write("gate.py", SAYS, what="old")
    session = await room.open("done")
    await session.prompt(as_content("go"))
    file = room.write("gate.py", "def setup(ostler):\n    broken ====\n")
    warned = await until(lambda: facts_of(session, "warned"))
    assert (warned[0].about, warned[0].text) == (
        "extension",
        f"the extension gate ({file}) was changed, but its old version still runs: "
        "SyntaxError: invalid syntax (gate.py:2)",
    )
    assert await room.output(session) == "old"
    room.write("gate.py", SAYS, what="mended")
    await room.wait_for_output(session, "mended")
    assert room.notices == []
    await session.close()


async def test_a_changed_extension_of_a_project_waits_for_trust(room: Room) -> None:
    room.own = room.project / ".ostler" / "extensions"
    room.write("gate.py", SAYS, what="old")
    for one in extensions_to_trust(room.project):
        one.trust()
    session = await room.open("done")
    await session.prompt(as_content("go"))
    room.write("gate.py", SAYS, what="new")
    assert room.host is not None
    await until(lambda: room.host.extensions["gate"].status == "changed")  # type: ignore[union-attr]
    assert await room.output(session) == "old"
    (warned,) = await facts_of(session, "warned")
    assert warned.text == (
        "the extension gate was changed: its old version runs until you review it and run "
        f"`ostler trust {quote(str(room.project))}`"
    )
    for one in extensions_to_trust(room.project):
        one.trust()
    await room.wait_for_output(session, "new")
    assert room.host.extensions["gate"].status == "loaded"
    trust_edits(room.project)
    room.write("gate.py", SAYS, what="at once")
    await room.wait_for_output(session, "at once")
    await session.close()


@pytest.mark.parametrize("how", ["plain", "async"])
async def test_an_extension_may_ask_for_a_reload(room: Room, how: str) -> None:
    body = "context.wait(context.reload())" if how == "plain" else "await context.reload()"
    keyword = "def" if how == "plain" else "async def"
    text = f"""
        def setup(ostler):
            @ostler.command("again")
            {keyword} again(arguments, context):
                {body}

            @ostler.command("say")
            def say(arguments):
                return "{{what}}"
    """
    room.write("gate.py", text, what="old")
    session = await room.open()
    room.write("gate.py", text, what="new")
    assert await room.output(session) == "old"
    assert await room.output(session, "again") == ""
    await room.wait_for_output(session, "new")
    await session.close()


async def test_a_child_gets_reloaded_tools_that_it_may_use(room: Room) -> None:
    text = """
        def setup(ostler):
            @ostler.tool
            def first() -> str:
                "{what}"
                return "first"
    """
    room.write("gate.py", text, what="old")
    session = await room.open()
    harnesses = {name: Harness(room.harness.model, hooks=room.harness.hooks) for name in ("all", "none")}
    children = []
    for name, harness in harnesses.items():
        assert room.host is not None
        harness.listeners = [room.host]
        harness.set_tools(room.harness.tools.values() if name == "all" else ())
        children.append(await create_session(MemoryStore(), harness))
    room.write(
        "gate.py",
        text + '\n            @ostler.tool\n            def second() -> str:\n                "2"\n',
        what="new",
    )
    assert room.host is not None
    await room.host.reload()
    assert sorted(room.harness.tools) == ["first", "second"]
    assert room.harness.tools["first"].spec.description == "new"
    assert {name: sorted(one.tools) for name, one in harnesses.items()} == {
        "all": ["first", "second"],
        "none": [],
    }
    assert harnesses["all"].tools["first"] is room.harness.tools["first"]
    for one in (*children, session):
        await one.close()


async def test_a_run_that_ends_soon_is_not_watched(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_host, "DELAY", 3600.0)
    before = set(threading.enumerate())
    session = await room.open("done")
    await session.prompt(as_content("go"))
    await session.close()
    assert not [one for one in set(threading.enumerate()) - before if one.name == "ostler-watch"]


async def test_the_watch_ends_with_the_last_session(room: Room) -> None:
    room.write("gate.py", SAYS, what="old")
    session = await room.open("done")
    await session.prompt(as_content("go"))

    def watches() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "ostler-watch"]

    await until(watches)
    (thread,) = watches()
    assert thread.daemon
    await session.close()
    await until(lambda: not thread.is_alive())


async def test_a_named_file_reloads_when_its_imports_change(room: Room, tmp_path: Path) -> None:
    room.own = tmp_path / "elsewhere"
    room.write("rules.py", "WHAT = 'old'")
    file = room.write(
        "gate.py",
        """
        def setup(ostler):
            @ostler.command("say")
            def say(arguments):
                from rules import WHAT
                return WHAT
        """,
    )
    session = await room.open("done", named=(file,), automatic=False)
    assert await room.output(session) == "old"
    await session.prompt(as_content("go"))
    room.write("rules.py", "WHAT = 'new'")
    await room.wait_for_output(session, "new")
    await session.close()


async def test_a_changed_process_extension_is_restarted(room: Room) -> None:
    script = """
        hello()
        send("register_command", name="say", description="")
        send("ready")
        while True:
            frame = read("command_invoked")
            send("command_response", id=frame["id"], action="display", display=WHAT)
    """
    room.own.mkdir(parents=True)
    folder = written(room.own, script, values={"WHAT": "old"})
    session = await room.open("done")
    await session.prompt(as_content("go"))
    assert await room.output(session) == "old"
    main = folder / "main.py"
    main.write_text(main.read_text().replace("'old'", "'new'"))
    await room.wait_for_output(session, "new")
    await session.close()


async def test_a_changed_module_restarts_a_process_extension(room: Room) -> None:
    script = """
        sys.path.insert(0, "")
        from words import WHAT
        hello()
        send("register_command", name="say", description="")
        send("ready")
        while True:
            frame = read("command_invoked")
            send("command_response", id=frame["id"], action="display", display=WHAT)
    """
    room.own.mkdir(parents=True)
    folder = written(room.own, script)
    (folder / "words.py").write_text("WHAT = 'old'")
    session = await room.open("done")
    await session.prompt(as_content("go"))
    assert await room.output(session) == "old"
    (folder / "words.py").write_text("WHAT = 'newer'")
    await room.wait_for_output(session, "newer")
    await session.close()


async def test_a_change_during_loading_is_noticed(room: Room) -> None:
    room.write("gate.py", SAYS, what="old")
    room.harness.model = ScriptedModel(["done"])
    assembly = ExtensionLoader(ExtensionSearch(room.project), room.notices.append)
    versions = await assembly.refresh({})
    room.write("gate.py", SAYS, what="new")
    make_host(assembly, versions).install_into(room.harness)
    session = await create_session(MemoryStore(), room.harness)
    await session.prompt(as_content("go"))
    await room.wait_for_output(session, "new")
    await session.close()


async def test_a_check_without_a_change_replaces_nothing(room: Room) -> None:
    room.write("gate.py", SAYS, what="old")
    session = await room.open("done")
    assert room.host is not None and room.host.reloading is not None
    await room.host.reloading._load()
    assert room.host.reloading._next is None
    second = room.write("second.py", SAYS.replace('"say"', '"more"'), what="another")
    await room.host.reloading._load()
    assert list(room.host.reloading._next or ()) == ["gate", "second"]
    second.unlink()
    await room.host.reloading._load()
    assert room.host.reloading._next is None
    await session.close()


async def test_a_version_loaded_too_late_is_loaded_by_the_next_session(room: Room) -> None:
    room.write("gate.py", SAYS, what="old")
    session = await room.open("done")
    room.write("gate.py", SAYS, what="new")
    assert room.host is not None and room.host.reloading is not None
    await room.host.reloading._load()
    await session.close()
    room.harness.model = ScriptedModel(["done"])
    again = await create_session(MemoryStore(), room.harness)
    assert await room.output(again) == "old"
    await again.prompt(as_content("go"))
    await room.wait_for_output(again, "new")
    await again.close()
