from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.schema.outcomes import Failed, Ok
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools.files import compile_glob
from ostler.tools.find import find, ls


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "README.md",
        "src/app.py",
        "src/web/app.ts",
        "src/web/deep/view.tsx",
        "node_modules/x/index.ts",
        ".github/ci.yml",
        ".git/config",
        "debug.log",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / ".gitignore").write_text("node_modules/\n*.log\n")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "lost").symlink_to("x" * 300)  # no system can follow it
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["src/app.py"]),
        ("lost", ["lost"]),
        ("*.{ts,tsx}", ["src/web/app.ts", "src/web/deep/view.tsx"]),
        ("src/*", ["src/app.py", "src/web/"]),
        ("src/**/*.ts*", ["src/web/app.ts", "src/web/deep/view.tsx"]),
        ("**/deep", ["src/web/deep/"]),
        ("deep/", ["src/web/deep/"]),
        ("README.md/", []),
        (".*", [".github/", ".gitignore"]),
        ("*.yml", [".github/ci.yml"]),
        ("[Rr]eadme.md", []),
        ("R[A-E]ADME.md", ["README.md"]),
        ("app.?s", ["src/web/app.ts"]),
        ("*.log", []),
        ("config", []),
        ("loop", ["loop"]),
    ],
)
async def test_a_glob_matches_like_git(tree: Path, pattern: str, found: list[str]) -> None:
    outcome = await run_tool(find, {"pattern": pattern}, FakeToolContext(tree))
    assert result_text(outcome) == ("\n".join(found) or "(nothing found)")


async def test_results_can_be_used_as_paths(tree: Path) -> None:
    outcome = await run_tool(find, {"pattern": "*.ts", "path": "src/web"}, FakeToolContext(tree))
    assert result_text(outcome) == "src/web/app.ts"


async def test_the_limit_of_results_is_applied_with_a_note(tree: Path) -> None:
    outcome = await run_tool(find, {"pattern": "*.{ts,tsx,py}", "limit": 2}, FakeToolContext(tree))
    assert result_text(outcome).splitlines() == [
        "src/app.py",
        "src/web/app.ts",
        "[the first 2 of 3: narrow pattern or path, or raise limit]",
    ]
    assert isinstance(outcome, Ok) and outcome.details
    assert (outcome.details["found"], outcome.details["truncated"]) == (3, True)


@pytest.mark.parametrize(("path", "word"), [("nope", "no such"), ("README.md", "not a directory")])
async def test_find_needs_a_directory(tree: Path, path: str, word: str) -> None:
    outcome = await run_tool(find, {"pattern": "*", "path": path}, FakeToolContext(tree))
    assert isinstance(outcome, Failed)
    assert word in result_text(outcome)


async def test_an_invalid_glob_is_a_clear_failure(tree: Path) -> None:
    outcome = await run_tool(find, {"pattern": "[z-a]"}, FakeToolContext(tree))
    assert isinstance(outcome, Failed)
    assert result_text(outcome).startswith("invalid glob '[z-a]'")


@given(st.text("ab.*?[]{},!-\\/", max_size=12), st.text("ab./", max_size=8))
def test_every_valid_glob_matches_whole_paths_or_nothing(glob: str, path: str) -> None:
    try:
        compiled = compile_glob(glob)
    except re.error:
        return
    match = compiled.fullmatch(path)
    assert match is None or match.group() == path


@given(st.text("ab.+(^$|)é ", min_size=1, max_size=8))
def test_a_glob_without_wildcards_matches_exactly_itself(name: str) -> None:
    assert compile_glob(name).fullmatch(name)
    assert compile_glob(name).fullmatch(f"deep/er/{name}")
    assert not compile_glob(name).fullmatch(name + "x")


async def test_a_directory_is_listed_with_kinds_and_sizes(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("x" * 2048)
    (tmp_path / "A.txt").touch()
    (tmp_path / "c").mkdir()
    (tmp_path / ".dot").touch()
    (tmp_path / "link").symlink_to("c")
    (tmp_path / "broken").symlink_to("nowhere")
    outcome = await run_tool(ls, {}, FakeToolContext(tmp_path))
    assert result_text(outcome).splitlines() == [
        ".dot  0 B",
        "A.txt  0 B",
        "b.txt  2.0 KiB",
        "broken@",
        "c/",
        "link@",
    ]


async def test_a_long_listing_is_truncated_with_a_note(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"f{number}").touch()
    outcome = await run_tool(ls, {"limit": 5}, FakeToolContext(tmp_path))
    assert result_text(outcome).splitlines()[4:] == [
        "f4  0 B",
        "[the first 5 of 7 entries: raise limit, or use find with a pattern]",
    ]


async def test_an_empty_directory_returns_a_note(tmp_path: Path) -> None:
    assert result_text(await run_tool(ls, {}, FakeToolContext(tmp_path))) == "(empty directory)"


async def test_a_file_points_to_read(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert (
        result_text(await run_tool(ls, {"path": "f"}, FakeToolContext(tmp_path)))
        == "f is a file: use read to see it"
    )


async def test_a_missing_directory_is_a_clear_failure(tmp_path: Path) -> None:
    outcome = await run_tool(ls, {"path": "nope"}, FakeToolContext(tmp_path))
    assert result_text(outcome) == "nope: no such file or directory"


async def test_a_file_name_that_is_not_utf8_is_returned(tmp_path: Path) -> None:
    (tmp_path / "bad\udcff.txt").touch()
    assert result_text(await run_tool(ls, {}, FakeToolContext(tmp_path))) == "bad?.txt  0 B"
    assert result_text(await run_tool(find, {"pattern": "*.txt"}, FakeToolContext(tmp_path))) == "bad?.txt"
