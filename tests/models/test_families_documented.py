"""The requests match the table of levels in the documentation."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest

from tests.models.wires.wire_cases import KEY, load_model, request_of
from tests.support.paths import DOCS

PAGE = DOCS / "models.md"
LINES = [line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
HEAD = next(cells for cells in LINES if cells[:2] == ["model", "as"])
ROWS = [cells for cells in LINES if len(cells) == len(HEAD) and cells[0].startswith("`")]


def test_the_table_has_a_row_for_every_wire() -> None:
    assert {row[0].strip("`").partition("/")[0] for row in ROWS} >= {
        "anthropic",
        "openai",
        "google",
        "ollama",
    }


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_request_matches_the_row_of_the_documented_table(row: list[str]) -> None:
    name, path, *expected = (cell.strip("`") for cell in row)
    model: Any = load_model(name, api_key=KEY, environment={})
    sent = []
    for level in HEAD[2:]:
        body = json.loads(model.body(request_of(reasoning=level.strip("`"))))
        said = reduce(lambda fields, key: fields.get(key) or {}, path.split(".")[:-1], body)
        value = said.get(path.rpartition(".")[2])
        sent.append("–" if value is None else value if isinstance(value, str) else json.dumps(value))
    assert sent == expected
