"""Facts that extensions make: entries of their own, state that they keep, commands that people ran."""

from __future__ import annotations

from typing import Any

from ostler.vocabulary.event_kinds import Entry, Record
from ostler.vocabulary.messages import PlainBlock


class ExtensionEntry(Entry, frozen=True):
    """An extension's own entry on the tree. `told` is what the model is told of it, if anything."""

    extension: str
    name: str
    data: Any = None
    told: tuple[PlainBlock, ...] = ()
    critical: bool = False


class ExtensionState(Record, frozen=True):
    """One key of an extension's state; `None` removes it."""

    extension: str
    key: str
    value: Any = None


class CommandRan(Record, frozen=True):
    """Somebody ran an extension's command. `text` is what it said, or why it failed."""

    name: str
    arguments: str = ""
    text: str = ""
    failed: bool = False
    extension: str = ""
    request: str = ""
