"""Installing, updating and removing packages of extensions."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from shlex import quote

import pytest
from msgspec.structs import replace

from ostler.extensions.install.packages import (
    InstallOptions,
    InstallResult,
    install,
    remove,
    set_enabled,
    update,
)
from ostler.extensions.install.sources import parse_source
from ostler.extensions.loader.discovery import scan_extensions
from ostler.extensions.loader.manifest import Package, Scope, installed_extensions, read_manifest
from ostler.schema.errors import ConfigurationError, NotFound, OstlerError, UsageError
from tests.extensions.install.package_files import Repository, git, tool, wheel, write

BROKEN = "def setup(ostler):\n    raise ValueError('not today')\n"


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    return Scope("user", tmp_path / "home")


Install = Callable[..., InstallResult]


@pytest.fixture
def put(scope: Scope, tmp_path: Path) -> Install:
    def run(source: object, **wish: object) -> InstallResult:
        return install(
            scope, parse_source(str(source), tmp_path), InstallOptions(**wish), lambda package: None
        )  # type: ignore[arg-type]

    return run


@pytest.fixture
def renew(scope: Scope) -> Callable[[str], InstallResult]:
    return lambda name: update(scope, name, lambda package: None)


def leftovers(scope: Scope) -> list[str]:
    """Folders below `packages` that the manifest does not name."""
    named = {one.folder for one in read_manifest(scope).packages}
    return [one.name for one in scope.packages.iterdir() if one.name not in named]


def names(scope: Scope) -> list[str]:
    return [one.name for one in installed_extensions(scope)]


# --- git --------------------------------------------------------------------------------------------


def test_a_repository_is_installed_at_its_newest_commit(tmp_path: Path, scope: Scope, put: Install) -> None:
    repository = Repository(tmp_path / "tidy", {"gate.py": tool("gate")})
    newest = repository.commit({"extensions/todo/__init__.py": tool("todo"), "README.md": "x"})
    outcome = put(repository.url)
    assert (outcome.change, outcome.package.version, outcome.package.ref) == ("installed", newest, "")
    assert [(one.name, one.tools) for one in outcome.tried] == [("gate", ("gate",)), ("todo", ("todo",))]
    assert names(scope) == ["gate", "todo"]
    folder = outcome.package.place(scope)
    assert sorted(one.name for one in folder.iterdir()) == ["README.md", "extensions", "gate.py"]
    assert [one.path for one in installed_extensions(scope)] == [
        folder / "gate.py",
        folder / "extensions" / "todo",
    ]
    assert leftovers(scope) == []


@pytest.mark.parametrize("spelled", ["tag", "branch", "commit", "short"])
def test_a_ref_pins_also_where_a_shallow_copy_lacks_it(
    spelled: str, tmp_path: Path, scope: Scope, put: Install
) -> None:
    repository = Repository(tmp_path / "tidy", {"gate.py": tool("first")})
    git(repository.folder, "tag", "-a", "v1", "-m", "one")
    git(repository.folder, "branch", "old")
    repository.commit({"gate.py": tool("second")})
    repository.commit({"gate.py": tool("third")})
    ref = {"tag": "v1", "branch": "old", "commit": repository.first, "short": repository.first[:9]}[spelled]
    outcome = put(f"{repository.url}@{ref}")
    assert outcome.tried[0].tools == ("first",)
    assert (outcome.package.version, outcome.package.ref) == (repository.first, ref)


def test_a_ref_that_is_not_there_leaves_nothing_behind(tmp_path: Path, scope: Scope, put: Install) -> None:
    repository = Repository(tmp_path / "tidy", {"gate.py": tool("gate")})
    with pytest.raises(UsageError, match="there is no tag, branch or commit v9 in file://"):
        put(f"{repository.url}@v9")
    with pytest.raises(OstlerError, match="git cannot fetch file:///nowhere/x: fatal: "):
        put("file:///nowhere/x")
    assert (names(scope), leftovers(scope), scope.file.exists()) == ([], [], False)


def test_nothing_of_a_repository_runs_but_the_extensions_that_are_tried(
    tmp_path: Path, scope: Scope, put: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = f"#!/bin/sh\ntouch {quote(str(tmp_path))}/sprung\n"
    repository = Repository(tmp_path / "tidy", {"gate.py": tool("gate"), "hooks/post-checkout": trap})
    (repository.folder / "hooks" / "post-checkout").chmod(0o755)
    submodule = Repository(tmp_path / "inner", {"evil.py": tool("evil")})
    git(repository.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", submodule.url)
    repository.commit({})
    template = write(tmp_path / "template", {"hooks/post-checkout": trap})
    (template / "hooks" / "post-checkout").chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(template))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    outcome = put(repository.url)
    assert not (tmp_path / "sprung").exists()
    assert not (outcome.package.place(scope) / "inner" / "evil.py").exists()


def test_an_update_installs_the_newest_commit_and_drops_local_changes(
    tmp_path: Path, scope: Scope, put: Install, renew: Callable[[str], InstallResult]
) -> None:
    repository = Repository(tmp_path / "tidy", {"gate.py": tool("old"), "other.py": tool("other")})
    first = put(repository.url, include=("gate.py",)).package
    assert renew("tidy").change == "current"
    (first.place(scope) / "gate.py").write_text("changed here")
    newest = repository.commit({"gate.py": tool("new"), "more.py": tool("more")})
    outcome = renew("tidy")
    assert (outcome.change, outcome.package.version) == ("updated", newest)
    assert outcome.tried[0].tools == ("new",)
    assert (outcome.package.include, outcome.package.installed_ms) == (("gate.py",), first.installed_ms)
    assert outcome.package.updated_ms >= first.installed_ms
    assert (names(scope), leftovers(scope), first.place(scope).exists()) == (["gate"], [], False)


def test_an_update_follows_a_rewritten_history(
    tmp_path: Path, put: Install, renew: Callable[[str], InstallResult]
) -> None:
    repository = Repository(tmp_path / "tidy", {"gate.py": tool("old")})
    put(repository.url)
    write(repository.folder, {"gate.py": tool("rewritten")})
    git(repository.folder, "commit", "--quiet", "--all", "--amend", "--message", "again")
    assert renew("tidy").tried[0].tools == ("rewritten",)


def test_an_update_that_cannot_be_loaded_leaves_the_old_version(
    tmp_path: Path, scope: Scope, put: Install, renew: Callable[[str], InstallResult]
) -> None:
    repository = Repository(tmp_path / "tidy", {"gate.py": tool("gate")})
    before = put(repository.url).package
    repository.commit({"gate.py": BROKEN})
    with pytest.raises(OstlerError, match=r"tidy stays at its version: gate .* not today \(gate.py:2\)"):
        renew("tidy")
    assert read_manifest(scope).packages == (before,)
    assert (before.place(scope) / "gate.py").read_text() == tool("gate")
    assert leftovers(scope) == []


def test_a_pinned_package_is_not_updated(
    tmp_path: Path, scope: Scope, put: Install, renew: Callable[[str], InstallResult]
) -> None:
    repository = Repository(tmp_path / "tidy", {"gate.py": tool("gate")})
    put(f"{repository.url}@main")
    repository.commit({"gate.py": tool("new")})
    assert renew("tidy").change == "pinned"
    assert read_manifest(scope).packages[0].version == repository.first


# --- the extensions of a package --------------------------------------------------------------------


def test_extensions_are_found_in_the_default_folders(tmp_path: Path, scope: Scope, put: Install) -> None:
    nothing = "x = 1\n"
    files = {
        "setup.py": "from setuptools import setup\nsetup()\n",
        "conftest.py": tool("a"),
        "test_gate.py": tool("b"),
        "plain.py": nothing,
        "gate.py": tool("gate"),
        "again.py": "from gate import setup\n",
        "ext/one.py": tool("one"),
        "ext/two/main.py": tool("two"),
        "git-ext/three.py": tool("three"),
        "four/main.py": tool("four"),
        "four/inner.py": tool("inner"),
        "lib/five.py": tool("five"),
        "tests/six.py": tool("six"),
        "node_modules/seven/main.py": tool("seven"),
        ".hidden/eight/main.py": tool("eight"),
    }
    put(write(tmp_path / "many", files))
    assert names(scope) == ["again", "gate", "four", "one", "two", "three"]


def test_a_folder_with_setup_is_one_extension_with_all_its_files(
    tmp_path: Path, scope: Scope, put: Install
) -> None:
    files = {"main.py": "import rules\n" + tool("whole"), "rules.py": tool("rules")}
    outcome = put(write(tmp_path / "whole", files))
    assert (names(scope), outcome.tried[0].tools) == (["whole"], ("whole",))


def test_only_included_extensions_are_installed(tmp_path: Path, scope: Scope, put: Install) -> None:
    folder = write(tmp_path / "many", {"a.py": tool("a"), "b.py": tool("b"), "lib/c.py": tool("c")})
    put(folder, include=("./lib/c.py", "b.py"))
    assert names(scope) == ["c", "b"]
    remove(scope, "many")
    (tmp_path / "outside.py").write_text(tool("outside"))
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    for path in ("d.py", "../outside.py", str(tmp_path / "outside.py"), "link.py", "lib"):
        with pytest.raises(
            UsageError, match=r"is not an extension of many; its extensions are: a\.py, b\.py"
        ):
            put(folder, include=(path,))
    assert leftovers(scope) == []


def test_a_package_without_an_extension_is_refused(tmp_path: Path, scope: Scope, put: Install) -> None:
    with pytest.raises(UsageError, match="there is no extension in "):
        put(write(tmp_path / "none", {"a.py": "x = 1\n"}))
    assert (leftovers(scope), scope.file.exists()) == ([], False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BROKEN, r"ValueError: not today \(gate.py:2\)"),
        ("def setup(ostler):\n    x = = 1\n", r"SyntaxError: invalid syntax \(gate.py:2\)"),
        ("import os\ndef setup(ostler):\n    os._exit(7)\n", "ended its process with exit code 7"),
        ("import os\ndef setup(ostler):\n    os.abort()\n", "was ended by SIGABRT"),
        ("def setup():\n    pass\n", "must take one argument"),
    ],
)
def test_nothing_is_installed_when_nothing_of_it_can_be_loaded(
    text: str, problem: str, tmp_path: Path, scope: Scope, put: Install
) -> None:
    with pytest.raises(OstlerError, match=f"nothing was installed: .*{problem}"):
        put(write(tmp_path / "bad", {"gate.py": text}))
    assert (names(scope), leftovers(scope), scope.file.exists()) == ([], [], False)


def test_a_broken_extension_of_a_package_is_reported_and_may_stay_broken(
    tmp_path: Path, put: Install, renew: Callable[[str], InstallResult]
) -> None:
    folder = write(tmp_path / "half", {"bad.py": BROKEN, "good.py": tool("good")})
    outcome = put(folder)
    assert [bool(one.problem) for one in outcome.tried] == [True, False]
    assert outcome.package.broken == ("bad",)
    assert renew("half").change == "updated"


def test_output_and_processes_of_an_extension_do_not_disturb_the_trial(tmp_path: Path, put: Install) -> None:
    loud = "import os, subprocess, sys\nos.write(1, b'{}\\n')\nsubprocess.Popen(['sleep', '600'])\n"
    assert put(write(tmp_path / "loud", {"gate.py": loud + tool("gate")})).tried[0].tools == ("gate",)


def test_discovery_does_not_block_on_pipes_or_devices(tmp_path: Path, scope: Scope, put: Install) -> None:
    folder = write(
        tmp_path / "odd", {"gate.py": tool("gate"), "many.py": "from .x import (\n    y,\n    setup,\n)\n"}
    )
    os.mkfifo(folder / "pipe.py")
    (folder / "endless.py").symlink_to("/dev/zero")
    (folder / "lost.py").symlink_to("/nowhere")
    assert scan_extensions(folder) == ["gate.py", "many.py"]
    with pytest.raises(OstlerError, match=r"cannot be copied: .*is a named pipe"):
        put(folder)
    assert leftovers(scope) == []


# --- paths and PyPI ---------------------------------------------------------------------------------


def test_a_path_is_copied_or_used_in_place(
    tmp_path: Path, scope: Scope, put: Install, renew: Callable[[str], InstallResult]
) -> None:
    folder = write(tmp_path / "mine", {"gate.py": tool("old"), ".git/config": "x", "__pycache__/a.pyc": "x"})
    copied = put(folder).package
    linked = put(folder / "gate.py", name="other", link=True).package
    folder.joinpath("gate.py").write_text(tool("new"))
    assert [one.name for one in copied.place(scope).iterdir()] == ["gate.py"]
    assert copied.place(scope).joinpath("gate.py").read_text() == tool("old")
    assert [one.path for one in installed_extensions(scope)][1] == folder / "gate.py"
    assert [renew(one).tried[0].tools for one in ("mine", "other")] == [("new",), ("new",)]
    for package in (copied, linked):
        remove(scope, package.name)
    assert (names(scope), leftovers(scope), folder.joinpath("gate.py").exists()) == ([], [], True)


def test_a_folder_with_an_invalid_package_name_needs_a_name(tmp_path: Path, put: Install) -> None:
    folder = write(tmp_path / "my gates", {"gate.py": tool("gate")})
    with pytest.raises(UsageError, match="'my gates' is not a valid name: use letters"):
        put(folder)
    assert put(folder, name="gates").package.name == "gates"


def test_a_folder_is_not_copied_into_itself(tmp_path: Path, put: Install) -> None:
    write(tmp_path, {"gate.py": tool("gate")})
    with pytest.raises(UsageError, match="contains the folder that it would be copied to"):
        put(tmp_path)
    project = Scope("project", tmp_path / ".ostler")
    source = parse_source(str(tmp_path), tmp_path)
    outcome = install(project, source, InstallOptions(name="own", include=("gate.py",)), lambda package: None)
    assert not (outcome.package.place(project) / ".ostler").exists()


def test_only_a_path_can_be_linked(put: Install) -> None:
    with pytest.raises(UsageError, match="only a path can be used in place"):
        put("github.com/ada/tidy", link=True)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels in place of PyPI."""
    folder = tmp_path / "wheels"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    folder.mkdir()
    return folder


