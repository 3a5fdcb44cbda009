"""Which theme is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.extensions.showing.themes import DEFAULT, ThemeBook

if TYPE_CHECKING:  # loaded when there are extensions
    from ostler.extensions.host import ExtensionHost


def has_colors(environment: Mapping[str, str]) -> bool:
    """Not if `NO_COLOR` is set to anything, nor on a dumb terminal."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def chosen_theme(wanted: str, environment: Mapping[str, str]) -> str:
    """The name of the theme to show first; empty where there are no colours."""
    return (wanted or DEFAULT) if has_colors(environment) else ""


async def missing_theme(wanted: str, book: ThemeBook, host: ExtensionHost | None, session: str) -> str:
    """What to say of a theme that there is not; empty if it is there. An extension may bring it when it hears
    that the session is open."""
    if not wanted or wanted in book:
        return ""
    if host is not None and (attending := host.sessions.get(session)) is not None:
        await attending.catch_up()
    return "" if wanted in book else f"there is no theme {wanted!r:.60}; /theme shows those there are"


def colors_of(book: ThemeBook, name: str, *, dark: bool) -> ThemeColors:
    """Every slot as it is seen; all are empty where there are no colours."""
    return book.resolved(name, dark=dark) if name else ThemeColors(dark=dark)
