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
from ostler.vocabulary.errors import ConfigurationError

SENSITIVE = frozenset({"base_url", "api_key", "key_command"})
"""Where requests and keys go, and what runs a command."""

_REACH = {"read-only": 0, "ask": 1, "edit": 2, "full": 3}


def untrusted_part(wanted: Mapping[str, Any], own_permissions: str) -> frozenset[str]:
    """The names in a project's file that need trust: sensitive ones, and more permission than one's own."""
    names = SENSITIVE & wanted.keys()
    if _REACH.get(str(wanted.get("permissions", "")), 0) > _REACH.get(own_permissions, 0):
        names = names | {"permissions"}
    return names


def is_trusted(folder: Path, content: bytes) -> bool:
    """Whether a project's file with this content is trusted. Who asks has read the content, and uses that."""
    return _read().get(_name(folder)) == _digest(content)


def trust(folder: Path, content: bytes) -> None:
    _write(_read() | {_name(folder): _digest(content)})


def distrust(folder: Path) -> bool:
    """False when it was not trusted."""
    trusted = _read()
    if trusted.pop(_name(folder), None) is None:
        return False
    _write(trusted)
    return True


def trusted_folders() -> list[str]:
    return sorted(_read())


def _name(folder: Path) -> str:
    return str(folder.resolve())


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _read() -> dict[str, str]:
    path = trust_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ConfigurationError(
            f"{path} is damaged ({error}); remove it, and trust your folders again"
        ) from None


def _write(trusted: dict[str, str]) -> None:
    path = trust_file()
    new = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new.write_bytes(msgspec.json.encode(trusted))
        new.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
