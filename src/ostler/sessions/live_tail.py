"""The open tail of a session: what was streamed but has no fact yet, and the live values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ostler.schema import events
from ostler.schema.events import Event
from ostler.schema.facts import Fact, UnknownEvent, decode_event, type_of

MAX_OUTPUT = 64_000
"""Characters of a running tool's output: users look at its end, and a blob has all of it."""

Key = tuple[str, ...]
"""Identifies the text or value that a live event belongs to."""


class LiveTail:
    """Joins deltas until the fact comes that contains the whole. A late subscriber gets `events`: deltas that
    begin at offset 0 (for a tool's output, at the part that is still stored); the stream continues after them
    without gap or repetition."""

    def __init__(self) -> None:
        self._open: dict[Key, _OpenText] = {}
        self._values: dict[str, events.LiveValue] = {}
        self._children: dict[str, tuple[str, LiveTail]] = {}
        self.last_seq = 0
        self._last: _OpenText | None = None
        """The text of the last delta, almost always that of the next one as well."""

    def see(self, batch: Iterable[Fact | Event]) -> None:
        for item in batch:
            if (text := self._last) is not None and text.takes(item):
                continue
            if isinstance(item, Fact):
                self.last_seq = item.seq
                if item.type in _CLOSING:
                    self._last = None
                    self._close(item.event)
            else:
                self._apply(item)

    def _apply(self, event: Event) -> None:
        match event:
            case events.TextDelta() | events.ReasoningDelta() | events.ToolInputDelta() | events.ToolOutput():
                key = key_of(event)
                if key not in self._open:
                    self._open[key] = _OpenText(event)
                self._last = self._open[key]
                self._last.add(event)
            case events.ToolInputStarted():
                self._open.setdefault(key_of(event), _OpenText(event))
            case events.LiveValue(name=name, value=value):
                self._values.pop(name, None)
                if value is not None:
                    self._values[name] = event
            case events.ChildEvent(call=call, child=child):
                if child not in self._children:
                    self._children[child] = (call, LiveTail())
                if (inner := _of_child(event)) is not None:
                    self._children[child][1].see([inner])

    def _close(self, event: Event | UnknownEvent) -> None:
        match event:
            case events.AssistantMessage(call=message) | events.ModelFailed(call=message):
                for key in [key for key in self._open if key[0] != "output" and key[1] == message]:
                    del self._open[key]
            case events.ToolResultFact(call=call):
                self._open.pop(("output", call), None)
                self._children = {id: child for id, child in self._children.items() if child[0] != call}
            case events.ChildEnded(child=child):
                self._children.pop(child, None)
            case events.RunEnded():
                self._open.clear()
                self._children = {id: child for id, child in self._children.items() if not child[0]}

    def events(self) -> list[Event]:
        return [
            *self._values.values(),
            *(event for text in self._open.values() for event in text.events(0)),
            *(
                events.ChildEvent(call, child, event)
                for child, (call, tail) in self._children.items()
                for event in tail.events()
            ),
        ]

    def since(self, missed: Mapping[Key, int]) -> list[Event]:
        """The deltas of each key from that offset on; nothing for what is closed by now."""
        return [event for key, offset in missed.items() for event in self._missed(key, offset)]

    def _missed(self, key: Key, offset: int) -> list[Event]:
        if key[0] == "value":
            return [self._values.get(key[1]) or events.LiveValue(key[1])]
        if key[0] == "child":
            call, tail = self._children.get(key[1], ("", None))
            return [events.ChildEvent(call, key[1], event) for event in tail.events()] if tail else []
        return self._open[key].events(offset) if key in self._open else []

    def clear(self) -> list[Event]:
        """Removes everything, because nothing drives the session any more. Returns the events that remove the
        live values."""
        removals: list[Event] = [events.LiveValue(name) for name in self._values]
        self._open, self._values, self._children, self._last = {}, {}, {}, None
        return removals


