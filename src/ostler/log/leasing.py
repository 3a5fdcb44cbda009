"""The rules of leases that every store shares."""

from __future__ import annotations

from ostler.kernel.processes import ProcessId
from ostler.kernel.store import Lease
from ostler.vocabulary.errors import LeaseLost, NotFound, SessionHeld

LEASE_MS = 30_000
RENEW_SECONDS = LEASE_MS / 3 / 1000


def next_lease(session: str, held: Lease | None, generation: int, owner: ProcessId, now_ms: int) -> Lease:
    """The lease that `owner` gets; raises `SessionHeld` while another living process has it.

    `held` is None when it was released; `generation` is the last one there was.
    """
    if held is not None and held.owner != owner and not _is_free(held, now_ms):
        raise SessionHeld(
            f"session {session} is held by process {held.owner.pid} on {held.owner.host}; "
            "wait for it to end, or work in a fork"
        )
    taken_from = held.owner if held is not None and held.owner != owner else None
    return Lease(session, generation + 1, owner, now_ms + LEASE_MS, taken_from)


def living_holder(held: Lease | None, now_ms: int) -> ProcessId | None:
    return held.owner if held is not None and not _is_free(held, now_ms) else None


def is_current(lease: Lease, owner: ProcessId | None, generation: int) -> bool:
    """Whether a lease still holds, given who has the session now. The owner counts too: a session that was
    deleted and brought back begins with the first generation again."""
    return owner == lease.owner and generation == lease.generation


def _is_free(held: Lease, now_ms: int) -> bool:
    if held.expires_ms <= now_ms:
        return True
    return held.owner.is_here() and not held.owner.is_alive()


def lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"session {lease.session} was taken over by another process; nothing more is written from here"
    )


def no_session(session: str) -> NotFound:
    return NotFound(f"no session {session!r}; `ostler sessions` lists those there are")
