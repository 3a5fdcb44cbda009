"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from ostler.testkit.watch import watched_sessions

# A slow machine is no reason for a test to fail.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def invariants() -> Iterator[None]:
    with watched_sessions():
        yield
