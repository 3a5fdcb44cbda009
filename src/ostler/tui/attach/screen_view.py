"""The live screen of a terminal agent in this terminal: keys go through to the agent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress

import msgspec

from ostler.drivers.screen import Screen, open_screen
from ostler.remote.client import ServerUnreachable
from ostler.remote.live_screen import LONGEST_MESSAGE, AgentStatus, Ended, LiveScreen, ScreenEvent, Size
from ostler.schema.errors import OstlerError, UsageError
from ostler.schema.text import cut
from ostler.tui.attach.viewport import Keyboard, Painter, Part, ViewCommand, part_of

_ENTER = b"\x1b[?1049h\x1b[H\x1b[2J\x1b[?25l"
_LEAVE = b"\x1b[?2026l\x1b[?2004l\x1b[?1l\x1b[0m\x1b[?25h\x1b[?1049l"


class OwnTerminal:
    def __init__(self, keys: int, screen: int) -> None:
        self.keys = keys
        self._screen = screen

    @property
    def size(self) -> os.terminal_size:
        return os.get_terminal_size(self._screen)

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._screen, data) :]

    def read(self) -> bytes:
        return os.read(self.keys, 65536)

    @contextmanager
    def raw_screen(self) -> Iterator[None]:
        """The terminal in raw mode, on its alternate screen."""
        before = termios.tcgetattr(self.keys)
        try:
            tty.setraw(self.keys)
            self.write(_ENTER)
            yield
        finally:
            with suppress(OSError):  # the terminal itself may be gone
                self.write(_LEAVE)
            with suppress(termios.error):
                termios.tcsetattr(self.keys, termios.TCSAFLUSH, before)


def own_terminal() -> OwnTerminal:
    """Raises `UsageError` without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stdout.isatty():
        raise UsageError("attach needs a terminal; `ostler follow` prints a run without one")
    return OwnTerminal(sys.stdin.fileno(), sys.stdout.fileno())


FRAME = 1 / 30
"""Seconds between two frames, at least."""

HALF_DRAWN = 0.3
"""Seconds after which an unfinished update of the agent is drawn anyway."""

FLUSH_SECONDS = 0.03
"""Seconds to wait for the rest of a key."""

ASK_STATUS = 1.0
STATUS_SETTLES = 15.0
"""Seconds after the last change of the screen while the status may still change."""

GIVE_UP = 30.0
"""Seconds without a connection."""

TRY_AGAIN = (0.1, 0.3, 1.0, 2.0)


class ViewEnd(msgspec.Struct, frozen=True):
    """Why the view ended."""

    message: str
    exit_code: int = 0


