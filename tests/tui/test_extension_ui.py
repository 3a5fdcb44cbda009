"""Widgets, dialogs, keys and output of extensions in the terminal UI."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.extension_session import SessionOpened, TerminalResized
from ostler.extensions.ui.front_end import Editor, FrontEnd, KeyAction
from ostler.extensions.ui.themes import Theme, ThemeColor
from ostler.extensions.ui.types import Content, Overlay, Style, Visibility, Widget
from ostler.models.scripted import Call
from ostler.testkit.vendors import call, turn
from ostler.tui.extension_keys import name_of, press_of, strokes_of
from ostler.tui.front_end import TuiFrontEnd
from tests.extensions.ui.test_front_end import OF_FACES, used
from tests.support.command import Ostler as Command
from tests.support.fixtures import Open, Serve
from tests.support.process_extension import loaded
from tests.tui.in_process import run_ui

SEA = Theme(accent=ThemeColor("#001122", "#0a0b0c"))


# --- the members that concern the UI ----------------------------------------------------------------


@pytest.mark.parametrize("member", [one for one in OF_FACES if one != "context.new_session"])
async def test_every_front_end_member_works_in_the_terminal(member: str) -> None:
    use, expected, _ = OF_FACES[member]
    if member == "context.ui.set_theme":
        expected = "#334455"  # the terminal is dark
    async with run_ui() as terminal:
        terminal.press("typed")
        await terminal.until(lambda: terminal.front_end.editor_text() == "typed")
        assert await used(use, terminal.context) == expected


def test_the_terminal_implements_the_front_end_protocol() -> None:
    front_end: FrontEnd = TuiFrontEnd()
    wanted = {name for name in (*vars(FrontEnd), *FrontEnd.__annotations__) if not name.startswith("_")}
    assert all(hasattr(front_end, name) for name in wanted)


async def test_an_extension_opens_a_new_session_in_the_same_terminal() -> None:
    async with run_ui(answers=["well begun"]) as terminal:
        before = terminal.tui.conversation.session.id
        after = await terminal.context.new_session("begin")
        await terminal.see("▌ begin", "well begun")
        assert after != before
        assert terminal.tui.conversation.session.id == after


async def test_an_extension_can_quit_the_terminal() -> None:
    async with run_ui() as terminal:
        terminal.context.exit()
        await terminal.until(lambda: not terminal.tui.app.application.is_running)


async def test_an_extension_can_suspend_the_terminal() -> None:
    async with run_ui() as terminal:
        states: list[bool] = []

        async def work() -> str:
            states.append(terminal.tui.app.application._running_in_terminal)
            terminal.context.print("said meanwhile")
            terminal.tui.app._paint()
            states.append("said meanwhile" in terminal.screen.text())
            return "done"

        assert await terminal.context.ui.suspend(work) == "done"
        assert states == [True, False]
        await terminal.see("said meanwhile")
        terminal.press("still here")
        await terminal.see("> still here")


async def test_extensions_are_notified_of_a_resize() -> None:
    sizes: list[tuple[int, int]] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(TerminalResized)
        def resized(event: TerminalResized, context: ExtensionContext) -> None:
            sizes.append((event.width, event.height))

    async with run_ui(setup) as terminal:
        await terminal.see(">")
        terminal.resize(50, 20)
        await terminal.until(lambda: sizes == [(50, 20)])
        assert terminal.context.ui.size() == (50, 20)


# --- what is seen -----------------------------------------------------------------------------------


async def test_header_widgets_footer_and_status_are_drawn_around_the_line() -> None:
    async with run_ui(columns=120) as terminal:
        ui = terminal.context.ui
        ui.set_footer(Content(markdown="the **foot**"))
        ui.set_header("the head")
        ui.set_widget(Widget("late", "second", priority=1))
        ui.set_widget(Widget("early", "first", style=Style(borderless=True)))
        ui.set_widget(Widget("under", "beneath", placement="below"))
        ui.set_status("weather", "rain")
        ui.set_status("wind", "storm", priority=-1)
        screen = await terminal.see("head", "foot", "first", "second", "beneath", "rain")
        lines = [line for line in screen.splitlines() if line]
        assert lines[:3] == ["▌ the head", "first", "▌ second"]
        assert lines[3].startswith(">")
        assert lines[4:6] == ["▌ beneath", "▌ the foot"]
        assert lines[-1].index("storm") < lines[-1].index("rain")
        ui.remove_widget("late")
        ui.remove_header()
        ui.remove_footer()
        ui.remove_status("wind")
        for gone in ("second", "head", "foot", "storm"):
            await terminal.until_gone(gone)


async def test_extensions_can_hide_parts_of_the_ui() -> None:
    async with run_ui() as terminal:
        await terminal.see("scripted")
        terminal.context.ui.set_visibility(Visibility(hide_status=True, hide_hint=True))
        await terminal.until_gone("scripted")
        terminal.context.ui.set_visibility(Visibility())
        await terminal.see("scripted")


async def test_a_render_function_draws_at_the_width_and_at_its_rate() -> None:
    times: list[int] = []

    def draw(width: int) -> str:
        times.append(width)
        return f"{len(times)} times {width} wide"

    async with run_ui(columns=60) as terminal:
        terminal.context.ui.set_widget(Widget("clock", Content(render=draw, hz=20)))
        await terminal.see("3 times 58 wide")
        terminal.context.ui.set_widget(Widget("clock", Content(render=lambda width: "once")))
        await terminal.see("once")
        drawn = len(times)
        terminal.context.ui.set_widget(Widget("other", "seen later"))
        await terminal.see("seen later")
        assert len(times) == drawn


async def test_a_render_function_that_fails_or_hangs_falls_back_to_its_text() -> None:
    async with run_ui() as terminal:

        async def hang(width: int) -> str:
            await asyncio.Event().wait()
            return "never"

        def fail(width: int) -> str:
            raise ValueError("no")

        terminal.context.ui.set_widget(Widget("slow", Content("text instead", render=hang)))
        terminal.context.ui.set_header(Content("head instead", render=fail))
        terminal.context.ui.set_footer(Content("hidden", render=lambda width: ""))
        screen = await terminal.see("text instead", "head instead", "ValueError")
        assert "hidden" not in screen


async def test_live_values_are_shown_at_start_and_from_the_session() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(SessionOpened)
        def begin(event: SessionOpened, context: ExtensionContext) -> None:
            context.ui.set_header(f"in {event.session}")

    async with run_ui(setup) as terminal:
        await terminal.see(f"in {terminal.tui.conversation.session.id}")


async def test_printed_texts_and_rendered_messages_stay_in_the_scrollback() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.message_renderer("shout")
        def shout(text: str, width: int) -> str:
            return f"{text.upper()} in {width}"

    async with run_ui(setup) as terminal:
        terminal.context.print("as it is")
        terminal.context.print_error("went wrong")
        terminal.context.print_block("in a block", title="its title")
        await terminal.context.render_message("shout", "hello")
        await terminal.see("as it is", "✗ went wrong", "▌ in a block", "its title", "HELLO in 80")


async def test_a_tool_renderer_draws_running_and_finished_calls() -> None:
    gate = asyncio.Event()

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.tool
        async def deploy(place: str) -> str:
            """Deploys."""
            await gate.wait()
            return "raw result"

        ostler.tool_renderer(
            "deploy",
            color="#ff0000",
            header=lambda arguments, width: f"Deploying to {arguments['place']}",
            body=lambda result, failed, width: f"drawn: {result}, {failed}",
        )

    answers = [Call("deploy", {"place": "mars"}), "all done"]
    async with run_ui(setup, answers=answers) as terminal:
        await terminal.tui.submit("go")
        await terminal.see("Deploying to mars")
        gate.set()
        screen = await terminal.see("drawn: raw result, False", "all done")
        assert screen.index("drawn: raw") < screen.index("all done")
        assert "╭─ Deploying to mars" in screen


async def test_a_theme_applies_from_the_next_frame_on() -> None:
    async with run_ui() as terminal:
        ui = terminal.context.ui
        ui.register_theme("sea", SEA)
        assert ui.themes() == ["default", "sea"]
        ui.set_theme("sea")
        assert terminal.tui.rows.colors is not None
        assert terminal.tui.rows.colors.accent == "#0a0b0c"
        assert ui.theme().accent == "#0a0b0c"


async def test_without_colours_a_theme_changes_nothing() -> None:
    async with run_ui(theme="") as terminal:
        terminal.context.ui.register_theme("sea", SEA)
        terminal.context.ui.set_theme("sea")
        assert terminal.context.ui.theme().accent == ""
        assert terminal.context.ui.themes() == []
        terminal.context.ui.set_widget(Widget("one", "bordered", style=Style(border="#ff0000")))
        await terminal.see("bordered")


# --- what is asked ----------------------------------------------------------------------------------


async def test_a_select_dialog_returns_the_choice() -> None:
    async with run_ui() as terminal:
        asking = asyncio.ensure_future(terminal.context.ui.select("Which?", ["red", "green", "blue"]))
        await terminal.see("Which?", "❯ 1. red", "3. blue")
        await terminal.until_asked()
        terminal.press("down", "enter")
        chosen = await asking
        assert (chosen.value, chosen.index, chosen.cancelled) == ("green", 1, False)
        await terminal.until_gone("❯")


async def test_a_long_list_scrolls_to_the_marked_row() -> None:
    async with run_ui(rows=20) as terminal:
        many = [f"number {place}" for place in range(60)]
        asking = asyncio.ensure_future(terminal.context.ui.select("Which?", many))
        await terminal.see("❯ 1. number 0")
        await terminal.until_asked()
        terminal.press("up")
        await terminal.see("❯ 60. number 59", "Which?")
        terminal.press("esc")
        assert (await asking).cancelled


async def test_a_confirm_dialog_starts_with_its_default() -> None:
    async with run_ui() as terminal:
        asking = asyncio.ensure_future(terminal.context.ui.confirm("Sure?"))
        await terminal.see("❯ 2. no")
        await terminal.until_asked()
        terminal.press("y")
        assert (await asking).value is True
        await terminal.until_gone("❯")
        asking = asyncio.ensure_future(terminal.context.ui.confirm("Sure?"))
        await terminal.see("❯ 2. no")
        await terminal.until_asked()
        terminal.press("left", "enter")
        assert (await asking).value is True
        await terminal.until_gone("❯")
        asking = asyncio.ensure_future(terminal.context.ui.confirm("Sure?", default=True))
        await terminal.see("❯ 1. yes")
        await terminal.until_asked()
        terminal.press("esc")
        assert (await asking).cancelled is True


async def test_an_input_dialog_keeps_the_draft() -> None:
    async with run_ui() as terminal:
        terminal.press("half a prompt")
        await terminal.see("> half a prompt")
        asking = asyncio.ensure_future(terminal.context.ui.input("Name?", placeholder="such as Ada"))
        await terminal.see("such as Ada")
        await terminal.see("shift+tab answers this")
        terminal.press("\x1b[Z")
        await terminal.until_asked()
        terminal.press("Gracx", "backspace", "e")
        await terminal.see("› Grace")
        terminal.press("enter")
        assert (await asking).value == "Grace"
        asking = asyncio.ensure_future(terminal.context.ui.input("Name?", default="Ada"))
        await terminal.see("› Ada")
        terminal.press("\x1b[Z")
        await terminal.until_asked()
        terminal.press("left", "left", "d", "enter")
        assert (await asking).value == "Adda"
        assert terminal.front_end.editor_text() == "half a prompt"


async def test_a_multi_select_dialog_returns_the_selection() -> None:
    async with run_ui() as terminal:
        options = ["one", "two", "three"]
        asking = asyncio.ensure_future(terminal.context.ui.multi_select("Which?", options))
        await terminal.see("❯ [x] one", "[x] three")
        await terminal.until_asked()
        terminal.press("n")
        await terminal.see("❯ [ ] one", "[ ] three")
        terminal.press("down", " ", "j", "x", "k", "x", "enter")
        assert (await asking).indices == (2,)
        asking = asyncio.ensure_future(terminal.context.ui.multi_select("Which?", options, selected=[0]))
        await terminal.see("❯ [x] one", "[ ] two")
        await terminal.until_asked()
        terminal.press("a", "enter")
        assert (await asking).values == ("one", "two", "three")


async def test_an_overlay_has_actions_and_content_that_scrolls() -> None:
    async with run_ui() as terminal:
        text = "\n".join(f"line {place}" for place in range(40))
        overlay = Overlay("A title", Content(text), ("Keep", "Drop"), max_height=10)
        asking = asyncio.ensure_future(terminal.context.ui.overlay(overlay))
        await terminal.see("A title", "line 0", "[Keep] [Drop]")
        await terminal.until_asked()
        terminal.press("\x1b[6~")
        await terminal.see("line 12")
        terminal.press("tab", "enter")
        closed = await asking
        assert (closed.action, closed.index) == ("Drop", 1)
        asking = asyncio.ensure_future(
            terminal.context.ui.overlay(Overlay("Read", Content(render=lambda width: f"{width} wide")))
        )
        await terminal.see("46 wide")
        await terminal.until_asked()
        terminal.press("esc")
        closed = await asking
        await terminal.until_gone("Read")
        assert (closed.action, closed.index, closed.cancelled) == ("", -1, False)


async def test_a_withdrawn_question_is_closed() -> None:
    async with run_ui() as terminal:
        asking = asyncio.ensure_future(terminal.context.ui.select("Which?", ["red"]))
        await terminal.see("Which?")
        await terminal.context.ui.withdraw()
        assert (await asking).cancelled
        await terminal.until_gone("❯")


# --- keys -------------------------------------------------------------------------------------------


async def test_a_shortcut_runs_and_can_ask_a_question() -> None:
    confirmed: list[Any] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.shortcut("ctrl+k")
        async def ask(context: ExtensionContext) -> None:
            confirmed.append((await context.ui.confirm("From a key?")).value)

    async with run_ui(setup) as terminal:
        terminal.press("ctrl+k")
        await terminal.see("From a key?")
        await terminal.until_asked()
        terminal.press("y")
        await terminal.until(lambda: confirmed == [True])


async def test_an_extension_editor_gets_keys_first_and_in_order() -> None:
    keys: list[str] = []

    def handle(key: str, text: str) -> KeyAction | None:
        keys.append(key)
        match key:
            case "x":
                return KeyAction("consume")
            case "1":
                return KeyAction("remap", key="!")
            case "2":
                return KeyAction("remap", key="no such key")
            case "enter":
                return KeyAction("submit", text=text.upper())
        return None

    async with run_ui(answers=["heard"]) as terminal:
        terminal.context.ui.set_editor(Editor(handle))
        terminal.press("axb1", "2", " ", "c", "backspace", "ctrl+a", "y")
        await terminal.until(lambda: terminal.front_end.editor_text() == "yab!2 ")
        terminal.press("enter")
        await terminal.see("▌ YAB!2", "heard")
        assert keys[:5] == ["a", "x", "b", "1", "2"]
        assert "ctrl+a" in keys
        terminal.context.ui.reset_editor()
        terminal.press("x")
        await terminal.until(lambda: terminal.front_end.editor_text() == "x")


async def test_an_extension_editor_draws_the_line() -> None:
    async with run_ui() as terminal:
        terminal.context.ui.set_editor(Editor(render=lambda width, default: f"<<{default}>> {width}"))
        terminal.press("hi")
        await terminal.see("<<> hi>> 80")
        terminal.context.ui.reset_editor()
        await terminal.until_gone("<<")
        await terminal.see("> hi")


def test_strokes_have_the_key_names_of_extensions() -> None:
    presses = [
        KeyPress(Keys.ControlS),
        KeyPress(Keys.Escape),
        KeyPress(Keys.ControlM),
        KeyPress("A", "A"),
        KeyPress(Keys.ControlRight),
        KeyPress(Keys.F5),
        KeyPress(Keys.BracketedPaste, "pasted"),
        KeyPress(Keys.Escape),
    ]
    names = [name_of(stroke) for stroke in strokes_of(presses)]
    assert names == ["ctrl+s", "alt+enter", "A", "ctrl+right", "f5", "", "esc"]
    for name in ("ctrl+s", "A", "ctrl+right", "f5", "esc", "enter", "space", "pgup", "alt+x"):
        normal = [name_of(stroke) for stroke in strokes_of(list(press_of(name)))]
        assert normal == [name]
    assert press_of("no such key") == ()


async def test_a_hostile_extension_does_not_break_the_terminal() -> None:
    """Every callback of it fails in its own way, and the UI keeps drawing."""

    def setup(ostler: ExtensionAPI) -> None:
        def leave(*arguments: Any) -> Any:
            raise SystemExit(3)

        def recurse(*arguments: Any) -> Any:
            return recurse(*arguments)

        ostler.shortcut("ctrl+k")(leave)
        ostler.message_renderer("m")(recurse)
        ostler.tool_renderer("t", header=leave, body=recurse)

        @ostler.tool
        def t() -> str:
            """Nothing."""
            return "the result"

        @ostler.command("show")
        async def show(arguments: str, context: ExtensionContext) -> None:
            context.ui.set_widget(Widget("one", Content("a text", render=leave)))
            context.ui.set_header(Content("a head", render=recurse))
            context.ui.set_editor(Editor(leave, recurse))
            await context.render_message("m", "message")

    async with run_ui(setup, answers=[Call("t"), "done"], rows=50) as terminal:
        await terminal.tui.submit("/show")
        await terminal.see("▌ a text", "▌ a head", "message")
        terminal.press("ctrl+k", "go", "enter")
        await terminal.see("▌ go", "╭─ t", "│ the result", "done", "✓ completed")


# --- panels of extensions in other languages ----------------------------------------------------------


PANEL = """
    hello()
    send("register_command", name="jobs")
    send("ready")
    keys = []
    while True:
        frame = read("command_invoked", "panel_key", "panel_resize", "panel_close")
        if frame["type"] == "command_invoked":
            panel = {"id": "jobs", "title": "Jobs", "lines": ["build"], "footer": "esc closes"}
            send("command_response", id=frame["id"], action="open_panel", open_panel=panel)
        elif frame["type"] == "panel_key" and frame["key"] == "esc":
            send("panel_close", panel_id="jobs")
        elif frame["type"] == "panel_close":
            send("notify", level="info", message="a person closed it")
        else:
            keys.append(frame.get("text") or frame.get("key") or f"{frame['width']} wide")
            send("panel_render", panel_id="jobs", lines=keys[-3:], footer="")
