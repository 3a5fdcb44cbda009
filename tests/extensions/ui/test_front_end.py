"""Members of the context that use a front end, with and without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ostler.extensions import PlannedSwitch, Refuse
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.extension_session import TerminalResized
from ostler.extensions.ui.front_end import Editor, FrontEnd, Headless, KeyAction
from ostler.extensions.ui.themes import Theme, ThemeColor, ThemeColors
from ostler.extensions.ui.types import Content, Overlay, Widget
from ostler.models.scripted import ScriptedModel
from ostler.schema import events
from ostler.schema.errors import SessionBusy, UsageError
from ostler.schema.messages import as_content
from ostler.testkit.front_end import FakeFrontEnd
from tests.support.extension_front_end import opened, until
from tests.support.extension_session import context_of, extension, session_with

SEA = Theme(primary=ThemeColor("#001122", "#334455"))


async def _switch(context: ExtensionContext) -> str:
    try:
        return await context.new_session("go")
    except UsageError as error:
        return error.message


async def _suspended(context: ExtensionContext) -> str:
    return await context.ui.suspend(lambda: "ran")


def _set_theme(context: ExtensionContext) -> str:
    context.ui.register_theme("sea", SEA)
    context.ui.set_theme("sea")
    return context.ui.theme().primary


def _set_editor(context: ExtensionContext) -> None:
    context.ui.set_editor(Editor(lambda key, text: KeyAction("consume")))


Use = Callable[[ExtensionContext], Any | Awaitable[Any]]

OF_FACES: dict[str, tuple[Use, Any, Any]] = {
    "context.interactive": (lambda context: context.interactive, True, False),
    "context.exit": (lambda context: context.exit(), None, None),
    "context.new_session": (
        _switch,
        "ses_new_1",
        "there is no front end here that could switch sessions",
    ),
    "context.ui.size": (lambda context: context.ui.size(), (80, 24), (0, 0)),
    "context.ui.editor_text": (lambda context: context.ui.editor_text, "typed", ""),
    "context.ui.set_editor_text": (lambda context: context.ui.set_editor_text("new"), None, None),
    "context.ui.set_editor": (_set_editor, None, None),
    "context.ui.reset_editor": (lambda context: context.ui.reset_editor(), None, None),
    "context.ui.suspend": (_suspended, "ran", "ran"),
    "context.ui.register_theme": (lambda context: context.ui.register_theme("sea", SEA), None, None),
    "context.ui.set_theme": (_set_theme, "#001122", ""),
    "context.ui.themes": (lambda context: context.ui.themes(), ["default"], []),
    "context.ui.theme": (lambda context: context.ui.theme().name, "default", ThemeColors().name),
}
"""Members of the UI: a call, its result in the test kit's front end, and its result without one."""


async def used(use: Use, context: ExtensionContext) -> Any:
    returned = use(context)
    return await returned if asyncio.iscoroutine(returned) else returned


@pytest.mark.parametrize("member", OF_FACES)
async def test_each_ui_member_works_with_a_front_end(member: str) -> None:
    use, expected, _ = OF_FACES[member]
    face = FakeFrontEnd()
    face.typed = "typed"
    session, _, context = await opened(face)
    assert await used(use, context) == expected
    await session.close()


@pytest.mark.parametrize("member", OF_FACES)
async def test_each_ui_member_has_a_default_without_a_front_end(member: str) -> None:
    use, _, headless = OF_FACES[member]
    session, _, context = await opened()
    assert await used(use, context) == headless
    await session.close()


@pytest.mark.parametrize("member", OF_FACES)
async def test_a_request_from_another_process_does_not_use_the_front_end(member: str) -> None:
    """For example, a prompt from a phone must not type into the terminal of another user."""
    use, _, headless = OF_FACES[member]
    results: list[Any] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_run
        async def begin(plan: Any, context: ExtensionContext) -> None:
            results.append(await used(use, context))

    face = FakeFrontEnd()
    face.typed = "typed"
    session, _, _ = await opened(face, setup, model=ScriptedModel(["done"]))
    await session.prompt(as_content("go"), request="req_from_elsewhere")
    assert results == [headless]
    assert (face.typed, face.exited, face.switched, face.theme()) == ("typed", False, [], "default")
    await face.press("a")
    assert face.typed == "typeda"
    await session.close()


def test_every_front_end_implements_the_protocol() -> None:
    faces: list[FrontEnd] = [FakeFrontEnd(), Headless()]
    wanted = {name for name in (*vars(FrontEnd), *FrontEnd.__annotations__) if not name.startswith("_")}
    for face in faces:
        assert all(hasattr(face, name) for name in wanted)


async def test_an_extension_closes_the_front_end() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.exit()
    assert face.exited
    await session.close()


async def test_the_front_end_switches_to_a_new_session_with_its_prompt() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    assert await context.new_session("begin") == "ses_new_1"
    assert face.switched == [("", "begin")]
    await session.close()


async def test_an_extension_gets_the_size_of_the_terminal() -> None:
    sizes: list[tuple[int, int]] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(TerminalResized)
        def resized(event: TerminalResized, context: ExtensionContext) -> None:
            assert context.ui.size() == (event.width, event.height)
            sizes.append((event.width, event.height))

    face = FakeFrontEnd()
    session, host, _ = await opened(face, setup)
    face.resize(40, 10)
    await host.sessions[session.id].drain()
    assert sizes == [(40, 10)]
    await session.close()


