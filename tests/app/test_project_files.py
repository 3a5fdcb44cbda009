"""The files of a project, for completion."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote

import pytest

from ostler.app import project_files
from ostler.app.project_files import FileMatch, ProjectFiles

FILES = (
    "README.md",
    "Makefile",
    "src/app.py",
    "src/deep/er/thing.py",
    "src/deep/my notes.md",
    "src/.secret/key.txt",
    "tests/test_app.py",
    ".github/workflows/ci.yml",
    ".gitignore",
    "build/out.o",
    "node_modules/left/index.js",
    "~odd.txt",
)


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("build/\nnode_modules/\n" if name == ".gitignore" else name)


def git(root: Path, *arguments: str) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, env=environment)


@pytest.fixture(params=["git", "walked"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    put(root, *FILES)
    if request.param == "git":
        git(root, "init", "-q")
        git(root, "add", "README.md", "src", "Makefile")
    return root


Opened = Callable[..., ProjectFiles]


@pytest.fixture
def open_files() -> Iterator[Opened]:
    """Files that are all found; closed in the end."""
    all_opened = []

    def open_(root: Path) -> ProjectFiles:
        files = ProjectFiles(root)
        all_opened.append(files)
        return with_complete_listing(files)

    yield open_
    for files in all_opened:
        files.close()


def with_complete_listing(files: ProjectFiles) -> ProjectFiles:
    files.refresh()
    assert files._maker is not None
    files._maker.join(30)
    assert files.is_complete
    return files


def paths(files: ProjectFiles, query: str, limit: int = 20) -> list[str]:
    return [found.path for found in files.search(query, limit)]


def test_an_empty_query_lists_folders_first(root: Path, open_files: Opened) -> None:
    files = open_files(root)
    assert paths(files, "") == ["src/", "tests/", "Makefile", "README.md", f"{root}/~odd.txt"]
    assert paths(files, "src/") == ["src/deep/", "src/app.py"]
    assert paths(files, "./src/") == ["src/deep/", "src/app.py"]
    assert paths(files, "", limit=2) == ["src/", "tests/"]


def test_letters_find_files_and_folders_anywhere(root: Path, open_files: Opened) -> None:
    files = open_files(root)
    assert paths(files, "app") == ["src/app.py", "tests/test_app.py"]
    assert paths(files, "er")[0] == "src/deep/er/"
    assert paths(files, "sapp")[0] == "src/app.py"
    assert paths(files, "notes") == ["src/deep/my notes.md"]
    assert files.search("app")[0] == FileMatch("src/app.py", (4, 5, 6))


def test_a_folder_limits_the_search_unless_it_is_empty(root: Path, open_files: Opened) -> None:
    files = open_files(root)
    assert paths(files, "tests/app") == ["tests/test_app.py"]
    assert files.search("src/thing") == [FileMatch("src/deep/er/thing.py", (12, 13, 14, 15, 16))]
    assert paths(files, "deep/thing") == ["src/deep/er/thing.py"]
    assert paths(files, "src/zzz") == []


def test_a_dot_finds_hidden_files(root: Path, open_files: Opened) -> None:
    files = open_files(root)
    assert paths(files, "ci.yml") == []
    assert paths(files, "key") == []
    assert set(paths(files, ".")) >= {".github/", ".gitignore", "src/.secret/"}
    assert paths(files, ".gith")[0] == ".github/"
    assert paths(files, ".github/") == [".github/workflows/"]
    assert paths(files, ".github/ci") == [".github/workflows/ci.yml"]
    assert paths(files, "src/.")[0] == "src/.secret/"


def test_ignored_folders_are_not_found_but_can_be_entered(root: Path, open_files: Opened) -> None:
    files = open_files(root)
    assert paths(files, "out.o") == []
    assert paths(files, "index") == []
    assert paths(files, "build/") == ["build/out.o"]
    assert paths(files, "node_modules/left/ind") == ["node_modules/left/index.js"]


def test_an_ignored_project_folder_is_listed(root: Path, open_files: Opened) -> None:
    if (root / ".git").exists():
        assert paths(open_files(root / "build"), "") == ["out.o"]


def test_folders_outside_of_the_project_can_be_entered(
    root: Path, open_files: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    put(root.parent, "beside/notes.txt", ".hidden/x")
    files = open_files(root)
    assert paths(files, "../") == ["../beside/", "../project/"]
    assert paths(files, "../bes") == ["../beside/"]
    assert paths(files, "~/beside/") == ["~/beside/notes.txt"]
    assert paths(files, f"{root.parent}/beside/n") == [f"{root.parent}/beside/notes.txt"]
    assert paths(files, "../.h") == ["../.hidden/"]
    assert paths(files, "~nobody-of-this-name/") == []
    assert paths(files, "missing/") == []
    assert paths(files, "\0/") == []


def test_names_that_cannot_be_mentioned_are_left_out(root: Path, open_files: Opened) -> None:
    put(root, "tick`s.txt", "two\nlines.txt")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff.txt")).write_text("x")
    assert paths(open_files(root), "txt") == [f"{root}/~odd.txt"]


def test_new_files_are_found_once_the_listing_is_old(
    root: Path, open_files: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = open_files(root)
    put(root, "brand_new.py")
    (root / "src/app.py").unlink()
    assert paths(files, "brand") == []
    assert paths(files, "app.py")[0] == "src/app.py"
    monkeypatch.setattr(project_files, "FRESH_SECONDS", 0.0)
    with_complete_listing(files)
    assert paths(files, "brand") == ["brand_new.py"]
    assert "src/app.py" not in paths(files, "app.py")


def test_the_listing_has_a_limit(root: Path, open_files: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not open_files(root).is_cut
    monkeypatch.setattr(project_files, "MOST_FILES", 5)
    files = open_files(root)
    assert files.is_cut
    assert len(files._listing.paths) + len(files._listing.hidden) == 5


def test_a_subfolder_of_a_project_finds_its_own_files(root: Path, open_files: Opened) -> None:
    assert paths(open_files(root / "src"), "") == ["deep/", "app.py"]


def test_a_deleted_folder_has_no_files(tmp_path: Path, open_files: Opened) -> None:
    assert paths(open_files(tmp_path / "missing"), "a") == []


# --- a git that a test controls --------------------------------------------------------------------------


@pytest.fixture
def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    def install(code: str) -> Path:
        program = tmp_path / "bin" / "git"
        program.parent.mkdir()
        script = program.with_suffix(".py")
        script.write_text(code)
        # Not in the first line itself, which may neither be long nor have spaces in its path.
        program.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} {quote(str(script))} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return program

    return install


SLOW = """
import os, sys, time
if "--cached" in sys.argv:
    open("pid", "w").write(str(os.getpid()))
    sys.stdout.write("early.py\\0late")
    sys.stdout.flush()
    while not os.path.exists("go"):
        time.sleep(0.01)
    sys.stdout.write("r.py\\0")
