"""Folders that tests read from."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
DOCS = ROOT / "docs"
GOLDEN = TESTS / "golden"
SHARED = ROOT.parent / "shared" / "data"
"""Test data of other projects, if a copy is beside this repository."""
