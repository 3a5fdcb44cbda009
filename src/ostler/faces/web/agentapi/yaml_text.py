"""A document as YAML: its outline as YAML has it, its words as JSON has them, which YAML allows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def as_yaml(value: Any) -> str:
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _entry(f"{json.dumps(name)}:", inner)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _entry("-", inner)
    else:
        yield json.dumps(value, ensure_ascii=False)


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{head} {json.dumps(value, ensure_ascii=False)}"
