"""A conversation in plain lines, for screen readers and simple terminals.

Nothing is drawn twice, nothing moves, and nothing depends on colour or position. The terminal edits the line.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ostler.app.console import real_stdout
from ostler.app.prompt_expansion import expand_at_console, record_read_files
from ostler.app.remote_sessions import RemoteSessions, as_typed
from ostler.core.lazy import lazy_module
from ostler.core.store import Store
from ostler.extensions.ui.front_end import Headless
from ostler.extensions.ui.themes import ThemeRegistry
from ostler.history.items import CallItem, Level, UserItem
from ostler.schema import events
from ostler.schema.errors import OstlerError
from ostler.schema.events import Event, QuestionAsked
from ostler.schema.facts import Fact
from ostler.sessions.session import Session
from ostler.tui.command_context import SessionSwitch
from ostler.tui.commands.registry import Commands
from ostler.tui.conversation import Conversation
from ostler.tui.editor.chips import Chips, PromptDraft
from ostler.tui.model_setup import ModelFallback
from ostler.tui.plain.items import call_words, item_lines, plain, printed_text
from ostler.tui.plain.panels import PlainPanels, PlainQuestions
from ostler.tui.prompt_queue import PromptQueue
from ostler.tui.render.items import ItemRenderer, notice
from ostler.tui.shell import ShellCommands, shell_line
from ostler.tui.transcript import TranscriptView, restored_facts

if TYPE_CHECKING:
    from ostler.tui import first_run
else:
    first_run = lazy_module("ostler.tui.first_run")

_WIDE = 1000
"""Columns of plain mode: nothing is cut."""


class PlainContext:
    """The `CommandContext` of plain mode."""

    def __init__(
        self, plain_face: PlainConversation, face: PlainFrontEnd, conversation: Conversation
    ) -> None:
        self._lines = plain_face
        self.face = face
        self.conversation = conversation
        self.panels = PlainPanels(face.say)
        self.rows = ItemRenderer()
        self.app = _Output(face.say)
        self.writing = _Writing(ShellCommands(self), PromptQueue(self, _Line(face)))
        self.commands = Commands(self)
        self.switching = SessionSwitch(self)
        self.rescue = ModelFallback(self)

    def colors(self) -> None:
        return None

    def say(self, text: str, level: Level = "info") -> None:
        self.face.say(*item_lines(notice(text, level)))

    def show_notice(self, text: str) -> None:
        self.say(text)

    def print_item(self, item: CallItem) -> None:
        self.face.say(*item_lines(item))

    def write(self, text: str) -> None:
        real_stdout().write(text)
        real_stdout().flush()

    def see(self, batch: Sequence[Fact | Event]) -> None:
        self._lines.see(batch)

    async def show(self, conversation: Conversation) -> None:
        self.conversation = conversation
        await self._lines.show(conversation)

    async def submit(self, text: str) -> None:
        await self._lines.obey(text)

    def quit(self) -> None:
        self._lines.quit()

    async def first_steps(self, open_store: Callable[[], Store] | None) -> None:
        await first_run.set_up_model(self, open_store)

    def listed(self) -> list[str]:
        """All commands, one line each."""
        return [
            f"{f'/{one.name} {one.arguments}'.rstrip()}: {plain(one.description)}"
            for one in self.commands.entries()
        ]

    async def close(self) -> None:
        self.rescue.end()
        self.writing.waiting.close()
        await self.writing.shell.stop()


class _Writing(NamedTuple):
    shell: ShellCommands
    waiting: PromptQueue


class _Line:
    """The terminal's own line, which only the person can edit: they are told what to type."""

    text = ""

    def __init__(self, face: PlainFrontEnd) -> None:
        self._face = face

    def put(self, typed: PromptDraft) -> None:
        self._face.set_editor_text(typed.text)

    def put_back(self, typed: PromptDraft) -> bool:
        self.put(typed)
        return True


