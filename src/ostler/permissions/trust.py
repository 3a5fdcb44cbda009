"""Trust: settings and files of a project that take effect only after the user has reviewed them.

Trust covers a folder *and* the content of its file: after a change, the user must trust the file again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ostler.core.children import DEFAULT_DEPTH
from ostler.core.files import write_atomically
from ostler.core.lazy import lazy_module
from ostler.schema.errors import ConfigurationError
from ostler.store.paths import PROJECT_EXTENSIONS, trust_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.store import consent
else:
    consent = lazy_module("ostler.store.consent")

SENSITIVE = frozenset(
    {
        "aliases",
        "allow",
        "api_key",
        "audit",
        "base_url",
        "confine_harmless",
        "extensions",
        "gguf",
        "key_command",
        "options",
        "pass_env",
        "providers",
        "terminal_agents",
        "tool_limits",
    }
)
"""Settings that direct requests and keys, run commands, skip questions, load code or write files."""

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
"""A project may lower these limits, but not raise them above the user's."""

EDITS = "edits"
"""Stands in place of a digest: later changes are trusted too."""

_DEFAULTS = {"max_depth": DEFAULT_DEPTH, "max_retries": 20}
"""Default limits: a project may not raise those either."""

_REACH = {"read-only": 0, "ask": 1, "edit": 2, "full": 3}


def untrusted_part(wanted: Mapping[str, Any], own: Mapping[str, Any]) -> frozenset[str]:
    """The names in a project's file that need trust: sensitive ones, and those that exceed the user's own."""
    own = {**_DEFAULTS, **own}
    limits = [name for name in LIMITS if wanted.get(name) is not None and own.get(name) is not None]
    names = {name for name in limits if float(wanted[name]) > float(own[name])}
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


def _reach(values: Mapping[str, Any]) -> int:
    return _REACH[values.get("permissions", "read-only")]


def _leads_key_away(wanted: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether the project's model would get a key that the user has set for the provider of another model."""
    if "model" not in wanted or not (own.get("api_key") or own.get("key_command")):
        return False
    return bool(_provider(wanted["model"]) != _provider(own.get("model", "")))


def _is_file(model: str) -> bool:
    """Whether the model is a file. Native code reads it, so a project could attack it with a crafted one."""
    return _provider(model) == "gguf"


def _provider(model: str) -> str:
    return model.strip().partition("/")[0]


def is_trusted(folder: Path, content: bytes) -> bool:
    """Whether a project's file with this content is trusted. The caller must use the content it passes."""
    return _read().get(_name(folder)) == _digest(content)


def trust(folder: Path, content: bytes) -> None:
    """Raises `ConsentRefused` if an agent has started this process."""
    consent.require_own_consent()
    _write(_read() | {_name(folder): _digest(content)})


def distrust(folder: Path) -> bool:
    """Removes the trust; False if there was none."""
    trusted = _read()
    if trusted.pop(_name(folder), None) is None:
        return False
    _write(trusted)
    return True


def trusts_edits(project: Path) -> bool:
    """Whether all extensions of a project are trusted, including later changes to them."""
    return _read().get(_name(project / PROJECT_EXTENSIONS)) == EDITS


def trust_edits(project: Path) -> Path:
    """Trusts all extensions of a project, and returns the folder that the trust is stored for."""
    consent.require_own_consent()
    _write(_read() | {_name(project / PROJECT_EXTENSIONS): EDITS})
    return project / PROJECT_EXTENSIONS


def trusted_folders() -> list[str]:
    return sorted(_read())


def _name(folder: Path) -> str:
    return str(folder.resolve())


def _digest(content: bytes) -> str:
    from hashlib import sha256  # loads OpenSSL, and most projects have nothing to trust

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
        message = f"{path} is damaged ({error}); remove it, and trust your folders again"
        raise ConfigurationError(message) from None


def _write(trusted: dict[str, str]) -> None:
    path = trust_file()
    try:
        write_atomically(path, msgspec.json.encode(trusted), private=True)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
