"""The commands of the terminal face, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from docs_tables import row
from ostler.tui.commands.registry import Commands


def command_table() -> Iterator[str]:
    nobody: Any = SimpleNamespace()
    yield "| command | also | |"
    yield "|---|---|---|"
    for command in Commands(nobody).own:
        said = f"/{command.name} {command.arguments}".rstrip()
        yield row(f"`{said}`", ", ".join(f"`/{name}`" for name in command.aliases), command.about)
