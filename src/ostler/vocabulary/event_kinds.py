"""The four kinds of events."""

from __future__ import annotations

import re

import msgspec


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class Event(msgspec.Struct, frozen=True, tag_field="type", tag=snake_case, omit_defaults=True):
    """Something that happened, or is happening."""

    @property
    def type(self) -> str:
        return type(self).__struct_config__.tag  # type: ignore[return-value]


class Entry(Event, frozen=True):
    """A fact on the tree."""


class Record(Event, frozen=True):
    """A fact of the whole session."""


class Delta(Event, frozen=True):
    """A live fragment; never stored."""


class LiveEvent(Event, frozen=True):
    """Present state; never stored."""
