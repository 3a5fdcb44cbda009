"""An extension as lists show it."""

from __future__ import annotations

import msgspec

from ostler.extensions.extension import Extension, Origin, Standing


class ExtensionRow(msgspec.Struct, frozen=True):
    name: str
    origin: Origin
    path: str
    version: str
    state: Standing
    package: str = ""
    """The name of the package that `ostler ext install` has brought it with."""
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    fences: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    problem: str = ""


def row_of(extension: Extension) -> ExtensionRow:
    """One that a host has, loaded or not."""
    brought = extension.registered
    return ExtensionRow(
        name=extension.name,
        origin=extension.origin,
        path=str(extension.path or ""),
        version=extension.version,
        state=extension.standing,
        tools=tuple(brought.tools),
        commands=tuple(brought.commands),
        fences=tuple(brought.fences),
        hooks=tuple(dict.fromkeys(one.point for one in brought.hooks)),
        events=extension.events,
        problem=extension.problem,
    )
