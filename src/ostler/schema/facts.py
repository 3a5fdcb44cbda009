"""A fact: an event in its envelope, with the bytes it was stored as.

The bytes stay as they were read, so what a newer version wrote (an unknown event, an unknown field) survives
reading, forking, exporting and importing byte for byte. The event is decoded on first access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from ostler.schema.errors import StoreCorrupt
from ostler.schema.events import EVENT_TYPES, AssistantMessage, Event, ToolResultFact, UserMessage

_encoder = msgspec.json.Encoder()
_decoder_of: Callable[[Any], msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)
_TAG_START = len(b'{"type":"')


class UnknownEvent(msgspec.Struct, frozen=True):
    """An event of a newer version: passed on, never interpreted."""

    type: str
    body: bytes


class Fact(msgspec.Struct, eq=False, gc=False):
    """A numbered, stored event. `parent` is the entry before it on its path (0: none), None for records;
    `origin` is the session and number that it is a copy of."""

    seq: int
    session: str
    run: str
    time_ms: int
    body: bytes
    type: str = ""
    """The event's tag; read from the body if it is not given."""
    parent: int | None = None
    origin: str = ""
    _event: Event | UnknownEvent | None = None

    def __post_init__(self) -> None:
        if not self.type:
            self.type = type_of(self.body)

    @classmethod
    def of(
        cls, event: Event, *, seq: int, session: str, run: str, time_ms: int, parent: int | None = None
    ) -> Fact:
        body = _encoder.encode(event)
        return cls(seq, session, run, time_ms, body, event.type, parent, "", event)

    @property
    def event(self) -> Event | UnknownEvent:
        if self._event is None:
            try:
                self._event = _decode(self.type, self.body)
            except (msgspec.MsgspecError, UnicodeError) as error:
                raise StoreCorrupt(f"fact {self.seq} of session {self.session} is damaged: {error}") from None
        return self._event

    @property
    def time(self) -> str:
        moment = datetime.fromtimestamp(self.time_ms / 1000, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def line(self) -> bytes:
        """One JSON object: the event's fields, with those of the envelope inserted after `type`."""
        return self.line_of(self.envelope())

    def envelope(self) -> dict[str, Any]:
        envelope: dict[str, Any] = {"seq": self.seq, "session": self.session, "run": self.run}
        envelope["time"] = self.time
        if self.parent is not None:
            envelope["parent"] = self.parent
        if self.origin:
            envelope["origin"] = self.origin
        return envelope

    def line_of(self, envelope: dict[str, Any]) -> bytes:
        after_tag = _TAG_START + len(self.type.encode()) + 1
        return b"%b,%b%b" % (self.body[:after_tag], _encoder.encode(envelope)[1:-1], self.body[after_tag:])

    def __repr__(self) -> str:
        return f"<{self.seq} {self.event!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fact):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    __hash__ = None  # type: ignore[assignment]


_COMPARED = ("seq", "session", "run", "time_ms", "type", "body", "parent", "origin")


def type_of(body: bytes) -> str:
    """The tag of a stored event, which is always its first field; `line` relies on it."""
    if not body.startswith(b'{"type":"'):
        raise msgspec.ValidationError("a stored event must begin with its type")
    return body[_TAG_START : body.index(b'"', _TAG_START)].decode()


def decode_together(facts: Sequence[Fact]) -> Iterator[tuple[Fact, Event | UnknownEvent | None]]:
    """Each fact with its event if it is of one of the most frequent types, else with None. Decoding hundreds
    at once takes a third of the time. The events are not cached, so that reading a long session once does not
    fill the memory. A fact that cannot be decoded gets None; `Fact.event` raises."""
    for first in range(0, len(facts), _CHUNK):
        chunk = facts[first : first + _CHUNK]
        yield from zip(chunk, _events_of(chunk), strict=True)


def _events_of(facts: Sequence[Fact]) -> Sequence[Event | UnknownEvent | None]:
    global _decode_many
    frequent = [fact for fact in facts if fact.type in _FREQUENT and fact._event is None]
    if not frequent:
        return [None] * len(facts)
    if _decode_many is None:
        _decode_many = msgspec.json.Decoder(list[UserMessage | AssistantMessage | ToolResultFact]).decode
    try:
        decoded = _decode_many(b"[%b]" % b",".join([fact.body for fact in frequent]))
    except (msgspec.MsgspecError, UnicodeError):
        decoded = []
    if len(decoded) != len(frequent):  # one is damaged: it may contain a comma
        return [None] * len(facts)
    if len(frequent) == len(facts):
        return decoded
    events = {fact.seq: event for fact, event in zip(frequent, decoded, strict=True)}
    return [events.get(fact.seq) for fact in facts]


_CHUNK = 200
"""Small enough that the memory of one chunk is reused for the next."""

_FREQUENT = frozenset({"user_message", "assistant_message", "tool_result"})
_decode_many: Callable[[bytes], list[Any]] | None = None


def encode_event(event: Event) -> bytes:
    return _encoder.encode(event)


def decode_event(body: bytes) -> Event | UnknownEvent:
    """The event in these bytes; `UnknownEvent` for an unknown type."""
    return _decode(type_of(body), body)


def _decode(tag: str, body: bytes) -> Event | UnknownEvent:
    event_type = EVENT_TYPES.get(tag)
    return UnknownEvent(tag, body) if event_type is None else _decoder_of(event_type).decode(body)


def storage_problem(value: Any) -> str:
    """Why an event, or a part of one, cannot be stored and read back; empty if it can. For values from user
    code, whose types are not checked."""
    try:
        _decoder_of(type(value)).decode(_encoder.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def encode_lines(events: list[Event]) -> bytes:
    """The live events of one batch, one JSON object per line."""
    return _encoder.encode_lines(events)
