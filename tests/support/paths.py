"""Folders that tests read from."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
DOCS = ROOT / "docs"
GOLDEN = TESTS / "golden"
SHARED = ROOT.parent / "shared" / "data"
"""Outside test data, where a copy of it lies beside this repository."""
