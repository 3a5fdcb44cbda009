"""Pictures for a prompt, from a file or the clipboard, made as small as vendors take them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ostler.vocabulary.errors import ToolFailed, UsageError
from ostler.vocabulary.messages import Image


class Picture(msgspec.Struct, frozen=True):
    block: Image
    about: str
    """`PNG 640x480`: the format and the size of what a person gave."""


def picture_in(path: Path) -> Picture | None:
    """A picture that models can see, judged by its bytes; None for everything else. Takes its time."""
    from ostler.tools.file_kinds import SNIFFED, image_type
    from ostler.tools.read import MAX_SCALED_IMAGE

    try:
        if not path.is_file():  # opening a pipe or a device might block
            return None
        with path.open("rb") as file:
            head = file.read(SNIFFED)
            if not image_type(head):
                return None
            content = head + file.read(MAX_SCALED_IMAGE)
        return picture_from(content)
    except (OSError, UsageError):
        return None


def picture_from(content: bytes) -> Picture:
    """Raises `UsageError` when models cannot see it. May scale it down, which takes its time: not for the
    event loop."""
    from base64 import b64encode

    from ostler.context.picture_size import picture_size
    from ostler.tools.file_kinds import image_type
    from ostler.tools.image_scaling import scaled_down
    from ostler.tools.read import MAX_IMAGE
    from ostler.tools.truncation import size_text

    media_type = image_type(content)
    if media_type is None:
        raise UsageError("this is no picture that models can see: use PNG, JPEG, GIF or WebP")
    about = media_type.removeprefix("image/").upper()
    if size := picture_size(content):
        about += f" {size[0]}x{size[1]}"
    try:
        scaled = scaled_down(content, media_type)
    except ToolFailed as error:
        raise UsageError(error.message) from None
    if scaled:
        media_type, content = scaled.media_type, scaled.content
    if len(content) > MAX_IMAGE:
        raise UsageError(
            f"the picture has {size_text(len(content))}, and vendors take {size_text(MAX_IMAGE)} at most: "
            "make a smaller copy"
        )
    return Picture(Image(media_type, data=b64encode(content).decode()), about)
