"""A conversation in plain lines, one after the other: for screen readers and for the simplest terminals.

Nothing is drawn twice, nothing moves, nothing is said by colour or place. The terminal itself edits the line.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from ostler.extensions.face import Headless
from ostler.faces.cli.expanding import expanded
from ostler.faces.cli.own_output import own_output
from ostler.faces.tui.block_words import block_words, call_words
from ostler.faces.tui.blocks import UserBlock
from ostler.faces.tui.conversation import Conversation
from ostler.faces.tui.earlier import earlier_facts
from ostler.faces.tui.plain_questions import PlainQuestions
from ostler.faces.tui.transcript import Transcript
from ostler.runs.session import Session
from ostler.vocabulary import events
from ostler.vocabulary.errors import OstlerError
from ostler.vocabulary.events import Event, QuestionAsked
from ostler.vocabulary.facts import Fact

EARLIER = 20
"""Blocks of an earlier conversation that are told again."""

_HELP = (
    "Type a prompt and press enter.",
    "/quit leaves, /stop ends the run, /cancel declines a question, /help says this.",
    "Ctrl+C ends the run; when none is under way, it leaves.",
)


class PlainFace(Headless):
    """Asks and prints. What concerns colours or the line to type in is as without a face."""

    name = "plain"
    interactive = True

    def __init__(self) -> None:
        self.conversation: PlainConversation | None = None
        self.questions = PlainQuestions(self.say)

    async def ask(self, asked: QuestionAsked) -> Any:
        return await self.questions.ask(asked)

    def say(self, *lines: str) -> None:
        out = own_output()
        for line in lines:
            print(line, file=out)
        out.flush()

    def size(self) -> tuple[int, int]:
        try:
            columns, rows = os.get_terminal_size(own_output().fileno())
        except OSError:
            return 0, 0
        return columns, rows

    def exit(self) -> None:
        if self.conversation is not None:
            self.conversation.leave()

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
    """Lines in, lines out, for one session."""

    def __init__(self, session: Session, face: PlainFace) -> None:
        self._face = face
        self._transcript = Transcript()
        self._conversation = Conversation(session, None, self._see)
        self._left = asyncio.Event()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._typed = ""
        self._said: list[str] = []
        """What was typed here, and stands on the screen already."""
        self._work: set[asyncio.Task[None]] = set()
        face.conversation = self

    async def run(self, first: str = "") -> None:
        """Until the person leaves."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave)
        session = self._conversation.session
        facts, _ = await earlier_facts(session.journal, EARLIER)
        for block in self._transcript.take(facts)[-EARLIER:]:
            self._face.say(*block_words(block))
        self._face.say(f"ostler with {session.harness.model.name}. /help says what can be typed.")
        self._conversation.begin()
        if first:
            await self._take(first)
        else:
            self._prompt()
        self.read()
        try:
            await self._left.wait()
        finally:
            self.stop_reading()
            await self._conversation.leave()

    def leave(self) -> None:
        self._left.set()

    def _interrupt(self) -> None:
        if self._conversation.is_working:
            self._begin(self._conversation.stop())
        else:
            self.leave()

    # --- what happens ---------------------------------------------------------------------------------

    def _see(self, batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            event = one.event if isinstance(one, Fact) else one
            for block in self._transcript.take([one]):
                if isinstance(block, UserBlock) and block.text in self._said:
                    self._said.remove(block.text)
                else:
                    self._face.say(*block_words(block))
            match event:
                case events.ToolCalled(name=name, arguments=arguments):
                    self._face.say(call_words(name, arguments))
                case events.RunEnded():
                    self._prompt()

    def _prompt(self) -> None:
        if self._face.questions.present is None:
            self._face.say(">")

    # --- what a person types --------------------------------------------------------------------------

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
            self.leave()
            return
        *lines, self._typed = (self._typed + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._begin(self._take(line.rstrip("\r")))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _take(self, line: str) -> None:
        """An answer, a command, or a prompt."""
        try:
            await self._obey(line.strip())
        except OstlerError as error:
            self._face.say(f"error: {error.message}")
            self._prompt()

    async def _obey(self, line: str) -> None:
        name, _, arguments = line.removeprefix("/").partition(" ")
        match line:
            case "/quit" | "/exit":
                self.leave()
            case "/stop":
                await self._conversation.stop()
            case "/help":
                self._face.say(*_HELP)
            case _ if self._face.questions.present is not None:
                self._face.questions.take(line)
            case "":
                self._prompt()
            case _ if line.startswith("/") and name in self._commands():
                await self._run_command(name, arguments.strip())
            case _:
                await self._say(line)

    def _commands(self) -> list[str]:
        host = self._conversation.host
        return list(host.commands()) if host else []

    async def _run_command(self, name: str, arguments: str) -> None:
        host = self._conversation.host
        assert host is not None
        said = await host.run_command(self._conversation.session, name, arguments)
        if said:
            self._face.say(*said.splitlines())
        self._prompt()

    async def _say(self, line: str) -> None:
        harness = self._conversation.harness
        content = await asyncio.to_thread(expanded, (line,), line, harness, self._commands())
        self._said.append(line)
        await self._conversation.say(content)