def test_a_wheel_brings_its_entry_points_and_can_be_updated(
    tmp_path: Path, scope: Scope, put: Install, renew: Callable[[str], InstallResult], index: Path
) -> None:
    points = "gate = ostler_tidy.gate:setup\nlook = ostler_tidy.gate:setup"
    wheel(index, "ostler_tidy", "1.0", {"ostler_tidy/gate.py": tool("one")}, points)
    outcome = put("Ostler-Tidy")
    assert (outcome.package.name, outcome.package.version) == ("ostler-tidy", "1.0")
    extensions = installed_extensions(scope)
    assert [(one.name, one.function) for one in extensions] == [
        ("gate", "ostler_tidy.gate:setup"),
        ("look", "ostler_tidy.gate:setup"),
    ]
    assert {one.tools for one in outcome.tried} == {("one",)}
    assert (extensions[0].path / "ostler_tidy" / "gate.py").is_file()
    assert renew("ostler-tidy").change == "current"
    wheel(index, "ostler_tidy", "1.1", {"ostler_tidy/gate.py": tool("two")}, points)
    renewed = renew("ostler-tidy")
    assert (renewed.change, renewed.package.version, renewed.tried[0].tools) == ("updated", "1.1", ("two",))
    remove(scope, "ostler-tidy")
    pinned = put("ostler-tidy==1.0", include=("look",))
    assert (pinned.package.version, names(scope), renew("ostler-tidy").change) == ("1.0", ["look"], "pinned")
    assert leftovers(scope) == []


