"""Extensions that need more room than there is, or the same place as others."""

from __future__ import annotations

import asyncio

import pytest

from ostler.app.settings import Settings
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.extension_session import SessionOpened
from ostler.extensions.ui.themes import Theme, ThemeColor
from ostler.extensions.ui.types import Anchor, Content, Overlay, Visibility, Widget
from ostler.tui import keys
from ostler.tui.extension_ui import ContentRows, shares
from ostler.tui.main import print_welcome
from ostler.tui.render.boxes import notice_rows
from ostler.tui.themes import missing_theme
from tests.support.extension_session import extension
from tests.tui.in_process import run_ui
from tests.tui.rows import COLORS, plain


def _lines(letter: str, number: int = 40) -> str:
    return "\n".join(f"{letter}{at}" for at in range(number))


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 8), (100, 5)])
async def test_questions_and_the_line_stay_visible_beside_extension_widgets(columns: int, rows: int) -> None:
    async with run_ui(columns=columns, rows=rows) as terminal:
        ui = terminal.context.ui
        ui.set_header(_lines("H"))
        ui.set_footer(_lines("F"))
        ui.set_widget(Widget("above", _lines("A")))
        ui.set_widget(Widget("below", _lines("B"), placement="below"))
        asking = asyncio.ensure_future(ui.overlay(Overlay("Over", _lines("O"), actions=("keep", "drop"))))
        screen = await terminal.see("Over", "O0", "[keep] [drop]", "\n>")
        assert "Window too small" not in screen
        assert len(screen.splitlines()) <= rows
        await terminal.until_asked()
        terminal.press("right", "enter")
        assert (await asking).action == "drop"


async def test_a_large_widget_leaves_room_for_the_others() -> None:
    async with run_ui(rows=24) as terminal:
        terminal.context.ui.set_widget(Widget("large", _lines("L", 10_000)))
        terminal.context.ui.set_widget(Widget("small", "the small one"))
        drawing = Content(render=lambda width: "\n".join(f"R{at} {'x' * 500}" for at in range(10_000)), hz=30)
        terminal.context.ui.set_widget(Widget("drawn", drawing, placement="below"))
        screen = await terminal.see("L0", "the small one", "R0")
        assert "▌ …" in screen
        assert "L9" not in screen
        terminal.press("typed")  # and keys are still answered
        await terminal.see("> typed")


async def test_long_content_costs_only_its_visible_rows() -> None:
    looked_at = 0

    class Counted(str):
        __slots__ = ()

        def __getitem__(self, key: object) -> str:
            nonlocal looked_at
            made = super().__getitem__(key)  # type: ignore[index]
            looked_at += len(made)
            return made

    content = ContentRows(lambda: None)
    assert plain(content.text(Counted("line\n" * 1_000_000), 80, 3)) == ["line"] * 3
    assert plain(content.markdown(Counted("- one\n" * 1_000_000), 80, 3)) == ["• one"] * 3
    assert looked_at < 20_000


def test_rows_are_shared_fairly() -> None:
    assert shares([10_000, 1, 3], 8) == [4, 1, 3]
    assert shares([2, 2], 8) == [2, 2]
    assert shares([5, 5, 5], 2) == [1, 1, 0]
    assert shares([], 5) == []


async def test_content_may_have_colours_but_no_other_sequences() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("say")
        def say(arguments: str, context: ExtensionContext) -> str:
            return "\x1b[33mgold\x1b[0m\x1b[2J and\x1b]0;title\x07 plain"

    async with run_ui(setup) as terminal:
        ui = terminal.context.ui
        ui.set_footer("\x1b[31mred\x1b[0m \x1b[2J\x1b[H\x1b]0;evil\x07after")
        ui.set_status("s", "sta\x1b[2Jtus\n\x1b[31mline\x1b[0m")
        ui.set_status("none", "\x1b[31m\x1b[0m")
        ui.set_status("long", "w" * 200)
        terminal.context.print_info("\x1b[32mgreen\x1b[0m news")
        await terminal.tui.submit("/say")
        screen = await terminal.see("· green news", "· gold and plain", "▌ red after", "status line")
        assert "w" * 41 not in screen
        assert "�" not in screen
    assert plain(notice_rows("\x1b[31mone\ntwo", 40, COLORS, level="error")) == ["✗ one", "  two"]


