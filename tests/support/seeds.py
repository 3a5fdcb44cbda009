"""The seed of this test run: `make test` always uses 0, `make test-long` a new one, which it prints."""

from __future__ import annotations

import os
from random import Random

SEED = int(os.environ.get("OSTLER_SEED") or 0)

FIRST_SEED = SEED * 1_000_000
"""The first number of the numbered cases of this run."""


def random_for(number: int) -> Random:
    """A generator for one case of a suite, the same in every run with the same seed."""
    return Random(FIRST_SEED + number)
