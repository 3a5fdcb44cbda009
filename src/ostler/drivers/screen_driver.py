"""A terminal agent at work: its process, its screen and the tracker that reads it, on one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ostler.drivers.agent_spec import detect
from ostler.drivers.driver import SavedState
from ostler.drivers.pty_process import MOST_UNWRITTEN, PtyProcess
from ostler.drivers.screen import Screen, check_size, open_screen, read_out
from ostler.drivers.screen_stream import ScreenSubscription, unfinished
from ostler.drivers.tracker import Delivered, Event, Timing, Tracker, Undelivered, Write, keystrokes
from ostler.schema.errors import SessionBusy, StoreError

Outcome = Delivered | Undelivered


# What the agent's own people press to make it stop; some want it a second time, as a key of its own.
_CTRL_C, _ESCAPE = b"\x03", b"\x1b"

_STOPPED_BY_CTRL_C = frozenset({"aider", "amazonq", "custom", "goose"})

_ASKED_TWICE = frozenset({"opencode"})

_BETWEEN_KEYS = 0.2


class ScreenAgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which agent to start, and how its screen is to be read."""

    command: Sequence[str]
    cwd: Path
    agent_type: str = ""
    """Empty: the command says it."""
    columns: int = 80
    rows: int = 1000
    environment: Mapping[str, str] = {}  # each struct gets its own
    initial_prompt: str = ""
    ready_regex: str = ""
    ready_after: float | None = None
    emulator: str = ""
    timing: Timing = Timing()

    @property
    def type(self) -> str:
        return detect(self.command, self.agent_type)


class ScreenListener(msgspec.Struct, frozen=True):
    """Who is told of what happens; none of them may block."""

    before_keys: Callable[[int, str], Awaitable[None]]
    """Awaited before the keys of that message are written. If it raises, they are not."""
    on_outcome: Callable[[Outcome], None]
    on_look: Callable[[], None]
    """The screen was read: status and messages may have changed."""


