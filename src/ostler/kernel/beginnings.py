"""How a request begins, compared with the one before it: prompt caches depend on that, so the trace tells."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.kernel.context import Built
from ostler.kernel.model import ModelRequest, Transcript

if TYPE_CHECKING:
    from ostler.kernel.journal import Journal

FIRST = "it is the first"
ANOTHER_SYSTEM = "the system prompt is another one"
WITH_A_HOOK = f"{ANOTHER_SYSTEM}, with what a hook adds before the run"
BY_A_HOOK = "by a hook that is asked for each context"


class Beginning(msgspec.Struct, frozen=True):
    """What a request said first. A transcript only grows, so its length says what was in it."""

    system: str
    transcript: Transcript
    length: int
    is_hooked: bool
    """A hook has chosen the messages."""


def traced(journal: Journal, built: Built, request: ModelRequest) -> Any:
    """The trace of a call, with what those who chose the context could not know.

    In the first call of a process, and whenever it is another one, it names the system prompt by a digest.
    """
    before, transcript = journal.begun, request.transcript
    is_hooked = transcript is not built.transcript
    now = journal.begun = Beginning(request.system, transcript, len(transcript), is_hooked)
    if built.trace is None:
        return None
    found: dict[str, str] = {}
    if before is None or before.system != now.system:
        found["system"] = blake2b(now.system.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    if before is not None and (why := _why_it_changed(before, now, built)):
        said = built.trace.get("changed", FIRST)
        found["changed"] = why if said == FIRST else said
    return {**built.trace, **found} if found else built.trace


def _why_it_changed(before: Beginning, now: Beginning, built: Built) -> str:
    if (before.is_hooked or now.is_hooked) and not _begins_with(now.transcript, before):
        return BY_A_HOOK
    if before.system == now.system:
        return ""
    if now.system != built.system:
        return BY_A_HOOK
    adds = (built.trace or {}).get("before_run", {})
    return WITH_A_HOOK if adds.get("system") else ANOTHER_SYSTEM


def _begins_with(transcript: Transcript, before: Beginning) -> bool:
    told = before.transcript.messages[: before.length]
    return list(transcript.messages[: before.length]) == list(told)
