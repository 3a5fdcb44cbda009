"""Commands, lists, steering and stopping in plain lines."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ostler.core.harness import Harness
from ostler.models.scripted import Call, ScriptedModel
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from ostler.testkit.vendors import call, turn
from ostler.tui.panels.panel import TextLine
from ostler.tui.panels.picker import Choice, Picker
from ostler.tui.plain.conversation import PlainConversation, PlainFrontEnd
from ostler.tui.plain.panels import PlainPanels
from tests.support.command import Ostler
from tests.support.fixtures import Configure, Open, Serve
from tests.tui.terminal import Terminal

DRAWN = set("╭│╰─▌⠋⠙❯›•✓✗▏")


def _say(terminal: Terminal, *lines: str) -> None:
    for line in lines:
        terminal.type(line)
        terminal.press("enter")


def test_choices_are_numbered_and_runs_are_steered_and_stopped(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    waits = call("bash", {"command": "while [ ! -e go ]; do sleep 0.05; done"})
    vendor = serve(turn(waits), turn("so be it"), turn("second"), turn(call("bash", {"command": "sleep 60"})))
    terminal = open_tui(vendor, "--plain", "--yes", columns=100, rows=60)
    terminal.wait_for(">")
    _say(terminal, "/thinking")
    assert "3. low" in terminal.wait_for("answer:")
    _say(terminal, "3")
    terminal.wait_for("thinking: low")
    _say(terminal, "begin")
    terminal.wait_for("calling bash")
    _say(terminal, "/steer be brief", "and then this", "/model x/y")
    terminal.wait_for("the model reads it before its next step")
    terminal.wait_for("queued; /steer TEXT")
    (ostler.work / "go").touch()
    terminal.wait_for("You: be brief")
    terminal.wait_for_answer("second")
    _say(terminal, "/resume")
    assert "1. begin" in terminal.wait_for("ctrl+d and a number: deletes")
    _say(terminal, "/cancel", "last one")
    terminal.wait_for("sleep 60")
    _say(terminal, "/stop")
    screen = terminal.wait_for("cancelled")
    assert not DRAWN & set(terminal.everything())
    assert "\x1b" not in screen
    _say(terminal, "/quit")
    assert terminal.wait_for_end() == 0


def test_the_first_run_numbers_the_ways_to_set_up_a_model(configure: Configure, ostler: Ostler) -> None:
    configure("screen_reader = true")
    command = [Path(sys.executable).parent / "ostler"]
    environment = ostler.environment({"LANG": "C.UTF-8"})
    with Terminal(command, environment=environment, cwd=ostler.work, columns=100, rows=12) as terminal:
        terminal.wait_for("choose: how do you want to set up a model?")
        assert "no model is set up yet" in terminal.everything()
        terminal.wait_for("answer:")
        _say(terminal, "add an API key")
        terminal.wait_for_ever("choose: which provider?")
        terminal.wait_for("11.")
        _say(terminal, "openai")
        terminal.wait_for("key for openai:")
        _say(terminal, "/cancel")
        terminal.wait_for("the demo,")
        _say(terminal, "the demo")
        terminal.wait_for("the model is now")
        assert not DRAWN & set(terminal.everything())


# --- without a terminal -------------------------------------------------------------------------------


class RecordingFrontEnd(PlainFrontEnd):
    def __init__(self) -> None:
        super().__init__()
        self.printed: list[str] = []
        self._news = asyncio.Event()

    def say(self, *lines: str) -> None:
        self.printed += lines
        self._news.set()

    async def until_printed(self, beginning: str) -> None:
        async with asyncio.timeout(60):
            while not any(line.startswith(beginning) for line in self.printed):
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def _conversation(
    *answers: Any, cwd: Path
) -> AsyncIterator[tuple[PlainConversation, RecordingFrontEnd]]:
    front_end = RecordingFrontEnd()
    harness = Harness(model=ScriptedModel(list(answers)), asker=front_end.ask, cwd=cwd)
    lines = PlainConversation(await create_session(MemoryStore(), harness), front_end)
    lines.conversation.begin()
    try:
        yield lines, front_end
    finally:
        await lines.close()


async def test_every_command_works_in_plain_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that needs more of its context than plain mode has would fail here."""
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDITOR", "true")
    async with _conversation("hello", "again", "aside", "more", cwd=tmp_path) as (lines, front_end):
        await lines.submit("say hello")
        await front_end.until_printed("completed")
        names = [one.name for one in lines.commands.own if one.name != "quit"]
        for name in names:
            running = asyncio.ensure_future(lines.submit(f"/{name}"))
            async with asyncio.timeout(60):
                while not running.done():
                    await asyncio.wait({running}, timeout=0.02)
                    if lines.panels.present is not None:
                        await lines.submit("/cancel")
            assert running.exception() is None, name
        for name in ("btw what is it", "edit a.txt", "rename it", "export s.md", "cost model", "jump 99"):
            await asyncio.wait_for(lines.submit(f"/{name}"), 60)
    assert not [line for line in front_end.printed if DRAWN & set(line)]
    assert not [line for line in front_end.printed if "\x1b" in line]


