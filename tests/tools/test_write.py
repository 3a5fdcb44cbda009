from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ostler.schema.outcomes import Failed, Ok
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools import files
from ostler.tools import read as read_module
from ostler.tools.read import read
from ostler.tools.write import write


async def test_a_new_file_is_written_with_its_directories(context: FakeToolContext) -> None:
    outcome = await run_tool(write, {"path": "sub/dir/a.txt", "content": "one\ntwö"}, context)
    assert result_text(outcome) == "wrote 8 bytes (2 lines) to sub/dir/a.txt"
    assert (context.cwd / "sub/dir/a.txt").read_text() == "one\ntwö"
    assert isinstance(outcome, Ok) and outcome.details
    assert outcome.details["created"] is True
    assert outcome.details["lines"] == 2
    assert outcome.details["diff"] == (
        "--- /dev/null\n+++ sub/dir/a.txt\n@@ -0,0 +1,2 @@\n+one\n+twö\n\\ No newline at end of file\n"
    )


async def test_a_file_that_was_never_read_is_not_overwritten(context: FakeToolContext) -> None:
    (context.cwd / "a").write_text("precious")
    outcome = await run_tool(write, {"path": "a", "content": "new"}, context)
    assert isinstance(outcome, Failed)
    assert "read it first" in result_text(outcome)
    assert (context.cwd / "a").read_text() == "precious"


async def test_a_file_that_was_read_is_overwritten_and_the_details_have_the_diff(
    context: FakeToolContext,
) -> None:
    (context.cwd / "a").write_text("one\ntwo\n")
    await run_tool(read, {"path": "a", "limit": 1}, context)
    outcome = await run_tool(write, {"path": "a", "content": "one\nTWO\n"}, context)
    assert isinstance(outcome, Ok) and outcome.details
    assert outcome.details["created"] is False
    assert outcome.details["diff"] == "--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"
    assert (context.cwd / "a").read_text() == "one\nTWO\n"


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(context: FakeToolContext) -> None:
    (context.cwd / "a").write_text("one")
    await run_tool(read, {"path": "a"}, context)
    (context.cwd / "a").write_text("somebody's work")
    outcome = await run_tool(write, {"path": "a", "content": "new"}, context)
    assert isinstance(outcome, Failed)
    assert "changed since" in result_text(outcome)
    assert (context.cwd / "a").read_text() == "somebody's work"


@pytest.mark.parametrize(("old", "new"), [(b"\0\1", "text"), (b"old", "x" * (2 * 1024 * 1024 + 1))])
async def test_a_binary_or_very_large_file_is_overwritten_without_a_diff(
    context: FakeToolContext, old: bytes, new: str
) -> None:
    file = context.cwd / "a"
    file.write_bytes(old)
    files.remember(context.memory, file, files.digest_of(old))
    outcome = await run_tool(write, {"path": "a", "content": new}, context)
    assert isinstance(outcome, Ok) and outcome.details
    assert (outcome.details["diff"], outcome.details["diff_truncated"]) == ("", True)
    assert file.read_text() == new


async def test_touching_a_file_does_not_make_it_changed(context: FakeToolContext) -> None:
    (context.cwd / "a").write_text("one")
    await run_tool(read, {"path": "a"}, context)
    os.utime(context.cwd / "a", (1, 1))
    assert isinstance(await run_tool(write, {"path": "a", "content": "two"}, context), Ok)


async def test_a_written_file_counts_as_read(context: FakeToolContext) -> None:
    await run_tool(write, {"path": "a", "content": "one"}, context)
    assert isinstance(await run_tool(write, {"path": "a", "content": "two"}, context), Ok)


async def test_a_reopened_session_knows_the_digests_of_files(context: FakeToolContext) -> None:
    (context.cwd / "a").write_text("one")
    (context.cwd / "b").write_text("one")
    await run_tool(read, {"path": "a"}, context)
    await run_tool(read, {"path": "b"}, context)
    later = context.reopened()
    (context.cwd / "b").write_text("changed")
    assert isinstance(await run_tool(write, {"path": "a", "content": "two"}, later), Ok)
    refused = await run_tool(write, {"path": "b", "content": "two"}, later)
    assert "changed since" in result_text(refused)


