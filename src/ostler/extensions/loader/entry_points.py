"""Entry points of installed packages that are extensions."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ostler.extensions import lookout


class EntryPoint(msgspec.Struct, frozen=True):
    name: str
    function: str
    """`module:function`."""
    version: str
    distribution: Path
    """The folder of the package's metadata."""


def entry_points(folders: list[str] | None = None) -> list[EntryPoint]:
    """By name, of the packages that can be imported. The first folder that has a package has it."""
    found: dict[str, list[EntryPoint]] = {}
    for metadata, content in lookout.entry_points(folders):
        package, _, version = metadata.rpartition("/")[2].rpartition(".")[0].partition("-")
        if package not in found:
            found[package] = _parsed(content, version, Path(metadata))
    return sorted((one for points in found.values() for one in points), key=lambda one: one.name)


def _parsed(content: bytes, version: str, metadata: Path) -> list[EntryPoint]:
    points: list[EntryPoint] = []
    if lookout.OURS not in content:
        return points
    is_ours = False
    for line in content.splitlines():
        line = line.strip()
        if line.startswith(b"["):
            is_ours = line == b"[%s]" % lookout.OURS
        elif is_ours and line and line[:1] not in b"#;":
            name, _, function = (part.strip() for part in line.decode(errors="replace").partition("="))
            points.append(EntryPoint(name, function.partition("[")[0].strip(), version, metadata))
    return points