async def test_suspending_the_terminal_does_not_count_as_handler_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ostler.extensions.host.COMMAND_SECONDS", 0.5)

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("edit")
        def edit(arguments: str, context: ExtensionContext) -> str:
            def write() -> str:
                asyncio.run(asyncio.sleep(0.7))  # a person takes longer than a command may
                return "written"

            return context.wait(context.ui.suspend(write))

        @ostler.command("fail")
        async def fail(arguments: str, context: ExtensionContext) -> str:
            async def bad() -> None:
                raise ValueError("no editor")

            try:
                await context.ui.suspend(bad)
            except ValueError as error:
                return f"{error}"
            return ""

    face = FakeFrontEnd()
    session, host, _ = await opened(face, setup)
    assert await host.run_command(session, "edit", "") == "written"
    assert await host.run_command(session, "fail", "") == "no editor"
    assert face.suspended_times == 2
    await session.close()


async def test_extensions_of_a_child_release_the_front_end_when_it_ends() -> None:
    face = FakeFrontEnd()
    session, host, context = await opened(face)
    _set_theme(context)
    context.ui.set_editor(Editor(lambda key, text: KeyAction("remap", key="1")))
    child, _, _ = await opened()
    host.on_open(child)
    childs = host.sessions[child.id].channels["demo"].context
    _set_theme(childs)
    childs.ui.set_editor(Editor(lambda key, text: KeyAction("remap", key="2")))
    await face.press("a")
    await host.on_close(child)
    await face.press("a")
    assert (face.typed, face.theme()) == ("21", "sea")
    await child.close()
    await session.close()


async def test_the_test_front_end_reports_when_it_follows_no_session() -> None:
    face = FakeFrontEnd()
    with pytest.raises(RuntimeError, match=r"face\.follow"):
        await face.screen()
    session, host, context = await opened()
    stop = face.follow(session, host)
    context.print("heard")
    stop()
    context.print("not heard")
    assert face.texts() == ["heard"]
    await session.close()


async def test_a_failing_extension_does_not_disturb_the_front_end() -> None:
    """Every call of the front end fails in another way, and the front end uses its defaults."""

    def setup(ostler: ExtensionAPI) -> None:
        def leave(*arguments: Any) -> Any:
            raise SystemExit(3)

        def recurse(*arguments: Any) -> Any:
            return recurse(*arguments)

        ostler.shortcut("ctrl+k")(leave)
        ostler.message_renderer("m")(recurse)
        ostler.tool_renderer("t", header=leave, body=recurse)

        @ostler.command("show")
        async def show(arguments: str, context: ExtensionContext) -> None:
            context.ui.set_widget(Widget("one", Content("text", render=leave)))
            context.ui.set_header(Content("head", render=recurse))
            context.ui.set_editor(Editor(leave, recurse))
            await context.ui.overlay(Overlay("over", Content("lay", render=recurse)))
            await context.render_message("m", "message")

    face = FakeFrontEnd("close", width=20)
    session, host, _ = await opened(face, setup, model=ScriptedModel(["done"]))
    await host.run_command(session, "show", "")
    await until(session, lambda: "header" in face.values)
    await face.press("ctrl+k", "a")
    assert (await face.screen()).splitlines() == ["│ head", "│ text", "─" * 20, "> a"]
    assert await face.call("t", {}, "result") == "t\nresult"
    assert face.texts() == ["message"]
    assert "lay" in face.overlays[0]
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    await session.close()


async def test_a_front_end_switches_to_a_new_session_unless_an_extension_refuses() -> None:
    planned: list[PlannedSwitch] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_switch
        def judge(switch: PlannedSwitch) -> Refuse | None:
            planned.append(switch)
            return Refuse("not now") if switch.prompt == "never" else None

    session, host = await session_with(ScriptedModel([]), extension("mine", setup))
    context = context_of(host, session)
    with pytest.raises(UsageError, match="no front end"):
        await context.new_session("hello")
    host.face = face = FakeFrontEnd()
    assert await context.new_session("hello") == "ses_new_1"
    with pytest.raises(UsageError, match="not now"):
        await context.new_session("never")
    assert face.switched == [("", "hello")]
    assert planned[-1] == PlannedSwitch(session.id, "new", "never")
    await session.close()


async def test_a_session_is_left_when_its_run_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[tuple[str, bool]] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.StepStarted)
        async def leave(event: Any, context: ExtensionContext) -> None:
            left.append((await context.new_session("next"), context.journal.state.run is None))

    session, host = await session_with(ScriptedModel(["done"]), extension("mine", setup))
    host.face = FakeFrontEnd()
    ended = await asyncio.wait_for(session.prompt(as_content("go")), 60)
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    assert left == [("ses_new_1", True)]
    await session.close()

    monkeypatch.setattr("ostler.extensions.host.SWITCH_SECONDS", 0.05)
    problems: list[str] = []

    def hurries(ostler: ExtensionAPI) -> None:
        @ostler.before_step
        async def leave(plan: Any, context: ExtensionContext) -> None:
            try:
                await context.new_session()
            except SessionBusy as busy:
                problems.append(busy.message)

    session, host = await session_with(ScriptedModel(["done"]), extension("mine", hurries))
    host.face = FakeFrontEnd()
    await asyncio.wait_for(session.prompt(as_content("go")), 60)
    assert problems == ["the session is busy: leave it when its run has ended"]
    await session.close()
