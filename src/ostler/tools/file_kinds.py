"""What a file is, judged by its first bytes and not by its name."""

from __future__ import annotations

SNIFFED = 8192
"""A NUL among this many first bytes means that the file is not text."""

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

_BINARIES = (
    (b"\x7fELF", "ELF executable or library"),
    (b"PK\x03\x04", "ZIP archive (also docx, xlsx, jar, wheel)"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x00asm", "WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O binary"),
    (b"\xcf\xfa\xed\xfe", "Mach-O binary"),
    (b"MZ", "Windows executable"),
    (b"OggS", "Ogg media"),
    (b"RIFF", "RIFF media"),
    (b"\x00\x00\x01\x00", "icon"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


def image_type(head: bytes) -> str | None:
    """The media type of a picture that models can see; None for anything else."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for magic, media_type in _IMAGES if head.startswith(magic)), None)


def is_pdf(head: bytes) -> bool:
    return head.startswith(b"%PDF-")


def is_binary(head: bytes) -> bool:
    return b"\0" in head[:SNIFFED]


def binary_kind(head: bytes) -> str:
    """A name for what the bytes look like."""
    return next((kind for magic, kind in _BINARIES if head.startswith(magic)), "unknown format")
