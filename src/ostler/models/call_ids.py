"""Tool-call ids, unique in a session whatever its vendors send."""

from __future__ import annotations

from ostler.kernel.model import Transcript
from ostler.vocabulary.ids import new_id

# Vendors with long random ids never repeat one; counters and short random ids do, from answer to answer.
_LONG_ENOUGH_TO_BE_UNIQUE = 20


class CallIds:
    """The ids of one answer's calls: the vendor's own, or a new one where that is missing or taken."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._given: set[str] = set()
        self._earlier: set[str] | None = None

    def unique(self, offered: str) -> str:
        chosen = offered if offered and not self._is_taken(offered) else new_id("call")
        self._given.add(chosen)
        return chosen

    def _is_taken(self, offered: str) -> bool:
        if offered in self._given:
            return True
        if len(offered) >= _LONG_ENOUGH_TO_BE_UNIQUE:
            return False
        if self._earlier is None:
            self._earlier = {call.id for message in self._transcript for call in message.calls}
        return offered in self._earlier