async def test_the_log_does_not_override_digests_seen_after_reopening(context: FakeToolContext) -> None:
    (context.cwd / "a").write_text("old")
    (context.cwd / "b").write_text("b")
    await run_tool(read, {"path": "a"}, context)
    later = context.reopened()
    (context.cwd / "a").write_text("new")
    await run_tool(read, {"path": "a"}, later)
    later.session_results.pop()  # not committed yet: the last result of a step is appended with its end
    assert "read it first" in result_text(await run_tool(write, {"path": "b", "content": ""}, later))
    assert isinstance(await run_tool(write, {"path": "a", "content": "newer"}, later), Ok)


async def test_a_file_too_large_to_hash_is_known_by_size_and_time(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (files, read_module):
        monkeypatch.setattr(module, "MAX_DIGESTED", 1000)
    large = context.cwd / "large"
    large.write_text("line\n" * 1000)
    await run_tool(read, {"path": "large", "limit": 1}, context)
    os.utime(large, ns=(1, 1))
    assert "changed since" in result_text(await run_tool(write, {"path": "large", "content": "new"}, context))
    await run_tool(read, {"path": "large", "limit": 1}, context)
    assert isinstance(await run_tool(write, {"path": "large", "content": "new"}, context), Ok)


async def test_an_empty_file_needs_no_reading(context: FakeToolContext) -> None:
    (context.cwd / "a").touch()
    assert isinstance(await run_tool(write, {"path": "a", "content": "x"}, context), Ok)


async def test_the_file_mode_stays_and_a_link_is_followed(context: FakeToolContext) -> None:
    target = context.cwd / "script.sh"
    target.write_text("old")
    target.chmod(0o750)
    (context.cwd / "link").symlink_to("script.sh")
    await run_tool(read, {"path": "link"}, context)
    assert isinstance(await run_tool(write, {"path": "link", "content": "new"}, context), Ok)
    assert (context.cwd / "link").is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o750


async def test_a_new_file_gets_the_mode_that_the_umask_gives(context: FakeToolContext) -> None:
    before = os.umask(0o027)
    try:
        await run_tool(write, {"path": "a", "content": "x"}, context)
    finally:
        os.umask(before)
    assert (context.cwd / "a").stat().st_mode & 0o777 == 0o640


async def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (context.cwd / "a").write_text("old")
    await run_tool(read, {"path": "a"}, context)

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    outcome = await run_tool(write, {"path": "a", "content": "new"}, context)
    assert result_text(outcome) == "a: no space left on the device"
    assert [entry.name for entry in context.cwd.iterdir()] == ["a"]
    assert (context.cwd / "a").read_text() == "old"


async def test_a_cancelled_write_has_ended_when_the_call_ends(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    started = asyncio.Event()
    really_sync = os.fsync

    def cancel_in_the_middle(descriptor: int) -> None:
        loop.call_soon_threadsafe(started.set)
        really_sync(descriptor)

    monkeypatch.setattr(os, "fsync", cancel_in_the_middle)
    task = asyncio.create_task(run_tool(write, {"path": "a", "content": "x" * 1_000_000}, context))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [entry.name for entry in context.cwd.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("dir", "is a directory"),
        ("file/below", "not a directory"),
        ("x" * 300, "too long"),
        ("/dev/null", "device"),
    ],
)
async def test_impossible_targets_fail_in_one_line(context: FakeToolContext, path: str, word: str) -> None:
    (context.cwd / "dir").mkdir()
    (context.cwd / "file").touch()
    outcome = await run_tool(write, {"path": path, "content": "x"}, context)
    assert isinstance(outcome, Failed)
    assert word in result_text(outcome)
    assert "\n" not in result_text(outcome)


async def test_a_long_name_that_the_file_system_allows_can_be_written(context: FakeToolContext) -> None:
    name = "n" * 250
    assert isinstance(await run_tool(write, {"path": name, "content": "x"}, context), Ok)
    assert (context.cwd / name).read_text() == "x"


async def test_a_path_outside_the_working_directory_is_absolute(
    context: FakeToolContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere: Path = tmp_path_factory.mktemp("elsewhere") / "a"
    outcome = await run_tool(write, {"path": str(elsewhere), "content": "x"}, context)
    assert result_text(outcome) == f"wrote 1 bytes (1 lines) to {elsewhere}"
