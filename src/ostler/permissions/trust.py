"""Trust: what a project's own files may decide only after their user has looked at them.

Trust is given to a folder *and* to the content of its file: when the file changes, it is asked anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ostler.core.files import write_atomically
from ostler.schema.errors import ConfigurationError
from ostler.store.paths import trust_file

SENSITIVE = frozenset(
    {
        "aliases",
        "allow",
        "api_key",
        "audit",
        "base_url",
        "extensions",
        "gguf",
        "key_command",
        "options",
        "providers",
        "terminal_agents",
    }
)
"""Where requests and keys go, what runs a command or without asking, what is loaded into the process or
changes how that works, and what writes a file."""

LIMITS = (
    "max_children",
    "max_cost",
    "max_depth",
    "max_output_tokens",
    "max_retries",
    "max_seconds",
    "max_steps",
    "max_tokens",
)
"""What a project may set lower than its user, but not higher."""

DEFAULT_DEPTH = 3
EXTENSIONS = Path(".ostler") / "extensions"

EDITS = "edits"
"""In place of a digest: also what is changed later is trusted."""

_DEFAULTS = {"max_depth": DEFAULT_DEPTH, "max_retries": 20}
"""Limits that hold when nobody has set them: a project may not raise those either."""

_REACH = {"read-only": 0, "ask": 1, "edit": 2, "full": 3}


def untrusted_part(wanted: Mapping[str, Any], own: Mapping[str, Any]) -> frozenset[str]:
    """The names in a project's file that need trust: sensitive ones, and what exceeds one's own settings."""
    own = {**_DEFAULTS, **own}
    names = {name for name in LIMITS if _exceeds(wanted.get(name), own.get(name))}
    if _reach(wanted) > _reach(own):
        names.add("permissions")
    if own.get("tools") is not None and not set(wanted.get("tools") or ()) <= set(own["tools"]):
        names.add("tools")
    if _leads_key_away(wanted, own) or _is_file(wanted.get("model", "")):
        names.add("model")
    if any(map(_is_file, wanted.get("fallback", ()))):
        names.add("fallback")
    if _is_file(wanted.get("context", {}).get("summaries", {}).get("model", "")):
        names.add("context")
    return (SENSITIVE & wanted.keys()) | names


def _exceeds(wanted: float | None, own: float | None) -> bool:
    return wanted is not None and own is not None and float(wanted) > float(own)


def _reach(values: Mapping[str, Any]) -> int:
    return _REACH[values.get("permissions", "read-only")]


def _leads_key_away(wanted: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """A key that is set without a provider is meant for the provider of one's own model, and no other."""
    if "model" not in wanted or not (own.get("api_key") or own.get("key_command")):
        return False
    return bool(_provider(wanted["model"]) != _provider(own.get("model", "")))


def _is_file(model: str) -> bool:
    """A model file is read by native code: one that comes with a project may be made to harm."""
    return _provider(model) == "gguf"


def _provider(model: str) -> str:
    return model.strip().partition("/")[0]


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


def trusts_edits(project: Path) -> bool:
    """Whether all extensions of a project are trusted, whatever they are changed to."""
    return _read().get(_name(project / EXTENSIONS)) == EDITS


def trust_edits(project: Path) -> Path:
    """Returns what the consent is kept under."""
    _write(_read() | {_name(project / EXTENSIONS): EDITS})
    return project / EXTENSIONS


def trusted_folders() -> list[str]:
    return sorted(_read())


def _name(folder: Path) -> str:
    return str(folder.resolve())


def _digest(content: bytes) -> str:
    from hashlib import sha256  # which loads OpenSSL; most projects have nothing to trust

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
    try:
        write_atomically(path, msgspec.json.encode(trusted), private=True)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
