"""Tool-call ids, unique in a session whatever its vendors send."""

from __future__ import annotations

from ostler.kernel.model import Transcript
from ostler.vocabulary.ids import new_id


class CallIds:
    """The ids of one answer's calls: the vendor's own, or a new one where that is missing or taken."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._given: set[str] = set()

    def unique(self, offered: str) -> str:
        chosen = offered if offered and not self._is_taken(offered) else new_id("call")
        self._given.add(chosen)
        return chosen

    def _is_taken(self, offered: str) -> bool:
        return offered in self._given or offered in self._transcript.call_ids()
