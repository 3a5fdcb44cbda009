from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ostler.core.tool import ToolSpec
from ostler.schema.messages import File, Image
from ostler.schema.outcomes import Failed, Ok
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools import read as read_module
from ostler.tools.read import MAX_IMAGE, read


@contextmanager
def not_as_root() -> Iterator[None]:
    """Root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def test_some_lines_of_a_file_come_with_their_numbers(context: FakeToolContext) -> None:
    (context.cwd / "five.txt").write_text("1\n2\n3\n4\n5\n")
    outcome = await run_tool(read, {"path": "five.txt", "offset": 2, "limit": 2}, context)
    assert result_text(outcome) == "2\t2\n3\t3\n[lines 2-3 of 5; use offset=4 to continue]"
    assert isinstance(outcome, Ok) and outcome.details is not None
    assert outcome.details | {"digest": ""} == {
        "path": "five.txt",
        "start_line": 2,
        "end_line": 3,
        "total_lines": 5,
        "truncated": True,
        "digest": "",
    }


async def test_a_whole_file_has_no_note(context: FakeToolContext) -> None:
    (context.cwd / "a").write_text("one\ntwo")
    outcome = await run_tool(read, {"path": "a"}, context)
    assert result_text(outcome) == "1\tone\n2\ttwo"
    assert isinstance(outcome, Ok) and outcome.details and outcome.details["truncated"] is False


async def test_every_part_of_a_large_file_can_be_reached(context: FakeToolContext) -> None:
    (context.cwd / "large").write_text("".join(f"line {n}\n" for n in range(1, 200_001)))
    text = result_text(await run_tool(read, {"path": "large", "offset": 199_999}, context))
    assert text == "199999\tline 199999\n200000\tline 200000"
    first = result_text(await run_tool(read, {"path": "large"}, context))
    assert first.endswith("2000\tline 2000\n[lines 1-2000 of 200000; use offset=2001 to continue]")


async def test_following_the_hints_shows_the_whole_file_once(context: FakeToolContext) -> None:
    lines = [f"{n} " + "é" * (n % 97) for n in range(1, 3001)]
    (context.cwd / "f").write_text("\n".join(lines))
    chunks: list[str] = []
    offset = 1
    while True:
        outcome = await run_tool(read, {"path": "f", "offset": offset}, context)
        assert isinstance(outcome, Ok) and outcome.details
        rows = result_text(outcome).split("\n")
        chunks += [row.partition("\t")[2] for row in rows if not row.startswith("[")]
        assert len(result_text(outcome).encode()) <= 50 * 1024
        if not outcome.details["truncated"]:
            break
        offset = outcome.details["end_line"] + 1
    assert chunks == lines


async def test_an_offset_past_the_end_is_a_notice_and_no_failure(context: FakeToolContext) -> None:
    (context.cwd / "f").write_text("1\n2\n")
    outcome = await run_tool(read, {"path": "f", "offset": 10}, context)
    assert isinstance(outcome, Ok)
    assert result_text(outcome) == "[there are only 2 lines: offset 10 is past the end]"


async def test_an_empty_file_returns_a_note(context: FakeToolContext) -> None:
    (context.cwd / "f").touch()
    assert result_text(await run_tool(read, {"path": "f"}, context)) == "(empty file)"


async def test_a_file_too_large_to_hash_is_read_only_as_far_as_needed(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_module, "MAX_DIGESTED", 1000)
    (context.cwd / "huge").write_text("line\n" * 500_000)
    outcome = await run_tool(read, {"path": "huge", "limit": 3}, context)
    assert result_text(outcome).endswith("3\tline\n[lines 1-3; more follow; use offset=4 to continue]")
    assert isinstance(outcome, Ok) and outcome.details
    assert outcome.details["total_lines"] is None
    assert outcome.details["digest"].startswith("2500000@")
    last = await run_tool(read, {"path": "huge", "offset": 500_000}, context)
    assert result_text(last) == "500000\tline"


async def test_long_lines_are_cut(context: FakeToolContext) -> None:
    (context.cwd / "f").write_text("é" * 2500 + "\nshort\n")
    assert result_text(await run_tool(read, {"path": "f"}, context)) == (
        "1\t" + "é" * 2000 + "… [+500 characters; use offset=1, column=2001 for the rest]\n2\tshort"
    )
    second = await run_tool(read, {"path": "f", "offset": 1, "column": 2001}, context)
    assert result_text(second) == "1\t" + "é" * 500 + "\n2\tshort"


@pytest.mark.parametrize("path", ["f", "blob:out_call_1"])
async def test_every_part_of_a_very_long_line_can_be_reached(context: FakeToolContext, path: str) -> None:
    line = "".join(f"{n} ü" for n in range(40_000))
    text = f"before\n{line}\nafter\n"
    (context.cwd / "f").write_text(text)
    context.blobs["out_call_1"] = text.encode()
    chunks, column, calls = "", 1, 0
    while column:
        outcome = await run_tool(read, {"path": path, "offset": 2, "column": column}, context)
        assert isinstance(outcome, Ok) and outcome.details
        assert len(result_text(outcome).encode()) <= 50 * 1024
        shown, _, hint = result_text(outcome).split("\n")[0].partition("\t")[2].partition("…")
        assert outcome.details["truncated"] == bool(hint)
        chunks += shown
        calls += 1
        column = int(hint.partition("column=")[2].split()[0]) if hint else 0
    assert chunks == line
    assert calls <= 10
    assert result_text(outcome).endswith("\n3\tafter")


async def test_a_column_past_the_end_of_its_line_is_a_notice(context: FakeToolContext) -> None:
    (context.cwd / "f").write_text("one\ntwo\n")
    outcome = await run_tool(read, {"path": "f", "offset": 1, "column": 9}, context)
    assert result_text(outcome) == "1\t\n2\ttwo\n[line 1 has only 3 characters: column 9 is past its end]"


async def test_byte_order_marks_and_carriage_returns_are_dropped(context: FakeToolContext) -> None:
    (context.cwd / "f").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert result_text(await run_tool(read, {"path": "f"}, context)) == "1\tone\n2\ttwo"


async def test_invalid_utf8_is_replaced_with_a_note(context: FakeToolContext) -> None:
    (context.cwd / "f").write_bytes(b"caf\xe9\n")
    text = result_text(await run_tool(read, {"path": "f"}, context))
    assert text.startswith("1\tcaf\ufffd\n[not valid UTF-8")


async def test_a_directory_points_to_ls(context: FakeToolContext) -> None:
    outcome = await run_tool(read, {"path": "."}, context)
    assert isinstance(outcome, Failed)
    assert result_text(outcome) == ". is a directory: use ls to list it"


async def test_a_binary_file_is_refused_with_its_kind_and_size(context: FakeToolContext) -> None:
    (context.cwd / "prog").write_bytes(b"\x7fELF" + b"\0" * 2044)
    outcome = await run_tool(read, {"path": "prog"}, context)
    assert isinstance(outcome, Failed)
    assert "binary (ELF executable or library, 2.0 KiB)" in result_text(outcome)


async def test_a_nul_after_the_first_eight_kibibytes_does_not_make_a_file_binary(
    context: FakeToolContext,
) -> None:
    (context.cwd / "f").write_bytes(b"x" * 8191 + b"\n\0tail\n")
    assert isinstance(await run_tool(read, {"path": "f", "offset": 2}, context), Ok)
    (context.cwd / "f").write_bytes(b"x" * 8191 + b"\0")
    assert isinstance(await run_tool(read, {"path": "f"}, context), Failed)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89arest", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_pictures_are_known_by_their_content(
    context: FakeToolContext, content: bytes, media_type: str
) -> None:
    (context.cwd / "picture.txt").write_bytes(content)
    outcome = await run_tool(read, {"path": "picture.txt"}, context)
    assert isinstance(outcome, Ok)
    assert outcome.content[1] == Image(media_type, data=base64.b64encode(content).decode())


async def test_text_named_like_a_picture_is_read_as_text(context: FakeToolContext) -> None:
    (context.cwd / "a.png").write_text("not a picture\n")
    assert result_text(await run_tool(read, {"path": "a.png"}, context)) == "1\tnot a picture"


async def test_a_picture_of_an_unsupported_type_is_refused(context: FakeToolContext) -> None:
    with (context.cwd / "a.png").open("wb") as file:
        file.write(PNG)
        file.truncate(MAX_IMAGE + 1)
    outcome = await run_tool(read, {"path": "a.png"}, context)
    assert isinstance(outcome, Failed)
    assert "too large to show (image/png, 3.8 MiB" in result_text(outcome)


async def test_a_pdf_is_attached_as_a_file(context: FakeToolContext) -> None:
    (context.cwd / "a.pdf").write_bytes(b"%PDF-1.7\nrest")
    outcome = await run_tool(read, {"path": "a.pdf"}, context)
    assert isinstance(outcome, Ok)
    data = base64.b64encode(b"%PDF-1.7\nrest").decode()
    assert outcome.content[1] == File("application/pdf", name="a.pdf", data=data)


async def test_a_stored_output_is_read_like_a_file(context: FakeToolContext) -> None:
    context.blobs["out_call_1"] = "".join(f"row {n}\n" for n in range(1, 100_001)).encode()
    outcome = await run_tool(read, {"path": "blob:out_call_1", "offset": 70_000, "limit": 1}, context)
    assert (
        result_text(outcome)
        == "70000\trow 70000\n[lines 70000-70000 of 100000; use offset=70001 to continue]"
    )


async def test_an_unknown_blob_is_a_clear_failure(context: FakeToolContext) -> None:
    outcome = await run_tool(read, {"path": "blob:nope"}, context)
    assert isinstance(outcome, Failed)
    assert result_text(outcome) == "blob:nope: there is no stored output with that id"


async def test_a_missing_file_is_named_with_those_that_look_like_it(context: FakeToolContext) -> None:
    (context.cwd / "config.toml").touch()
    outcome = await run_tool(read, {"path": "confg.toml"}, context)
    assert isinstance(outcome, Failed)
    assert result_text(outcome) == "confg.toml: no such file or directory; did you mean config.toml?"


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("x" * 300, "too long"),
        ("f/below", "not a directory"),
        ("~nobody-here/x", "home"),
    ],
)
async def test_impossible_paths_fail_in_one_line(context: FakeToolContext, path: str, word: str) -> None:
    (context.cwd / "f").touch()
    outcome = await run_tool(read, {"path": path}, context)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "tool_failed"
    assert word in result_text(outcome)
    assert "\n" not in result_text(outcome)
    assert "Error" not in result_text(outcome)


async def test_links_in_a_circle_fail_in_one_line(context: FakeToolContext) -> None:
    (context.cwd / "a").symlink_to("b")
    (context.cwd / "b").symlink_to("a")
    outcome = await run_tool(read, {"path": "a"}, context)
    assert isinstance(outcome, Failed)
    assert "\n" not in result_text(outcome)


async def test_a_pipe_is_refused_and_not_waited_for(context: FakeToolContext) -> None:
    os.mkfifo(context.cwd / "pipe")
    outcome = await run_tool(read, {"path": "pipe"}, context)
    assert isinstance(outcome, Failed)
    assert "not a regular file" in result_text(outcome)


async def test_a_file_that_may_not_be_read_is_a_clear_failure(context: FakeToolContext) -> None:
    (context.cwd / "f").touch(mode=0)
    with not_as_root():
        outcome = await run_tool(read, {"path": "f"}, context)
    assert result_text(outcome) == "f: permission denied"


async def test_home_is_expanded(
    context: FakeToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "in-home").write_text("yes")
    assert result_text(await run_tool(read, {"path": "~/in-home"}, context)) == "1\tyes"


async def test_invalid_arguments_are_reported(context: FakeToolContext) -> None:
    outcome = await run_tool(read, {"path": "f", "limit": 0}, context)
    assert isinstance(outcome, Failed)
    assert outcome.kind == "invalid_arguments"
    assert "limit" in result_text(outcome)


def test_read_is_a_parallel_tool() -> None:
    spec: ToolSpec = read.spec
    assert (spec.kind, spec.parallel) == ("read", True)
    assert set(spec.schema["properties"]) == {"path", "offset", "limit", "column"}
