"""One gate for each server and key in a process: a limit that a vendor reports to one agent holds for all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ostler.core.lazy import lazy_module
from ostler.schema.errors import RateLimited

if TYPE_CHECKING:
    import random
else:
    random = lazy_module("random")

LONGEST_WAIT = 30.0
"""Whoever would have to wait longer is refused at once, and may go to another model."""

_FIRST_PAUSE = 1.0
_PROBE_SECONDS = 15.0
_GLANCE_SECONDS = 0.05
_LOOK_SECONDS = 0.5


class RateGate:
    """Open until a vendor refuses for its limits; then shut for as long as it says.

    Afterwards one request goes first, and the others follow when it was let in: however many agents share
    a key, the vendor refuses one of them at a time.
    """

    def __init__(self) -> None:
        self._opens_at = 0.0
        self._refusals = 0
        self._probe: float | None = None

    def seconds_left(self) -> float:
        """For how long it is still shut."""
        return self._opens_at - time.monotonic() if self._refusals else 0.0

    def pause(self, who: str) -> float:
        """Seconds to wait before asking again whether a request may be sent; 0 when it may be now.

        Raises `RateLimited` where it would take too long.
        """
        if not self._refusals:
            return 0.0
        now, left = time.monotonic(), self.seconds_left()
        if left > LONGEST_WAIT:
            raise RateLimited(
                f"{who} is not asked for another {left:.0f} s, as it wished; wait, or name another model",
                status=429,
                retry_after=left,
            )
        if left > 0:
            return min(left, _LOOK_SECONDS)
        if self._probe is None or now - self._probe > _PROBE_SECONDS:
            self._probe = now
            return 0.0
        return _GLANCE_SECONDS

    def refused(self, retry_after: float | None) -> None:
        """The vendor's limit was reached. Where it does not say for how long, the pause doubles each time."""
        now = time.monotonic()
        pause = retry_after
        if pause is None:
            if now < self._opens_at:
                return  # of a request that was under way when the gate was shut
            pause = min(_FIRST_PAUSE * 2**self._refusals, LONGEST_WAIT) * random.uniform(0.8, 1.2)
        self._refusals += 1
        self._opens_at = max(self._opens_at, now + pause)
        self._probe = None

    def admitted(self) -> None:
        """The vendor took a request: the gate is open for all."""
        self._refusals = 0
        self._probe = None


_gates: WeakValueDictionary[tuple[str, str], RateGate] = WeakValueDictionary()


def gate_of(provider: str, key: str) -> RateGate:
    """The gate that all models of this provider with this key share."""
    gate = _gates.get((provider, key))
    if gate is None:
        gate = _gates[provider, key] = RateGate()
    return gate
