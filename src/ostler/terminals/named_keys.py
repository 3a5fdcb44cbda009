"""Keys by their names, as those who cannot press them say them."""

from __future__ import annotations

from ostler.vocabulary.errors import InvalidArguments

NAMED_KEYS = {
    "enter": b"\r",
    "escape": b"\x1b",
    "tab": b"\t",
    "shift-tab": b"\x1b[Z",
    "space": b" ",
    "backspace": b"\x7f",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "ctrl-c": b"\x03",
    "ctrl-d": b"\x04",
}


def key_bytes(key: str) -> bytes:
    """What the terminal sends for a key, or for text that is typed. Raises `InvalidArguments`."""
    if named := NAMED_KEYS.get(key.lower()):
        return named
    if not key or not key.isprintable():
        raise InvalidArguments(f"{key!r} is no key: name one of {', '.join(NAMED_KEYS)}, or type text")
    return key.encode("utf-8", "replace")
