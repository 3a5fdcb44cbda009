"""Tool calls of the Chat Completions wire, put together from their deltas.

A call is meant to have an index and to bring its id and name with its first delta. Servers leave out the
index, or give every call the same; leave out the id, or give it later; repeat the name; send a call whole.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.models.answer import Answer, OpenBlock


class FunctionDelta(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class _OpenCall:
    """`offered` is the id that its server gave; `early` what it said before it had a block."""

    __slots__ = ("block", "early", "index", "name", "offered")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.offered = ""
        self.name = ""
        self.early: list[str] = []
        self.block: OpenBlock | None = None


class OpenCalls:
    """The calls of one answer. A call has a block once its id and its name are known."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls: list[_OpenCall] = []

    def take(self, delta: CallDelta) -> None:
        function = delta.function or FunctionDelta()
        calls = self._calls
        call: _OpenCall | None
        if calls and not function.name and not delta.id and calls[-1].index == delta.index:
            call = calls[-1]  # as almost always
        else:
            call = self._call_of(delta, function)
        if call is None:
            self._announce_all()
            call = _OpenCall(delta.index)
            calls.append(call)
        if call.block is None:
            call.offered = call.offered or delta.id or ""
            call.name = call.name or function.name or ""
            if call.offered and call.name:
                self._announce(call)
        text = function.arguments
        if not text:
            return
        if not isinstance(text, str):
            text = msgspec.json.encode(text).decode()
        if call.block is None:
            call.early.append(text)
        else:
            self._answer.add(call.block, text)

    def close(self) -> None:
        """Nothing more comes: announces what still lacked an id, and ends every call."""
        self._announce_all()
        self._answer.end_calls()

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
        return None if _is_whole(call.block.parts if call.block else call.early) else call

    def _announce_all(self) -> None:
        for call in self._calls:
            if call.block is None:
                self._announce(call)

    def _announce(self, call: _OpenCall) -> None:
        call.block = self._answer.begin_call(call.offered, call.name)
        if call.early:
            self._answer.add(call.block, "".join(call.early))


def _is_whole(parts: list[str]) -> bool:
    if not parts or not parts[-1].rstrip().endswith("}"):
        return False
    try:
        msgspec.json.decode("".join(parts))
    except msgspec.DecodeError:
        return False
    return True
