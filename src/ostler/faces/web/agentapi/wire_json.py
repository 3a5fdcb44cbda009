"""JSON as this wire has it: spelled like Go's encoder does, because some clients compare bytes."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import msgspec

_LINE_SEPARATORS = (("\u2028".encode(), rb"\u2028"), ("\u2029".encode(), rb"\u2029"))
_OF_HTML = ((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026"))


def to_json(value: Any) -> bytes:
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair: such things can come out of other people's JSON
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()
    return _replaced(encoded, _LINE_SEPARATORS)


def for_html(encoded: bytes) -> bytes:
    """In events, but not in other answers, what could be markup is escaped as well."""
    return _replaced(encoded, _OF_HTML)


def _replaced(encoded: bytes, replacements: tuple[tuple[bytes, bytes], ...]) -> bytes:
    for plain, escaped in replacements:  # none of them can stand outside of a string
        if plain in encoded:
            encoded = encoded.replace(plain, escaped)
    return encoded


def timestamp(seconds: float) -> str:
    """RFC 3339 in the local zone, with as many digits as it takes."""
    at = datetime.fromtimestamp(round(seconds * 1e6) / 1e6).astimezone()
    text = at.isoformat(timespec="microseconds")
    moment, zone = text[:26].rstrip("0").rstrip("."), text[26:]
    return moment + ("Z" if zone == "+00:00" else zone)
