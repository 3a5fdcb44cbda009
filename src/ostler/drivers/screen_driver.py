"""Drives a terminal agent: its process, its screen and the tracker that reads it, on one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.announcements import Announcements
from ostler.drivers.dialog import OpenDialog
from ostler.drivers.driver import AgentMessage, Driver, DriverListener, SavedState, Status, Viewer
from ostler.drivers.pty_process import MOST_UNWRITTEN, PtyProcess
from ostler.drivers.screen import Screen, check_size, open_screen, read_out
from ostler.drivers.screen_stream import ScreenSubscription, unfinished
from ostler.drivers.tracker import Event, Tracker, Write, keystrokes
from ostler.schema.errors import SessionBusy, StoreError

# The key that stops an agent; some need it twice, as separate keys.
_CTRL_C, _ESCAPE = b"\x03", b"\x1b"
_CTRL_C_STOPS = frozenset({"aider", "amazonq", "custom", "goose"})
_NEEDS_KEY_TWICE = frozenset({"opencode"})
_BETWEEN_KEYS = 0.2


class ScreenDriver(Driver):
    """Carries out what the tracker wants; while nothing is printed or sent, it does nothing.

    Pressed keys go straight to the program; the tracker sees only their effect on the screen.
    """

    process: PtyProcess
    confirms = "delivery"

    def __init__(
        self, spec: AgentSpec, session: str, listener: DriverListener, saved: SavedState | None = None
    ) -> None:
        check_size(spec.columns, spec.rows)
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._viewers: set[ScreenSubscription] = set()
        self._unfinished = b""
        self._last_drawn: bytes | None = None
        self._own_screen = ""
        self._timer: asyncio.TimerHandle | None = None
        self._ticket: int | None = None
        self._held_keys: list[bytes] | None = None
        self._turn_task: asyncio.Task[None] | None = None
        self.tracker = Tracker(
            spec.type,
            self._loop.time(),
            epoch=time.time() - self._loop.time(),
            timing=spec.timing,
            initial_prompt=spec.initial_prompt,
            saved=saved,
            ready_regex=spec.ready_regex,
            ready_after=spec.ready_after,
        )
        self._announcements = Announcements(spec.type)
        self.screen: Screen = open_screen(spec.columns, spec.rows, emulator=spec.emulator)
        try:
            self.process = PtyProcess(
                spec.command,
                session=session,
                cwd=spec.cwd,
                columns=spec.columns,
                rows=spec.rows,
                on_output=self._take_output,
                environment=spec.environment,
            )
        except BaseException:
            self.screen.close()
            raise
        self._look_when_wanted()

    @property
    def status(self) -> Status:
        return self.tracker.status

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        return self.tracker.messages

    # --- use ------------------------------------------------------------------------------------------

    async def prompt(self, text: str) -> None:
        """See `Tracker.send`."""
        self._require_life()
        self.tracker.send(self._loop.time(), text)
        self._look_when_wanted()

    def press(self, keys: bytes) -> None:
        """Raises `SessionBusy` when the agent does not read, or has ended."""
        self._require_life()
        self.process.write(keys)

    def paste(self, text: str) -> None:
        self.press(b"".join(keystrokes(text, self.screen.modes().bracketed_paste)))

    def cancel(self) -> None:
        agent_type = self.tracker.agent_type
        key = _CTRL_C if agent_type in _CTRL_C_STOPS else _ESCAPE
        self.press(key)
        if dialog := self.tracker.dialog:
            self.tracker.choose(self._loop.time(), dialog.number, -1)
            self._look_when_wanted()
        if agent_type in _NEEDS_KEY_TWICE:
            self._loop.call_later(_BETWEEN_KEYS, self._type, key)

    @property
    def dialog(self) -> OpenDialog | None:
        return self.tracker.dialog

    def answer_dialog(self, number: int, choice: int) -> None:
        self._require_life()
        if choice < 0:
            self.cancel()
            return
        self.tracker.choose(self._loop.time(), number, choice, self.screen.modes().cursor_keys)
        self._look_when_wanted()

    def resize(self, columns: int, rows: int) -> None:
        self._require_life()
        self.screen.resize(columns, rows)
        self.process.resize(columns, rows)
        for viewer in self._viewers:
            viewer.start_over()
        self.tracker.output(self._loop.time(), announced=self._announcements.state)
        self._look_when_wanted()

    def view(self, make: Callable[[Callable[[], bytes]], Viewer]) -> Viewer:
        viewer = make(self._snapshot)
        viewer.on_unsubscribe.append(self._viewers.discard)
        self._viewers.add(viewer)
        if self._last_drawn is not None:
            viewer.finish()
        return viewer

    def _require_life(self) -> None:
        if self._is_over:
            raise SessionBusy("the agent has ended")

    def to_save(self) -> SavedState:
        return self.tracker.to_save()

    def last_output(self) -> str:
        self.look()
        return "\n".join(self.screen.lines()).strip()

    async def close(self) -> None:
        """Messages that were accepted and not delivered fail, and viewers reach the end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._turn_task is not None:
            self._turn_task.cancel()
        self._carry_out(self.tracker.stop())
        self._last_drawn = self._snapshot()
        for viewer in self._viewers:
            viewer.finish()
        self.screen.close()

    # --- the screen -----------------------------------------------------------------------------------

    def _take_output(self, data: bytes) -> None:
        answers = self.screen.feed(data)
        if answers and self.process.unwritten < MOST_UNWRITTEN:  # one that never reads gets no more
            self.process.write(answers)
        self._unfinished = unfinished(self._unfinished + data)
        for viewer in self._viewers:
            viewer.put(data)
        self._announcements.feed(data)
        self.tracker.output(self._loop.time(), self.screen.modes().drawing, self._announcements.state)
        self._look_when_wanted()

    @property
    def _is_over(self) -> bool:
        """The last look is the owner's: see `last_output`."""
        return self.process.ended.done()

    def _snapshot(self) -> bytes:
        """The screen, and the start of a sequence that the next bytes complete."""
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
        if self.tracker.has_keys:  # no key may meet a screen that we have not seen
            self.process.read_now()
        now, wanted = self._loop.time(), self.tracker.wants_look_at()
        if wanted is not None and wanted <= now:
            self.look()
        else:
            self._look_when_wanted()

    def look(self) -> None:
        """Reads the screen now, even if the tracker does not want it."""
        modes, text = self.screen.modes(), read_out(self.screen)
        if modes.alternate and text.strip():
            self._own_screen = text
        elif self._is_over and self._own_screen:
            text = self._own_screen  # clearing or leaving it does not revoke a message
        above = len(self.screen.scrolled_off())
        events = self.tracker.look(
            self._loop.time(),
            text,
            modes.bracketed_paste,
            drawn=lambda row: self.screen.drawn(row - above, 1)[0],
        )
        if not modes.alternate and self.tracker.status == "stable":
            self._own_screen = ""  # it continues without one
        self._note_delivery_start()
        self._carry_out(events)
        self._listener.screen_changed()
        self._look_when_wanted()

    def _note_delivery_start(self) -> None:
        message = self.tracker.on_its_way
        if message is None or message[0] == self._ticket:
            self._ticket = message[0] if message else None
            return
        self._ticket, self._held_keys = message[0], []
        if self._is_over:
            return  # too late to begin a turn
        self._turn_task = asyncio.ensure_future(self._begin_turn(message[1]))

    async def _begin_turn(self, text: str) -> None:
        try:
            await self._listener.begin_turn(text)
        except StoreError:
            return  # nothing is done that the log does not have
        self.process.read_now()
        if refused := self.tracker.refuse_typing(read_out(self.screen)):
            self._held_keys = None
            self._carry_out(refused)
            self._look_when_wanted()
            return
        held_keys, self._held_keys = self._held_keys or [], None
        for keys in held_keys:
            self._type(keys)

    def _carry_out(self, events: list[Event]) -> None:
        for event in events:
            if not isinstance(event, Write):
                self._listener.update(event)
            elif self._held_keys is not None:
                self._held_keys.append(event.data)
            else:
                self._type(event.data)

    def _type(self, keys: bytes) -> None:
        try:
            self.process.write(keys)
        except SessionBusy:
            return  # the tracker sees that nothing happens
