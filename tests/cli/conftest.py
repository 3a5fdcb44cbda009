"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ostler.testkit.vendors import Answer, FakeVendor, Script
from tests.cli.command import Ostler

Serve = Callable[..., FakeVendor]


@pytest.fixture
def ostler(tmp_path: Path) -> Ostler:
    return Ostler(tmp_path)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts fake vendors that answer in turn, or as a function of the request says."""
    with ExitStack() as running:

        def start(*answers: Answer, by: Script | None = None, **options: Any) -> FakeVendor:
            return running.enter_context(FakeVendor(answers if by is None else by, **options))

        yield start
