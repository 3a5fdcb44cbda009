"""Whether a failed model call is tried again, and when."""

from __future__ import annotations

from random import Random

from ostler.vocabulary.errors import Failure

DELAYS = (0.25, 0.75)
LONGEST_WAIT = 30.0
_TRANSIENT_STATUSES = frozenset({502, 503, 504, 529})


def retry_delay(failure: Failure, attempt: int, random: Random) -> float | None:
    """Seconds until the next attempt, or None. A stream that had opened is never tried again."""
    if failure.kind == "interrupted":
        return 0.0 if attempt <= len(DELAYS) else None
    if failure.stream_opened or attempt > len(DELAYS):
        return None
    if failure.retry_after is not None and failure.status in (429, 503):
        return failure.retry_after if failure.retry_after <= LONGEST_WAIT else None
    if failure.kind == "connection_failed" or failure.status in _TRANSIENT_STATUSES:
        return DELAYS[attempt - 1] * random.uniform(0.8, 1.2)
    return None
