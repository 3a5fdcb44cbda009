"""Some lines of a text that arrives in pieces, within limits, without ever holding the rest."""

from __future__ import annotations

from ostler.tools.truncation import MAX_BYTES, MAX_LINE, MAX_LINES, byte_length, long_line_marker

_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_ENOUGH_OF_A_LINE = 4 * MAX_LINE + 8
_BOM = b"\xef\xbb\xbf"


class LineWindow:
    """Keeps at most `limit` lines from line `offset` on (counted from 1), as many of them as fit with their
    numbers, and counts all others.

    Feed it the bytes of the text, then call `finish`. Lines end with a newline or with the text; a
    carriage return before the newline and a byte order mark before the text are not shown.
    """

    def __init__(self, offset: int, limit: int) -> None:
        self.start = max(offset, 1)
        self.lines: list[str] = []
        self.full = False
        """Further lines are only counted."""
        self.invalid_utf8 = False
        self._limit = min(limit, MAX_LINES)
        self._size = 0
        self._newlines = 0
        self._ends_open = False
        self._line = 1
        self._open = bytearray()
        self._open_bytes = 0
        self._omitted = 0

    @property
    def end(self) -> int:
        """The number of the last line kept; `start` - 1 when there is none."""
        return self.start + len(self.lines) - 1

    @property
    def total(self) -> int:
        """How many lines there were in what was fed."""
        return self._newlines + (1 if self._ends_open else 0)

    def feed(self, piece: bytes) -> None:
        if not piece:
            return
        newlines = piece.count(b"\n")
        self._newlines += newlines
        self._ends_open = not piece.endswith(b"\n")
        position = self._skip(piece, newlines)
        while position < len(piece) and not self.full:
            end = piece.find(b"\n", position)
            if end < 0:
                self._take(piece[position:])
                return
            self._take(piece[position:end])
            self._close()
            position = end + 1

    def finish(self) -> None:
        if self._open_bytes and not self.full:
            self._close()

    def _skip(self, piece: bytes, newlines: int) -> int:
        """The position in the piece where wanted lines begin."""
        missing = self.start - self._line
        if missing <= 0:
            return 0
        if newlines < missing:
            self._line += newlines
            return len(piece)
        self._line = self.start
        position = 0
        for _ in range(missing):
            position = piece.find(b"\n", position) + 1
        return position

    def _take(self, part: bytes) -> None:
        self._open_bytes += len(part)
        room = _ENOUGH_OF_A_LINE - len(self._open)
        self._open += part[:room]
        self._omitted += len(part[room:].translate(None, _CONTINUATION_BYTES))

    def _close(self) -> None:
        text = self._decoded()
        size = byte_length(f"{self.end + 1}\t{text}\n")
        if self.lines and self._size + size > MAX_BYTES:
            self.full = True
        else:
            self.lines.append(text)
            self._size += size
            self.full = len(self.lines) >= self._limit
        self._open.clear()
        self._open_bytes = 0
        self._omitted = 0

    def _decoded(self) -> str:
        raw = bytes(self._open)
        if self.end == 0:
            raw = raw.removeprefix(_BOM)
        if not self._omitted:
            raw = raw.removesuffix(b"\r")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            text = raw.decode("utf-8", "replace")
            cut_within_a_character = self._omitted > 0 and error.start >= len(raw) - 3
            self.invalid_utf8 |= not cut_within_a_character
        if len(text) <= MAX_LINE and not self._omitted:
            return text
        return text[:MAX_LINE] + long_line_marker(max(len(text) - MAX_LINE, 0) + self._omitted)