def test_a_package_of_pypi_is_never_a_projects(tmp_path: Path, index: Path) -> None:
    wheel(index, "tidy", "1.0", {"tidy.py": tool("x")}, "tidy = tidy:setup")
    scope = Scope("project", tmp_path / ".ostler")
    with pytest.raises(UsageError, match="cannot be installed with --local"):
        install(scope, parse_source("tidy", tmp_path), InstallOptions(), lambda package: None)
    assert not scope.root.exists()


def test_a_package_of_pypi_without_extensions_is_refused(scope: Scope, put: Install, index: Path) -> None:
    wheel(index, "plain", "1.0", {"plain.py": tool("x")})
    with pytest.raises(UsageError, match="plain has no extensions"):
        put("plain")
    with pytest.raises(OstlerError, match="missing cannot be installed: "):
        put("missing")
    assert (names(scope), leftovers(scope)) == ([], [])


def test_nothing_is_built_unless_it_is_allowed(tmp_path: Path, put: Install, index: Path) -> None:
    import tarfile

    source = write(tmp_path / "built-1.0", {"setup.py": f"open({str(tmp_path / 'sprung')!r}, 'w')\n"})
    with tarfile.open(index / "built-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, "built-1.0")
    with pytest.raises(OstlerError, match="built cannot be installed: "):
        put("built")
    assert not (tmp_path / "sprung").exists()


def test_without_pip_uv_is_used_and_without_both_an_error_explains(
    tmp_path: Path, put: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ostler.extensions.install.sources.find_spec", lambda name: None)
    programs = write(
        tmp_path / "programs", {"uv": f'#!/bin/sh\necho "$@" > {quote(str(tmp_path))}/told\nexit 3\n'}
    )
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.defpath}")
    with pytest.raises(OstlerError, match="tidy==1 cannot be installed: "):
        put("tidy==1")
    arguments = (tmp_path / "told").read_text().split()
    assert arguments[:2] == ["pip", "install"] and arguments[-4:] == [
        "--only-binary",
        ":all:",
        "--",
        "tidy==1",
    ]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", "/a folder/python")
    with pytest.raises(
        UsageError, match="neither pip nor uv is installed: run `'/a folder/python' -m ensurepip`"
    ):
        put("tidy")


# --- the manifest -----------------------------------------------------------------------------------


def test_a_package_is_installed_once(tmp_path: Path, scope: Scope, put: Install) -> None:
    repository = Repository(tmp_path / "tidy", {"gate.py": tool("gate")})
    put(repository.url)
    with pytest.raises(UsageError, match=r"is installed already, as tidy: use `ostler ext update tidy`"):
        put(f"git:{repository.folder}@main", name="other")
    with pytest.raises(UsageError, match="another package is called tidy"):
        put(write(tmp_path / "b" / "tidy", {"x.py": tool("x")}))
    put(tmp_path / "b" / "tidy", name="other")
    assert [one.name for one in read_manifest(scope).packages] == ["tidy", "other"]


def test_a_disabled_package_stays_but_is_not_loaded(tmp_path: Path, scope: Scope, put: Install) -> None:
    put(write(tmp_path / "tidy", {"gate.py": tool("gate")}))
    assert set_enabled(scope, "tidy", False)
    assert not set_enabled(scope, "tidy", False)
    assert (names(scope), [one.name for one in installed_extensions(scope, enabled=False)]) == ([], ["gate"])
    assert set_enabled(scope, "tidy", True)
    assert names(scope) == ["gate"]
    with pytest.raises(NotFound, match="no package 'other' is installed here"):
        set_enabled(scope, "other", True)


def test_a_refusal_before_the_trial_leaves_nothing_behind(tmp_path: Path, scope: Scope) -> None:
    folder = write(tmp_path / "tidy", {"gate.py": f"open({str(tmp_path / 'ran')!r}, 'w')\n" + tool("gate")})

    def refuse(package: Package) -> None:
        assert package.extensions[0].name == "gate"
        raise UsageError("no")

    with pytest.raises(UsageError):
        install(scope, parse_source(str(folder), tmp_path), InstallOptions(), refuse)
    assert (leftovers(scope), scope.file.exists(), (tmp_path / "ran").exists()) == ([], False, False)


def test_the_next_installation_removes_the_files_of_a_killed_one(
    tmp_path: Path, scope: Scope, put: Install
) -> None:
    write(scope.packages, {"package_0left/x/a.py": "x", "notes/mine.txt": "x"})
    put(write(tmp_path / "tidy", {"gate.py": tool("gate")}))
    assert leftovers(scope) == ["notes"]


def test_two_installations_at_once_are_refused(tmp_path: Path, scope: Scope, put: Install) -> None:
    scope.packages.mkdir(parents=True)
    held = os.open(scope.packages, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OstlerError, match="another `ostler ext` is changing"):
            put(write(tmp_path / "tidy", {"gate.py": tool("gate")}))
    finally:
        os.close(held)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"version": 2, "packages": [{"new": true}]}', r"has version 2, which needs a newer ostler"),
    ],
)
def test_a_damaged_manifest_is_one_line_and_nothing_is_lost(
    content: str, problem: str, tmp_path: Path, scope: Scope, put: Install
) -> None:
    put(write(tmp_path / "tidy", {"gate.py": tool("gate")}))
    kept = leftovers(replace(scope, root=tmp_path)) if (tmp_path / "packages").exists() else None
    folders = sorted(scope.packages.iterdir())
    scope.file.write_text(content)
    for change in (lambda: put("./tidy"), lambda: remove(scope, "tidy"), lambda: installed_extensions(scope)):
        with pytest.raises(ConfigurationError, match=problem):
            change()
    assert (scope.file.read_text(), sorted(scope.packages.iterdir()), kept) == (content, folders, None)


