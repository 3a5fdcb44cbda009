"""Forks: a new session that starts with a copy of another session's path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from ostler import __version__
from ostler.core.journal import World
from ostler.core.state import leaf_of, path_of
from ostler.core.store import Store
from ostler.schema import events
from ostler.schema.errors import NotFound
from ostler.schema.events import EVENT_TYPES
from ostler.schema.facts import Fact, UnknownEvent, encode_event
from ostler.store.rules import blobs_named_by, read_in_parts

REFERENCES: dict[str, tuple[str, ...]] = {
    "branch_collapsed": ("leaf",),
    "compacted": ("replaces", "keeps_from"),
    "compaction_undone": ("compaction",),
    "delivered": ("message",),
    "labelled": ("entry",),
    "message_revised": ("message",),
    "tool_result": ("repeats",),
}
"""The fields that contain numbers of entries, by event type."""

_SESSION_RECORDS = frozenset(
    {"settings_changed", "session_renamed", "extension_state", "labelled", "delivered", "message_revised"}
)
"""Records that apply to the whole session; those of unknown types are treated the same."""

_MOST_RANGES = 12


async def fork(store: Store, session: str, at: int | None, world: World, title: str = "") -> str:
    """A new session with the path from the root to the entry `at` (by default the leaf); returns its id.

    - Copies have the same bytes and time, and name their original. Only numbers of entries inside them are
      mapped to the new numbering (0: an entry that was not copied).
    - Settings, extensions' state, title and labels are copied as they are now.
    - Usage is not copied: it counts in the original.
    - Output that copied results name is copied too, so that either session can be deleted. Children are not.
    """
    facts = await store.read(session)
    leaf = _entry_to_fork_at(session, facts, at)
    original = facts[0].event
    assert isinstance(original, events.SessionStarted)
    copies = _Copies(session, world)
    started = events.SessionStarted(original.cwd, __version__, driver=original.driver)
    copies.add(msgspec.structs.replace(started, forked_from=session, forked_at=leaf))
    copied = [*_along_path(facts, path_of(facts, leaf)), *_session_records(facts, bool(title))]
    for fact in copied:
        copies.copy(fact)
    if title:
        copies.add(events.SessionRenamed(title))
    blobs = [part for blob in blobs_named_by(copied) async for part in read_in_parts(store, session, blob)]
    await store.import_session(copies.facts, blobs)
    return copies.id


def _entry_to_fork_at(session: str, facts: Sequence[Fact], at: int | None) -> int:
    entries = [fact.seq for fact in facts if fact.parent is not None]
    leaf = leaf_of(facts) if at is None else at
    if leaf in entries:
        return leaf
    if not entries:
        raise NotFound(f"session {session} has no entries yet, so there is nothing to fork")
    if at is None:
        raise NotFound(f"session {session} is before its first entry: fork at one of {_ranges(entries)}")
    raise NotFound(f"session {session} has no entry {at}; its entries are {_ranges(entries)}")


def _ranges(numbers: Sequence[int]) -> str:
    """`2, 5-9, 14`; a long list is shortened in the middle."""
    bounds = [numbers[0]]
    for number, following in pairwise(numbers):
        if following != number + 1:
            bounds += [number, following]
    bounds.append(numbers[-1])
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    ranges = [str(first) if first == last else f"{first}-{last}" for first, last in pairs]
    if len(ranges) > _MOST_RANGES:
        half = _MOST_RANGES // 2
        ranges = [*ranges[:half], "…", *ranges[-half:]]
    return ", ".join(ranges)


def _along_path(facts: Sequence[Fact], path: set[int]) -> Iterator[Fact]:
    """The entries of the path, and those `tool_started` of its calls that name a child."""
    calls: set[str] = set()
    for fact in facts:
        event = fact.event if fact.type in ("tool_called", "tool_started") else None
        if fact.seq in path:
            if isinstance(event, events.ToolCalled):
                calls.add(event.call)
            yield fact
        elif isinstance(event, events.ToolStarted) and event.child and event.call in calls:
            yield fact


def _session_records(facts: Sequence[Fact], is_renamed: bool) -> Iterator[Fact]:
    """The records that apply to the whole session: the last of each kind."""
    last: dict[tuple[Any, ...], Fact] = {}
    for fact in facts:
        if fact.parent is not None or (fact.type in EVENT_TYPES and fact.type not in _SESSION_RECORDS):
            continue
        match fact.event:
            case UnknownEvent() | events.SettingsChanged():
                last[fact.type, fact.seq] = fact
            case events.SessionRenamed() if not is_renamed:
                last[fact.type,] = fact
            case events.ExtensionState(extension=extension, key=key):
                last[fact.type, extension, key] = fact
            case events.Labelled(entry=entry) | events.Delivered(message=entry):
                last[fact.type, entry] = fact
            case events.MessageRevised(message=entry):
                last[fact.type, entry] = fact
    yield from sorted(last.values(), key=lambda fact: fact.seq)


class _Copies:
    """The facts of the fork, numbered as they come."""

    def __init__(self, source: str, world: World) -> None:
        self.id = world.new_id("ses")
        self.facts: list[Fact] = []
        self._source = source
        self._now_ms = world.now_ms()
        self._numbers = {0: 0}

    def add(self, event: events.Event) -> None:
        seq = len(self.facts) + 1
        self.facts.append(Fact(seq, self.id, "", self._now_ms, encode_event(event)))

    def copy(self, fact: Fact) -> None:
        body = self._renumber(fact)
        if body is None:
            return
        seq = len(self.facts) + 1
        parent = None
        if fact.parent is not None:
            parent = self._numbers[fact.parent]
            self._numbers[fact.seq] = seq
        origin = f"{self._source}:{fact.seq}"
        # Without its run, which belongs to the original session.
        self.facts.append(
            Fact(seq, self.id, "", fact.time_ms, body, type=fact.type, parent=parent, origin=origin)
        )

    def _renumber(self, fact: Fact) -> bytes | None:
        """The body with its references mapped; None for a record about an entry that was not copied."""
        present = [name for name in REFERENCES.get(fact.type, ()) if getattr(fact.event, name)]
        if not present:
            return fact.body
        fields = msgspec.json.decode(fact.body, type=dict[str, msgspec.Raw])
        for name in present:
            mapped = self._map(getattr(fact.event, name))
            if fact.parent is None and not mapped:
                return None
            fields[name] = msgspec.Raw(msgspec.json.encode(mapped))
        return msgspec.json.encode(fields)

    def _map(self, reference: int | tuple[int, ...]) -> int | list[int]:
        if isinstance(reference, int):
            return self._numbers.get(reference, 0)
        return [self._numbers[number] for number in reference if number in self._numbers]
