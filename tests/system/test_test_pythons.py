"""`make test-pythons`: every interpreter that it finds is tried, and one that fails is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SCRIPTS = ROOT / "scripts"
TOOLS = ("awk", "cp", "dirname", "find", "mkdir", "sort", "touch")

FAKE = """#!/bin/sh
case "$1 $2" in
    "-c "*) printf '{version}\\t%s\\n' "$0" ;;
    "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    "-m pip") {pip} ;;
    "scripts/generate_docs.py --check") {docs} ;;
    "-m pytest") echo "pytest of {version}: $*"; {pytest} ;;
    *) exit 9 ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the scripts, in a folder whose name has a space, with nothing on PATH but the tools."""
    project = tmp_path / "a project"
    (project / "scripts").mkdir(parents=True)
    for name in ("find-pythons.sh", "test-pythons.sh"):
        shutil.copy(SCRIPTS / name, project / "scripts")
    (project / "requirements").mkdir()
    (project / "requirements" / "dev.lock").touch()
    (project / "pyproject.toml").touch()
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        result = shutil.which(tool)
        assert result is not None
        (tmp_path / "bin" / tool).symlink_to(result)
    return project


def put(path: Path, version: str, *, pip: str = ":", docs: str = ":", pytest: str = ":") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FAKE.format(version=version, pip=pip, docs=docs, pytest=pytest))
    path.chmod(0o755)
    return path


def run(project: Path, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(project.parent / "bin"), "HOME": str(project.parent / "my home"), **variables}
    return subprocess.run(
        ["/bin/sh", project / "scripts" / script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_interpreters_are_found_on_path_and_in_pyenv_and_uv(project: Path) -> None:
    there = project.parent
    named = put(there / "my own" / "python", "3.12.10")
    on_path = put(there / "bin" / "python3.13", "3.13.2")
    of_pyenv = put(there / "my home" / ".pyenv" / "versions" / "3.12.9" / "bin" / "python3", "3.12.9")
    put(there / "my home" / ".pyenv" / "versions" / "3.13.2" / "bin" / "python3", "3.13.2")
    of_uv = put(there / "my home" / ".local/share/uv/python" / "cpython" / "bin" / "python3", "3.14.0")
    result = run(project, "find-pythons.sh", PYTHON=str(named))
    assert (result.returncode, result.stderr) == (0, "")
    assert [line.split("\t") for line in result.stdout.splitlines()] == [
        ["3.12.9", str(of_pyenv)],
        ["3.12.10", str(named)],
        ["3.13.2", str(on_path)],
        ["3.14.0", str(of_uv)],
    ]


def test_an_interpreter_is_asked_for_its_version(project: Path) -> None:
    result = run(project, "find-pythons.sh", PYTHON=sys.executable).stdout
    version = ".".join(map(str, sys.version_info[:3]))
    assert result.startswith(f"{version}") and result.endswith(f"\t{sys.executable}\n")


def test_an_old_or_incomplete_interpreter_is_skipped(project: Path) -> None:
    for name, change in (
        ("python3.11", "import sys; sys.version_info = (3, 10, 1)"),
        ("python3.12", "import sys; sys.modules['ensurepip'] = None"),
        ("python3.13", "import sys; sys.implementation.name = 'pypy'"),
        ("python3.14", "import sys"),
    ):
        script = project.parent / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{change}\n$2"\n')
        script.chmod(0o755)
    (only,) = run(project, "find-pythons.sh").stdout.splitlines()
    assert only.endswith(f"\t{sys.executable}")
    (project.parent / "bin" / "python3.14").unlink()
    assert run(project, "find-pythons.sh").stdout == ""


def test_every_interpreter_runs_the_tests_in_its_own_environment(project: Path) -> None:
    put(project.parent / "bin" / "python3.11", "3.11.7")
    put(project.parent / "bin" / "python3.12", "3.12.1")
    ran = run(project, "test-pythons.sh", "-n", "2", "tests/a b")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "pytest of 3.11.7: -m pytest -n 2 tests/a b\n" in ran.stdout
    assert "pytest of 3.12.1: -m pytest -n 2 tests/a b\n" in ran.stdout
    assert ran.stdout.endswith("\n\n3.11.7\tpassed\n3.12.1\tpassed\n")
    assert sorted(path.name for path in project.glob(".venv*")) == [".venv-3.11.7", ".venv-3.12.1"]


@pytest.mark.parametrize(
    ("step", "result"),
    [
        ("pip", "failed: installation"),
        ("docs", "failed: generated pages"),
        ("pytest", "failed: tests"),
    ],
)
def test_a_failing_interpreter_is_reported_and_the_others_are_tried(
    project: Path, step: str, result: str
) -> None:
    put(project.parent / "bin" / "python3.11", "3.11.7", **{step: "exit 1"})
    put(project.parent / "bin" / "python3.12", "3.12.1")
    ran = run(project, "test-pythons.sh")
    assert ran.returncode == 1
    assert ran.stdout.endswith(f"\n\n3.11.7\t{result}\n3.12.1\tpassed\n")


def test_an_environment_is_rebuilt_if_the_lock_file_has_changed(project: Path) -> None:
    put(project.parent / "bin" / "python3.11", "3.11.7", pip='echo "installs $*"')
    lock, made = project / "requirements" / "dev.lock", project / ".venv-3.11.7" / ".dev"
    assert run(project, "test-pythons.sh").stdout.count("installs") == 2
    assert run(project, "test-pythons.sh").stdout.count("installs") == 0
    later = made.stat().st_mtime_ns + 1_000_000_000
    os.utime(lock, ns=(later, later))
    assert run(project, "test-pythons.sh").stdout.count("installs") == 2


def test_without_an_interpreter_one_line_explains_what_to_do(project: Path) -> None:
    ran = run(project, "test-pythons.sh")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("no Python from 3.11 on was found") and ran.stderr.count("\n") == 1
