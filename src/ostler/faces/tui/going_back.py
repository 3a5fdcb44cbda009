"""Escape: it stops what is under way, and a second time leads back to before the last prompt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from ostler.faces.tui.conversation import Conversation
from ostler.faces.tui.input_line import InputLine
from ostler.faces.tui.shell_commands import ShellCommands
from ostler.faces.tui.waiting_prompts import WaitingPrompts
from ostler.runs.session import Session
from ostler.vocabulary.events import RequestRefused, UserMessage
from ostler.vocabulary.requests import Navigate

TWICE_SECONDS = 0.8


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
        say: Callable[[str], None],
    ) -> None:
        self._conversation = conversation
        self._line = line
        self._shell = shell
        self._waiting = waiting
        self._say = say
        self._escaped = -TWICE_SECONDS
        self._has_stopped = False
        """By the Escape before."""
        self._left: _Left | None = None

    def escape(self) -> Coroutine[Any, Any, None]:
        """What counts is what was there when the key was pressed."""
        now = time.monotonic()
        is_twice = now - self._escaped <= TWICE_SECONDS
        self._escaped = now
        return self._escape(is_twice=is_twice, is_empty=not self._line.text)

    async def _escape(self, *, is_twice: bool, is_empty: bool) -> None:
        conversation = self._conversation()
        is_busy = conversation.session.state.run is not None or await conversation.is_busy()
        if self._shell:
            await self._shell.stop()
            return
        has_stopped, self._has_stopped = self._has_stopped and is_twice, is_busy
        if is_busy and not has_stopped:
            await self.stop()
        if is_empty and (is_twice or not is_busy):
            await self.go()
        elif is_twice:
            self._say("to go back to your last prompt, clear the line first")

    async def stop(self) -> None:
        """Ends the run under way, and one that is about to begin."""
        conversation = self._conversation()
        await conversation.stop()
        if conversation.session.state.run is None and await conversation.is_busy():
            conversation.session.cancel()

    async def go(self) -> None:
        """The session goes on from before the last prompt, which is in the line to be changed."""
        conversation = self._conversation()
        session = conversation.session
        await _at_rest(session)
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

    async def return_(self, cleared: str) -> None:
        """Whoever clears what was put into the line did not want to go back."""
        left, self._left = self._left, None
        conversation = self._conversation()
        session = conversation.session
        if left is None or (session.id, session.state.leaf, cleared) != (left.session, left.to, left.text):
            return
        came = await conversation.ask(lambda id: Navigate(id=id, by="tui", entry=left.leaf))
        if not isinstance(came, RequestRefused):
            self._say("the conversation goes on from where it was")


async def _at_rest(session: Session) -> None:
    came = asyncio.Event()
    stop = session.observe(lambda batch: came.set())
    try:
        while session.state.run is not None:
            came.clear()
            await came.wait()
    finally:
        stop()
