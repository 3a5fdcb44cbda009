"""How long things take on a screen. All in seconds."""

from __future__ import annotations

import msgspec


class Timing(msgspec.Struct, frozen=True):
    look_interval: float = 0.025
    # A frame is taken for complete when nothing more arrived for `quiet`, or after `longest_frame` in any
    # case. A program that says when it begins and ends a frame gets more time.
    quiet: float = 0.016
    longest_frame: float = 0.048
    longest_announced_frame: float = 0.150
    stability: float = 2.0
    # The echo of what was written: looked for at growing intervals, then it has to stand still.
    echo_timeout: float = 2.0
    echo_first_poll: float = 0.050
    echo_longest_poll: float = 0.500
    echo_settle: float = 1.0
    # After Enter the screen has to change; Enter is repeated for programs that swallowed it.
    processing_timeout: float = 15.0
    processing_first_look: float = 0.025
    enter_again: float = 3.0
    # An accepted message may find the screen moving again; it is not kept for ever.
    longest_queued: float = 15.0
    # An agent whose input box is not known is ready when its screen has not changed for so long.
    ready_after: float = 10.0
