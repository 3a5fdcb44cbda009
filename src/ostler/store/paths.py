"""Where Ostler keeps what is the user's: the store, the configuration, what was trusted."""
# MERGED: The user's home folder. A process may have none: no HOME, and a user id without an entry in
# MERGED: passwd.

from __future__ import annotations

import os
import sys
from pathlib import Path

from ostler.schema.errors import ConfigurationError, UsageError


def home_folder() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def expand_home(path: str | Path) -> Path:
    """With the folder that `~` or `~name` stands for. Raises `UsageError` where nobody knows it."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        name = Path(path).parts[0]
        raise UsageError(f"{path}: there is no home directory {name}; write the whole path") from None


def below_home(path: Path) -> str | None:
    """As `~/…`; None for a path that lies elsewhere, and for the home itself."""
    home = home_folder()
    if home is None or path == home or not path.is_relative_to(home):
        return None
    return f"~/{path.relative_to(home)}"


def state_folder() -> Path:
    """`$OSTLER_HOME`, or the platform's place for an application's data."""
    if home := os.environ.get("OSTLER_HOME"):
        return expand_home(home)
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support" / "ostler"
    return _xdg("XDG_DATA_HOME", ".local/share") / "ostler"


def configuration_file() -> Path:
    """The user's own configuration: in `$OSTLER_HOME`, or in the platform's place for it."""
    if os.environ.get("OSTLER_HOME") or sys.platform == "darwin":
        return state_folder() / "config.toml"
    return _xdg("XDG_CONFIG_HOME", ".config") / "ostler" / "config.toml"


def store_file(home: Path | None = None) -> Path:
    return (home or state_folder()) / "ostler.db"


def trust_file() -> Path:
    return state_folder() / "trust.json"


def key_file() -> Path:
    """The keys that `ostler key set` keeps."""
    return state_folder() / "keys.json"


def permissions_file() -> Path:
    """What was said shall always be allowed, asked about or denied."""
    return state_folder() / "permissions.json"


def server_consent_file() -> Path:
    """Which servers that were merely found may be used."""
    return state_folder() / "servers.json"


def gguf_folder() -> Path:
    """Where a model on disk is looked for."""
    return state_folder() / "models"


def _xdg(variable: str, default: str) -> Path:
    configured = os.environ.get(variable, "")
    # The standard says that a relative path there is to be ignored.
    return Path(configured) if configured.startswith("/") else _home() / default


def _home() -> Path:
    home = home_folder()
    if home is None:
        raise ConfigurationError("there is no home directory: set HOME, or OSTLER_HOME to a folder")
    return home
