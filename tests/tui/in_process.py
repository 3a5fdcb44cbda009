"""The terminal UI in this process: keys from a pipe, and an emulator in memory that shows what is drawn."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output
from pyghostty import Terminal as Emulator

from ostler.core.harness import Harness
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension import Extension
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.host import ExtensionHost
from ostler.models.scripted import ScriptedModel
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from ostler.tui.front_end import TuiFrontEnd
from ostler.tui.terminal_ui import TerminalUI
from tests.support.extension_session import extension
from tests.tui.terminal import KEYS

PATIENCE = 60


class Screen(io.StringIO):
    """What the UI writes to."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.size = Size(rows, columns)
        self.emulator = Emulator(columns, rows)
        self.drawn = asyncio.Event()

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.emulator.feed(text.encode())
        self.drawn.set()
        return len(text)

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.emulator.contents().splitlines()).rstrip()


class RunningUI:
    """A UI at work, with one extension, `demo`."""

    def __init__(self, tui: TerminalUI, host: ExtensionHost, screen: Screen, keyboard: PipeInput) -> None:
        self.tui = tui
        self.host = host
        self.screen = screen
        self._keyboard = keyboard

    @property
    def front_end(self) -> TuiFrontEnd:
        return self.tui.front_end

    @property
    def context(self) -> ExtensionContext:
        return self.host.sessions[self.tui.conversation.session.id].channels["demo"].context

    def press(self, *keys: str) -> None:
        """Keys by their names; anything else is typed."""
        for key in keys:
            self._keyboard.send_text(KEYS.get(key, key))

    async def until_asked(self) -> None:
        """Waits until keys are for a question."""
        await self.until(lambda: self.tui.is_asked and self.tui.panels.takes_text)

    async def answer(self, *keys: str) -> None:
        """Presses keys once they are for the question; then Enter."""
        await self.until_asked()
        self.press(*keys, "enter")

    def resize(self, columns: int, rows: int) -> None:
        self.screen.size = Size(rows, columns)
        self.screen.emulator.resize(columns, rows)
        self.tui.app.application._on_resize()

    async def until(self, condition: Callable[[], Any]) -> None:
        """Checks after each frame, and now and then, since not every change is drawn."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    self.screen.drawn.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.screen.drawn.wait(), 0.02)
        except TimeoutError:
            raise AssertionError(f"the terminal shows:\n{self.screen.text()}") from None

    async def see(self, *texts: str) -> str:
        """The screen, once it shows all of this."""
        await self.until(lambda: all(text in self.screen.text() for text in texts))
        return self.screen.text()

    async def until_gone(self, text: str) -> str:
        """The screen, once it does not show this any more."""
        await self.until(lambda: text not in self.screen.text())
        return self.screen.text()


@asynccontextmanager
async def run_ui(
    setup: Callable[[ExtensionAPI], Any] = lambda ostler: None,
    *,
    answers: Sequence[Any] = (),
    columns: int = 80,
    rows: int = 24,
    beside: Sequence[Extension] = (),
    theme: str = "default",
    **harness: Any,
) -> AsyncIterator[RunningUI]:
    """The UI shows a session of a scripted model until the end of the block."""
    front_end, screen = TuiFrontEnd(), Screen(columns, rows)
    front_end.begin_with(theme)
    host = ExtensionHost([extension("demo", setup), *beside], face=front_end)
    made = Harness(model=ScriptedModel(list(answers)), asker=front_end.ask, **harness)
    host.install_into(made)
    session = await create_session(MemoryStore(), made)
    output = Vt100_Output(screen, lambda: screen.size, term="xterm-256color", enable_cpr=False)
    with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=output):
        tui = TerminalUI(session, host, front_end, input=keyboard, output=output)
        running = asyncio.ensure_future(tui.run())
        present = RunningUI(tui, host, screen, keyboard)
        try:
            await present.until(lambda: tui.app.application.is_running)
            yield present
        finally:
            tui.app.exit()
            await asyncio.wait_for(running, PATIENCE)
