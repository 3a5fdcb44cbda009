"""Server-sent events, split from raw bytes."""

from __future__ import annotations

from ostler.schema.errors import StreamBroken

FRAME_LIMIT = 64 * 1024 * 1024
"""A vendor's frame has a few kilobytes; a larger one is not an event stream."""

Frame = tuple[bytes, bytes]
"""The event's name, which may be empty, and its data."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_FEED = 10


class SseSplitter:
    """Returns the frames that each read completes. Lines end in LF, CRLF or CR; a blank one ends a frame.

    A whole frame of one `data` line, with or without an `event` line, costs a split and a search. The pieces
    of a frame are joined once, at its end.
    """

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0
        self._after_return = False
        self._at_start = True

    def feed(self, data: bytes) -> list[Frame]:
        if data and (self._after_return or b"\r" in data):
            data = self._with_line_feeds(data)
        if not data:
            return []
        held = self._held
        if held:
            ends = b"\n\n" in data or (data[0] == _LINE_FEED and held[-1][-1] == _LINE_FEED)
            held.append(data)
            if not ends:
                self._grow(len(data))
                return []
            data = b"".join(held)
            held.clear()
        texts = data.split(b"\n\n")
        incomplete = texts.pop()
        self._size = 0
        if incomplete:
            held.append(incomplete)
            self._grow(len(incomplete))
        return self._frames(texts)

    def flush(self) -> list[Frame]:
        """The last frame, without its blank line."""
        text = b"".join(self._held)
        self._held.clear()
        return self._frames([text])

    def _frames(self, texts: list[bytes]) -> list[Frame]:
        if self._at_start and texts:
            self._at_start = False
            texts[0] = texts[0].removeprefix(_BYTE_ORDER_MARK)
        frames: list[Frame] = []
        for text in texts:
            if text.startswith(b"data: ") and b"\n" not in text:
                frames.append((b"", text[6:]))
                continue
            first, _, data = text.partition(b"\ndata: ")
            if data and first.startswith(b"event: ") and b"\n" not in first and b"\n" not in data:
                frames.append((first[7:], data))
                continue
            frame = _read_lines(text)
            if frame is not None:
                frames.append(frame)
        return frames

    def _with_line_feeds(self, data: bytes) -> bytes:
        # A CR at the end of the last read counted as a line end, so the LF of a CRLF is skipped.
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
        self._after_return = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            message = f"the answer has a frame of more than {self._limit} bytes"
            raise StreamBroken(message, stream_opened=True)


def _read_lines(text: bytes) -> Frame | None:
    event = b""
    data: list[bytes] = []
    for line in text.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            event = value.removeprefix(b" ")
    return (event, b"\n".join(data)) if data else None
