from __future__ import annotations

from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "ostler"


def test_nothing_outside_the_testkit_imports_it() -> None:
    """`lint-imports` sees imports; a name in a string, resolved later, only shows here."""
    outside = [path for path in SOURCE.rglob("*.py") if SOURCE / "testkit" not in path.parents]
    assert outside
    assert [path.name for path in outside if "ostler.testkit" in path.read_text()] == []
