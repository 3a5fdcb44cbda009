"""The tables for those who come from Kit: where its names, cases and hazards are found here."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from docs_claims import ROOT, Entry, case_table, example_of, names_here, remark_of, shown_by
from docs_tables import row

MAPPING = ROOT / "docs" / "kit_mapping.toml"
PAGE = ROOT / "docs" / "kit.md"


@cache
def _mapping() -> dict[str, Any]:
    return tomllib.loads(MAPPING.read_text(encoding="utf-8"))


def symbol_table(rows: Mapping[str, Entry]) -> Iterator[str]:
    yield "| Kit | here | example | shown by | |"
    yield "|---|---|---|---|---|"
    for name, entry in rows.items():
        where = f"{MAPPING.name}: {name}"
        here = names_here(where, entry)
        yield row(f"`{name}`", here, example_of(where, entry, PAGE), shown_by(where, entry), remark_of(entry))


def member_table(rows: Mapping[str, Entry]) -> Iterator[str]:
    yield "| Kit | here | shown by | |"
    yield "|---|---|---|---|"
    for name, entry in rows.items():
        where = f"{MAPPING.name}: {name}"
        yield row(f"`{name}`", names_here(where, entry), shown_by(where, entry), remark_of(entry))


def _groups(part: str, table: Callable[[Mapping[str, Entry]], Iterator[str]]) -> str:
    groups = _mapping()[part].items()
    return "\n\n".join("\n".join([f"### {title}", "", *table(rows)]) for title, rows in groups)


KIT_SECTIONS: dict[str, Callable[[], str]] = {
    "kit-symbols": lambda: _groups("symbols", symbol_table),
    "kit-methods": lambda: _groups("methods", member_table),
    "kit-members": lambda: _groups("members", member_table),
    "kit-cases": lambda: "\n".join(case_table(MAPPING.name, "case", _mapping()["cases"])),
    "kit-hazards": lambda: "\n".join(case_table(MAPPING.name, "there", _mapping()["hazards"])),
}
