"""The state that an extension keeps in a session: facts of it, so it lives as long as the session does."""

from __future__ import annotations

import copy
from collections.abc import Iterator, MutableMapping
from typing import Any, TypeVar

import msgspec

from ostler.extensions.calling import LoopCalls
from ostler.kernel.journal import Journal
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import ExtensionState
from ostler.vocabulary.facts import storing_problem

Kind = TypeVar("Kind")


class State(MutableMapping[str, Any]):
    """A mapping of texts to JSON values. `None` cannot be kept: it is what a missing key has.

    - A value that is set is a fact of the session: committed at the latest when the handler that set it
      returns, and atomically. The last one counts.
    - It belongs to the session: a fork begins with a copy, and moving in the tree changes nothing.
    - When the log cannot be written, setting raises `StoreError`, and the old value stays.
    """

    def __init__(self, extension: str, journal: Journal, calls: LoopCalls) -> None:
        self._extension = extension
        self._journal = journal
        self._calls = calls

    def __getitem__(self, key: str) -> Any:
        return copy.deepcopy(self._kept()[key])

    def __setitem__(self, key: str, value: Any) -> None:
        plain = _as_read_back(key, value)
        if plain is None:
            raise UsageError(f"None cannot be kept under {key!r}: delete the key instead")
        fact = ExtensionState(self._extension, key, plain)
        if problem := storing_problem(fact):
            raise UsageError(f"the value of {key!r} cannot be kept: {problem}")
        self._calls.do(lambda: self._journal.record(fact))

    def __delitem__(self, key: str) -> None:
        if key not in self._kept():
            raise KeyError(key)
        self._calls.do(lambda: self._journal.record(ExtensionState(self._extension, key)))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._kept()))

    def __len__(self) -> int:
        return len(self._kept())

    def read(self, key: str, kind: type[Kind], default: Kind) -> Kind:
        """The value as one of that type, also a struct; the default if there is none or it does not fit."""
        if key not in self:
            return default
        try:
            return msgspec.convert(self[key], kind)
        except msgspec.ValidationError:
            return default

    def _kept(self) -> dict[str, Any]:
        return self._journal.state.extension_state.get(self._extension, {})


def _as_read_back(key: str, value: Any) -> Any:
    """As it will be in the next process: a number that is a key becomes a text, one that is none nothing."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the value of {key!r} cannot be kept: {error}") from None
