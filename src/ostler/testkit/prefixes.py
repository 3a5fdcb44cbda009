"""Watching what models are told: each request begins with the one before it, or something says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ostler.kernel import beginnings
from ostler.kernel.context import Built
from ostler.kernel.journal import Journal
from ostler.kernel.model import ModelRequest, ToolOffer, Transcript
from ostler.vocabulary.events import ModelCalled
from ostler.vocabulary.facts import Fact

_TELLING_ANEW = frozenset({"compacted", "compaction_undone", "history_replaced", "leaf_moved"})


class _Told(msgspec.Struct, frozen=True):
    """One request. A transcript only grows, so its length says what was in it."""

    call: str
    journal: Journal
    system: str
    tools: tuple[ToolOffer, ...]
    transcript: Transcript
    length: int
    is_traced: bool
    is_hooked: bool


class _Change(msgspec.Struct, frozen=True):
    """A request that does not begin with the one before it, for a reason that only facts can tell."""

    before: str
    after: str
    what: str


class Prefixes:
    """The newest request of each session, and where two of them have another beginning."""

    def __init__(self) -> None:
        self._last: dict[Any, _Told] = {}
        self._changes: dict[Any, list[_Change]] = {}

    def take(
        self, session: Any, journal: Journal, request: ModelRequest, trace: Any, is_hooked: bool
    ) -> None:
        transcript, is_traced = request.transcript, trace is not None
        shown = (request.id, journal, request.system, request.tools, transcript, len(transcript))
        told = _Told(*shown, is_traced, is_hooked)
        before = self._last.get(session)
        self._last[session] = told
        if before is None or (is_traced and trace.get("changed")):
            return
        if not is_traced and (is_hooked or before.is_hooked):
            return  # there is no trace that could say it
        if what := _changed(before, told):
            self._changes.setdefault(session, []).append(_Change(before.call, told.call, what))

    def problems(self, session: Any, facts: Sequence[Fact]) -> list[str]:
        """Those changes of this session that its facts do not explain."""
        changes = self._changes.get(session)
        if not changes:
            return []
        places = {
            fact.event.id: place for place, fact in enumerate(facts) if isinstance(fact.event, ModelCalled)
        }
        return [
            f"the request {one.after} begins with {one.what}, and nothing says why"
            for one in changes
            if {one.before, one.after} <= places.keys()
            and not _explains(facts[places[one.before] : places[one.after]], one.what)
        ]


def _changed(before: _Told, now: _Told) -> str:
    if before.transcript is not now.transcript or before.length > now.length:
        old, new = before.transcript.messages[: before.length], now.transcript.messages[: before.length]
        if list(old) != list(new):
            return "other messages"
    if before.journal is not now.journal:
        return ""  # whoever opens a session brings a prompt and tools along; the trace names the prompt
    if before.system != now.system:
        return "another system prompt"
    if before.tools is now.tools or before.tools == now.tools:
        return ""
    # Which tools are offered is said by each `step_started`; a name must not come to mean something else.
    is_same_choice = [tool.name for tool in before.tools] == [tool.name for tool in now.tools]
    return "other words about the same tools" if is_same_choice else ""


def _explains(between: Iterable[Fact], what: str) -> bool:
    """Between two runs a host may change the prompt and the tools."""
    types = {fact.type for fact in between}
    return not types.isdisjoint(_TELLING_ANEW if what == "other messages" else {"run_started"})


@contextmanager
def watched_prefixes(place_of: Callable[[Journal], Any]) -> Iterator[Prefixes]:
    """Looks at every request for a step that is made inside the block."""
    prefixes = Prefixes()
    original = beginnings.traced

    def traced(journal: Journal, built: Built, request: ModelRequest) -> Any:
        trace = original(journal, built, request)
        is_hooked = request.transcript is not built.transcript or request.system != built.system
        prefixes.take((place_of(journal), journal.session), journal, request, trace, is_hooked)
        return trace

    beginnings.traced = traced
    try:
        yield prefixes
    finally:
        beginnings.traced = original
