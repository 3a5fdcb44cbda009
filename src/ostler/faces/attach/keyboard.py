"""What a person types, and what of it is not for the agent: the key that detaches, and those that scroll."""

from __future__ import annotations

import codecs
import re
from typing import Literal

from ostler.vocabulary.errors import UsageError

Wish = Literal["detach", "back", "forth"]

_PASTE, _PASTED = b"\x1b[200~", b"\x1b[201~"
_SCROLLING: dict[bytes, Wish] = {
    b"\x1b[5;2~": "back",  # shift+PgUp, which some terminals keep for themselves; then alt+PgUp
    b"\x1b[5;3~": "back",
    b"\x1b[6;2~": "forth",
    b"\x1b[6;3~": "forth",
}


class Keyboard:
    """Splits what the terminal sends. In a paste nothing is a wish.

    What may be the beginning of one is held: `flush` says that nothing more came.
    """

    def __init__(self, detach: bytes) -> None:
        self._wishes: dict[bytes, Wish] = {detach: "detach", **_SCROLLING}
        self._sought = re.compile(b"|".join(map(re.escape, (*self._wishes, _PASTE))))
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = b""
        self._is_paste = False

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def feed(self, data: bytes) -> list[tuple[Wish | None, str]]:
        """Each a wish, or keys for the agent."""
        data, self._held = self._held + data, b""
        found: list[tuple[Wish | None, str]] = []
        while data:
            end = self._end_of_paste(data) if self._is_paste else self._sought.search(data)
            if end is None:
                rest = self._unfinished(data)
                found.append((None, self._decode(data[: len(data) - rest])))
                self._held = data[len(data) - rest :]
                break
            wish = self._wishes.get(end[0]) if not self._is_paste else None
            if wish:
                found += [(None, self._decode(data[: end.start()])), (wish, "")]
            else:
                self._is_paste = end[0] == _PASTE
                found.append((None, self._decode(data[: end.end()])))
            data = data[end.end() :]
        return [(wish, keys) for wish, keys in found if wish or keys]

    def flush(self) -> str:
        held, self._held = self._held, b""
        return self._decode(held)

    def _end_of_paste(self, data: bytes) -> re.Match[bytes] | None:
        return re.search(re.escape(_PASTED), data)

    def _unfinished(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of what is looked for."""
        sought = (_PASTED,) if self._is_paste else (*self._wishes, _PASTE)
        longest = max(map(len, sought)) - 1
        for size in range(min(longest, len(data)), 0, -1):
            if any(one.startswith(data[-size:]) for one in sought if len(one) > size):
                return size
        return 0


def control_key(named: str) -> bytes:
    """`ctrl+]` or `^]` as a terminal sends it. Raises `UsageError`."""
    found = re.fullmatch(r"(?:ctrl[+-]|\^)([a-z\[\]\\^_@])", named.strip().lower())
    key = bytes([ord(found[1].upper()) & 0x1F]) if found else b""
    if not key or key in b"\x1b\r\n\t":
        raise UsageError(f"{named!r:.20} is no key to detach with: say it like ctrl+] or ctrl+q")
    return key
