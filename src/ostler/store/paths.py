"""The paths of a project, and of the user's files: store, configuration, keys, trust and permissions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ostler.schema.errors import ConfigurationError, UsageError

PROJECT_EXTENSIONS = Path(".ostler") / "extensions"


def project_folder(cwd: Path) -> Path:
    """The root of the repository that contains the folder, or the folder itself."""
    cwd = cwd.resolve()
    return next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)


def home_folder() -> Path | None:
    """None for a process without HOME whose user id is not in passwd."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def expand_home(path: str | Path) -> Path:
    """Expands `~` and `~name`. Raises `UsageError` if there is no such home directory."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        name = Path(path).parts[0]
        raise UsageError(f"{path}: there is no home directory {name}; write the whole path") from None


def below_home(path: Path) -> str | None:
    """The path as `~/…`; None if it is not below the home directory."""
    home = home_folder()
    if home is None or path == home or not path.is_relative_to(home):
        return None
    return f"~/{path.relative_to(home)}"


def state_folder() -> Path:
    """`$OSTLER_HOME`, or the platform's folder for application data."""
    if home := os.environ.get("OSTLER_HOME"):
        return expand_home(home)
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support" / "ostler"
    return _xdg("XDG_DATA_HOME", ".local/share") / "ostler"


def configuration_file() -> Path:
    """The user's configuration: in `$OSTLER_HOME`, or in the platform's folder for configuration."""
    if os.environ.get("OSTLER_HOME") or sys.platform == "darwin":
        return state_folder() / "config.toml"
    return _xdg("XDG_CONFIG_HOME", ".config") / "ostler" / "config.toml"


def store_file(home: Path | None = None) -> Path:
    return (home or state_folder()) / "ostler.db"


_opened_stores: set[Path] = set()


def note_store(file: Path) -> None:
    """Notes that this process has opened a store, which permission then protects wherever it lies."""
    _opened_stores.add(file.resolve())


def opened_stores() -> frozenset[Path]:
    return frozenset(_opened_stores)


def trust_file() -> Path:
    return state_folder() / "trust.json"


def key_file() -> Path:
    """The keys that `ostler key set` stores."""
    return state_folder() / "keys.json"


def permissions_file() -> Path:
    """The remembered permission rules."""
    return state_folder() / "permissions.json"


def server_consent_file() -> Path:
    """The discovered model servers that the user has agreed to use."""
    return state_folder() / "servers.json"


def gguf_folder() -> Path:
    """The folder for models on disk."""
    return state_folder() / "models"


def _xdg(variable: str, default: str) -> Path:
    configured = os.environ.get(variable, "")
    # The XDG standard says to ignore relative paths.
    return Path(configured) if configured.startswith("/") else _home() / default


def _home() -> Path:
    home = home_folder()
    if home is None:
        raise ConfigurationError("there is no home directory: set HOME, or OSTLER_HOME to a folder")
    return home
