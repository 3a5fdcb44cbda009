"""Rows in the colours that a terminal has: those of a theme are of all there are."""

from __future__ import annotations

import re
from functools import lru_cache

from prompt_toolkit.output import ColorDepth

_STYLE = re.compile(r"\x1b\[[0-9;]*[34]8;2;[0-9;]*m")
_EXACT = re.compile(r"([34])8;2;(\d+);(\d+);(\d+)")


def with_depth(text: str, depth: ColorDepth) -> str:
    """The nearest colours of 256 or of 16, where there are no more."""
    if depth is ColorDepth.TRUE_COLOR:
        return text
    return _STYLE.sub(lambda style: _reduced(style[0], depth), text)


@lru_cache(1024)
def _reduced(style: str, depth: ColorDepth) -> str:
    return _EXACT.sub(lambda found: _nearest(found[1], found[2], found[3], found[4], depth), style)


def _nearest(layer: str, red: str, green: str, blue: str, depth: ColorDepth) -> str:
    from prompt_toolkit.output.vt100 import _16_bg_colors, _16_fg_colors, _256_colors

    color = int(red), int(green), int(blue)
    if depth is ColorDepth.DEPTH_8_BIT:
        return f"{layer}8;5;{_256_colors[color]}"
    table = _16_fg_colors if layer == "3" else _16_bg_colors
    return str(table.get_code(color)[0])
