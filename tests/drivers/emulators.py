"""Each emulator that is installed, for tests that hold for all of them."""

from __future__ import annotations

from importlib.util import find_spec

ALL = ("pyghostty", "bittty")
EMULATORS = [name for name in ALL if find_spec(name)]
