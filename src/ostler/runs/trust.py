"""Trust: what a project's own files may decide only after their user has looked at them.

Trust is given to a folder *and* to the content of its file: when the file changes, it is asked anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from ostler.runs.home import trust_file

SENSITIVE = frozenset({"base_url", "api_key", "key_command"})
"""Where requests and keys go, and what runs a command."""

_REACH = {"read-only": 0, "ask": 1, "edit": 2, "full": 3}


def untrusted_part(wanted: Mapping[str, Any], own_permissions: str) -> frozenset[str]:
    """The names in a project's file that need trust: sensitive ones, and more permission than the user's own."""
    names = SENSITIVE & wanted.keys()
    if _REACH.get(str(wanted.get("permissions", "")), 0) > _REACH.get(own_permissions, 0):
        names = names | {"permissions"}
    return names


def is_trusted(file: Path) -> bool:
    return _read().get(_folder(file)) == _digest(file)


def trust(file: Path) -> None:
    _write(_read() | {_folder(file): _digest(file)})


def distrust(file: Path) -> bool:
    """False when it was not trusted."""
    trusted = _read()
    found = trusted.pop(_folder(file), None)
    _write(trusted)
    return found is not None


def trusted_folders() -> list[str]:
    return sorted(_read())


def _folder(file: Path) -> str:
    return str(file.resolve().parent)


def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def _read() -> dict[str, str]:
    path = trust_file()
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.is_file() else {}


def _write(trusted: dict[str, str]) -> None:
    path = trust_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(trusted))
    new.replace(path)
