"""One gate for each server and key in a process: a rate limit of one agent applies to all."""

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
"""A request that would wait longer fails at once, so that another model can be used."""

_FIRST_PAUSE = 1.0
_PROBE_SECONDS = 15.0
_GLANCE_SECONDS = 0.05
_LOOK_SECONDS = 0.5


class RateGate:
    """Closes when a vendor reports its rate limit, for as long as the vendor says.

    After that, one request goes first, and the others follow when it is accepted: even if many agents share
    a key, the vendor refuses only one of them at a time.
    """

    def __init__(self) -> None:
        self._opens_at = 0.0
        self._refusals = 0
        self._probe: float | None = None

    def seconds_left(self) -> float:
        """The seconds until the gate opens."""
        return self._opens_at - time.monotonic() if self._refusals else 0.0

    def pause(self, who: str) -> float:
        """The seconds to wait before the next call of `pause`; 0 if a request may be sent now.

        Raises `RateLimited` if it would take too long.
        """
        if not self._refusals:
            return 0.0
        now, left = time.monotonic(), self.seconds_left()
        if left > LONGEST_WAIT:
            message = f"{who} accepts no requests for another {left:.0f} s; wait, or name another model"
            raise RateLimited(message, status=429, retry_after=left)
        if left > 0:
            return min(left, _LOOK_SECONDS)
        if self._probe is None or now - self._probe > _PROBE_SECONDS:
            self._probe = now
            return 0.0
        return _GLANCE_SECONDS

    def refused(self, retry_after: float | None) -> None:
        """Closes the gate. If the vendor does not say for how long, the pause doubles each time."""
        now = time.monotonic()
        pause = retry_after
        if pause is None:
            if now < self._opens_at:
                return  # the request was sent before the gate closed
            pause = min(_FIRST_PAUSE * 2**self._refusals, LONGEST_WAIT) * random.uniform(0.8, 1.2)
        self._refusals += 1
        self._opens_at = max(self._opens_at, now + pause)
        self._probe = None

    def admitted(self) -> None:
        """Opens the gate for all, after the vendor has accepted a request."""
        self._refusals = 0
        self._probe = None


_gates: WeakValueDictionary[tuple[str, str], RateGate] = WeakValueDictionary()


def gate_of(provider: str, key: str) -> RateGate:
    """The gate that all models on this server with this key share."""
    gate = _gates.get((provider, key))
    if gate is None:
        gate = _gates[provider, key] = RateGate()
    return gate
