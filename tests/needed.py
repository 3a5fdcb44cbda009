"""Programs that some tests need: without one the test is skipped, but not where everything must be run."""

from __future__ import annotations

import os
import shutil

import pytest

PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def program(*names: str) -> str:
    """The first of these that is installed."""
    for name in names:
        if found := shutil.which(name, path=PLACES):
            return found
    missing = f"{names[0]} is not installed"
    if os.environ.get("OSTLER_CI"):
        pytest.fail(missing)
    pytest.skip(missing)
