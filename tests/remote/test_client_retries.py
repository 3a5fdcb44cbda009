"""A stream that breaks: it is tried again, given up in words, and the terminal is left as it was."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import termios
from collections.abc import AsyncGenerator, Iterator

import pytest

from ostler.remote.client import ServerUnreachable, Unauthorized
from ostler.remote.live_screen import AgentStatus, ScreenEvent, Size
from ostler.tui.attach import screen_view
from ostler.tui.attach.screen_view import OwnTerminal, ScreenView


class Source:
    """Shows a little, then breaks with these, one after the other; the last one for ever."""

    def __init__(self, *problems: Exception) -> None:
        self._problems = list(problems)
        self.asked = 0

    async def follow(self) -> AsyncGenerator[ScreenEvent, None]:
        self.asked += 1
        if self.asked == 1:
            yield Size(20, 10)
            yield b"it was seen"
        raise self._problems.pop(0) if len(self._problems) > 1 else self._problems[0]

    async def press(self, keys: str) -> None:
        raise AssertionError("nothing is typed")

    async def status(self) -> AgentStatus:
        return AgentStatus("custom", "is at work")


@pytest.fixture
def terminal() -> Iterator[OwnTerminal]:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    yield OwnTerminal(theirs, theirs)
    assert termios.tcgetattr(theirs) == before
    written = b""
    while not written.endswith(b"\x1b[?1049l") and select.select([ours], [], [], 60)[0]:
        written += os.read(ours, 1 << 16)
    assert written.startswith(b"\x1b[?1049h") and written.endswith(b"\x1b[?1049l")
    os.close(ours)
    os.close(theirs)


async def run(source: Source, terminal: OwnTerminal) -> screen_view.ViewEnd:
    view = ScreenView(source, terminal, await source.status(), detach=b"\x1d", named="ctrl+]")
    async with asyncio.timeout(60):
        return await view.run()


async def test_a_server_that_stays_away_is_given_up(
    terminal: OwnTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen_view, "GIVE_UP", 0.1)
    monkeypatch.setattr(screen_view, "TRY_AGAIN", (0.01,))
    source = Source(ServerUnreachable("nobody is there"))
    parting = await run(source, terminal)
    assert parting.exit_code == 1
    assert parting.message == "gave up after 0 s: nobody is there"
    assert source.asked >= 2


async def test_a_revoked_token_is_reported_at_once(terminal: OwnTerminal) -> None:
    with pytest.raises(Unauthorized, match="the token was revoked"):
        await run(Source(ServerUnreachable("a moment"), Unauthorized("the token was revoked")), terminal)


async def test_a_mistake_of_ours_leaves_the_terminal_as_it_was(terminal: OwnTerminal) -> None:
    with pytest.raises(ZeroDivisionError):
        await run(Source(ZeroDivisionError()), terminal)
