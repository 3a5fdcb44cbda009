"""The keys of providers: masked in what is stored, shown and sent, and kept from the processes of tools.

Keys are known once they were looked for: those in variables, in the configuration, in the file of stored
keys, and those that were used. Masking protects from accidents, such as a program that prints its
environment. It is no boundary: a program that can read a key can also disguise it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

MASK = "[key hidden by ostler]"
"""Stands in place of a key. `write` and `edit` refuse a text with it, which would destroy a key."""

SHORTEST_SECRET = 12
"""No vendor's key is shorter; masking shorter values, such as `test` or `lm-studio`, would damage words."""

_known: tuple[bytes, ...] = ()
"""The longest first, because one may contain another."""
_variables: set[str] = set()
_passed: frozenset[str] = frozenset()


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets."""
    for secret in sorted({secret.strip() for secret in secrets}, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    return text


def add(*values: str) -> None:
    """Makes keys known; short ones are ignored."""
    global _known
    new = {value.strip().encode(errors="replace") for value in values}
    new = {value for value in new if len(value) >= SHORTEST_SECRET} - {*_known}
    if new:
        _known = tuple(sorted({*_known, *new}, key=len, reverse=True))


def known() -> tuple[str, ...]:
    return tuple(value.decode(errors="replace") for value in _known)


def mask(text: str) -> str:
    """The text without known keys."""
    for value in _known:
        key = value.decode(errors="replace")
        if key in text:
            text = text.replace(key, MASK)
    return text


def mask_bytes(data: bytes) -> bytes:
    """The same for UTF-8, also inside JSON: keys consist of characters that JSON does not escape."""
    for value in _known:
        if value in data:
            data = data.replace(value, MASK.encode())
    return data


class MaskedStream:
    """Masks text that arrives in pieces: what may be the beginning of a key is held back until more comes."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        if not _known:
            return piece
        data = mask_bytes(self._held + piece)
        held = max((_overlap(data, value) for value in _known), default=0)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def end(self) -> bytes:
        """What was held back: no key, since nothing follows."""
        held, self._held = self._held, b""
        return held


def _overlap(data: bytes, value: bytes) -> int:
    """How many of the last bytes are the first of the value."""
    longest = min(len(data), len(value) - 1)
    tail = data[len(data) - longest :]
    start = tail.find(value[:1])
    while start >= 0:
        if value.startswith(tail[start:]):
            return longest - start
        start = tail.find(value[:1], start + 1)
    return 0


def hide_variables(names: Iterable[str], environment: Mapping[str, str] = os.environ) -> None:
    """Keeps variables that hold keys from the processes that tools start, and makes their values known."""
    for name in names:
        _variables.add(name)
        if value := environment.get(name):
            add(value)


def pass_variables(names: Iterable[str]) -> None:
    """Lets processes of tools have these variables after all: the setting `pass_env`."""
    global _passed
    _passed = frozenset(names)


def tool_environment() -> dict[str, str]:
    """The environment of a process that a tool, a hook or an extension starts: ours, without keys."""
    hidden = _variables - _passed
    return {name: value for name, value in os.environ.items() if name not in hidden}


def wipe_own_block(arguments: Iterable[str] = ()) -> None:
    """Overwrites keys in the memory that `/proc/PID/environ` and `/proc/PID/cmdline` show of this process.

    `os.environ` is a copy, which keeps them for our own use. Changing that would not change the block. Only
    Linux shows it to the user's other processes.
    """
    if sys.platform != "linux":
        return
    values = [value.encode(errors="surrogateescape") for value in (*arguments, *known())]
    with suppress(OSError, ValueError, IndexError):  # a system without /proc
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, _, env_start, _ = (int(field) for field in fields[45:49])
        longest = [one for one in values if len(one) >= SHORTEST_SECRET]
        for at, wiped in _values_in(Path("/proc/self/cmdline").read_bytes(), longest):
            _overwrite(start + at, wiped)
        for at, wiped in _variables_in(Path("/proc/self/environ").read_bytes()):
            _overwrite(env_start + at, wiped)


def _values_in(block: bytes, values: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Where keys are in the command line, and what to write there."""
    for value in values:
        at = block.find(value)
        while at >= 0:
            yield at, b"x" * len(value)
            at = block.find(value, at + len(value))


def _variables_in(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Where the values of hidden variables are in the environment, and what to write there."""
    names = {os.fsencode(name) for name in _variables}
    at = 0
    for variable in block.split(b"\0"):
        name, equals, value = variable.partition(b"=")
        if equals and value and name in names:
            yield at + len(name) + 1, bytes(len(value))
        at += len(variable) + 1


def _overwrite(address: int, data: bytes) -> None:
    """Writes into our own memory: by its file, since loading ctypes takes milliseconds."""
    try:
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            os.pwrite(memory.fileno(), data, address)
    except OSError:  # a hardened kernel
        import ctypes

        ctypes.memmove(address, data, len(data))
