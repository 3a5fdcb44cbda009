"""Whether a failed model call is tried again, and when."""

from __future__ import annotations

from random import Random

from ostler.vocabulary.errors import Failure

DELAYS = (0.25, 0.75)
LONGEST_WAIT = 30.0
_TRANSIENT_STATUSES = frozenset({502, 503, 504, 529})


_NO_OTHER_MODEL_HELPS = frozenset({"interrupted", "context_overflow"})


def retry_delay(failure: Failure, tries: int, random: Random) -> float | None:
    """Seconds until the same model is asked again, or None. A stream that had opened is not tried again."""
    if failure.kind == "interrupted":
        return 0.0 if tries <= len(DELAYS) else None
    if failure.stream_opened or tries > len(DELAYS):
        return None
    if failure.retry_after is not None and failure.status in (429, 503):
        return failure.retry_after if failure.retry_after <= LONGEST_WAIT else None
    if failure.kind == "connection_failed" or failure.status in _TRANSIENT_STATUSES:
        return DELAYS[tries - 1] * random.uniform(0.8, 1.2)
    return None


def is_rescuable(failure: Failure) -> bool:
    """Whether another model may answer what this one did not."""
    return failure.kind not in _NO_OTHER_MODEL_HELPS