class ScreenView:
    """Shows the screen until the person detaches, the agent ends, or the server stays away."""

    def __init__(
        self, source: LiveScreen, terminal: OwnTerminal, status: AgentStatus, *, detach: bytes, named: str
    ) -> None:
        self._source = source
        self._terminal = terminal
        self._status = status
        self._named = named
        """The name of the key that detaches."""
        self.read_only = False
        self._keyboard = Keyboard(detach)
        self._screen: Screen | None = None
        self._painter = Painter()
        self._top: int | None = None
        """The first visible row; None while the view follows the end."""
        self._part = Part((), 0, 80)
        self._problem = ""
        self._notice = ""
        self._typed: list[str] = []
        self._has_typed = asyncio.Event()
        self._changed_at = 0.0
        self._frame: asyncio.TimerHandle | None = None
        self._painted_at = 0.0
        self._flush_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[ViewEnd] = self._loop.create_future()

    async def run(self) -> ViewEnd:
        open_screen(80, 24).close()  # fails here without an emulator, before we take the terminal
        with self._terminal.raw_screen():
            tasks = [
                asyncio.ensure_future(one) for one in (self._follow(), self._send(), self._update_status())
            ]
            for task in tasks:
                task.add_done_callback(self._task_ended)
            try:
                async with self._listening():
                    self._refresh()
                    return await self._over
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                if self._frame is not None:
                    self._frame.cancel()
                if self._screen is not None:
                    self._screen.close()

    def _task_ended(self, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self._over.done():
            self._over.set_exception(error)

    def _end(self, message: str, exit_code: int = 0) -> None:
        if not self._over.done():
            self._over.set_result(ViewEnd(message, exit_code))

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        """Listens to keys and signals."""
        ending = (signal.SIGTERM, signal.SIGHUP)
        for number in ending:
            self._loop.add_signal_handler(number, self._end, "", 128 + number)
        self._loop.add_signal_handler(signal.SIGWINCH, self._resized)
        self._loop.add_reader(self._terminal.keys, self._read)
        try:
            yield
        finally:
            self._loop.remove_reader(self._terminal.keys)
            for number in (*ending, signal.SIGWINCH):
                self._loop.remove_signal_handler(number)

    # --- drawing ----------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Connects, and reconnects."""
        lost_at, attempt = 0.0, 0
        while True:
            try:
                async with aclosing(self._source.follow()) as frames:
                    async for one in frames:
                        lost_at, attempt = 0.0, 0
                        self._show(one)
                        if isinstance(one, Ended):
                            self._end("the agent has ended")
                            return
                reason = "the server has ended the stream"
            except ServerUnreachable as error:
                reason = error.message
            lost_at = lost_at or self._loop.time()
            if self._loop.time() - lost_at > GIVE_UP:
                self._end(f"gave up after {GIVE_UP:.0f} s: {reason}", 1)
                return
            self._problem = f"reconnecting, what you type is lost: {reason}"
            self._refresh()
            await asyncio.sleep(TRY_AGAIN[min(attempt, len(TRY_AGAIN) - 1)])
            attempt += 1

    def _show(self, one: ScreenEvent) -> None:
        self._changed_at = self._loop.time()
        if isinstance(one, Size):
            self._problem = ""
            if self._screen is not None:
                self._screen.close()
            self._screen, self._top = open_screen(one.columns, one.rows), None
        elif isinstance(one, bytes) and self._screen is not None:
            self._screen.feed(one)  # the agent's own terminal answers its queries
        self._refresh()

    def _refresh(self) -> None:
        if self._frame is None:
            self._frame = self._loop.call_at(max(self._loop.time(), self._painted_at + FRAME), self._paint)

    def _paint(self) -> None:
        self._frame = None
        now = self._loop.time()
        is_half_drawn = self._screen is not None and self._screen.modes().drawing
        if is_half_drawn and now - self._painted_at < HALF_DRAWN:
            self._frame = self._loop.call_later(FRAME, self._paint)
            return
        self._painted_at = now
        columns, rows = self._terminal.size
        rows = max(2, rows)
        self._part = Part((), 0, columns)
        if self._screen is not None:
            self._part = part_of(self._screen, columns, rows - 1, self._top)
        self._terminal.write(
            self._painter.painted(self._screen, self._part, rows, cut(self._status_text(), columns))
        )

    def _status_text(self) -> str:
        about = " ".join(filter(None, [self._status.agent_type, self._status.status]))
        back = "scrolled back, shift+PgDn scrolls down" if self._top is not None else ""
        parts = [about, self._problem or self._notice or back, f"{self._named} detaches"]
        if self.read_only:
            parts.append("read-only")
        if self._screen is not None:
            parts.append(self._part.words(self._screen))
        return f" {' · '.join(filter(None, parts))} "

    def _resized(self) -> None:
        self._painter.forget()
        self._terminal.write(b"\x1b[0m\x1b[2J")
        self._refresh()

    async def _update_status(self) -> None:
        """Updates the status of the agent while it may change."""
        while True:
            await asyncio.sleep(ASK_STATUS)
            if self._problem or self._loop.time() - self._changed_at > STATUS_SETTLES:
                continue
            with suppress(ServerUnreachable):  # the follower notices
                self._status = await self._source.status()
                self._refresh()

    # --- what is typed ----------------------------------------------------------------------------------

    def _read(self) -> None:
        data = b""
        with suppress(OSError):
            data = self._terminal.read()
        if not data:  # the terminal is gone
            self._end("", 129)
            return
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        for command, keys in self._keyboard.feed(data):
            if command:
                self._run_command(command)
            else:
                self._type(keys)
        if self._keyboard.held:
            self._flush_timer = self._loop.call_later(FLUSH_SECONDS, self._release)

    def _release(self) -> None:
        self._flush_timer = None
        self._type(self._keyboard.flush())

    def _run_command(self, command: ViewCommand) -> None:
        if command == "detach":
            self._end("detached; the agent continues")
            return
        if self._screen is None:
            return
        rows = max(2, self._terminal.size[1]) - 1
        page = max(1, rows - 1)
        following = part_of(self._screen, self._part.columns, rows).top
        if command == "back":
            top = following if self._top is None else min(self._top, following)
            self._top = max(-len(self._screen.scrolled_off()), top - page)
        elif self._top is not None:
            self._top += page
        if self._top is not None and self._top >= following:
            self._top = None
        self._refresh()

    def _type(self, keys: str) -> None:
        if not keys or self.read_only or self._problem:
            return
        self._top = None
        self._notice = ""
        self._typed.append(keys)
        self._has_typed.set()

    async def _send(self) -> None:
        """Sends keys in order; what is typed meanwhile is sent together."""
        while True:
            await self._has_typed.wait()
            self._has_typed.clear()
            keys, self._typed = "".join(self._typed), []
            for start in range(0, len(keys), LONGEST_MESSAGE):
                try:
                    await self._source.press(keys[start : start + LONGEST_MESSAGE])
                except OstlerError as error:
                    self._notice = f"your input did not arrive: {error.message}"
                    self._refresh()
                    break
