"""A conversation in plain lines, for screen readers and simple terminals.

Nothing is drawn twice, nothing moves, and nothing depends on colour or position. The terminal edits the line.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from ostler.app.console import real_stdout
from ostler.app.prompt_expansion import expand_at_console, record_read_files
from ostler.app.remote_sessions import RemoteSessions, as_typed
from ostler.extensions.ui.front_end import Headless
from ostler.extensions.ui.themes import ThemeRegistry
from ostler.history.items import CallItem, Level, UserItem
from ostler.schema import events
from ostler.schema.errors import OstlerError
from ostler.schema.events import Event, QuestionAsked
from ostler.schema.facts import Fact
from ostler.sessions.session import Session
from ostler.tui.command_context import SessionSwitch, SetUp
from ostler.tui.commands.registry import Commands
from ostler.tui.conversation import PAUSED, Conversation, Tasks
from ostler.tui.editor.chips import Chips, PromptDraft
from ostler.tui.model_setup import ModelFallback
from ostler.tui.plain.items import call_words, item_lines, plain, printed_text
from ostler.tui.plain.panels import PlainPanels, PlainQuestions
from ostler.tui.prompt_queue import PromptQueue
from ostler.tui.render.items import ItemRenderer, notice
from ostler.tui.shell import ShellCommands, shell_line
from ostler.tui.transcript import TranscriptView, restored_facts


class _Composer(NamedTuple):
    shell: ShellCommands
    queue: PromptQueue


class _Line:
    """The terminal's own line, which only the person can edit: what to type is printed."""

    text = ""

    def __init__(self, front_end: PlainFrontEnd) -> None:
        self._front_end = front_end

    def put(self, draft: PromptDraft) -> None:
        self._front_end.set_editor_text(draft.text)

    def put_back(self, draft: PromptDraft) -> bool:
        self.put(draft)
        return True


