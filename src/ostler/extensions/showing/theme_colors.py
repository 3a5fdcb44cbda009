"""The colours of a theme: 16 slots of a face and 6 of Markdown, each for light and dark backgrounds."""

from __future__ import annotations

import re

import msgspec

_HEX = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")


class ThemeColor(msgspec.Struct, frozen=True):
    """As `#rrggbb` or `#rgb`. What is empty is taken from the default theme."""

    light: str = ""
    dark: str = ""


_INHERITED = ThemeColor()


class Theme(msgspec.Struct, frozen=True):
    """What an extension says of a theme."""

    primary: ThemeColor = _INHERITED
    secondary: ThemeColor = _INHERITED
    success: ThemeColor = _INHERITED
    warning: ThemeColor = _INHERITED
    error: ThemeColor = _INHERITED
    info: ThemeColor = _INHERITED
    text: ThemeColor = _INHERITED
    muted: ThemeColor = _INHERITED
    very_muted: ThemeColor = _INHERITED
    background: ThemeColor = _INHERITED
    border: ThemeColor = _INHERITED
    muted_border: ThemeColor = _INHERITED
    system: ThemeColor = _INHERITED
    tool: ThemeColor = _INHERITED
    accent: ThemeColor = _INHERITED
    highlight: ThemeColor = _INHERITED
    md_heading: ThemeColor = _INHERITED
    md_link: ThemeColor = _INHERITED
    md_keyword: ThemeColor = _INHERITED
    md_string: ThemeColor = _INHERITED
    md_number: ThemeColor = _INHERITED
    md_comment: ThemeColor = _INHERITED


SLOTS: tuple[str, ...] = Theme.__struct_fields__


class ThemeColors(msgspec.Struct, frozen=True):
    """A theme as it is seen now: every slot as `#rrggbb`. All are empty where there is no face."""

    name: str = ""
    dark: bool = False
    primary: str = ""
    secondary: str = ""
    success: str = ""
    warning: str = ""
    error: str = ""
    info: str = ""
    text: str = ""
    muted: str = ""
    very_muted: str = ""
    background: str = ""
    border: str = ""
    muted_border: str = ""
    system: str = ""
    tool: str = ""
    accent: str = ""
    highlight: str = ""
    md_heading: str = ""
    md_link: str = ""
    md_keyword: str = ""
    md_string: str = ""
    md_number: str = ""
    md_comment: str = ""

    def ansi(self, color: str, text: str) -> str:
        """The text in that colour, for a terminal; as it is if that is no colour."""
        codes = _codes(color)
        return f"\x1b[{codes}m{text}\x1b[0m" if codes else text

    def ansi_bold(self, color: str, text: str) -> str:
        """Also bold; only bold if that is no colour."""
        codes = _codes(color)
        return f"\x1b[1;{codes}m{text}\x1b[0m" if codes else f"\x1b[1m{text}\x1b[0m"


def full_hex(color: str) -> str:
    """`#rrggbb` of a colour with or without `#`, in three digits or six; empty if it is none."""
    found = _HEX.fullmatch(color)
    if not found:
        return ""
    digits = found[1].lower()
    return "#" + (digits if len(digits) == 6 else "".join(digit * 2 for digit in digits))


def _codes(color: str) -> str:
    full = full_hex(color)
    if not full:
        return ""
    red, green, blue = (int(full[place : place + 2], 16) for place in (1, 3, 5))
    return f"38;2;{red};{green};{blue}"
