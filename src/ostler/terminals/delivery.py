"""One message on its way into a terminal: written, echoed, entered, taken up."""

from __future__ import annotations

from enum import Enum

from ostler.terminals.timing import Timing

_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
# A character typed and taken back: some agents show a paste as text only when something was typed before it.
_TYPED_AND_ERASED = b"x\x08"
_ENTER = b"\r"

TIMED_OUT = "failed to wait for processing to start: timeout waiting for condition"


class Phase(Enum):
    ECHO = "echo"  # written; the screen is watched for it
    SETTLE = "settle"  # something appeared; it has to stand still
    ENTER = "enter"  # Enter was pressed; the screen is watched for a reaction
    DELIVERED = "delivered"
    FAILED = "failed"


def keystrokes(text: str, bracketed_paste: bool) -> list[bytes]:
    """What a person would cause the terminal to send. Without bracketed paste it is typed as it stands."""
    if not bracketed_paste:
        return [text.encode("utf-8", "replace")]
    while _PASTE_BEGINS in text or _PASTE_ENDS in text:  # no text may end its own paste
        text = text.replace(_PASTE_BEGINS, "").replace(_PASTE_ENDS, "")
    return [
        _TYPED_AND_ERASED,
        _PASTE_BEGINS.encode(),
        text.encode("utf-8", "replace"),
        _PASTE_ENDS.encode(),
    ]


class Delivery:
    """The states of one delivery. It is looked at with the screen as it is; `wants` says when next.

    No echo is not an error: some programs hold a paste back until Enter. No reaction to Enter is.
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
        """Go on as far as the screen allows; returns the keys to press."""
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
