"""An extension: where it comes from, what it has registered, and how it is doing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ostler.extensions.calling import Worker
from ostler.extensions.registrations import Registrations

Origin = Literal["user", "project", "package", "installed", "configured", "option", "host"]
"""Where it was found: the user's folder, the project's, an installed package, what `ostler ext install`
brought, the configuration, `-e PATH`, or the program that embeds Ostler."""

Standing = Literal["loaded", "failed", "untrusted", "changed", "disabled"]


class Extension:
    """One loaded extension, or why it is not loaded. A reload makes a new one of the same name."""

    def __init__(
        self,
        name: str,
        origin: Origin,
        path: Path | None = None,
        registered: Registrations | None = None,
        *,
        standing: Standing = "loaded",
        problem: str = "",
        version: str = "",
    ) -> None:
        self.name = name
        self.origin = origin
        self.path = path
        self.registered = registered or Registrations()
        self.standing = standing
        self.problem = problem
        self.version = version
        self.worker = Worker(name)

    @property
    def events(self) -> tuple[str, ...]:
        """The names of those that it sees."""
        return (*(one.__name__ for one in self.registered.observers), *self.registered.custom)

    def panel_key(self, session: str, panel: str, key: str, text: str) -> bool:
        """A key that was typed while people look at a panel of its own; only some extensions have any."""
        return False

    async def close(self) -> None:
        """None of its code is called any more."""
        self.worker.give_up()