"""


async def test_a_panel_of_an_extension_process_is_drawn_and_gets_keys(tmp_path: Path) -> None:
    async with run_ui(beside=[await loaded(tmp_path, PANEL)]) as terminal:
        await terminal.tui.submit("/jobs")
        await terminal.see("Jobs", "80 wide")
        terminal.press("q", "down", "ctrl+o")
        await terminal.see("│ q", "│ down", "│ unknown")
        assert terminal.front_end.editor_text() == ""
        terminal.press("esc")
        await terminal.until_gone("Jobs")
        terminal.press("typed again")
        await terminal.see("> typed again")
        terminal.front_end.set_editor_text("")
        await terminal.tui.submit("/jobs")
        await terminal.see("Jobs")
        terminal.press("ctrl+c")
        await terminal.see("a person closed it")
        assert terminal.tui.panels.present is None


# --- the whole program --------------------------------------------------------------------------------

LOUD = """
import os, subprocess, sys

def setup(ostler):
    @ostler.command("noise")
    def noise(arguments, context):
        print("from print")
        os.write(2, b"from a descriptor\\n")
        subprocess.run(["sh", "-c", "echo from a child; seq 5000"], check=True)
        context.ui.set_widget(context_widget())
        return "made noise"

    @ostler.command("borrow")
    async def borrow(arguments, context):
        def work():
            print("now it is mine", flush=True)
            return subprocess.run(["sh", "-c", "read x; echo heard $x"], check=True, text=True).returncode
        await context.ui.suspend(work)
        return "given back"

