"""Instruction files: which are found, in which order, and how they are truncated."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.context.instructions import (
    LARGEST_FILE,
    LARGEST_SUM,
    Instructions,
    find_instructions,
    instructions_for,
    system_prompt,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def write(folder: Path, text: str | bytes, name: str = "AGENTS.md") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def sections(instructions: Instructions) -> list[tuple[str, str]]:
    return [(source.path, source.text) for source in instructions.sources]


def only_problem(instructions: Instructions, path: Path) -> str:
    (problem,) = instructions.problems
    assert problem.startswith(f"{path}: ") and "\n" not in problem
    return problem.removeprefix(f"{path}: ")


def test_user_files_come_first_and_the_nearest_last(tmp_path: Path, root: Path) -> None:
    users = [tmp_path / "shared", tmp_path / "own"]
    cwd = root / "a" / "b"
    places = [*users, root, cwd]
    paths = [write(folder, f"from {number}\n") for number, folder in enumerate(places)]
    write(tmp_path, "above the project")
    write(cwd / "c", "below")
    instructions_found = find_instructions(cwd, root, users)
    assert sections(instructions_found) == [
        (str(path), f"from {number}") for number, path in enumerate(paths)
    ]
    assert instructions_found.problems == ()
    headings = [line for line in instructions_found.text.splitlines() if line.startswith("#")]
    assert headings == [f"# Instructions from {path}" for path in paths]


def test_a_folder_without_instructions_adds_nothing(root: Path) -> None:
    write(root, " \n\n")
    assert find_instructions(root, root, [root / "absent"]) == Instructions()
    assert Instructions().text == ""


def test_claude_md_counts_where_there_is_no_agents_md(root: Path) -> None:
    write(root, "not this", "CLAUDE.md")
    write(root, "this")
    write(root / "a", "and this", "CLAUDE.md")
    assert [text for _, text in sections(find_instructions(root / "a", root))] == ["this", "and this"]


def test_a_source_has_the_size_and_digest_of_its_file(root: Path) -> None:
    path = write(root, "\ufeffone\r\ntwo\rthree\n")
    (before,) = find_instructions(root, root).sources
    assert (before.text, before.size) == ("one\ntwo\nthree", path.stat().st_size)
    path.write_text("one\ntwo\nthree")
    (after,) = find_instructions(root, root).sources
    assert after.text == before.text and after.digest != before.digest
    assert find_instructions(root, root).sources == (after,)


def test_imports_are_not_followed(root: Path) -> None:
    write(root, "secret", "other.md")
    write(root, "@other.md\n")
    assert [text for _, text in sections(find_instructions(root, root))] == ["@other.md"]


def test_a_link_out_of_the_project_is_refused_but_the_users_own_may_lead_anywhere(
    tmp_path: Path, root: Path
) -> None:
    outside = write(tmp_path / "elsewhere", "mine", "rules.md")
    link = root / "AGENTS.md"
    link.symlink_to(outside)
    write(root, "no substitute", "CLAUDE.md")
    refused = find_instructions(root, root)
    assert refused.sources == ()
    assert only_problem(refused, link) == (
        "it is a link to a file outside the project; the model does not get it"
    )
    assert [text for _, text in sections(find_instructions(tmp_path, tmp_path, [root]))] == ["mine"]


def test_a_file_with_two_names_is_included_once(root: Path) -> None:
    path = write(root, "once")
    (root / "a").mkdir()
    (root / "a" / "AGENTS.md").symlink_to(path)
    assert sections(find_instructions(root / "a", root, [root])) == [(str(path), "once")]


@pytest.mark.parametrize("kind", ["folder", "pipe", "binary", "circle"])
def test_files_that_are_not_text_are_omitted_and_reported(kind: str, root: Path) -> None:
    path = root / "AGENTS.md"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "binary":
            path.write_bytes(b"GIF89a\0\0")
        case "circle":
            path.symlink_to(path)
    instructions_found = find_instructions(root, root)
    assert instructions_found.sources == ()
    assert only_problem(instructions_found, path).endswith("; the model does not get it")


def test_bytes_that_are_not_text_are_reported(root: Path) -> None:
    path = write(root, b"caf\xe9 au lait")
    instructions_found = find_instructions(root, root)
    assert sections(instructions_found) == [(str(path), "caf\ufffd au lait")]
    assert only_problem(instructions_found, path).startswith("it is not valid UTF-8")


def test_a_long_file_is_cut_between_lines_with_a_notice(root: Path) -> None:
    lines = "".join(f"rule {number} é\n" for number in range(20_000))
    path = write(root, lines)
    instructions_found = find_instructions(root, root)
    (source,) = instructions_found.sources
    text, _, note = source.text.rpartition("\n\n")
    assert LARGEST_FILE - 20 < len(text.encode()) <= LARGEST_FILE
    assert lines.startswith(text + "\n")
    assert note == f"[truncated: 64.0 KiB of {path.stat().st_size / 1024:.1f} KiB; read {path} for all of it]"
    assert only_problem(instructions_found, path).startswith("it is too long: the model gets 64.0 KiB of ")


def test_when_all_together_are_too_long_the_nearest_have_room_first(root: Path) -> None:
    line = "x" * 99 + "\n"
    paths = [write(root / folder, line * 600) for folder in ("", "a", "a/b")]
    instructions_found = find_instructions(root / "a" / "b", root)
    lengths = [len(source.text) for source in instructions_found.sources]
    assert lengths[1:] == [600 * 100 - 1] * 2
    assert sum(lengths) < LARGEST_SUM + 200 + len(str(root))
    assert only_problem(instructions_found, paths[0]).startswith("it is too long")


@given(st.binary(max_size=300), st.integers(0, 4))
def test_any_bytes_give_text_and_the_same_text_again(content: bytes, repeated: int) -> None:
    with TemporaryDirectory() as name:
        root = Path(name).resolve()
        write(root, content * 10**repeated)
        instructions_found = find_instructions(root, root)
        assert find_instructions(root, root) == instructions_found
        assert len(instructions_found.text.encode()) < LARGEST_FILE + 1000


def test_a_nested_file_is_added_when_a_call_touches_its_folder(root: Path) -> None:
    write(root, "known from the start")
    path = write(root / "a" / "b", "for b")
    write(root / "c", "for c")
    for touched in ("a/b", "a/b/file.py", "a/b/deep/new.py"):
        assert sections(instructions_for(root / touched, root, root, {})) == [(str(path), "for b")]
    for touched in (".", "a", "x.py", "a/x.py", "../elsewhere/c/x.py", "/"):
        assert sections(instructions_for((root / touched).resolve(), root, root, {})) == []


def test_a_folder_beside_the_working_directory_counts_if_it_is_of_the_project(root: Path) -> None:
    cwd = root / "here"
    write(cwd, "known")
    path = write(root / "there", "for there")
    assert sections(instructions_for(root / "there" / "x", cwd, root, {})) == [(str(path), "for there")]
    assert sections(instructions_for(root / "there" / "x", cwd, cwd, {})) == []


def test_instructions_are_added_again_only_after_a_change(root: Path) -> None:
    path = write(root / "a", "one")
    (source,) = instructions_for(root / "a" / "x", root, root, {}).sources
    digests = {"a/AGENTS.md": source.digest}
    assert instructions_for(root / "a" / "x", root, root, digests) == Instructions()
    path.write_text("two")
    assert sections(instructions_for(root / "a" / "x", root, root, digests)) == [(str(path), "two")]


def test_a_call_on_an_instruction_file_does_not_add_that_file(root: Path) -> None:
    path = write(root / "a", "one")
    assert instructions_for(path, root, root, {}) == Instructions()


def test_the_system_prompt_ends_with_what_changes(root: Path) -> None:
    today = date(2026, 3, 1)
    prompt = system_prompt(root, today, appended=("one", "two"))
    assert prompt.startswith("You are Ostler")
    assert prompt.endswith(f"\n\none\n\ntwo\n\nWorking directory: {root}\nDate: 2026-03-01")
    assert system_prompt(root, today, instead="Be brief.").startswith("Be brief.\n\nWorking")
