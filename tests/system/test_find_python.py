from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

FIND_PYTHON = ROOT / "scripts" / "find-python.sh"
THIS_PYTHON = f'exec {shlex.quote(sys.executable)} "$@"'


def find_python(directory: Path, python: str = "") -> subprocess.CompletedProcess[str]:
    """Asks with nothing on PATH but what is in the directory."""
    return subprocess.run(
        ["/bin/sh", FIND_PYTHON],
        env={"PATH": str(directory), "PYTHON": python},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def put(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_recent_interpreter_is_found(tmp_path: Path) -> None:
    put(tmp_path, "python3.11", "exit 127")
    put(tmp_path, "python3.12", THIS_PYTHON)
    result = find_python(tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "python3.12\n", "")


def test_a_named_interpreter_comes_first(tmp_path: Path) -> None:
    put(tmp_path, "python3.11", THIS_PYTHON)
    assert find_python(tmp_path, sys.executable).stdout == f"{sys.executable}\n"


def test_a_named_interpreter_may_have_spaces_in_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "an interpreter"
    folder.mkdir()
    put(folder, "my python", THIS_PYTHON)
    put(tmp_path, "python3.11", THIS_PYTHON)
    result = find_python(tmp_path, str(folder / "my python"))
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{folder / 'my python'}\n", "")


def test_a_named_interpreter_that_does_not_work_is_not_replaced_by_another(tmp_path: Path) -> None:
    put(tmp_path, "python3.11", THIS_PYTHON)
    put(tmp_path, "broken", "exit 127")
    result = find_python(tmp_path, "broken")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("broken is not a working Python 3.11 or newer")


def test_without_an_interpreter_one_line_explains_what_to_do(tmp_path: Path) -> None:
    put(tmp_path, "python3", "exit 1")
    result = find_python(tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer" in result.stderr


def test_an_interpreter_without_ensurepip_is_named_with_the_package_to_install(tmp_path: Path) -> None:
    put(tmp_path, "python3", f'case "$2" in *ensurepip*) exit 1;; esac\n{THIS_PYTHON}')
    result = find_python(tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("python3 cannot create a virtual environment")
    assert "python3-venv" in result.stderr