def context_widget():
    from ostler.extensions import Widget
    return Widget("w", "a widget")
"""


LATE = """
from ostler.extensions import Widget
from ostler.extensions.extension_session import SessionOpened

def setup(ostler):
    @ostler.on(SessionOpened)
    def begin(event, context):
        context.ui.set_widget(Widget("w", "came late"))

    @ostler.shortcut("ctrl+k")
    def key(context):
        context.ui.set_editor_text("set by a key")
"""


def test_output_of_extensions_does_not_break_the_screen(
    open_tui: Open, serve: Serve, ostler: Command
) -> None:
    folder = ostler.work / ".ostler" / "extensions"
    folder.mkdir(parents=True)
    (folder / "loud.py").write_text(LOUD)
    terminal = open_tui(serve(turn("done")))
    terminal.wait_for("[yes/no]")
    terminal.type("yes")
    terminal.press("enter")
    terminal.wait_for(">")
    terminal.type("/noise")
    terminal.press("enter")
    terminal.wait_for_ever("made noise")
    for text in ("from print", "from a descriptor", "from a child"):
        terminal.wait_for_ever(f"· {text}")
    terminal.wait_for_ever("more lines")
    terminal.wait_for("▌ a widget")
    terminal.type("go")
    terminal.press("enter")
    screen = terminal.wait_for("completed")
    assert screen.count("▌ a widget") == 1
    terminal.type("/borrow")
    terminal.press("enter")
    terminal.wait_for("now it is mine")
    terminal.type("a word\n")
    screen = terminal.wait_for("given back")
    assert "heard a word" in screen
    assert "· heard a word" not in screen
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.wait_for_end() == 143


def test_the_first_extension_can_be_loaded_while_the_terminal_is_open(
    open_tui: Open, serve: Serve, ostler: Command
) -> None:
    terminal = open_tui(serve(turn("one"), turn("two")), "go")
    terminal.wait_for("completed")
    folder = ostler.home / "extensions"
    folder.mkdir()
    (folder / "late.py").write_text(LATE)
    terminal.wait_for("came late")
    terminal.press("ctrl+k")
    terminal.wait_for("> set by a key")


def test_a_session_is_resumed_with_its_model(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn(call("ls", {"path": "."})), turn("first"), turn("second"))
    terminal = open_tui(vendor, "--no-extensions", "one")
    terminal.wait_for("first")
    terminal.wait_for("completed")
    terminal.press("ctrl+d")
    assert terminal.wait_for_end() == 0
    terminal = open_tui(vendor, "--continue")
    screen = terminal.wait_for("first")
    assert "▌ one" in screen
    terminal.type("two")
    terminal.press("enter")
    terminal.wait_for("second")
