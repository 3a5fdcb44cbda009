"""Where a replay differs from its recording, said in canonical JSON with ids and times masked.

- An id of Ostler's own (`run_…`, with its 26 characters) or of a call is `id-1`, `id-2` … in the order of
  appearance.
- A moment (`2026-01-01T12:00:00Z`, with or without its zone) is `<time>`.
- The folder that the work happened in, then or now, is `<cwd>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import unified_diff
from itertools import islice
from typing import Any, Literal

import msgspec

LONGEST_DIFF = 60
"""Lines."""

_OWN_ID = re.compile(r"\b[a-z]+_[0-9a-hjkmnp-tv-z]{26}\b")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z\b|[+-]\d\d:?\d\d\b))?")
_CALL_FIELDS = {"tool_call": "id", "tool_result": "call"}


What = Literal["request", "result", "end"]


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first thing that came out otherwise than it is recorded."""

    what: What
    text: str
    """One line for people."""
    fact: int
    """The number of the recorded fact."""
    run: int
    """Runs count from 1 in a session, steps from 1 in a run."""
    step: int = 0
    call: str = ""
    tool: str = ""
    recorded: Any = None
    replayed: Any = None

    def diff(self) -> str:
        """From the recorded to the replayed, as `diff -u` shows it."""
        recorded, replayed = _lines(self.recorded), _lines(self.replayed)
        lines = list(unified_diff(recorded, replayed, "recorded", "replayed", n=2, lineterm=""))
        left_out = len(lines) - LONGEST_DIFF
        cut = [f"… {left_out} more lines"] if left_out > 0 else []
        return "\n".join([*islice(lines, LONGEST_DIFF), *cut])


def masked(value: Any, *folders: str) -> Any:
    """The value as JSON says it, with what differs from one run to the next masked."""
    return _Mask(folders).of(msgspec.to_builtins(value))


class _Mask:
    def __init__(self, folders: Iterable[str]) -> None:
        named = sorted({folder for folder in folders if len(folder) > 1}, key=len, reverse=True)
        self._folders = re.compile(f"(?:{'|'.join(map(re.escape, named))})(?![\\w.-])") if named else None
        self._names: dict[str, str] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list | tuple):
            return [self.of(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        holds_id = _CALL_FIELDS.get(value.get("type", ""))
        return {
            name: self._name(inner) if name == holds_id else self.of(inner)
            for name, inner in sorted(value.items())
        }

    def _text(self, text: str) -> str:
        if self._folders is not None:
            text = self._folders.sub("<cwd>", text)
        return _MOMENT.sub("<time>", _OWN_ID.sub(lambda found: self._name(found[0]), text))

    def _name(self, known: str) -> str:
        return self._names.setdefault(known, f"id-{len(self._names) + 1}")


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    return json.dumps(_in_lines(value), indent=1, sort_keys=True, ensure_ascii=False).split("\n")


def _in_lines(value: Any) -> Any:
    """A text of several lines as a list of them, so that a diff shows the line that differs."""
    if isinstance(value, str) and "\n" in value:
        return value.split("\n")
    if isinstance(value, dict):
        return {name: _in_lines(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_in_lines(inner) for inner in value]
    return value
