"""Stored and sent names stay the same when the code is renamed."""

from __future__ import annotations

import json

from tests.support.golden_names import GOLDEN_FILE, names


def test_stored_and_sent_names_do_not_change() -> None:
    """A missing name breaks its readers. `python -m tests.support.golden_names --write` adds new ones."""
    golden, current = json.loads(GOLDEN_FILE.read_bytes()), json.loads(json.dumps(names()))

    assert current.keys() == golden.keys()
    for section in golden:
        assert current[section] == golden[section], section