def test_a_projects_manifest_cannot_name_files_outside(tmp_path: Path) -> None:
    scope = Scope("project", tmp_path / ".ostler")
    treasure = write(tmp_path / "treasure", {"a.py": "x"})
    row = {"name": "x", "kind": "git", "source": "u", "identity": "u", "folder": "package_1"}
    for change in (
        {"folder": "../treasure"},
        {"folder": ".."},
        {"folder": "", "source": "/etc"},
        {"name": ".."},
        {"name": "../../treasure"},
        {"extensions": [{"name": "a", "path": "../../../treasure/a.py"}]},
        {"extensions": [{"name": "a", "path": str(treasure / "a.py")}]},
        {"extensions": [{"name": "a", "function": "a:setup"}]},
        {"kind": "pypi"},
    ):
        write(scope.root, {"extensions.json": json.dumps({"version": 1, "packages": [row | change]})})
        with pytest.raises(ConfigurationError, match=r"the row of .* cannot be used"):
            remove(scope, str({**row, **change}["name"]))
    assert treasure.joinpath("a.py").exists()


def test_nothing_is_installed_through_a_link_of_a_project(tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere", {"package_1/a.py": "x"})
    scope = Scope("project", tmp_path / "project" / ".ostler")
    scope.root.mkdir(parents=True)
    scope.packages.symlink_to(elsewhere)
    folder = write(tmp_path / "tidy", {"gate.py": tool("gate")})
    with pytest.raises(ConfigurationError, match="is a symbolic link"):
        install(scope, parse_source(str(folder), tmp_path), InstallOptions(), lambda package: None)
    assert elsewhere.joinpath("package_1", "a.py").exists()
