"""Which theme is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.extensions.showing.themes import DEFAULT, ThemeBook


def has_colors(environment: Mapping[str, str]) -> bool:
    """Not if `NO_COLOR` is set to anything, nor on a dumb terminal."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def chosen_theme(
    wanted: str, book: ThemeBook, environment: Mapping[str, str], say: Callable[[str], None]
) -> str:
    """The name of the theme to show first; empty where there are no colours."""
    if not has_colors(environment):
        return ""
    if wanted and wanted not in book:
        say(f"there is no theme {wanted!r:.60}; there are: {', '.join(book.names())}")
    return wanted if wanted in book else DEFAULT


def colors_of(book: ThemeBook, name: str, *, dark: bool) -> ThemeColors:
    """Every slot as it is seen; all are empty where there are no colours."""
    return book.resolved(name, dark=dark) if name else ThemeColors(dark=dark)
