"""Identifiers (a prefix, a time that sorts, 80 random bits), and the hash for content."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u to misread

_DIGITS = (_ALPHABET * 8).encode()
"""Maps each byte to the digit of its low five bits."""

NewId = Callable[[str], str]
"""Makes an id from a prefix; the simulator passes a seeded one."""


def base32(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        digits.append(_ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(digits))


def new_id(prefix: str) -> str:
    """`new_id("run")` gives `run_` and 26 characters; later ids sort after earlier ones."""
    milliseconds = time.time_ns() // 1_000_000
    return f"{prefix}_{base32(milliseconds, 10)}{os.urandom(16).translate(_DIGITS).decode()}"


try:  # `hashlib` returns the same function, but loads OpenSSL, which takes a millisecond
    from _blake2 import blake2b as blake2b
except ImportError:  # not CPython
    from hashlib import blake2b as blake2b
