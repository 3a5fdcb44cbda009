"""What a terminal agent does and says, from its screen and the time alone; the delivery of one message."""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from ostler.drivers.agent_messages import Conversation
from ostler.drivers.agent_spec import Timing
from ostler.drivers.announcements import Announced
from ostler.drivers.dialog import Drawn, OpenDialog
from ostler.drivers.dialog_tracker import DialogTracker
from ostler.drivers.driver import (
    ASKS_FIRST,
    NOT_WAITING,
    STOPPED,
    AgentMessage,
    AnswerFailed,
    Delivered,
    SavedState,
    Status,
    Undelivered,
)
from ostler.drivers.screen import ASCII_WHITESPACE
from ostler.drivers.screen_text import is_ready, only_blinks
from ostler.schema.errors import SessionBusy, UsageError

_PASTE_BEGINS, _PASTE_ENDS, _ENTER = "\x1b[200~", "\x1b[201~", b"\r"

# Some agents show a paste as text only when something was typed before it.
_TYPED_AND_ERASED = b"x\x08"
TIMED_OUT = "failed to wait for processing to start: timeout waiting for condition"


class Phase(Enum):
    ECHO = "echo"  # written; wait for its echo
    SETTLE = "settle"  # something appeared; wait until it no longer changes
    ENTER = "enter"  # Enter was pressed; wait for a reaction
    DELIVERED = "delivered"
    FAILED = "failed"


def keystrokes(text: str, bracketed_paste: bool) -> list[bytes]:
    """The bytes that a terminal sends for a paste; plain text without bracketed paste."""
    if not bracketed_paste:
        return [text.encode("utf-8", "replace")]
    while _PASTE_BEGINS in text or _PASTE_ENDS in text:  # no text may end its own paste
        text = text.replace(_PASTE_BEGINS, "").replace(_PASTE_ENDS, "")
    return [_TYPED_AND_ERASED, _PASTE_BEGINS.encode(), text.encode("utf-8", "replace"), _PASTE_ENDS.encode()]


class Delivery:
    """The states of one delivery. `look` gives it the screen; `wants` is the time of the next look.

    A missing echo is no error: some programs hold a paste back until Enter. A missing reaction to Enter is.
    """

    def __init__(self, now: float, screen: str, timing: Timing) -> None:
        self.phase = Phase.ECHO
        self.begun = now
        self.before = screen
        self.wants = now + timing.echo_first_poll
        self._timing = timing
        self._compared = screen
        self._interval = timing.echo_first_poll
        self._deadline = now + timing.echo_timeout
        self._entered = now

    @property
    def ended(self) -> bool:
        return self.phase in (Phase.DELIVERED, Phase.FAILED)

    def look(self, now: float, screen: str) -> list[bytes]:
        """Proceeds as far as the screen allows; returns the keys to press."""
        if self.phase is Phase.ENTER:
            return self._watch(now, screen)
        if self.ended or now < self.wants:
            return []
        if self.phase is Phase.SETTLE:
            if screen == self._compared or now >= self._deadline:
                return self._enter(now, screen)
            self.phase, self._compared = Phase.ECHO, self.before
            self.wants = now + self._interval
        elif screen != self._compared:
            self.phase, self._compared = Phase.SETTLE, screen
            self.wants = now + self._timing.echo_settle
        elif now >= self._deadline:
            return self._enter(now, screen)
        else:
            self._interval = min(self._interval * 2, self._timing.echo_longest_poll)
            self.wants = min(now + self._interval, self._deadline)
        return []

    def _enter(self, now: float, screen: str) -> list[bytes]:
        self.phase, self._compared = Phase.ENTER, screen
        self._deadline = now + self._timing.processing_timeout
        return self._press(now)

    def _press(self, now: float) -> list[bytes]:
        self._entered = now
        self.wants = now + self._timing.processing_first_look
        return [_ENTER]

    def _watch(self, now: float, screen: str) -> list[bytes]:
        if now < self._entered + self._timing.processing_first_look:
            return []
        if screen != self._compared:
            self.phase = Phase.DELIVERED
        elif now >= self._deadline:
            self.phase = Phase.FAILED
        elif now >= self._entered + self._timing.enter_again:
            return self._press(now)
        else:
            self.wants = min(self._entered + self._timing.enter_again, self._deadline)
        return []


