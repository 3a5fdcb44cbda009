"""What a run may use."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ends a run with `limit`; `None` is no limit."""

    steps: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    depth: int | None = None
    children: int | None = None
    retries: int | None = 20
    """How many failed model calls may be tried again, over the whole run."""
