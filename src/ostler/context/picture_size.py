"""Width and height of a picture, read from its first bytes."""

from __future__ import annotations

import struct

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of JPEG after which a frame's size stands."""


def picture_size(head: bytes) -> tuple[int, int] | None:
    """In pixels; None where it is not said there, or the format is another than PNG, JPEG, GIF or WebP."""
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack_from(">II", head, 16)
            return width, height
        if head.startswith((b"GIF87a", b"GIF89a")):
            width, height = struct.unpack_from("<HH", head, 6)
            return width, height
        if head.startswith(b"\xff\xd8"):
            return _jpeg(head)
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return _webp(head)
    except struct.error:  # the head ends before the size
        return None
    return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        marker, length = struct.unpack_from(">HH", head, at)
        if marker >> 8 != 0xFF:
            return None
        if marker & 0xFF in _FRAMES:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        at += 2 + length


def _webp(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (packed,) = struct.unpack_from("<I", head, 21)
            return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        case b"VP8X":
            (width,) = struct.unpack_from("<I", head, 24)
            (height,) = struct.unpack_from("<I", head, 27)
            return (width & 0xFFFFFF) + 1, (height & 0xFFFFFF) + 1
        case _:
            return None
