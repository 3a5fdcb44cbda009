from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.core.processes import start_time
from ostler.schema.errors import ToolFailed
from ostler.schema.outcomes import Failed, Ok
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools.grep import GrepTool
from ostler.tools.grep_engines import SearchRequest, ripgrep, search_in_child

PYTHON = GrepTool(lambda: None)
RIPGREP = GrepTool(ripgrep)

needs_ripgrep = pytest.mark.skipif(ripgrep() is None, reason="no ripgrep; `make .venv/.dev` installs it")
engines = pytest.mark.parametrize(
    "grep", [pytest.param(PYTHON, id="python"), pytest.param(RIPGREP, id="ripgrep", marks=needs_ripgrep)]
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with everything that engines could see differently."""
    files: dict[str, bytes] = {
        "b.py": b"import os\nfoo = 1\nbar = 2\n\n\nprint(foo)\n",
        "a.txt": b"Foo and foo\nnothing\nlast foo",
        "a/deep/x.py": b"def foo():\n    return 'foo'\n",
        "a-b/y.py": b"foo\n",
        "a.d/z.py": b"foo\n",
        "crlf.txt": b"one foo\r\nfoo\r\ntwo\r\n",
        "bom.txt": b"\xef\xbb\xbffoo first\n",
        "utf16.txt": "foo sixteen\n".encode("utf-16"),
        "latin.txt": b"caf\xe9 foo\n",
        "long.txt": b"x" * 9000 + b"foo\n" + "é".encode() * 9000 + b"foo\n" + b"foo\n",
        "binary.dat": b"foo\n\0\0foo\n",
        "late-binary.dat": b"foo\n" + b"filler\n" * 20_000 + b"\0\nfoo\n",
        "ignored.log": b"foo\n",
        "build/out.py": b"foo\n",
        "kept.log": b"foo\n",
        ".hidden/h.py": b"foo\n",
        ".hidden.py": b"foo\n",
        ".git/config": b"foo\n",
        "odd name:1:.txt": b"foo\n",
        "[b]racket.txt": b"a [foo] b\na.b\n",
        ".gitignore": b"*.log\n!kept.log\nbuild/\n",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "link.py").symlink_to("b.py")
    return tmp_path


@needs_ripgrep
@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "foo"},
        {"pattern": "FOO", "ignore_case": True},
        {"pattern": "^foo"},
        {"pattern": "foo$"},
        {"pattern": r"foo\(\)|return"},
        {"pattern": "[foo]", "literal": True},
        {"pattern": "a.b", "literal": True},
        {"pattern": "foo", "context": 1},
        {"pattern": "foo", "context": 2, "limit": 3},
        {"pattern": "foo", "limit": 4},
        {"pattern": "foo", "glob": "*.py"},
        {"pattern": "foo", "glob": "a/**/*.py"},
        {"pattern": "foo", "glob": "!*.py"},
        {"pattern": "foo", "glob": "*.{txt,log}"},
        {"pattern": "foo", "path": "a"},
        {"pattern": "foo", "path": "a.txt", "context": 1},
        {"pattern": "foo", "path": ".hidden"},
        {"pattern": "foo", "path": "ignored.log"},
        {"pattern": "not there"},
        {"pattern": ".", "limit": 5000},
        {"pattern": "-v"},
        {"pattern": "é"},
    ],
    ids=str,
)
async def test_the_engines_agree(tree: Path, arguments: dict[str, Any]) -> None:
    by_python = await run_tool(PYTHON, arguments, FakeToolContext(tree))
    by_ripgrep = await run_tool(RIPGREP, arguments, FakeToolContext(tree))
    assert result_text(by_python) == result_text(by_ripgrep)
    assert isinstance(by_python, Ok) and isinstance(by_ripgrep, Ok)
    assert by_python.details and by_ripgrep.details
    assert by_python.details | {"engine": ""} == by_ripgrep.details | {"engine": ""}
    assert (by_python.details["engine"], by_ripgrep.details["engine"]) == ("python", "ripgrep")


@engines
async def test_matches_come_in_order_of_their_paths(tree: Path, grep: GrepTool) -> None:
    outcome = await run_tool(grep, {"pattern": "foo", "glob": "*.py"}, FakeToolContext(tree))
    assert result_text(outcome).splitlines() == [
        ".hidden.py:1:foo",
        "a/deep/x.py:1:def foo():",
        "a/deep/x.py:2:    return 'foo'",
        "a-b/y.py:1:foo",
        "a.d/z.py:1:foo",
        "b.py:2:foo = 1",
        "b.py:6:print(foo)",
    ]
    assert isinstance(outcome, Ok) and outcome.details
    assert (outcome.details["matches"], outcome.details["files"]) == (7, 5)


@engines
async def test_ignored_hidden_and_binary_files_are_left_out(tree: Path, grep: GrepTool) -> None:
    text = result_text(await run_tool(grep, {"pattern": "foo"}, FakeToolContext(tree)))
    for name in ("ignored.log", "build/", ".hidden", ".git", "link.py", "\nbinary.dat"):
        assert name not in text
    assert "kept.log:1:foo" in text


@engines
async def test_context_lines_are_shown_and_groups_separated(tree: Path, grep: GrepTool) -> None:
    outcome = await run_tool(grep, {"pattern": "foo", "path": "b.py", "context": 1}, FakeToolContext(tree))
    assert result_text(outcome).split("\n") == [
        "b.py-1-import os",
        "b.py:2:foo = 1",
        "b.py-3-bar = 2",
        "--",
        "b.py-5-",
        "b.py:6:print(foo)",
    ]


@engines
async def test_the_limit_is_applied_with_a_note(tree: Path, grep: GrepTool) -> None:
    outcome = await run_tool(grep, {"pattern": "foo", "limit": 2, "context": 1}, FakeToolContext(tree))
    rows = result_text(outcome).splitlines()
    assert [row for row in rows[:-1] if ":" in row] == [
        "[b]racket.txt:1:a [foo] b",
        "a/deep/x.py:1:def foo():",
    ]
    assert rows[-1].startswith("[the first 2 matches of more")
    assert isinstance(outcome, Ok) and outcome.details and outcome.details["truncated"]


@engines
async def test_context_lines_of_a_match_beyond_the_limit_are_dropped(tmp_path: Path, grep: GrepTool) -> None:
    (tmp_path / "f").write_text("foo\na\nb\nc\nfoo\n")
    outcome = await run_tool(grep, {"pattern": "foo", "limit": 1, "context": 1}, FakeToolContext(tmp_path))
    assert result_text(outcome).splitlines()[:-1] == ["f:1:foo", "f-2-a"]


@engines
async def test_exactly_as_many_matches_as_the_limit_are_all_of_them(tree: Path, grep: GrepTool) -> None:
    outcome = await run_tool(grep, {"pattern": "foo", "path": "b.py", "limit": 2}, FakeToolContext(tree))
    assert "more" not in result_text(outcome)
    assert isinstance(outcome, Ok) and outcome.details and not outcome.details["truncated"]


@engines
async def test_long_lines_and_long_results_are_cut(tmp_path: Path, grep: GrepTool) -> None:
    (tmp_path / "f").write_text(("é" * 3000 + "\n") * 200)
    text = result_text(await run_tool(grep, {"pattern": "é", "limit": 200}, FakeToolContext(tmp_path)))
    rows = text.splitlines()
    assert rows[0].startswith("f:1:" + "é" * 500 + "… [cut]")
    assert rows[-1].startswith("[cut at 50 KiB")
    assert len(text.encode()) <= 50 * 1024


@engines
async def test_no_results_is_not_a_failure(tree: Path, grep: GrepTool) -> None:
    outcome = await run_tool(grep, {"pattern": "absent"}, FakeToolContext(tree))
    assert isinstance(outcome, Ok)
    assert result_text(outcome) == "(no matches)"


@engines
async def test_a_bad_pattern_is_explained_in_one_line(tree: Path, grep: GrepTool) -> None:
    outcome = await run_tool(grep, {"pattern": "foo("}, FakeToolContext(tree))
    assert isinstance(outcome, Failed)
    assert "\n" not in result_text(outcome)
    assert any(word in result_text(outcome) for word in ("unclosed", "unterminated"))


@engines
async def test_a_bad_glob_is_explained_in_one_line(tree: Path, grep: GrepTool) -> None:
    outcome = await run_tool(grep, {"pattern": "foo", "glob": "["}, FakeToolContext(tree))
    assert isinstance(outcome, Failed)
    assert "unclosed character class" in result_text(outcome)


@engines
async def test_a_path_outside_the_working_directory_is_absolute(
    tree: Path, grep: GrepTool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    context = FakeToolContext(tmp_path_factory.mktemp("elsewhere"))
    outcome = await run_tool(grep, {"pattern": "foo = 1", "path": str(tree)}, context)
    assert result_text(outcome) == f"{tree}/b.py:2:foo = 1"


@engines
async def test_a_missing_path_is_a_clear_failure(tree: Path, grep: GrepTool) -> None:
    outcome = await run_tool(grep, {"pattern": "foo", "path": "nope"}, FakeToolContext(tree))
    assert result_text(outcome) == "nope: no such file or directory"


@engines
async def test_a_pattern_cannot_span_lines(tree: Path, grep: GrepTool) -> None:
    outcome = await run_tool(grep, {"pattern": "a\nb"}, FakeToolContext(tree))
    assert isinstance(outcome, Failed)
    assert "line by line" in result_text(outcome)


@needs_ripgrep
async def test_ripgrep_dies_with_its_call(tmp_path: Path) -> None:
    class StoppingContext(FakeToolContext):
        async def own_process(self, process: Any) -> None:
            await super().own_process(process)
            raise asyncio.CancelledError

    context = StoppingContext(tmp_path)
    (tmp_path / "large").write_text("foo bar\n" * 500_000)
    with pytest.raises(asyncio.CancelledError):
        await run_tool(RIPGREP, {"pattern": "(a|b)+r$"}, context)
    assert start_time(context.processes[0].pid) == ""


async def test_a_search_in_python_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "large").write_text("foo bar\n" * 3_000_000)
    task = asyncio.create_task(run_tool(PYTHON, {"pattern": "absent"}, FakeToolContext(tmp_path)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(2):
        await asyncio.get_running_loop().shutdown_default_executor()


async def test_a_pattern_that_takes_forever_is_ended(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 60 + "b\n")
    request = SearchRequest(pattern="(a+)+$", root=tmp_path)
    with pytest.raises(ToolFailed, match=r"took longer than 0\.3 s: use a simpler pattern"):
        await search_in_child(request, FakeToolContext(tmp_path), time_limit=0.3)


async def test_nothing_is_imported_from_the_searched_folder(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('found')\n")
    (tmp_path / "ostler").mkdir()
    (tmp_path / "ostler" / "__init__.py").write_text("raise SystemExit('found')\n")
    outcome = await run_tool(PYTHON, {"pattern": "f.*d", "glob": "*.py"}, FakeToolContext(tmp_path))
    assert result_text(outcome) == (
        "msgspec.py:1:raise SystemExit('found')\nostler/__init__.py:1:raise SystemExit('found')"
    )


async def test_a_long_line_is_searched_quickly_for_anything_before_a_word(tmp_path: Path) -> None:
    (tmp_path / "bundle.js").write_text("x" * 900_000 + "\n" + "y" * 300 + "foo\n")
    request = SearchRequest(pattern=".*foo", root=tmp_path)
    result = await search_in_child(request, FakeToolContext(tmp_path), time_limit=30)
    assert [line.number for line in result.lines] == [2]