@pytest.mark.parametrize(
    ("typed", "chosen", "key"),
    [
        (["2"], "two", "enter"),
        (["tab 3"], "three", "tab"),
        (["tab"], "one", "tab"),
        (["THREE"], "three", "enter"),
        (["hre", "1"], "three", "enter"),
        (["nothing like it", "1"], "one", "enter"),
        (["99", "", "1"], "one", "enter"),
        (["/cancel"], None, ""),
    ],
)
async def test_a_list_entry_is_chosen_by_number_or_text(
    typed: list[str], chosen: str | None, key: str
) -> None:
    printed: list[str] = []
    panels = PlainPanels(lambda *lines: printed.extend(lines))
    choices = [
        Choice("one", cells=("a",), about="the first"),
        Choice("two", is_present=True),
        Choice("three"),
    ]
    asking = asyncio.ensure_future(
        Picker("number", choices, lambda: None, keys={"tab": "others"}).ask(panels)
    )
    await asyncio.sleep(0)
    assert printed[:4] == ["choose: number", "1. one, a, the first", "2. two, current", "3. three"]
    for line in typed:
        panels.take(line)
    picked = await asking
    assert (picked and (picked.choice.text, picked.key)) == (chosen and (chosen, key))


async def test_a_long_list_is_printed_in_pages() -> None:
    printed: list[str] = []
    panels = PlainPanels(lambda *lines: printed.extend(lines))
    choices = [Choice(f"number {at}", at) for at in range(1, 51)]
    asking = asyncio.ensure_future(Picker("many", choices, lambda: None).ask(panels))
    await asyncio.sleep(0)
    assert "and 30 more: press enter for the next" in printed
    assert len([line for line in printed if re.match(r"\d+\. ", line)]) == 20
    panels.take("")
    assert "21. number 21" in printed
    panels.take("50")
    picked = await asking
    assert picked is not None
    assert picked.choice.value == 50


async def test_a_secret_line_is_not_echoed() -> None:
    printed: list[str] = []
    panels = PlainPanels(lambda *lines: printed.extend(lines))
    asking = asyncio.ensure_future(TextLine("key for it", lambda: None, is_secret=True).ask(panels))
    await asyncio.sleep(0)
    panels.take("s3cret")
    assert await asking == "s3cret"
    assert printed == ["key for it:", "type it, or /cancel"]


async def test_calls_and_steers_are_printed_as_plain_lines(tmp_path: Path) -> None:
    async with _conversation(Call("nothing"), "done", cwd=tmp_path) as (lines, front_end):
        await lines.submit("/steer")
        await lines.submit("begin")
        await front_end.until_printed("completed")
    assert front_end.printed[0] == "error: add a text: /steer TEXT"
    assert "calling nothing:" in " ".join(front_end.printed)
