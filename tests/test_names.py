"""What is stored or sent keeps its name, whatever the code calls it."""

from __future__ import annotations

import json

from tests.support.golden_names import GOLDEN_FILE, names


def test_every_name_that_is_stored_or_sent_is_what_it_was() -> None:
    """A missing name breaks its readers. `python -m tests.support.golden_names --write` adds new ones."""
    golden, found = json.loads(GOLDEN_FILE.read_bytes()), json.loads(json.dumps(names()))

    assert found.keys() == golden.keys()
    for section in golden:
        assert found[section] == golden[section], section
