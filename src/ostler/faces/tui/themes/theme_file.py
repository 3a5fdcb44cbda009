"""What a theme file says. A mistake in it costs its own line, never the theme."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ostler.extensions.showing.theme_colors import SLOTS, Theme, ThemeColor, full_hex

WORDS = ("description", "inherits")
SIDES = ("light", "dark")


class ThemeFile(msgspec.Struct, frozen=True):
    """A file as it was read: what it leaves out is that of the theme it inherits."""

    theme: Theme = Theme()
    description: str = ""
    inherits: str = ""
    problems: tuple[str, ...] = ()
    """A line each."""


def parse_theme(values: Mapping[str, Any]) -> ThemeFile:
    """What a file in TOML says, and what in it could not be used."""
    problems: list[str] = []
    colors: dict[str, ThemeColor] = {}
    words: dict[str, str] = {}
    for name, value in values.items():
        if name in SLOTS:
            colors[name] = _color(name, value, problems)
        elif name not in WORDS:
            problems.append(f"there is no {name!r:.60}{_near(name)}")
        elif isinstance(value, str):
            words[name] = " ".join(value.split())
        else:
            problems.append(f"{name} is a text, not {value!r:.60}")
    return ThemeFile(Theme(**colors), **words, problems=tuple(problems))


def laid_over(theme: Theme, below: Theme) -> Theme:
    """The theme, with the colours of another where it has none: each slot, light and dark by themselves."""
    return Theme(*map(_laid_over, _colors(theme), _colors(below)))


def _laid_over(color: ThemeColor, below: ThemeColor) -> ThemeColor:
    return ThemeColor(color.light or below.light, color.dark or below.dark)


def _colors(theme: Theme) -> Iterator[ThemeColor]:
    return (getattr(theme, slot) for slot in SLOTS)


def _color(slot: str, value: object, problems: list[str]) -> ThemeColor:
    """One colour for both sides, or a table with one for each."""
    if not isinstance(value, dict):
        both = _hex(slot, value, problems)
        return ThemeColor(both, both)
    problems += [f"{slot} has light and dark, and no {name!r:.60}" for name in value if name not in SIDES]
    return ThemeColor(**{side: _hex(slot, value[side], problems) for side in SIDES if side in value})


def _hex(slot: str, value: object, problems: list[str]) -> str:
    if isinstance(value, str) and (color := full_hex(value)):
        return color
    problems.append(f"{slot} is no colour like #rrggbb: {value!r:.60}")
    return ""


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, (*SLOTS, *WORDS), n=1)
    return f"; did you mean {near[0]}?" if near else "; docs/themes.md lists what there is"