class _Output:
    """Prints rows of a command without their styles."""

    size = os.terminal_size((1000, 1000))  # nothing is cut
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
    "Answer a question or a list with a number or a word that it lists, /cancel closes it.",
    "Any other answer to a permission declines it, and the model reads it as the reason.",
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
        self.themes = ThemeRegistry()

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
        return await self.conversation.session_switch.to(session, prompt)

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
    """Reads lines and prints lines. It is the `CommandContext` of plain mode."""

    def __init__(self, session: Session, front_end: PlainFrontEnd) -> None:
        self.front_end = front_end
        front_end.conversation = self
        self._print = front_end.say
        self.conversation = Conversation(session, None, self.see)
        self._find_files()
        self._transcript = TranscriptView()
        self.panels = PlainPanels(self._print)
        self.rows = ItemRenderer()
        self.app = _Output(self._print)
        self.composer = _Composer(ShellCommands(self), PromptQueue(self, _Line(front_end)))
        self.commands = Commands(self)
        self.session_switch = SessionSwitch(self)
        self._fallback = ModelFallback(self)
        self._has_quit = asyncio.Event()
        self.is_terminated = False
        """A signal ended it, so nobody may read its output."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._typed = ""
        self._echoed: list[str] = []
        """Prompts that were typed here, and are on the screen already."""
        self._tasks = Tasks()

    async def run(self, first: str = "", set_up: SetUp | None = None) -> None:
        """Runs until the person quits. `set_up` sets up a model first."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._terminate)
        await self._print_earlier()
        self._print(f"ostler with {self.conversation.harness.model.name}. /help lists commands.")
        self.conversation.begin()
        self.read()
        self._tasks.start(self._begin(first, set_up))
        try:
            await self._has_quit.wait()
        finally:
            self.stop_reading()
            await self.close()

    async def close(self) -> None:
        self._fallback.end()
        self.composer.queue.close()
        await self.composer.shell.stop()
        await self.conversation.close()

    async def _begin(self, first: str, set_up: SetUp | None) -> None:
        if set_up is not None:
            await set_up(self)
        await (self._take(first) if first else self._print_held())

    async def _print_earlier(self) -> None:
        facts, _ = await restored_facts(self.conversation.session.journal, EARLIER)
        for item in self._transcript.take(facts)[-EARLIER:]:
            self._print(*item_lines(item))
        if self.conversation.is_paused:
            self._print(PAUSED)

    async def show(self, conversation: Conversation) -> None:
        """Shows another session in place of the present one."""
        self.conversation = conversation
        self._find_files()
        self._transcript = TranscriptView()
        state = conversation.session.state
        self._print(f"session {state.id} {state.title}".rstrip() if state.leaf else "started a new session")
        await self._print_earlier()
        conversation.begin()

    def _find_files(self) -> None:
        """The files of a remote session are on another machine."""
        is_remote = isinstance(self.conversation.store, RemoteSessions)
        self.front_end.questions.cwd = None if is_remote else self.conversation.harness.cwd

    def quit(self) -> None:
        self._has_quit.set()

    def _terminate(self) -> None:
        self.is_terminated = True
        self.quit()

    def _interrupt(self) -> None:
        if self.conversation.is_working:
            self._tasks.start(self.conversation.stop())
        elif self.composer.shell:
            self._tasks.start(self.composer.shell.stop())
        else:
            self.quit()

    # --- output -----------------------------------------------------------------------------------------

    def colors(self) -> None:
        return None

    def say(self, text: str, level: Level = "info") -> None:
        self._print(*item_lines(notice(text, level)))

    def show_notice(self, text: str) -> None:
        self.say(text)

    def print_item(self, item: CallItem) -> None:
        self._print(*item_lines(item))

    def write(self, text: str) -> None:
        real_stdout().write(text)
        real_stdout().flush()

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            event = one.event if isinstance(one, Fact) else one
            for item in self._transcript.take(self.composer.queue.take([one])):
                if isinstance(item, UserItem) and item.text in self._echoed:
                    self._echoed.remove(item.text)
                else:
                    self._print(*item_lines(item))
            self._fallback.take(event)
            match event:
                case events.ToolCalled(name=name, arguments=arguments):
                    self._print(call_words(name, arguments))
                case events.RunEnded() if self.conversation.session.state.held:
                    self._tasks.start(self._print_held())
                case events.RunEnded():
                    self._print_prompt()
                case events.RunWaiting(reason="paused"):
                    self._print(PAUSED)
                    self._print_prompt()

    async def _print_held(self) -> None:
        if prompts := await self.composer.queue.held():
            self._print(*prompts, "an empty line sends held prompts, /queue edits or drops them")
        self._print_prompt()

    def _print_prompt(self) -> None:
        if self.front_end.questions.present is None and self.panels.present is None:
            self._print(">")

    # --- input ------------------------------------------------------------------------------------------

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
            self._tasks.start(self._take(line.rstrip("\r")))

    async def _take(self, line: str) -> None:
        """Handles a line: an answer, a command or a prompt."""
        try:
            await self.submit(line.strip())
        except OstlerError as error:
            self._print(f"error: {error.message}")
            self._print_prompt()

    async def submit(self, text: str) -> None:
        name, _, arguments = text.partition(" ")
        match name:
            case "/stop":
                await self.conversation.stop()
            case "/help" | "/h" | "/?":
                self._print(*_HELP, *self._command_lines())
                self._print_prompt()
            case "/quit" | "/exit" | "/q":
                self.quit()
            case _ if self.front_end.questions.is_answerable:
                self.front_end.questions.take(text)
            case _ if self.panels.present is not None:
                self.panels.take(text)
            case "":
                await self.conversation.release()
                await self.conversation.resume()
                self._print_prompt()
            case "/shown":
                self._print(*await printed_text(self.conversation.host, self.conversation.session.id))
                self._print_prompt()
            case "/steer":
                await self._send(arguments.strip(), steers=True)
            case _ if (shell := shell_line(text)) is not None and shell.command:
                await self.composer.shell.run(shell)
                self._print_prompt()
            case _ if await self.commands.run(text):
                self._print_prompt()
            case _:
                await self._send(text)

    def _command_lines(self) -> list[str]:
        return [
            f"{f'/{one.name} {one.arguments}'.rstrip()}: {plain(one.description)}"
            for one in self.commands.entries()
        ]

    async def _send(self, text: str, *, steers: bool = False) -> None:
        if not text:
            self._print("error: add a text: /steer TEXT")
            return
        conversation, queue, draft = self.conversation, self.composer.queue, PromptDraft(text, Chips())
        if isinstance(conversation.store, RemoteSessions):
            content = as_typed(draft)
        else:
            names = [one.name for one in self.commands.entries()]
            expansion = await asyncio.to_thread(expand_at_console, (text,), conversation.harness, names)
            record_read_files(conversation.session.memory, expansion)
            content = expansion.blocks
        if steers and conversation.is_working:
            self._print("the model reads it before its next step")
            queue.sent(await conversation.steer(content), draft, content)
            return
        if await conversation.is_busy():
            self._print("queued; /steer TEXT reaches the run in progress")
        self._echoed.append(text)
        queue.sent(await conversation.prompt(content), draft)
