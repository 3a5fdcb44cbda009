"""Checks after a test: invariants of its sessions, stable prompt prefixes, and replay of a recording."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.core import context
from ostler.core.context import BuiltContext
from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.core.model import ModelRequest, ToolOffer
from ostler.core.state import fold
from ostler.core.transcript import Transcript
from ostler.history.recording import Recording, recording_in
from ostler.history.replay import ReplayResult, Stage, replay
from ostler.models.scripted import RecordedModel
from ostler.schema.errors import NotFound
from ostler.schema.events import ModelCalled
from ostler.schema.facts import Fact
from ostler.store.invariants import tree_violations, violations
from ostler.store.memory import MemoryStore
from ostler.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from ostler.agent import Agent

_NEW_TRANSCRIPT = frozenset({"compacted", "compaction_undone", "history_replaced", "leaf_moved"})


class _RequestStart(msgspec.Struct, frozen=True):
    """One request. A transcript only grows, so its length says what was in it."""

    call: str
    journal: Journal
    system: str
    tools: tuple[ToolOffer, ...]
    transcript: Transcript
    length: int
    is_hooked: bool


class Prefixes:
    """The newest request of each session, and the requests that do not begin with the one before."""

    def __init__(self) -> None:
        self._last: dict[Any, _RequestStart] = {}
        self._changes: dict[Any, list[tuple[str, str, str]]] = {}
        """The ids of two requests, and what differs, for a reason that only facts can show."""

    def add(self, session: Any, journal: Journal, request: ModelRequest, trace: Any, is_hooked: bool) -> None:
        transcript = request.transcript
        parts = (request.id, journal, request.system, request.tools, transcript, len(transcript))
        start = _RequestStart(*parts, is_hooked)
        before = self._last.get(session)
        self._last[session] = start
        if before is None or (trace is not None and trace.get("changed")):
            return
        if trace is None and (is_hooked or before.is_hooked):
            return  # no trace could name the change
        if what := _changed(before, start):
            self._changes.setdefault(session, []).append((before.call, start.call, what))

    def problems(self, session: Any, facts: Sequence[Fact]) -> list[str]:
        """Those changes of this session that its facts do not explain."""
        calls = [(number, fact.event) for number, fact in enumerate(facts)]
        numbers = {event.id: number for number, event in calls if isinstance(event, ModelCalled)}
        return [
            f"the request {after} begins with {what}, and no fact explains why"
            for before, after, what in self._changes.get(session, ())
            if {before, after} <= numbers.keys()
            and not _explains(facts[numbers[before] : numbers[after]], what)
        ]


def _changed(before: _RequestStart, now: _RequestStart) -> str:
    if before.transcript is not now.transcript or before.length > now.length:
        old, new = before.transcript.messages[: before.length], now.transcript.messages[: before.length]
        if list(old) != list(new):
            return "other messages"
    if before.journal is not now.journal:
        return (
            ""  # each process that opens a session has its own prompt and tools; the trace names the prompt
        )
    if before.system != now.system:
        return "another system prompt"
    # Each `step_started` names the offered tools; the meaning of a name must not change.
    is_same_choice = [tool.name for tool in before.tools] == [tool.name for tool in now.tools]
    return "other descriptions of the same tools" if is_same_choice and before.tools != now.tools else ""


def _explains(between: Iterable[Fact], what: str) -> bool:
    """Between two runs a host may change the prompt and the tools."""
    types = {fact.type for fact in between}
    return not types.isdisjoint(_NEW_TRANSCRIPT if what == "other messages" else {"run_started"})


@contextmanager
def watched_prefixes() -> Iterator[Prefixes]:
    """Records every request for a step that is made inside the block."""
    prefixes = Prefixes()
    original = context.trace_with_prefix

    def traced(journal: Journal, built: BuiltContext, request: ModelRequest) -> Any:
        trace = original(journal, built, request)
        is_hooked = request.transcript is not built.transcript or request.system != built.system
        prefixes.add((_place(journal), journal.session), journal, request, trace, is_hooked)
        return trace

    context.trace_with_prefix = traced
    try:
        yield prefixes
    finally:
        context.trace_with_prefix = original


@contextmanager
def watched_sessions() -> Iterator[None]:
    """Checks every session that was opened inside the block, at the end of the block.

    ```python
    @pytest.fixture(autouse=True)
    def invariants():
        with watched_sessions():
            yield
    ```
    """
    journals: list[Journal] = []
    original = Journal.__init__

    def remember(self: Journal, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        journals.append(self)

    Journal.__init__ = remember  # type: ignore[method-assign]
    try:
        with watched_prefixes() as prefixes:
            yield
    finally:
        Journal.__init__ = original  # type: ignore[method-assign]
    # A later journal of the same session took it over: only that one's state is live.
    newest = {(_place(journal), journal.session): journal for journal in journals}
    logs: dict[Any, dict[str, list[Fact]]] = {}
    for (place, session), journal in newest.items():
        facts = _facts_of(journal)
        if facts is None or journal.failed:
            continue  # deleted meanwhile, or the log could not be written: recovery has yet to come
        logs.setdefault(place, {})[session] = facts
        problems = violations(facts)
        live, folded = journal.state.snapshot(), fold(facts).snapshot()
        problems += [
            f"live {name} {live[name]!r} is not {folded[name]!r}"
            for name in live
            if live[name] != folded[name]
        ]
        problems += prefixes.problems((place, session), facts)
        assert not problems, f"session {session}: " + "; ".join(problems)
    for in_one_place in logs.values():
        problems = tree_violations(in_one_place)
        assert not problems, "; ".join(problems)


def _place(journal: Journal) -> Any:
    return getattr(journal.store, "path", id(journal.store))


def _facts_of(journal: Journal) -> list[Fact] | None:
    store = journal.store
    if isinstance(store, SqliteStore) and store.path.exists():
        store = SqliteStore(store.path)
    elif not isinstance(store, MemoryStore):
        return None
    try:
        return asyncio.run(store.read(journal.session))
    except NotFound:
        return None
    finally:
        if store is not journal.store:
            asyncio.run(store.close())


def assert_replays(
    recording: Path | str | Sequence[Fact], agent: Agent | None = None, *, live: bool = True
) -> ReplayResult:
    """Fails with the first difference, if there is one. In an async test, use `replay_recording`.

    ```python
    def test_the_agent_still_does_what_it_did():
        assert_replays("tests/recorded/refund.jsonl", make_agent())
    ```
    """
    result = asyncio.run(replay_recording(recording, agent, live=live))
    if (difference := result.difference) is not None:
        place = f"fact {difference.fact}, run {difference.run}, step {difference.step}"
        raise AssertionError(f"{difference.text} ({place})\n{difference.diff()}")
    return result


async def replay_recording(
    recording: Path | str | Sequence[Fact], agent: Agent | None = None, *, live: bool = True
) -> ReplayResult:
    """Replays an exported file, or facts, without a network.

    The agent's tools, hooks, permissions and system prompt are used, never its model. With `live=False` its
    tools do not run, and their results come from the log. Without an agent only the loop is tested.
    """
    if isinstance(recording, Path | str):
        content = await asyncio.to_thread(Path(recording).read_bytes)
        recorded = await recording_in(content.splitlines())
    else:
        recorded = Recording(tuple(recording))
    if agent is None:
        return await replay(recorded, Stage(Harness(RecordedModel(recorded.facts))))
    return await replay(recorded, Stage(agent._harness, live=live, own=True))
