"""A command as data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

Complete = Callable[[str], Awaitable[Sequence[str]]]
"""All of what could stand behind the command, after what is typed there."""


class Command(msgspec.Struct, frozen=True):
    name: str
    about: str
    run: Callable[[str], Awaitable[None]]
    """Is given what was typed behind it."""
    aliases: tuple[str, ...] = ()
    arguments: str = ""
    """A hint such as `[name]`."""
    at_rest: bool = False
    """Not while a run is under way."""
    complete: Complete | None = None