INITIAL_PROMPT = 0
_INITIAL_PROMPT_ATTEMPTS = 3

# Amp's logo moves until a key is pressed, and a screen that moves is never stable.
_FIRST_KEYS = {"amp": b" \x08"}


class Write(msgspec.Struct, frozen=True):
    """Bytes for the terminal, in order."""

    data: bytes


Event = Write | Delivered | Undelivered | AnswerFailed


class _Queued(msgspec.Struct, frozen=True):
    ticket: int
    text: str
    since: float


class Tracker:
    """A state machine that never waits, reads no clock and touches no terminal.

    Its driver reports output (`output`), gives it the screen at the time it wants (`wants_look_at`), and
    carries out the events that `look` and `stop` return, in order. `status` and `messages` can be read at any
    time. `now` never goes back; `now + epoch` is the time of messages.
    """

    def __init__(
        self,
        agent_type: str,
        now: float,
        *,
        epoch: float = 0.0,
        timing: Timing | None = None,
        initial_prompt: str = "",
        saved: SavedState | None = None,
        ready_regex: str = "",
        ready_after: float | None = None,
    ) -> None:
        """`ready_regex` replaces the detection of the agent's input box. After `ready_after` seconds without
        a change any agent counts as ready; if it is None, only a custom agent does."""
        self.timing = timing or Timing()
        self.agent_type = agent_type
        self.ready = False
        self._epoch = epoch
        self._conversation = Conversation(agent_type, now + epoch)
        self._saved = saved
        self._initial_prompt = initial_prompt.strip(ASCII_WHITESPACE)
        self._initial_prompt_attempts = 0
        self._initial_prompt_sent = False
        self._ready_regex = _compiled(ready_regex)
        self._dialogs = DialogTracker(agent_type, self.timing, self._ready_regex)
        custom = self.timing.ready_after if agent_type == "custom" else None
        self._ready_after = ready_after if ready_after is not None else custom
        self._first_keys = _FIRST_KEYS.get(agent_type, b"")
        self._screen = ""
        self._first_look: float | None = None
        self._last_look = now
        self._unchanged_since = now
        self._output_since: float | None = None
        self._last_output = now
        self._drawing = False
        self._last_ticket = INITIAL_PROMPT
        self._queued: _Queued | None = None
        self._sending: _Queued | None = None
        self._delivery: Delivery | None = None

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        return tuple(self._conversation.messages)

    @property
    def status(self) -> Status:
        if self._conversation.unanswered:
            return "changing"
        if self._first_look is None or self._last_look < self._first_look + self.timing.stability:
            return "initializing"
        if self._dialogs.open and not self._sending:
            return "asking"
        if not self._is_still or not self.ready or self._queued or self._sending:
            return "changing"
        return "changing" if self._dialogs.keeps_waiting else "stable"

    @property
    def dialog(self) -> OpenDialog | None:
        """The dialog on the screen that waits for an answer."""
        return self._dialogs.open if self.status == "asking" else None

    @property
    def on_its_way(self) -> tuple[int, str] | None:
        """The number and the text of the message whose keys `look` has returned, until its outcome."""
        return (self._sending.ticket, self._sending.text) if self._sending else None

    @property
    def has_keys(self) -> bool:
        """Whether the next look may return keys."""
        return bool(self._queued or self._sending or self._dialogs.answer)

    def to_save(self) -> SavedState:
        if self._saved and not self.ready:
            return self._saved  # it was not restored yet
        return SavedState(self.messages, self._initial_prompt, self._initial_prompt_sent)

    def send(self, now: float, text: str) -> int:
        """Accepts a message, or raises; the number returned comes back in `Delivered` or `Undelivered`."""
        if text != text.strip(ASCII_WHITESPACE):
            raise UsageError("message must be trimmed of leading and trailing whitespace")
        if not text:
            raise UsageError("message must not be empty")
        if self.status != "stable":
            raise SessionBusy(ASKS_FIRST if self.status == "asking" else NOT_WAITING)
        self._last_ticket += 1
        self._queued = _Queued(self._last_ticket, text, now)
        return self._last_ticket

    def choose(self, now: float, number: int, choice: int, cursor_keys: bool = False) -> None:
        """Begins to make a choice in a dialog. Raises `UsageError` if that dialog is not open."""
        self._dialogs.choose(now, number, choice, cursor_keys)

    def refuse_typing(self, screen: str) -> list[Event]:
        """Called with the screen right before the keys of a message are typed: if they would not reach the
        input box, the message fails, and its keys must not be typed."""
        message = self._sending
        if message is None or not self._dialogs.refuses_text(screen):
            return []
        return [self._give_up(self._last_look, message, ASKS_FIRST)]

    def output(self, now: float, drawing: bool = False, announced: Announced = "") -> None:
        """Reports output; `drawing`: the program announced that its frame is not complete."""
        self._dialogs.announced = announced
        if self._output_since is None:
            self._output_since = now
        self._last_output = now
        self._drawing = drawing

    def wants_look_at(self) -> float | None:
        """When to call `look` next: a time in the past for now, None for not before the next output."""
        if self._first_look is None:
            return self._last_look
        if self._output_since is not None:
            return self._frame_complete(self._output_since)  # never read half a frame
        times = []
        if not self._is_still:
            times.append(self._unchanged_since + self.timing.stability)
        if not self.ready and self._ready_after is not None:
            times.append(self._unchanged_since + self._ready_after)
        times += self._dialogs.wants_look_at(self._unchanged_since, self._last_look)
        if self._delivery:
            times.append(self._delivery.wants)
        elif self._queued and self._is_still and not self._holds_back(self._queued):
            times.append(self._last_look)
        elif self._queued and self._queued.ticket != INITIAL_PROMPT:
            times.append(self._queued.since + self.timing.longest_queued)
        return min(times, default=None)

    def look(
        self, now: float, screen: str, bracketed_paste: bool = True, drawn: Drawn | None = None
    ) -> list[Event]:
        """Reads the screen. It may be called more often than `wants_look_at` says."""
        if self._first_look is None:
            self._first_look = self._unchanged_since = now
        elif screen != self._screen:
            if only_blinks(self.agent_type, self._screen, screen):
                screen = self._screen
            else:
                self._unchanged_since = now
        self._screen, self._last_look, self._output_since = screen, now, None
        events: list[Event] = []
        self._become_ready(now)
        if not self._delivery:
            self._conversation.read(screen, now + self._epoch)
            events += self._look_for_dialog(now, drawn)
        if self._first_keys and screen.strip() and not self._dialogs.keeps_waiting:
            events.append(Write(self._first_keys))
            self._first_keys = b""
        if self._delivery:
            events += self._deliver(now, self._delivery)
        elif self._queued:
            events += self._send_queued(now, self._queued, bracketed_paste)
        return events

    def stop(self) -> list[Event]:
        """Called when the agent ends: accepted messages have failed."""
        open_messages = [message for message in (self._sending, self._queued) if message]
        self._sending = self._queued = self._delivery = None
        return [Undelivered(message.ticket, STOPPED) for message in open_messages]

    @property
    def _is_still(self) -> bool:
        # Compared as the sum that `wants_look_at` asks for: a difference may round the other way.
        return self._last_look >= self._unchanged_since + self.timing.stability

    def _frame_complete(self, since: float) -> float:
        limit = self.timing.longest_announced_frame if self._drawing else self.timing.longest_frame
        quiet = since + limit if self._drawing else min(self._last_output + self.timing.quiet, since + limit)
        return max(quiet, self._last_look + self.timing.look_interval)

    def _become_ready(self, now: float) -> None:
        if self.ready or not self._looks_ready(now):
            return
        self.ready = True
        if self._saved:
            self._restore(self._saved)
        if self._initial_prompt and not self._initial_prompt_sent:
            self._queue_initial_prompt(now)

    def _looks_ready(self, now: float) -> bool:
        if self._ready_after is not None and now >= self._unchanged_since + self._ready_after:
            return True
        if self._ready_regex:
            return self._ready_regex.search(self._screen) is not None
        return is_ready(self.agent_type, self._screen)

    def _restore(self, saved: SavedState) -> None:
        self._conversation.restore(saved.messages)
        if not self._initial_prompt:
            self._initial_prompt = saved.initial_prompt
        if self._initial_prompt == saved.initial_prompt:
            self._initial_prompt_sent = saved.initial_prompt_sent

    def _queue_initial_prompt(self, now: float) -> None:
        self._initial_prompt_attempts += 1
        self._queued = _Queued(INITIAL_PROMPT, self._initial_prompt, now)

    def _look_for_dialog(self, now: float, drawn: Drawn | None) -> list[Event]:
        if self._first_look is None or now < self._first_look + self.timing.stability:
            return []
        keys, failure = self._dialogs.look(
            now,
            self._screen,
            drawn,
            since=self._unchanged_since,
            is_still=self._is_still,
            is_ready=self.ready,
        )
        return [*([Write(keys)] if keys else []), *([failure] if failure else [])]

    def _holds_back(self, message: _Queued) -> bool:
        """The first message waits for a dialog to close, which the next output shows."""
        return message.ticket == INITIAL_PROMPT and self._dialogs.keeps_waiting

    def _send_queued(self, now: float, message: _Queued, bracketed_paste: bool) -> list[Event]:
        if self._holds_back(message):
            return []
        if self._dialogs.keeps_waiting:
            self._queued = None
            return [Undelivered(message.ticket, ASKS_FIRST)]
        if self._is_still:
            self._queued, self._sending = None, message
            self._delivery = Delivery(now, self._screen, self.timing)
            return [Write(part) for part in keystrokes(message.text, bracketed_paste)]
        if message.ticket == INITIAL_PROMPT or now < message.since + self.timing.longest_queued:
            return []
        self._queued = None
        return [Undelivered(message.ticket, NOT_WAITING)]

    def _deliver(self, now: float, delivery: Delivery) -> list[Event]:
        keys = [Write(data) for data in delivery.look(now, self._screen)]
        message = self._sending
        if message and keys and self._dialogs.refuses_enter(self._screen, delivery.before, message.text):
            return [self._give_up(now, message, ASKS_FIRST)]
        if message is None or not delivery.ended:
            return [*keys]
        if delivery.phase is Phase.FAILED:
            return [self._give_up(now, message, TIMED_OUT)]
        self._sending = self._delivery = None
        if message.ticket == INITIAL_PROMPT:
            self._initial_prompt_sent = True
        self._conversation.add_user_message(message.text, delivery.before, delivery.begun + self._epoch)
        self._conversation.read(self._screen, now + self._epoch)
        return [Delivered(message.ticket)]

    def _give_up(self, now: float, message: _Queued, reason: str) -> Undelivered:
        self._sending = self._delivery = None
        again = message.ticket == INITIAL_PROMPT and self._initial_prompt_attempts < _INITIAL_PROMPT_ATTEMPTS
        if again:
            self._queue_initial_prompt(now)
        return Undelivered(message.ticket, reason, again)


def _compiled(pattern: str) -> re.Pattern[str] | None:
    if not pattern:
        return None
    try:
        return re.compile(pattern, re.MULTILINE)
    except re.error as problem:
        raise UsageError(f"the pattern for readiness is no regular expression: {problem}") from None
