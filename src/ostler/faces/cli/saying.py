"""How commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys

import msgspec


def say(text: str) -> None:
    print(f"ostler: {text}", file=sys.stderr)


def print_json(value: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


def counted(number: int, what: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