"""


def test_the_listing_can_be_searched_while_it_grows(tmp_path: Path, fake_git: Callable[[str], Path]) -> None:
    fake_git(SLOW)
    more = threading.Event()
    files = ProjectFiles(tmp_path, more.set)
    files.refresh()
    assert more.wait(30)
    while paths(files, "py") != ["early.py"]:  # the event was set right before it, or right behind
        assert not files.is_complete
    (tmp_path / "go").touch()
    assert files._maker is not None
    files._maker.join(30)
    assert paths(files, "py") == ["early.py", "later.py"]
    files.close()


def test_close_ends_a_slow_git_process(tmp_path: Path, fake_git: Callable[[str], Path]) -> None:
    fake_git(SLOW)
    more = threading.Event()
    files = ProjectFiles(tmp_path, more.set)
    files.refresh()
    assert more.wait(30)
    files.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    files.refresh()
    assert files.is_complete


def test_a_search_starts_no_second_listing(tmp_path: Path, fake_git: Callable[[str], Path]) -> None:
    fake_git(SLOW)
    files = ProjectFiles(tmp_path)
    files.refresh()
    maker = files._maker
    for _ in range(5):
        files.search("a")
    assert files._maker is maker
    files.close()


def test_a_repository_cannot_run_its_programs(tmp_path: Path, open_files: Opened) -> None:
    put(tmp_path, "a.py")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "a.py")
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {quote(str(tmp_path))}/caught\n")
    trap.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(trap))
    (tmp_path / "a.py").write_text("changed")
    assert "a.py" in paths(open_files(tmp_path), "")
    assert not (tmp_path / "caught").exists()


def test_without_git_the_tree_is_walked(
    root: Path, open_files: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert paths(open_files(root), "app") == ["src/app.py", "tests/test_app.py"]


def test_a_link_to_an_unreadable_folder_is_listed_as_a_file(root: Path, open_files: Opened) -> None:
    (root / "src" / "odd link").symlink_to("x" * 300)
    assert paths(open_files(root), "odd link") == ["src/odd link"]
