"""The table of the context's policy."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from docs_tables import field_docstrings, row, spelled
from ostler.context.policy import ContextPolicy


def policy_table() -> Iterator[str]:
    yield "| rule | values | default | meaning |"
    yield "|---|---|---|---|"
    for group in msgspec.structs.fields(ContextPolicy):
        hints, meanings = typing.get_type_hints(group.type), field_docstrings(group.type)
        for field in msgspec.structs.fields(group.type):
            values = spelled(hints[field.name]).removesuffix(" | null")
            name = f"`{group.name}.{field.name}`"
            yield row(name, values, _default(field.default), meanings[field.name])


def _default(value: Any) -> str:
    if value in (None, "", (), msgspec.NODEFAULT):
        return "–"
    return f"`{value}`".lower()
