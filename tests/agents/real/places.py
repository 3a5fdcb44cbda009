"""Where a program is at home, who answers it, and what it has left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from ostler.testkit.vendors import FakeVendor


class Place(msgspec.Struct, frozen=True):
    home: Path
    vendor: FakeVendor

    @property
    def orchard(self) -> Path:
        return self.home / "orchard"

    def write(self, name: str, content: str | dict[str, Any]) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def processes_with(value: str) -> list[str]:
    """The command lines of processes whose environment has that."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if value.encode() in environment.read_bytes():
                found.append(environment.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended, or it is another's
    return found
