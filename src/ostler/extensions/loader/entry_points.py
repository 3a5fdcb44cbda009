"""Entry points of installed packages, read from their metadata.

Not with `importlib.metadata`, whose import alone takes many times as long as this look at every start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

GROUP = "ostler.extensions"
LARGEST = 1 << 20


class EntryPoint(msgspec.Struct, frozen=True):
    name: str
    function: str
    """`module:function`."""
    version: str
    distribution: Path
    """The folder of the package's metadata."""


def entry_points(folders: list[str] | None = None) -> list[EntryPoint]:
    """By name, of the packages that can be imported. The first folder that has a package has it.

    Not of the present folder, which Python may have on its path too: that is a project, with files of others.
    """
    found: dict[str, list[EntryPoint]] = {}
    here = os.getcwd()  # noqa: PTH109
    for folder in dict.fromkeys(sys.path if folders is None else folders):
        if not folder or os.path.abspath(folder) == here:  # noqa: PTH100
            continue
        for path in _metadata_in(folder):
            package, _, version = path.rpartition("/")[2].rpartition(".")[0].partition("-")
            if package not in found:
                found[package] = _read(path, version)
    return sorted((one for points in found.values() for one in points), key=lambda one: one.name)


def _metadata_in(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    yield entry.path
    except OSError:  # there is much on the path that is no folder
        return


def _read(path: str, version: str) -> list[EntryPoint]:
    content = _content(f"{path}/entry_points.txt")
    if GROUP.encode() not in content:
        return []
    points, is_ours = [], False
    for line in content.decode(errors="replace").splitlines():
        line = line.strip()
        if line.startswith("["):
            is_ours = line == f"[{GROUP}]"
        elif is_ours and line and line[0] not in "#;":
            name, _, function = (part.strip() for part in line.partition("="))
            points.append(EntryPoint(name, function.partition("[")[0].strip(), version, Path(path)))
    return points


def _content(path: str) -> bytes:
    """In the plainest way there is: a file for each package that is installed, at every start."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, LARGEST)
    finally:
        os.close(descriptor)