class _Size(NamedTuple):
    columns: int = _WIDE
    rows: int = _WIDE


class _Output:
    """Prints rows of a command without their styles."""

    size = _Size()
    ends_blank = False

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say

    def print(self, rows: Sequence[str]) -> None:
        self._say(*(line for row in rows if (line := plain(row).rstrip())))

    def refresh(self) -> None:
        """Plain lines are printed once, and never drawn again."""


EARLIER = 20
"""Items of an earlier conversation that are printed again."""

_HELP = (
    "Type a prompt and press enter. During a run, it is queued.",
    "/steer TEXT reaches the model before its next step, /stop stops the run.",
    "Answer a question or a list with a number or with text, /cancel closes it.",
    "!COMMAND runs in the shell. /shown prints what extensions show.",
    "Ctrl+C stops the run; without a run, it quits.",
)


class PlainFrontEnd(Headless):
    """Asks and prints; it has no colours and no input line."""

    name = "plain"
    interactive = True

    def __init__(self) -> None:
        self.conversation: PlainConversation | None = None
        self.questions = PlainQuestions(self.say)
        self.book = ThemeRegistry()

    async def ask(self, asked: QuestionAsked) -> Any:
        return await self.questions.ask(asked)

    def say(self, *lines: str) -> None:
        out = real_stdout()
        for line in lines:
            print(line, file=out)
        out.flush()

    def size(self) -> tuple[int, int]:
        try:
            columns, rows = os.get_terminal_size(real_stdout().fileno())
        except OSError:
            return 0, 0
        return columns, rows

    def set_editor_text(self, text: str) -> None:
        """Prints the text, since the terminal owns the line."""
        self.say("you could type:", *text.splitlines())

    def exit(self) -> None:
        if self.conversation is not None:
            self.conversation.quit()

    async def switch(self, session: str, prompt: str) -> str:
        if self.conversation is None:
            return await super().switch(session, prompt)
        return await self.conversation.context.switching.to(session, prompt)

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        if self.conversation is not None:
            self.conversation.stop_reading()
        try:
            yield
        finally:
            if self.conversation is not None:
                self.conversation.read()


