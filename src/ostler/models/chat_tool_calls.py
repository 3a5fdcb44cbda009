"""Tool calls of the Chat Completions wire, put together from their deltas.

A call is meant to have an index and to bring its id and name with its first delta. Servers leave out the
index, or give every call the same; leave out the id, or give it later; repeat the name; send a call whole.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.kernel.model import ModelEvent, ModelRequest
from ostler.models.call_ids import CallIds
from ostler.vocabulary.events import ToolInputDelta, ToolInputEnded, ToolInputStarted
from ostler.vocabulary.messages import Block, ToolCall


class FunctionDelta(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class _OpenCall:
    """`call` is its id once it has been announced; `offered` the id that its server gave."""

    __slots__ = ("call", "ended", "index", "name", "number", "offered", "offset", "parts")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.offered = ""
        self.name = ""
        self.call = ""
        self.number = -1
        self.offset = 0
        self.parts: list[str] = []
        self.ended = False


class OpenCalls:
    """The calls of one answer. Numbers of blocks are the caller's: methods take the next and give it back."""

    def __init__(self, request: ModelRequest) -> None:
        self._message = request.id
        self._ids = CallIds(request.transcript)
        self._calls: list[_OpenCall] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, delta: CallDelta, block: int, events: list[ModelEvent]) -> int:
        function = delta.function or FunctionDelta()
        call = self._call_of(delta, function)
        if call is None:
            block = self._announce_all(block, events)
            call = _OpenCall(delta.index)
            self._calls.append(call)
        call.offered = call.offered or delta.id or ""
        call.name = call.name or function.name or ""
        if not call.call and call.offered and call.name:
            block = self._announce(call, block, events)
        text = function.arguments
        if text:
            self._argument(call, text if isinstance(text, str) else _as_text(text), events)
        return block

    def close(self, block: int, events: list[ModelEvent]) -> int:
        """Nothing more comes: announces what still lacked an id, and ends every call."""
        block = self._announce_all(block, events)
        for call in self._calls:
            if call.ended:
                continue
            call.ended = True
            if not call.parts:
                self._argument(call, "{}", events)
            events.append(ToolInputEnded(self._message, call.number, call.call))
        return block

    def blocks(self) -> dict[int, Block]:
        return {
            call.number: ToolCall(call.call, call.name, "".join(call.parts) or "{}") for call in self._calls
        }

    def _call_of(self, delta: CallDelta, function: FunctionDelta) -> _OpenCall | None:
        """The call that a delta continues, or none when it begins one."""
        if not self._calls:
            return None
        if delta.index is None:
            known = [call for call in self._calls if delta.id and call.offered == delta.id]
            call = known[-1] if known else self._calls[-1]
        else:
            found = [call for call in self._calls if call.index == delta.index]
            if not found:
                return None
            call = found[-1]
        if not function.name or not call.name:
            return call
        if delta.id and call.offered:
            return call if delta.id == call.offered else None
        # Named again without an id: another call if this one is already whole, else a repetition.
        return None if _is_whole(call.parts) else call

    def _announce_all(self, block: int, events: list[ModelEvent]) -> int:
        for call in self._calls:
            if not call.call:
                block = self._announce(call, block, events)
        return block

    def _announce(self, call: _OpenCall, block: int, events: list[ModelEvent]) -> int:
        call.call = self._ids.unique(call.offered)
        call.number = block
        events.append(ToolInputStarted(self._message, block, call.call, call.name))
        early, call.parts = "".join(call.parts), []
        if early:
            self._argument(call, early, events)
        return block + 1

    def _argument(self, call: _OpenCall, text: str, events: list[ModelEvent]) -> None:
        call.parts.append(text)
        if call.call:
            events.append(ToolInputDelta(self._message, call.number, call.call, call.offset, text))
            call.offset += len(text)


def _as_text(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(arguments).decode()


def _is_whole(parts: list[str]) -> bool:
    if not parts or not parts[-1].rstrip().endswith("}"):
        return False
    try:
        msgspec.json.decode("".join(parts))
    except msgspec.DecodeError:
        return False
    return True
