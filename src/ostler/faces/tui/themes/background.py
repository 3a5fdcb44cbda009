"""Whether the terminal is light or dark: by its own answer, by `COLORFGBG`, or because somebody said so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

Appearance = Literal["auto", "light", "dark"]
Rgb = tuple[float, float, float]
"""From 0 to 1."""

_XTERM = re.compile(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?")
_HEX = re.compile(r"#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})")
_DARK = frozenset({0, 1, 2, 3, 4, 5, 6, 8})
"""Of the sixteen colours of a terminal."""


def color_of(answer: str) -> Rgb | None:
    """The colour in the answer to OSC 11, such as `rgb:1e1e/1e1e/2e2e`; None if it is none."""
    found = _XTERM.fullmatch(answer) or _HEX.fullmatch(answer)
    if not found:
        return None
    red, green, blue = (int(digits, 16) / (16 ** len(digits) - 1) for digits in found.groups())
    return red, green, blue


def luma(color: Rgb) -> float:
    """How bright a colour looks, from 0 to 1."""
    red, green, blue = color
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def dark_by_variable(colorfgbg: str) -> bool | None:
    """What `COLORFGBG` says, such as `15;0` or `0;default;15`; None if it says nothing."""
    background = colorfgbg.rpartition(";")[2]
    if ";" not in colorfgbg or not re.fullmatch(r"1[0-5]|[0-9]", background):
        return None
    return int(background) in _DARK


def is_dark(appearance: Appearance, answered: Rgb | None, environment: Mapping[str, str]) -> bool:
    """The setting decides, then the terminal, then the variable; where nobody knows, it is dark."""
    if appearance != "auto":
        return appearance == "dark"
    if answered is not None:
        return luma(answered) < 0.5
    by_variable = dark_by_variable(environment.get("COLORFGBG", ""))
    return True if by_variable is None else by_variable
