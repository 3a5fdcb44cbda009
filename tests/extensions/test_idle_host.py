"""Without extensions, a start imports almost nothing for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ostler.extensions.idle_host import has_extensions


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages")])
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "inner").mkdir()
    return tmp_path / "project"


@pytest.mark.parametrize(
    "place",
    [
        "home/extensions/gate.py",
        "home/extensions.json",
        "project/.ostler/extensions/gate.py",
        "project/inner/.ostler/extensions/gate.py",
        "project/.ostler/extensions.json",
        "packages/gates-1.0.dist-info/entry_points.txt",
    ],
)
def test_every_place_of_extensions_is_noticed(tmp_path: Path, project: Path, place: str) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    (file.parent / ".hidden").touch()
    assert not has_extensions(project / "inner")
    file.write_text("[ostler.extensions]\ngate = gates:setup\n")
    assert has_extensions(project / "inner")


def test_without_extensions_only_the_idle_host_is_imported(tmp_path: Path) -> None:
    script = """
import sys
from ostler import main
main.run(["-p", "--model", "demo", "--no-session", "hello"])
print(sorted(name for name in sys.modules if name.startswith("ostler.extensions")), file=sys.stderr)
"""
    environment = {"HOME": str(tmp_path), "OSTLER_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr.splitlines()[-1] == "['ostler.extensions', 'ostler.extensions.idle_host']"
