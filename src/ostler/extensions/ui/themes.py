"""Themes by name: the default, the front end's and the extensions', which take precedence; and their colours.

A theme has 16 colour slots of the interface and 6 of Markdown, each for light and dark backgrounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from ostler.schema.errors import UsageError

_HEX = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")


class ThemeColor(msgspec.Struct, frozen=True):
    """As `#rrggbb` or `#rgb`. An empty one falls back to the default theme."""

    light: str = ""
    dark: str = ""


_INHERITED = ThemeColor()


class Theme(msgspec.Struct, frozen=True):
    """A theme of an extension."""

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
    """A resolved theme: every slot as `#rrggbb`, or empty without a front end."""

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
        """The text in that colour, for a terminal; unchanged for an invalid colour."""
        codes = _codes(color)
        return f"\x1b[{codes}m{text}\x1b[0m" if codes else text

    def ansi_bold(self, color: str, text: str) -> str:
        """The same in bold; only bold for an invalid colour."""
        codes = _codes(color)
        return f"\x1b[1;{codes}m{text}\x1b[0m" if codes else f"\x1b[1m{text}\x1b[0m"


def full_hex(color: str) -> str:
    """`#rrggbb` for a colour with or without `#`, in three or six digits; empty if invalid."""
    match = _HEX.fullmatch(color)
    if not match:
        return ""
    digits = match[1].lower()
    return "#" + (digits if len(digits) == 6 else "".join(digit * 2 for digit in digits))


def _codes(color: str) -> str:
    full = full_hex(color)
    if not full:
        return ""
    red, green, blue = (int(full[place : place + 2], 16) for place in (1, 3, 5))
    return f"38;2;{red};{green};{blue}"


DEFAULT = "default"


DEFAULT_THEME = Theme(
    primary=ThemeColor("#1f6feb", "#6cb0ff"),
    secondary=ThemeColor("#6f42c1", "#c3a6ff"),
    success=ThemeColor("#1a7f37", "#57c77a"),
    warning=ThemeColor("#9a6700", "#e0b04c"),
    error=ThemeColor("#c62f2f", "#ff7b72"),
    info=ThemeColor("#0b7285", "#5fd0e0"),
    text=ThemeColor("#1f2328", "#e6e9ee"),
    muted=ThemeColor("#57606a", "#9aa4b1"),
    very_muted=ThemeColor("#8c959f", "#646d79"),
    background=ThemeColor("#ffffff", "#15181d"),
    border=ThemeColor("#afb8c1", "#4a5361"),
    muted_border=ThemeColor("#d8dee4", "#2d333c"),
    system=ThemeColor("#0969da", "#85bdf5"),
    tool=ThemeColor("#8250df", "#d0a8ff"),
    accent=ThemeColor("#bf3989", "#ff8ac2"),
    highlight=ThemeColor("#fff3b0", "#4a4220"),
    md_heading=ThemeColor("#0a3069", "#9ccbff"),
    md_link=ThemeColor("#0550ae", "#79b8ff"),
    md_keyword=ThemeColor("#cf222e", "#ff8f88"),
    md_string=ThemeColor("#116329", "#8fdcaa"),
    md_number=ThemeColor("#953800", "#f2b06e"),
    md_comment=ThemeColor("#6e7781", "#7f8997"),
)


class ThemeRegistry:
    """The last registration of a name wins; when it is removed, the previous one applies."""

    def __init__(self) -> None:
        self._themes: dict[str, list[tuple[object, Theme]]] = {}
        self._front_end_themes: Mapping[str, Theme] = {DEFAULT: DEFAULT_THEME}
        self.changed: Callable[[], None] = lambda: None
        """Called when a theme is added or removed: it may be the current one."""

    def bring_along(self, themes: Mapping[str, Theme]) -> None:
        """The front end's themes, including `default`. Registered ones take precedence."""
        self._front_end_themes = themes

    def register(self, name: str, theme: Theme, owner: object = None) -> None:
        if not name:
            raise UsageError("a theme needs a name")
        for slot in SLOTS:
            color = getattr(theme, slot)
            if not isinstance(color, ThemeColor):
                raise UsageError(f"the theme {name!r}: {slot} is not a ThemeColor: {color!r:.60}")
            for one in (color.light, color.dark):
                if one and not full_hex(one):
                    raise UsageError(f"the theme {name!r}: {slot} is not a colour like #rrggbb: {one!r:.60}")
        others = [one for one in self._themes.get(name, ()) if one[0] is not owner]
        self._themes[name] = [*others, (owner, theme)]
        self.changed()

    def forget(self, owner: object) -> None:
        for name, themes in list(self._themes.items()):
            self._themes[name] = [one for one in themes if one[0] is not owner]
        self._themes = {name: themes for name, themes in self._themes.items() if themes}
        self.changed()

    def names(self) -> list[str]:
        return sorted({*self._themes, *self._front_end_themes})

    def __contains__(self, name: str) -> bool:
        return name in self._themes or name in self._front_end_themes

    def __getitem__(self, name: str) -> Theme:
        return self._themes[name][-1][1] if name in self._themes else self._front_end_themes[name]

    def resolved(self, name: str, *, dark: bool) -> ThemeColors:
        """The resolved colours. A removed theme falls back to the default."""
        name = name if name in self else DEFAULT
        theme, side = self[name], "dark" if dark else "light"
        colors = {
            slot: full_hex(getattr(getattr(theme, slot), side) or getattr(getattr(DEFAULT_THEME, slot), side))
            for slot in SLOTS
        }
        return ThemeColors(name, dark, **colors)