class _OpenText:
    """One text that grows by deltas."""

    def __init__(self, first: Any) -> None:
        self._first = first
        self._pieces: list[Any] = []
        self._length = 0
        """Characters of output in `_pieces`."""
        self._kind: Any = None
        """The type of its deltas, if they belong to a message."""

    def takes(self, event: Any) -> bool:
        """The fast path for deltas, which come by the thousand: more of the same block."""
        if type(event) is not self._kind:
            return False
        first = self._first
        if event.message != first.message or event.block != first.block:
            return False
        self._pieces.append(event)
        return True

    def add(self, delta: Any) -> None:
        self._pieces.append(delta)
        if not isinstance(delta, events.ToolOutput):
            self._kind = type(delta)
            return
        self._length += len(delta.text)
        if self._length > 2 * MAX_OUTPUT:
            self._drop_start()

    def _drop_start(self) -> None:
        dropped = 0
        while self._length - len(self._pieces[dropped].text) > MAX_OUTPUT:
            self._length -= len(self._pieces[dropped].text)
            dropped += 1
        del self._pieces[:dropped]

    def events(self, offset: int) -> list[Event]:
        """The text from that offset on, with `tool_input_started` before arguments."""
        if isinstance(self._first, events.ToolOutput):
            return self._output(offset)
        if len(self._pieces) > 1:
            text = "".join([piece.text for piece in self._pieces])
            self._pieces = [msgspec.structs.replace(self._pieces[0], text=text)]
        parts: list[Event] = []
        if isinstance(self._first, events.ToolInputStarted) and offset == 0:
            parts.append(self._first)
        if self._pieces:
            whole = self._pieces[0]
            if text := whole.text[offset - whole.offset :] if offset > whole.offset else whole.text:
                parts.append(msgspec.structs.replace(whole, offset=max(offset, whole.offset), text=text))
        return parts

    def _output(self, offset: int) -> list[Event]:
        """Adjacent pieces of one stream joined; standard error stays separate."""
        joined: list[list[Any]] = []
        for piece in self._pieces:
            if piece.offset + len(piece.text) <= offset:
                continue
            if joined and joined[-1][0].stream == piece.stream:
                joined[-1].append(piece)
            else:
                joined.append([piece])
        parts: list[Event] = []
        for pieces in joined:
            text, start = "".join([piece.text for piece in pieces]), pieces[0].offset
            cut = max(0, offset - start)
            parts.append(msgspec.structs.replace(pieces[0], offset=start + cut, text=text[cut:]))
        return parts


def key_of(event: Any) -> Key:
    """The text or value that a live event belongs to; empty if it belongs to none."""
    match event:
        case events.TextDelta(message=message, block=block):
            return ("text", message, str(block))
        case events.ReasoningDelta(message=message, block=block):
            return ("reasoning", message, str(block))
        case (
            events.ToolInputStarted(message=message, block=block)
            | events.ToolInputDelta(message=message, block=block)
            | events.ToolInputEnded(message=message, block=block)
        ):
            return ("input", message, str(block))
        case events.ToolOutput(call=call):
            return ("output", call)
        case events.LiveValue(name=name):
            return ("value", name)
        case events.ChildEvent(child=child):
            return ("child", child)
    return ()


def _of_child(outer: events.ChildEvent) -> Fact | Event | None:
    """The child's live event, or a fact that closes something; None for other facts."""
    if isinstance(outer.event, Event):
        return outer.event
    body = outer.line()
    tag = type_of(body)
    kind = events.EVENT_TYPES.get(tag)
    if tag in _CLOSING:
        return Fact(0, "", "", 0, body, tag)
    if kind is None or not issubclass(kind, events.Delta | events.LiveEvent):
        return None
    event = decode_event(body)
    return None if isinstance(event, UnknownEvent) else event


_CLOSING = frozenset({"assistant_message", "model_failed", "tool_result", "child_ended", "run_ended"})
