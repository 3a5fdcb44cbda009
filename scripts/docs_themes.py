"""The themes that come along, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator

from docs_tables import row
from ostler.tui.themes import ThemeList


def theme_table() -> Iterator[str]:
    shelf = ThemeList((), print)
    yield "| theme | |"
    yield "|---|---|"
    for name in shelf:
        yield row(f"`{name}`", shelf.description(name))
