"""The hash that names things by their content."""

from __future__ import annotations

try:  # `hashlib` loads OpenSSL, which takes a millisecond of each start, and then hands out this one
    from _blake2 import blake2b as blake2b
except ImportError:  # another Python than CPython
    from hashlib import blake2b as blake2b
