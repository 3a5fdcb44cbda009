"""The wheel and the source distribution: what is in them, and what `ostler[all]` installs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def build(project: Path, target: str, folder: Path) -> Path:
    """The package of a kind, `wheel` or `sdist`, built from the files in `project`."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (package,) = folder.iterdir()
    return package


def extract(sdist: Path, folder: Path) -> Path:
    """The project in a source distribution."""
    with tarfile.open(sdist) as archive:
        # As an attribute, because Python 3.11.2 has no such parameter.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    (project,) = folder.iterdir()
    return project


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sdist = build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))
    return extract(sdist, tmp_path_factory.mktemp("source"))


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def package_files(names: set[str]) -> set[str]:
    return {name for name in names if not name.split("/")[0].endswith(".dist-info")}


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    files = {
        file.relative_to(ROOT / "src").as_posix()
        for file in (ROOT / "src" / "ostler").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert package_files(names_in(wheel)) == files


def test_the_wheel_has_the_page_with_its_scripts_and_styles(wheel: Path) -> None:
    (index,) = (name for name in names_in(wheel) if name.endswith("/page/index.html"))
    with zipfile.ZipFile(wheel) as archive:
        assets = re.findall(r'(?:src|href)="[./]*(assets/[^"]+)"', archive.read(index).decode())
    assert assets
    assert {index.removesuffix("index.html") + asset for asset in assets} <= names_in(wheel)


def test_the_wheel_has_the_themes_the_catalogue_and_the_mark_of_types(wheel: Path) -> None:
    names = names_in(wheel)
    assert "ostler/py.typed" in names
    assert any(name.endswith("/catalogue.jsonl") for name in names)
    assert len([name for name in names if "/theme_files/" in name and name.endswith(".toml")]) > 10


def test_the_wheel_has_nothing_of_the_tests_and_one_command(wheel: Path) -> None:
    names = names_in(wheel)
    assert {name.split("/")[0] for name in package_files(names)} == {"ostler"}
    assert not any(re.search(r"(^|/)(tests|conftest\.py|test_\w+\.py)(/|$)", name) for name in names)
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in names if name.endswith("/entry_points.txt"))
        text = archive.read(entry_points).decode()
    assert re.fullmatch(r"\[console_scripts\]\nostler = ostler[\w.]*:main\n", text)


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, source: Path, tmp_path: Path) -> None:
    again = build(source, "wheel", tmp_path)
    assert names_in(again) == names_in(wheel)


def test_the_source_distribution_has_what_make_test_needs(source: Path) -> None:
    needed = """
        .github .gitignore CHANGELOG.md CONTRIBUTING.md LICENSE Makefile README.md bench docs examples
        llms.txt pyproject.toml requirements scripts src tests web
    """
    assert set(needed.split()) - {path.name for path in source.iterdir()} == set()
    for program in ("find-python.sh", "test-pythons.sh"):
        assert os.access(source / "scripts" / program, os.X_OK)


def test_packages_for_the_page_stay_out_of_the_source_distribution(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "src/ostler/__init__.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    for name in ("web/package.json", "web/node_modules/vite/package.json"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("{}")
    web = extract(build(project, "sdist", tmp_path / "sdist"), tmp_path / "source") / "web"
    assert [path.name for path in web.iterdir()] == ["package.json"]


def test_all_includes_every_extra_but_the_one_without_wheels_everywhere() -> None:
    extras = PROJECT["optional-dependencies"]
    (included,) = extras["all"]
    assert set(re.findall(r"\w+", included)) - {"ostler"} == set(extras) - {"all", "local"}
