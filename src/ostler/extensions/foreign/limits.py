"""How long an extension in another process has, for what."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Seconds, but for `restarts`."""

    hello: float = 5.0
    silence: float = 0.25
    ready: float = 3.0
    intercept: float = 5.0
    command: float = 30.0
    shutdown: float = 2.0
    terminate: float = 1.0
    backoff: float = 0.5
    backoff_at_most: float = 30.0
    restarts: int = 5
    """In a row, with no life of `steady` seconds between them."""
    steady: float = 60.0