@pytest.mark.parametrize(("anchor", "order"), [("top", "OT>"), ("center", "TO>"), ("bottom", "T>O")])
async def test_an_overlay_is_drawn_at_its_anchor(anchor: Anchor, order: str) -> None:
    async with run_ui() as terminal:
        terminal.context.ui.set_widget(Widget("w", "the widget"))
        overlay = Overlay("Over", "content", actions=("a",), anchor=anchor, width=30)
        asking = asyncio.ensure_future(terminal.context.ui.overlay(overlay))
        screen = await terminal.see("╭─ Over", "the widget")
        places = {"O": screen.index("╭─ Over"), "T": screen.index("the widget"), ">": screen.index("\n>")}
        assert "".join(sorted(places, key=lambda one: places[one])) == order
        await terminal.until_asked()
        terminal.press("esc")
        assert (await asking).cancelled


async def test_actions_wrap_to_several_rows() -> None:
    actions = tuple(f"a rather long action {at}" for at in range(9))
    async with run_ui(rows=30) as terminal:
        asking = asyncio.ensure_future(
            terminal.context.ui.overlay(Overlay("Over", _lines("O", 200), actions=actions, width=40))
        )
        screen = await terminal.see("action 0", "action 1")
        await terminal.until_asked()
        assert max(len(line.strip()) for line in screen.splitlines() if "action" in line) <= 40
        terminal.press(*["right"] * 8)
        await terminal.see("action 8")
        terminal.press("\x1b[F")  # end
        await terminal.see("O199")
        terminal.press("enter")
        assert (await asking).index == 8


async def test_an_overlay_waits_behind_a_question_and_closes_with_its_extension() -> None:
    async with run_ui() as terminal:
        ui = terminal.context.ui
        first = asyncio.ensure_future(ui.confirm("first?"))
        await terminal.see("first?")
        second = asyncio.ensure_future(ui.overlay(Overlay("Over", "content", actions=("a",))))
        await terminal.see("1 more")
        await terminal.until_asked()
        terminal.press("y")
        assert (await first).value
        await terminal.see("╭─ Over")
        answer = asyncio.ensure_future(ui.input("a third?"))
        extension_session = terminal.host.sessions[terminal.tui.conversation.session.id]
        await extension_session.remove("demo", "reload")
        assert (await second).cancelled
        assert (await answer).cancelled
        await terminal.until_gone("╭─ Over")
        terminal.press("still here")
        await terminal.see("> still here")


async def test_two_extensions_share_a_place_one_after_the_other() -> None:
    def rival(ostler: ExtensionAPI) -> None:
        @ostler.on(SessionOpened)
        def begin(event: SessionOpened, context: ExtensionContext) -> None:
            context.ui.set_widget(Widget("same", "the rival's"))
            context.ui.set_status("same", "rival")

    async with run_ui(beside=[extension("rival", rival)]) as terminal:
        extension_session = terminal.host.sessions[terminal.tui.conversation.session.id]
        await terminal.see("the rival's")
        theirs = extension_session.channels["rival"].context.ui
        terminal.context.ui.set_header("mine")
        theirs.set_header("theirs")
        terminal.context.ui.set_widget(Widget("same", "my own"))
        screen = await terminal.see("theirs", "my own", "the rival's")
        assert "mine" not in screen
        for at in range(200):  # however they fight, the last one stands
            (theirs if at % 2 else terminal.context.ui).set_footer(f"foot {at}")
        await terminal.see("foot 199")
        await extension_session.remove("rival")
        await terminal.until_gone("theirs")
        await terminal.see("my own")


