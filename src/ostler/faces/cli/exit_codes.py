"""What a run's end means to a shell."""

from __future__ import annotations

from ostler.vocabulary.events import RunEnded, RunWaiting

TERMINATED = "terminated"
"""The reason of a run that was cancelled by SIGTERM."""


def exit_code(quiet: RunEnded | RunWaiting) -> int:
    """130 and 143 before 1, 5, 6 and 4: the first that is true. (2 and 3 never get as far as a run.)"""
    if isinstance(quiet, RunWaiting):
        return 6
    if quiet.status == "cancelled":
        return 143 if quiet.reason == TERMINATED else 130
    if quiet.status in ("failed", "interrupted"):
        return 1
    if quiet.status == "limit":
        return 5
    if quiet.status == "refused" or quiet.own.refused_calls or quiet.children.refused_calls:
        return 4
    return 0
