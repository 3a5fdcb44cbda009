"""Discovery of extensions, and their order."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ostler.extensions.loader.discovery import (
    DiscoveredExtension,
    ExtensionSearch,
    check_named,
    entry_points,
    find_extensions,
)
from ostler.schema.errors import UsageError

SETUP = "def setup(ostler): pass\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def write(path: Path, text: str = SETUP) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(found: list[DiscoveredExtension]) -> list[str]:
    return [one.name for one in found]


def test_discovery_returns_extensions_in_load_order(home: Path, project: Path) -> None:
    below = project / "below"
    own = home / "extensions"
    write(own / "b.py")
    write(own / "a.py")
    write(own / "pack" / "__init__.py")
    write(own / "main_pack" / "main.py")
    write(own / "other" / "extension.json", json.dumps({"name": "node-guard", "exec": "node"}))
    write(project / ".ostler/extensions/outer.py")
    write(below / ".ostler/extensions/inner.py")
    named = write(project.parent / "elsewhere" / "named.py")
    configured = write(project.parent / "elsewhere" / "configured.py")
    extensions = find_extensions(ExtensionSearch(below, named=(named,), configured=(configured,)))
    assert [(one.name, one.origin, one.kind) for one in extensions] == [
        ("a", "user", "file"),
        ("b", "user", "file"),
        ("main_pack", "user", "folder"),
        ("node-guard", "user", "foreign"),
        ("pack", "user", "folder"),
        ("outer", "project", "file"),
        ("inner", "project", "file"),
        ("configured", "configured", "file"),
        ("named", "option", "file"),
    ]
    assert [one.project for one in extensions if one.project] == [project, below]
    assert names(find_extensions(ExtensionSearch(below, named=(named,), automatic=False))) == ["named"]


def test_helpers_and_tests_are_no_extensions(home: Path, project: Path) -> None:
    own = home / "extensions"
    write(own / "real.py", "async def setup(ostler): ...")
    write(own / "assigned.py", "from rules import start\nsetup = start\n")
    write(own / "rules.py", "def start(ostler): raise SystemExit  # never run by finding\n")
    write(own / "_private.py")
    write(own / "test_real.py")
    write(own / "real_test.py")
    write(own / ".hidden.py")
    write(own / "__pycache__" / "x.py")
    write(own / "data" / "notes.txt", "text")
    assert names(find_extensions(ExtensionSearch(project))) == ["assigned", "real"]


def test_one_path_counts_once_at_its_first_place(home: Path, project: Path) -> None:
    mine = write(home / "extensions" / "gate.py")
    (project / ".ostler").mkdir()
    (project / ".ostler" / "extensions").symlink_to(home / "extensions")
    extensions = find_extensions(ExtensionSearch(project, named=(mine, mine.parent)))
    assert [(one.name, one.origin, one.problem) for one in extensions] == [("gate", "user", "")]


def test_the_second_extension_of_a_name_is_left_out_with_a_reason(home: Path, project: Path) -> None:
    first = write(home / "extensions" / "gate.py")
    write(project / ".ostler/extensions/gate.py")
    _, second = find_extensions(ExtensionSearch(project))
    assert second.problem == f"{first} has the name gate, too, and comes first"


def test_a_named_extension_that_does_not_exist_is_an_error(home: Path, project: Path) -> None:
    search = ExtensionSearch(project, named=(project / "missing.py",))
    with pytest.raises(UsageError, match=r"there is no extension .*missing\.py"):
        check_named(search)
    plain = write(project / "plain.py", "x = 1")
    (extensions,) = find_extensions(ExtensionSearch(project, named=(plain,)))
    assert extensions.problem == "it has no `def setup(ostler)`"


def test_a_named_folder_may_contain_several_extensions(home: Path, project: Path) -> None:
    write(project / "many" / "a.py")
    write(project / "many" / "b.py")
    assert names(find_extensions(ExtensionSearch(project, named=(project / "many",)))) == ["a", "b"]


def test_a_projects_link_out_of_it_is_refused(home: Path, project: Path) -> None:
    outside = write(project.parent / "outside" / "evil.py")
    (project / ".ostler" / "extensions").mkdir(parents=True)
    (project / ".ostler" / "extensions" / "evil.py").symlink_to(outside)
    (extensions,) = find_extensions(ExtensionSearch(project))
    assert extensions.problem == "it leads out of the project"


def test_extensions_that_a_projects_settings_name_must_be_inside_it(home: Path, project: Path) -> None:
    inside = write(project / "tools" / "mine.py")
    outside = write(project.parent / "theirs.py")
    write(project / "ostler.toml", 'extensions = ["tools/mine.py", "../theirs.py"]')
    wanted = (inside, project / "../theirs.py")
    mine, theirs = find_extensions(
        ExtensionSearch(project, configured=wanted, of_project=dict.fromkeys(wanted, project))
    )
    assert (mine.project, mine.problem) == (project, "")
    assert theirs.problem == "it leads out of the project"
    (own,) = find_extensions(ExtensionSearch(project, configured=(outside,)))
    assert (own.project, own.problem) == (None, "")


def test_entry_points_are_read_from_the_metadata_of_packages(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    text = "[console_scripts]\nx = y:z\n\n[ostler.extensions]\n# ours\ngate = gate_pack.main:setup [extra]\n"
    write(one / "Gate_Pack-1.2.dist-info" / "entry_points.txt", text)
    write(two / "Gate_Pack-9.0.dist-info" / "entry_points.txt", text)
    write(two / "plain-1.0.dist-info" / "METADATA", "Name: plain")
    (extensions,) = entry_points([str(one), str(two), str(tmp_path / "nothing.zip")])
    assert (extensions.name, extensions.function, extensions.version) == (
        "gate",
        "gate_pack.main:setup",
        "1.2",
    )


def test_the_working_directory_has_no_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "evil-1.0.dist-info" / "entry_points.txt", "[ostler.extensions]\nevil = evil:setup\n")
    monkeypatch.chdir(tmp_path)
    assert entry_points(["", os.curdir, str(tmp_path)]) == []
    assert len(entry_points([str(tmp_path), "x"])) == 0
