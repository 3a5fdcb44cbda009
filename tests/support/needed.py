"""Programs that some tests need. A test whose program is missing is skipped; with OSTLER_CI it fails."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import NoReturn

import pytest

PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/local/go/bin"])
_PACKAGES = {"go": "golang-go", "nginx": "nginx-light", "node": "nodejs", "npm": "nodejs npm"}
"""Debian packages whose names differ from their programs."""


def program(*names: str) -> str:
    """The path of the first of these programs that is installed."""
    for name in names:
        if path := shutil.which(name, path=PLACES):
            return path
    return missing(names[0], f"apt-get install {_PACKAGES.get(names[0], names[0])}")


def module(name: str) -> None:
    """A module of an optional dependency."""
    if find_spec(name) is None:
        missing(name, "make .venv/.dev")


def missing(name: str, install: str) -> NoReturn:
    reason = f"{name} is not installed; `{install}` installs it"
    if os.environ.get("OSTLER_CI"):
        pytest.fail(reason)
    pytest.skip(reason)