async def test_a_command_with_a_reserved_name_is_prefixed_by_its_extension() -> None:
    ran: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("undo", complete=lambda typed: ["all"])
        def undo(arguments: str) -> str:
            ran.append(arguments)
            return "undone by demo"

    async with run_ui(setup) as terminal:
        commands = terminal.tui.commands
        assert [one.name for one in commands.entries() if "undo" in one.name] == ["undo", "demo:undo"]
        assert await commands.complete("demo:undo", "") == ["all"]
        await terminal.tui.submit("/demo:undo it")
        await terminal.see("undone by demo")
        assert ran == ["it"]
        await terminal.tui.submit("/undo")
        await terminal.see("there is no prompt to undo")


async def test_an_extension_can_hide_the_welcome_line() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(SessionOpened)
        def hide(event: SessionOpened, context: ExtensionContext) -> None:
            context.ui.set_visibility(Visibility(hide_startup=True))

    async with run_ui() as terminal:
        await print_welcome(terminal.tui, Settings(instructions=False))
        await terminal.see("1 extension: demo")
    async with run_ui(setup) as terminal:
        await print_welcome(terminal.tui, Settings(instructions=False))
        terminal.press("typed")
        assert "extension" not in await terminal.see("> typed")


# --- keys ---------------------------------------------------------------------------------------------


async def test_chords_after_ctrl_x_are_not_passed_to_extensions() -> None:
    pressed: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        ostler.shortcut("s")(lambda: pressed.append("s"))

    async with run_ui(setup, answers=["told"]) as terminal:
        terminal.press("tell", "ctrl+x")
        await terminal.see("ctrl+x:")
        terminal.press("s")
        await terminal.see("▌ tell", "told")
        assert pressed == []
        terminal.press("s")
        await terminal.until(lambda: pressed == ["s"])


async def test_keys_with_several_modifiers_reach_extensions_and_type_nothing() -> None:
    pressed: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        ostler.shortcut("ctrl+shift+t")(lambda: pressed.append("t"))
        ostler.shortcut("alt+t")(lambda: pressed.append("alt"))

    async with run_ui(setup) as terminal:
        terminal.press("a", "\x1b[116;6u", "\x1b[27;6;84~", "\x1b[115;6u", "\x1bt", "b")
        await terminal.see("> ab")
        await terminal.until(lambda: pressed == ["t", "t", "alt"])
        assert terminal.front_end.editor_text() == "ab"


async def test_a_late_second_escape_counts_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "SECONDS", 0.05)
    async with run_ui(answers=["well"]) as terminal:
        await terminal.tui.submit("hello")
        await terminal.see("✓ completed")
        for _ in range(2):
            terminal.press("esc")
            await terminal.until(lambda: terminal.tui.notice)
            await terminal.until(lambda: not terminal.tui.notice)
        assert terminal.front_end.editor_text() == ""
        monkeypatch.setattr(keys, "SECONDS", 10)
        terminal.press("esc")
        await terminal.until(lambda: terminal.tui.notice)
        terminal.press("esc")
        await terminal.see("> hello")


# --- themes -------------------------------------------------------------------------------------------


async def test_a_configured_theme_applies_while_its_extension_is_loaded() -> None:
    blue = Theme(accent=ThemeColor("#0000aa", "#0000ff"))

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(SessionOpened)
        def bring(event: SessionOpened, context: ExtensionContext) -> None:
            context.ui.register_theme("northern", blue)

    async with run_ui(setup, theme="northern") as terminal:
        front_end, session = terminal.front_end, terminal.tui.conversation.session.id
        assert await missing_theme("northern", front_end.themes, terminal.host, session) == ""
        await terminal.until(lambda: front_end.theme() == "northern")
        colors = terminal.tui.colors()
        assert colors is not None
        assert colors.accent == "#0000ff"
        front_end.set_background(dark=False)  # the terminal answered late
        colors = terminal.tui.colors()
        assert colors is not None
        assert colors.accent == "#0000aa"
        await terminal.tui.submit("/new")
        await terminal.see("started a new session")
        await terminal.until(lambda: front_end.theme() == "northern")
        session = terminal.tui.conversation.session.id
        message = await missing_theme("nrod", front_end.themes, terminal.host, session)
        assert message == "there is no theme 'nrod'; /theme lists the themes"
