"""The user's home folder. A process may have none: no HOME, and a user id without an entry in passwd."""

from __future__ import annotations

from pathlib import Path

from ostler.vocabulary.errors import UsageError


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
