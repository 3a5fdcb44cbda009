"""Escape: it stops what is under way, and a second time leads back to before the last prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from ostler.faces.tui.conversation import Conversation
from ostler.faces.tui.input_line import InputLine
from ostler.faces.tui.pressed_twice import PressedTwice
from ostler.faces.tui.shell_commands import ShellCommands
from ostler.faces.tui.waiting_prompts import WaitingPrompts
from ostler.vocabulary.events import RequestRefused, UserMessage
from ostler.vocabulary.requests import Navigate

CLEAR_FIRST = "to go back to your last prompt, clear the line first"


class _Left(msgspec.Struct, frozen=True):
    session: str
    leaf: int
    """Where the session stood."""
    to: int
    text: str
    """What was put into the line."""


class GoingBack:
    def __init__(
        self,
        conversation: Callable[[], Conversation],
        line: InputLine,
        shell: ShellCommands,
        waiting: WaitingPrompts,
        twice: PressedTwice,
        say: Callable[[str], None],
    ) -> None:
        self._conversation = conversation
        self._line = line
        self._shell = shell
        self._waiting = waiting
        self._twice = twice
        self._say = say
        self._first_at: tuple[str, int] = ("", 0)
        self._first_run = ""
        """What an Escape that may be the first of two has stopped."""
        self._in_turn = asyncio.Lock()
        self._left: _Left | None = None

    def escape(self) -> Coroutine[Any, Any, None]:
        """What counts is what was there when the key was pressed. The second of two belongs to the first only
        if nothing else has begun in between."""
        session = self._conversation().session
        at, run = (session.id, max(session.state.prompts, default=0)), session.state.run
        is_second = self._twice.is_second and at == self._first_at and (not run or run.id == self._first_run)
        if is_second:
            self._say("")
            return self._go()
        self._first_at, self._first_run = at, run.id if run else ""
        if not self._line.text and not self._shell and (run or session.state.prompts):
            self._twice.first()
        return self._escape(is_empty=not self._line.text)

    async def _escape(self, *, is_empty: bool) -> None:
        async with self._in_turn:
            if self._shell:
                await self._shell.stop()
            elif self._conversation().session.state.run is not None or await self._conversation().is_busy():
                await self.stop()
            elif not is_empty:
                self._say(CLEAR_FIRST)

    async def _go(self) -> None:
        async with self._in_turn:
            await self.go()

    async def stop(self) -> None:
        """Ends the run under way, and one that is about to begin."""
        conversation = self._conversation()
        await conversation.stop()
        is_ours = conversation.session.state.run is None and not conversation.is_elsewhere
        if is_ours and await conversation.is_busy():
            conversation.session.cancel()

    async def go(self) -> None:
        """The session goes on from before the last prompt, which is in the line to be changed."""
        conversation = self._conversation()
        session = conversation.session
        await _at_rest(conversation)
        if self._line.text:
            self._say(CLEAR_FIRST)
        if not session.state.prompts or self._line.text:
            return
        leaf, number = session.state.leaf, max(session.state.prompts)
        fact = (await conversation.store.read(session.id, number - 1, 1))[0]
        to, prompt = fact.parent or 0, fact.event
        assert isinstance(prompt, UserMessage)
        came = await conversation.ask(lambda id: Navigate(id=id, by="tui", entry=to))
        if isinstance(came, RequestRefused):
            return
        typed = self._waiting.typed_for(prompt.request, prompt.content)
        self._line.put_back(typed)
        self._left = _Left(session.id, leaf, to, typed.text)
        self._say("back before your last prompt; ctrl+c leads to where you were, and files stay as they are")

    async def return_(self, cleared: str) -> str:
        """Whoever clears what was put into the line did not want to go back. Returns what came of it."""
        left, self._left = self._left, None
        conversation = self._conversation()
        session = conversation.session
        if left is None or (session.id, session.state.leaf, cleared) != (left.session, left.to, left.text):
            return ""
        came = await conversation.ask(lambda id: Navigate(id=id, by="tui", entry=left.leaf))
        return "" if isinstance(came, RequestRefused) else "the conversation goes on from where it was"


async def _at_rest(conversation: Conversation) -> None:
    came = asyncio.Event()
    stop = conversation.observe(lambda batch: came.set())
    try:
        while conversation.session.state.run is not None or await conversation.is_busy():
            came.clear()
            await came.wait()
    finally:
        stop()
