"""Lines out of a stream of bytes, none longer than a limit."""

from __future__ import annotations

from collections.abc import Iterator


class LineSplitter:
    """Gathers pieces into lines. One that is too long is left out, and said so."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._is_skipping = False

    def feed(self, piece: bytes) -> Iterator[bytes | None]:
        """The lines that are complete now, without their ends; None for each that was too long."""
        *complete, rest = piece.split(b"\n")
        for part in complete:
            self._gather(part)
            yield None if self._is_skipping else bytes(self._rest).removesuffix(b"\r")
            self._rest.clear()
            self._is_skipping = False
        self._gather(rest)

    def _gather(self, part: bytes) -> None:
        if self._is_skipping or len(self._rest) + len(part) > self._limit:
            self._is_skipping = True
            self._rest.clear()
        else:
            self._rest += part
