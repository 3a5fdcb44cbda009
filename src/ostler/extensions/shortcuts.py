"""Keys by one name each, however they are spelled."""

from __future__ import annotations

from ostler.vocabulary.errors import UsageError


def normalised_key(key: str) -> str:
    """`Shift+Ctrl+S` is `ctrl+shift+s`. Raises `UsageError` for a key that nobody may take."""
    if not key.strip():
        raise UsageError("a shortcut needs a key")
    return key.strip().lower()
