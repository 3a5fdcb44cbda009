"""How commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys

import msgspec

from ostler.faces.cli.columns import one_line


def say(text: str) -> None:
    """One line, whatever is said, and nothing in it that a terminal would obey."""
    print(f"ostler: {one_line(text)}", file=sys.stderr)


def print_json(value: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


def priced(cost: float | None) -> str:
    from ostler.runs.costs import dollars

    return "cost unknown" if cost is None else dollars(cost) if cost else "no charge"


def counted(number: int, what: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
