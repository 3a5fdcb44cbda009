"""Checks after a test: invariants of its sessions, stable prompt prefixes, and replay of a recording."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
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


_TELLING_ANEW = frozenset({"compacted", "compaction_undone", "history_replaced", "leaf_moved"})


class _RequestStart(msgspec.Struct, frozen=True):
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
        self._last: dict[Any, _RequestStart] = {}
        self._changes: dict[Any, list[_Change]] = {}

    def take(
        self, session: Any, journal: Journal, request: ModelRequest, trace: Any, is_hooked: bool
    ) -> None:
        transcript, is_traced = request.transcript, trace is not None
        shown = (request.id, journal, request.system, request.tools, transcript, len(transcript))
        told = _RequestStart(*shown, is_traced, is_hooked)
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


def _changed(before: _RequestStart, now: _RequestStart) -> str:
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
    original = context.trace_with_prefix

    def traced(journal: Journal, built: BuiltContext, request: ModelRequest) -> Any:
        trace = original(journal, built, request)
        is_hooked = request.transcript is not built.transcript or request.system != built.system
        prefixes.take((place_of(journal), journal.session), journal, request, trace, is_hooked)
        return trace

    context.trace_with_prefix = traced
    try:
        yield prefixes
    finally:
        context.trace_with_prefix = original


@contextmanager
def watched_sessions() -> Iterator[None]:
    """Checks every session that was opened inside the block, once the block is over.

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
        with watched_prefixes(_place) as prefixes:
            yield
    finally:
        Journal.__init__ = original  # type: ignore[method-assign]
    # A later journal of the same session took it over: only that one's state is live.
    newest = {(_place(journal), journal.session): journal for journal in journals}
    logs: dict[Any, dict[str, list[Fact]]] = {}
    for (place, session), journal in newest.items():
        facts = check_journal(journal)
        if facts is not None:
            logs.setdefault(place, {})[session] = facts
            problems = prefixes.problems((place, session), facts)
            assert not problems, f"session {session}: " + "; ".join(problems)
    for in_one_place in logs.values():
        problems = tree_violations(in_one_place)
        assert not problems, "; ".join(problems)


def _place(journal: Journal) -> Any:
    return getattr(journal.store, "path", id(journal.store))


def check_journal(journal: Journal) -> list[Fact] | None:
    """The facts of its session. Raises AssertionError when an invariant does not hold for it."""
    facts = _facts_of(journal)
    if facts is None or journal.failed:
        return None  # deleted meanwhile, or the log could not be written: recovery has yet to come
    problems = violations(facts)
    live, folded = journal.state.snapshot(), fold(facts).snapshot()
    problems += [
        f"live {name} {live[name]!r} is not {folded[name]!r}" for name in live if live[name] != folded[name]
    ]
    assert not problems, f"session {journal.session}: " + "; ".join(problems)
    return facts


def _facts_of(journal: Journal) -> list[Fact] | None:
    store = journal.store
    if isinstance(store, MemoryStore):
        return _read(store, journal.session)
    if isinstance(store, SqliteStore) and store.path.exists():
        fresh = SqliteStore(store.path)
        try:
            return _read(fresh, journal.session)
        finally:
            asyncio.run(fresh.close())
    return None


def _read(store: MemoryStore | SqliteStore, session: str) -> list[Fact] | None:
    try:
        return asyncio.run(store.read(session))
    except NotFound:
        return None


def assert_replays(
    recording: Path | str | Sequence[Fact], agent: Agent | None = None, *, live: bool = True
) -> ReplayResult:
    """Fails with the first difference, if there is one. For tests without an event loop; see `replayed`.

    ```python
    def test_the_agent_still_does_what_it_did():
        assert_replays("tests/recorded/refund.jsonl", make_agent())
    ```
    """
    found = asyncio.run(replay_recording(recording, agent, live=live))
    if found.difference is not None:
        place = f"fact {found.difference.fact}, run {found.difference.run}, step {found.difference.step}"
        raise AssertionError(f"{found.difference.text} ({place})\n{found.difference.diff()}")
    return found


async def replay_recording(
    recording: Path | str | Sequence[Fact], agent: Agent | None = None, *, live: bool = True
) -> ReplayResult:
    """Replays an exported file, or facts, without a network.

    The agent's tools, hooks, permissions and system prompt are used, never its model. With `live=False` its
    tools do not run: what they return is the log's word. Without an agent only the loop is tested.
    """
    if isinstance(recording, Path | str):
        recorded = await recording_in(_lines(Path(recording)))
    else:
        recorded = Recording(tuple(recording))
    if agent is None:
        return await replay(recorded, Stage(Harness(RecordedModel(recorded.facts))))
    return await replay(recorded, Stage(agent._harness, live=live, own=True))


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()
