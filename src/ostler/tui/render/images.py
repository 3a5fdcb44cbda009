"""Pictures in a terminal, by the protocol it supports, and always described in a line."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from io import BytesIO
from math import ceil
from typing import TYPE_CHECKING, Literal

from ostler.context.tokenizers import picture_size
from ostler.history.items import image_bytes
from ostler.schema.messages import Image
from ostler.tools.media import small_picture

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

Images = Literal["auto", "kitty", "iterm2", "blocks", "off"]
Way = Literal["kitty", "iterm2", "blocks", ""]


def way_to_draw(wanted: Images, environment: Mapping[str, str]) -> Way:
    """The protocol of this terminal, by its environment. tmux passes no pictures on, and VS Code draws none
    by default; a setting overrides that."""
    if wanted == "off" or (wanted == "blocks" and environment.get("NO_COLOR")):
        return ""
    if wanted != "auto":
        return wanted
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if environment.get("TMUX") or term.startswith(("tmux", "screen", "dumb")) or program == "vscode":
        return ""
    if "kitty" in term or "ghostty" in term or program == "ghostty" or environment.get("KITTY_WINDOW_ID"):
        return "kitty"
    if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return ""


MOST_COLUMNS, MOST_ROWS = 40, 12
_CELL = (8, 16)
"""Assumed pixels of a cell: no picture is enlarged."""

_SHARPER = 2
"""Factor of pixels that are sent, for high-resolution terminals."""

_LARGEST = 1_000_000
"""Largest picture in bytes that is sent unchanged."""

_CHUNK = 4096


def picture_rows(image: Image, way: Way, width: int) -> list[str]:
    """The picture as rows; None if it cannot be drawn. Slow: not for the event loop."""
    content = image_bytes(image)
    size = picture_size(content)
    if not way or size is None or 0 in size:
        return []
    columns, rows = cells_for(size, min(MOST_COLUMNS, width), MOST_ROWS)
    if way == "blocks":
        pixels = small_picture(content, image.media_type, (columns, rows * 2))
        return _half_blocks(pixels) if pixels else []
    finest = (columns * _CELL[0] * _SHARPER, rows * _CELL[1] * _SHARPER)
    pixels = small_picture(content, image.media_type, finest)
    if pixels is not None:
        target = BytesIO()
        pixels.save(target, "PNG")
        content = target.getvalue()
    elif len(content) > _LARGEST or (way == "kitty" and image.media_type != "image/png"):
        return []
    sent = _kitty(content, columns, rows) if way == "kitty" else _iterm2(content, columns, rows)
    # The rows are printed before the picture: one that does not fit the screen would be cut.
    up, down = (f"\x1b[{rows - 1}A", f"\x1b[{rows - 1}B") if rows > 1 else ("", "")
    return [*[" "] * (rows - 1), f"{up}\r\x1b7{sent}\x1b8{down}"]


def cells_for(size: tuple[int, int], most_columns: int, most_rows: int) -> tuple[int, int]:
    """Columns and rows, rounded up; never larger than the picture."""
    width, height = size[0] / _CELL[0], size[1] / _CELL[1]
    share = min(1.0, most_columns / width, most_rows / height)
    return max(1, min(most_columns, ceil(width * share))), max(1, min(most_rows, ceil(height * share)))


def _kitty(png: bytes, columns: int, rows: int) -> str:
    data = b64encode(png).decode()
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    first = f"a=T,f=100,q=2,C=1,c={columns},r={rows},"
    return "".join(
        f"\x1b_G{'' if at else first}m={int(at + 1 < len(chunks))};{chunk}\x1b\\"
        for at, chunk in enumerate(chunks)
    )


def _iterm2(content: bytes, columns: int, rows: int) -> str:
    data = b64encode(content).decode()
    how = f"inline=1;size={len(content)};width={columns};height={rows};preserveAspectRatio=1"
    return f"\x1b]1337;File={how}:{data}\x07"


def _half_blocks(pixels: Pixels) -> list[str]:
    """Two pixels per cell: the foreground is the upper one."""
    rgb = pixels.convert("RGB")
    width, height = rgb.size
    colors = [";".join(map(str, color)) for color in zip(*[iter(rgb.tobytes())] * 3, strict=True)]

    def cells(row: int) -> Iterator[str]:
        for at in range(row * width, (row + 1) * width):
            lower = f";48;2;{colors[at + width]}" if row + 1 < height else ""
            yield f"\x1b[38;2;{colors[at]}{lower}m▀"

    return ["".join(cells(row)) + "\x1b[0m" for row in range(0, height, 2)]