class PlainConversation:
    """Reads lines and prints lines."""

    def __init__(self, session: Session, face: PlainFrontEnd) -> None:
        self._face = face
        self._transcript = TranscriptView()
        self.context = PlainContext(self, face, Conversation(session, None, self.see))
        self._left = asyncio.Event()
        self.is_terminated = False
        """A signal ended it, so nobody may read its output."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._typed = ""
        self._echoed: list[str] = []
        """Prompts that were typed here, and are on the screen already."""
        self._work: set[asyncio.Task[None]] = set()
        face.conversation = self

    @property
    def _conversation(self) -> Conversation:
        return self.context.conversation

    async def run(self, first: str = "", *, needs_model: Callable[[], Store] | bool = False) -> None:
        """Runs until the person quits. `needs_model` sets up a model first; if it opens a store, sessions go
        there."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._terminate)
        await self._tell_earlier()
        self._face.say(f"ostler with {self._conversation.harness.model.name}. /help lists commands.")
        self._conversation.begin()
        self.read()
        self._begin(self._begin_with(first, needs_model))
        try:
            await self._left.wait()
        finally:
            self.stop_reading()
            await self.context.close()
            await self._conversation.close()

    async def _begin_with(self, first: str, needs_model: Callable[[], Store] | bool) -> None:
        if needs_model:
            await self.context.first_steps(needs_model if callable(needs_model) else None)
        await (self._take(first) if first else self._tell_held())

    async def _tell_earlier(self) -> None:
        facts, _ = await restored_facts(self._conversation.session.journal, EARLIER)
        for block in self._transcript.take(facts)[-EARLIER:]:
            self._face.say(*item_lines(block))

    async def show(self, conversation: Conversation) -> None:
        """Shows another session in place of the present one."""
        self._transcript = TranscriptView()
        state = conversation.session.state
        title = f"session {state.id} {state.title}".rstrip()
        self._face.say(title if state.leaf else "started a new session")
        await self._tell_earlier()
        conversation.begin()

    def quit(self) -> None:
        self._left.set()

    def _terminate(self) -> None:
        self.is_terminated = True
        self.quit()

    def _interrupt(self) -> None:
        if self._conversation.is_working:
            self._begin(self._conversation.stop())
        elif self.context.writing.shell:
            self._begin(self.context.writing.shell.stop())
        else:
            self.quit()

    # --- events -----------------------------------------------------------------------------------------

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            event = one.event if isinstance(one, Fact) else one
            for block in self._transcript.take(self.context.writing.waiting.take([one])):
                if isinstance(block, UserItem) and block.text in self._echoed:
                    self._echoed.remove(block.text)
                else:
                    self._face.say(*item_lines(block))
            self.context.rescue.take(event)
            match event:
                case events.ToolCalled(name=name, arguments=arguments):
                    self._face.say(call_words(name, arguments))
                case events.RunEnded() if self._conversation.session.state.held:
                    self._begin(self._tell_held())
                case events.RunEnded():
                    self._prompt()

    async def _tell_held(self) -> None:
        if held := await self.context.writing.waiting.held():
            self._face.say(*held, "an empty line sends held prompts, /queue edits or drops them")
        self._prompt()

    def _prompt(self) -> None:
        if self._face.questions.present is None and self.context.panels.present is None:
            self._face.say(">")

    # --- what a person types ----------------------------------------------------------------------------

    def read(self) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def stop_reading(self) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    def _read(self) -> None:
        data = b""
        with suppress(OSError):  # the terminal is gone
            data = os.read(sys.stdin.fileno(), 1 << 16)
        if not data:
            self.stop_reading()
            self.quit()
            return
        *lines, self._typed = (self._typed + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._begin(self._take(line.rstrip("\r")))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _take(self, line: str) -> None:
        """Handles a line: an answer, a command or a prompt."""
        try:
            await self.obey(line.strip())
        except OstlerError as error:
            self._face.say(f"error: {error.message}")
            self._prompt()

    async def obey(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        match name:
            case "/stop":
                await self._conversation.stop()
            case "/help" | "/h" | "/?":
                self._face.say(*_HELP, *self.context.listed())
                self._prompt()
            case "/quit" | "/exit" | "/q":
                self.quit()
            case _ if self._face.questions.present is not None:
                self._face.questions.take(line)
            case _ if self.context.panels.present is not None:
                self.context.panels.take(line)
            case "":
                await self._conversation.release()
                self._prompt()
            case "/shown":
                self._face.say(*await printed_text(self._conversation.host, self._conversation.session.id))
                self._prompt()
            case "/steer":
                await self._say(rest.strip(), steers=True)
            case _ if (shell := shell_line(line)) is not None and shell.command:
                await self.context.writing.shell.run(shell)
                self._prompt()
            case _ if await self.context.commands.run(line):
                self._prompt()
            case _:
                await self._say(line)

    async def _say(self, line: str, *, steers: bool = False) -> None:
        if not line:
            self._face.say("error: add a text: /steer TEXT")
            return
        conversation = self._conversation
        names = [one.name for one in self.context.commands.entries()]
        waiting, typed = self.context.writing.waiting, PromptDraft(line, Chips())
        if isinstance(conversation.store, RemoteSessions):
            content = as_typed(typed)
        else:
            expansion = await asyncio.to_thread(expand_at_console, (line,), conversation.harness, names)
            record_read_files(conversation.session.memory, expansion)
            content = expansion.blocks
        if steers and conversation.is_working:
            self._face.say("the model reads it before its next step")
            waiting.sent(await conversation.steer(content), typed, content)
            return
        if await conversation.is_busy():
            self._face.say("queued; /steer TEXT reaches the run in progress")
        self._echoed.append(line)
        waiting.sent(await conversation.prompt(content), typed)