class ScreenDriver:
    """Carries out what the tracker wants. While nothing is printed and nothing sent, it does nothing.

    Keys that are pressed go straight to the program; the tracker sees only what they cause on the screen.
    """

    def __init__(
        self, agent: ScreenAgentSpec, session: str, watcher: ScreenListener, saved: SavedState | None = None
    ) -> None:
        check_size(agent.columns, agent.rows)
        self._loop = asyncio.get_running_loop()
        self._watcher = watcher
        self._viewers: set[ScreenSubscription] = set()
        self._unfinished = b""
        self._last_drawn: bytes | None = None
        self._own_screen = ""
        self._timer: asyncio.TimerHandle | None = None
        self._begun: int | None = None
        self._held: list[bytes] | None = None
        self._holding: asyncio.Task[None] | None = None
        self.tracker = Tracker(
            agent.type,
            self._loop.time(),
            epoch=time.time() - self._loop.time(),
            timing=agent.timing,
            initial_prompt=agent.initial_prompt,
            saved=saved,
            ready_regex=agent.ready_regex,
            ready_after=agent.ready_after,
        )
        self.screen: Screen = open_screen(agent.columns, agent.rows, emulator=agent.emulator)
        try:
            self.process = PtyProcess(
                agent.command,
                session=session,
                cwd=agent.cwd,
                columns=agent.columns,
                rows=agent.rows,
                on_output=self._take_output,
                environment=agent.environment,
            )
        except BaseException:
            self.screen.close()
            raise
        self._look_when_wanted()

    # --- asking ---------------------------------------------------------------------------------------

    def send(self, text: str) -> int:
        """See `Tracker.send`."""
        self._require_life()
        ticket = self.tracker.send(self._loop.time(), text)
        self._look_when_wanted()
        return ticket

    def press(self, keys: bytes) -> None:
        """Raises `SessionBusy` when the agent does not read, or has ended."""
        self._require_life()
        self.process.write(keys)

    def paste(self, text: str) -> None:
        self._require_life()
        self.press(b"".join(keystrokes(text, self.screen.modes().bracketed_paste)))

    def interrupt(self) -> None:
        agent_type = self.tracker.agent_type
        key = _CTRL_C if agent_type in _STOPPED_BY_CTRL_C else _ESCAPE
        self.press(key)
        if agent_type in _ASKED_TWICE:
            self._loop.call_later(_BETWEEN_KEYS, self._type, key)

    def resize(self, columns: int, rows: int) -> None:
        self._require_life()
        self.screen.resize(columns, rows)
        self.process.resize(columns, rows)
        for viewer in self._viewers:
            viewer.start_over()
        self.tracker.output(self._loop.time())
        self._look_when_wanted()

    def view(self) -> ScreenSubscription:
        viewer = ScreenSubscription(self.snapshot)
        self.add_viewer(viewer)
        return viewer

    def add_viewer(self, viewer: ScreenSubscription) -> None:
        viewer.on_unsubscribe.append(self._viewers.discard)
        self._viewers.add(viewer)
        if self._last_drawn is not None:
            viewer.finish()

    def _require_life(self) -> None:
        if self._is_over:
            raise SessionBusy("the agent has ended")

    async def stop(self) -> None:
        """Ends the agent and all it started. The screen stays as it was at last."""
        await self.process.stop()

    def close(self) -> None:
        """After `stop`: what was accepted and not delivered has failed, and the viewers are at the end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._holding is not None:
            self._holding.cancel()
        self._carry_out(self.tracker.stop())
        self._last_drawn = self.snapshot()
        for viewer in self._viewers:
            viewer.finish()
        self.screen.close()

    # --- what happens ---------------------------------------------------------------------------------

    def _take_output(self, data: bytes) -> None:
        answers = self.screen.feed(data)
        if answers and self.process.unwritten < MOST_UNWRITTEN:  # one that asks and never reads gets no more
            self.process.write(answers)
        self._unfinished = unfinished(self._unfinished + data)
        for viewer in self._viewers:
            viewer.put(data)
        self.tracker.output(self._loop.time(), self.screen.modes().drawing)
        self._look_when_wanted()

    @property
    def _is_over(self) -> bool:
        """The last look is its owner's, who tells what became of everything."""
        return self.process.ended.done()

    def snapshot(self) -> bytes:
        """What was begun and not ended is not drawn yet, and goes on in the bytes that follow."""
        if self._last_drawn is not None:
            return self._last_drawn
        return self.screen.ansi().encode("utf-8", "replace") + self._unfinished

    def _look_when_wanted(self) -> None:
        wanted = self.tracker.wants_look_at()
        if wanted is None or self._is_over:
            return
        if self._timer is not None:
            if self._timer.when() <= wanted:  # it asks again then
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(wanted, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._is_over:
            return
        now, wanted = self._loop.time(), self.tracker.wants_look_at()
        if wanted is not None and wanted <= now:
            self.look()
        else:
            self._look_when_wanted()

    def look(self) -> None:
        """Reads the screen now, wanted or not."""
        modes, shown = self.screen.modes(), read_out(self.screen)
        if modes.alternate and shown.strip():
            self._own_screen = shown
        elif self._is_over and self._own_screen:
            shown = self._own_screen  # neither wiping nor leaving it takes back what was said
        events = self.tracker.look(self._loop.time(), shown, modes.bracketed_paste)
        if not modes.alternate and self.tracker.status == "stable":
            self._own_screen = ""  # it goes on without one
        self._note_beginning()
        self._carry_out(events)
        self._watcher.on_look()
        self._look_when_wanted()

    def _note_beginning(self) -> None:
        begun = self.tracker.on_its_way
        if begun is None or begun[0] == self._begun:
            self._begun = begun[0] if begun else None
            return
        self._begun, self._held = begun[0], []
        if self._is_over:
            return  # nobody is left to be told
        self._holding = asyncio.ensure_future(self._hold_keys(*begun))

    async def _hold_keys(self, ticket: int, text: str) -> None:
        try:
            await self._watcher.before_keys(ticket, text)
        except StoreError:
            return  # nothing is done that the log does not know of
        held, self._held = self._held or [], None
        for keys in held:
            self._type(keys)

    def _carry_out(self, events: list[Event]) -> None:
        for event in events:
            if not isinstance(event, Write):
                self._watcher.on_outcome(event)
            elif self._held is not None:
                self._held.append(event.data)
            else:
                self._type(event.data)

    def _type(self, keys: bytes) -> None:
        try:
            self.process.write(keys)
        except SessionBusy:
            return  # the tracker sees that nothing comes of it
