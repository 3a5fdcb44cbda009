"""Detects a file's type by its first bytes, and scales pictures down with Pillow (the extra `images`)."""

from __future__ import annotations

from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING

import msgspec

from ostler.core.lazy import load
from ostler.schema.errors import ToolFailed

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

SNIFFED = 8192
"""A NUL among this many first bytes means that the file is not text."""

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

_DECODERS = {
    "image/png": "PIL.PngImagePlugin:PngImageFile",
    "image/jpeg": "PIL.JpegImagePlugin:JpegImageFile",
    "image/gif": "PIL.GifImagePlugin:GifImageFile",
    "image/webp": "PIL.WebPImagePlugin:WebPImageFile",
}

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
    """A name for the type of these bytes."""
    return next((kind for magic, kind in _BINARIES if head.startswith(magic)), "unknown format")


LONGEST_SIDE = 2000
MAX_PIXELS = 90_000_000
"""Unpacked, these take about 360 MB. A small file can claim to be far larger."""
JPEG_QUALITY = 85


class Scaled(msgspec.Struct, frozen=True):
    """A smaller copy. Sizes are width and height in pixels."""

    media_type: str
    content: bytes
    size: tuple[int, int]
    original_size: tuple[int, int]


def can_scale() -> bool:
    return find_spec("PIL") is not None


def scaled_down(content: bytes, media_type: str) -> Scaled | None:
    """A copy with no side longer than `LONGEST_SIDE`; None if the picture is small enough, or cannot be
    decoded. Blocks: not for the event loop."""
    if not can_scale():
        return None
    try:
        picture = _opened(content, media_type)
        width, height = picture.size
        longest = max(width, height)
        if longest <= LONGEST_SIDE:
            return None
        if width * height > MAX_PIXELS:
            raise ToolFailed(
                f"the picture has {width}×{height} pixels, too many to decode: "
                "make a smaller copy and read that"
            )
        size = max(round(width * LONGEST_SIDE / longest), 1), max(round(height * LONGEST_SIDE / longest), 1)
        return _resized(picture, media_type, size)
    except ToolFailed:
        raise
    except Exception:  # decoders raise whatever malformed bytes lead them to
        return None


def small_picture(content: bytes, media_type: str, size: tuple[int, int]) -> Image | None:
    """Upright, within a size in pixels; None if it cannot be decoded. Blocks: not for the event loop."""
    if not can_scale():
        return None
    try:
        from PIL import ImageOps
        from PIL.Image import Resampling

        picture = _opened(content, media_type)
        if picture.width * picture.height > MAX_PIXELS:
            return None
        picture.draft(None, size)
        upright = ImageOps.exif_transpose(_smoothly_resizable(picture))
        upright.thumbnail(size, Resampling.LANCZOS)
        return upright
    except Exception:  # decoders raise whatever malformed bytes lead them to
        return None


def _opened(content: bytes, media_type: str) -> ImageFile:
    # Not `Image.open`: that warns of large pictures through Python's warnings, which belong to the program
    # that embeds Ostler. `scaled_down` counts the pixels instead, before any is unpacked.
    picture: ImageFile = load(_DECODERS[media_type])(BytesIO(content))
    return picture


def _resized(picture: ImageFile, media_type: str, size: tuple[int, int]) -> Scaled:
    from PIL import ImageOps
    from PIL.Image import Resampling

    original_size = picture.size
    picture.draft(None, size)
    upright = ImageOps.exif_transpose(_smoothly_resizable(picture).resize(size, Resampling.LANCZOS))
    target = BytesIO()
    if media_type in ("image/jpeg", "image/webp"):
        upright.save(target, media_type.removeprefix("image/").upper(), quality=JPEG_QUALITY)
    else:
        media_type = "image/png"
        upright.save(target, "PNG")
    return Scaled(media_type, target.getvalue(), upright.size, original_size)


def _smoothly_resizable(picture: Image) -> Image:
    """Converts to a mode whose values can be interpolated; palette indexes cannot."""
    if picture.mode.startswith("I"):  # 16 bits of grey
        return picture.convert("I").point(lambda grey: grey * (1 / 256)).convert("L")
    if picture.has_transparency_data:
        return picture.convert("RGBA")
    return picture.convert("L" if picture.mode in ("1", "L") else "RGB")
