from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attach.attaching import Attach, attaching
from tests.cli.command import Ostler
from tests.cli.conftest import ostler as ostler
from tests.cli.conftest import serve as serve


@pytest.fixture
def attach(ostler: Ostler) -> Iterator[Attach]:
    """`ostler attach` in a terminal of its own, until the end of the test."""
    with attaching(ostler) as start:
        yield start
