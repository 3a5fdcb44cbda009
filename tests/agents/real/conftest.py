"""The home folder of the programs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.real.installing import FOLDER


@pytest.fixture
def home() -> Iterator[Path]:
    """Beside the programs, because some of them reject a folder in the system's temporary folder."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
