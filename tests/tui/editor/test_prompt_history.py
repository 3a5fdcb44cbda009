"""The prompt history: stored across sessions and processes, and read from its end."""

from __future__ import annotations

import fcntl
import stat
import subprocess
import sys
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.schema.errors import ConfigurationError
from ostler.tui.editor import prompt_history
from ostler.tui.editor.chips import SavedChips
from ostler.tui.editor.prompt_history import PromptHistory, history_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prompts.jsonl"


def texts(history: PromptHistory) -> list[str]:
    matches: list[str] = []
    while saved := history.get(len(matches)):
        matches.append(saved.text)
    return matches


def added(path: Path, *prompts: str) -> PromptHistory:
    history = PromptHistory(path)
    for prompt in prompts:
        history.add(SavedChips(prompt))
    return history


def test_the_history_file_is_private_and_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    PromptHistory().add(SavedChips("mine"))
    assert history_file() == tmp_path / "home/prompts.jsonl"
    assert stat.S_IMODE(history_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(history_file().parent.stat().st_mode) == 0o700


def test_the_newest_prompt_comes_first_also_in_a_later_session(path: Path) -> None:
    first = added(path, "one", "two\nlines")
    assert texts(first) == ["two\nlines", "one"]
    second = added(path, "three")
    assert texts(second) == ["three", "two\nlines", "one"]
    assert texts(first) == ["two\nlines", "one"]
    assert first.get(2) is None


def test_pastes_are_stored_with_their_prompt(path: Path) -> None:
    saved = SavedChips("see [pasted text #1 +11 lines]", {"[pasted text #1 +11 lines]": "a\n" * 11})
    PromptHistory(path).add(saved)
    assert PromptHistory(path).get(0) == saved


def test_a_repeated_prompt_is_stored_once(path: Path) -> None:
    first = added(path, "one", "one", "two", "one", "one")
    assert texts(first) == ["one", "two", "one"]
    assert texts(added(path, "one")) == ["one", "two", "one"]
    assert path.read_bytes().count(b"\n") == 3


def test_prompts_that_begin_with_a_space_or_contain_a_key_are_not_stored(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef")
    history = added(path, " my password is x", "\tx", "", "use sk-0123456789abcdef now")
    history.add(SavedChips("see [pasted]", {"[pasted]": "KEY=sk-0123456789abcdef"}))
    assert texts(history) == []
    assert not path.exists()


def test_a_very_long_prompt_is_remembered_but_not_written(path: Path) -> None:
    history = added(path, "x" * prompt_history.MOST_OF_A_LINE)
    assert len(texts(history)) == 1
    assert not path.exists()


def test_damaged_lines_are_skipped(path: Path) -> None:
    added(path, "one", "two")
    with path.open("ab") as file:
        file.write(b'{"text":"three"}\n\xff\xfe\n[]\n{"text":5}\n\n{"text":"cut of')
    assert texts(PromptHistory(path)) == ["three", "two", "one"]
    added(path, "four")
    assert texts(PromptHistory(path)) == ["four", "three", "two", "one"]


def test_unknown_fields_of_later_versions_are_ignored(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"text":"one","mood":"fine"}\n')
    assert texts(PromptHistory(path)) == ["one"]


def test_an_unwritable_file_is_reported_and_the_prompt_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, where a folder should be")
    history = PromptHistory(tmp_path / "state" / "prompts.jsonl")
    with pytest.raises(ConfigurationError, match=r"prompts\.jsonl cannot be written"):
        history.add(SavedChips("one"))
    assert texts(history) == ["one"]


def test_a_lock_that_is_never_released_is_given_up_soon(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_history, "_LOCK_SECONDS", 0.02)
    path.parent.mkdir()
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match="another process holds"):
            added(path, "one")
    assert texts(added(path, "one")) == ["one"]


def test_two_processes_append_without_losing_lines(path: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from ostler.tui.editor.chips import SavedChips
        from ostler.tui.editor.prompt_history import PromptHistory
        history = PromptHistory(Path(sys.argv[1]))
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(100):
            history.add(SavedChips(f"{sys.argv[2]} {number} " + "x" * 3000))
    """
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in ("a", "b")
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write(b"go\n")
            writer.stdin.flush()
        for writer in writers:
            writer.communicate(timeout=60)
            assert writer.returncode == 0
    finally:
        for writer in writers:
            writer.kill()
    written = [text.split()[:2] for text in texts(PromptHistory(path))]
    for name in ("a", "b"):
        assert [int(number) for one, number in written if one == name] == list(range(99, -1, -1))


def test_the_file_is_shortened_to_its_newer_half(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_history, "MOST_BYTES", 2000)
    before = PromptHistory(path)
    before.add(SavedChips("the first"))
    added(path, *(f"prompt {number}" for number in range(200)))
    matches = texts(PromptHistory(path))
    assert path.stat().st_size <= 2000
    assert matches == [f"prompt {number}" for number in range(199, 199 - len(matches), -1)]
    assert 30 < len(matches) < 100
    assert texts(before) == ["the first"]
    assert sorted(one.name for one in path.parent.iterdir()) == ["prompts.jsonl", "prompts.lock"]


def test_only_the_end_of_a_huge_file_is_read(path: Path) -> None:
    path.parent.mkdir()
    with path.open("wb") as file:
        file.seek(64 << 30)  # a hole: reading it would take minutes
        file.write(b'\n{"text":"older"}\n{"text":"newer"}\n')
    history = PromptHistory(path)
    assert texts(history) == ["newer", "older"]
    assert [hit.entry.text for hit in history.search("old")] == ["older"]
    history.add(SavedChips("newest"))
    assert texts(PromptHistory(path)) == ["newest", "newer", "older"]
    assert path.stat().st_size < 1000


def test_the_file_is_read_lazily_from_its_end(path: Path) -> None:
    added(path, "first", *(f"prompt {number} " + "x" * 500 for number in range(500)))
    history = PromptHistory(path)
    assert history.get(0) is not None
    with path.open("rb+") as file:
        file.write(b'{"text":"FIRST"')
    assert texts(history)[-1] == "FIRST"


@given(st.lists(st.text(max_size=40), max_size=30), st.integers(1, 50))
def test_any_prompt_is_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[str], size: int
) -> None:
    path = tmp_path_factory.mktemp("history") / "prompts.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompt_history, "_READ_AT_ONCE", size)
        history = added(path, *prompts)
        wanted: list[str] = []
        for prompt in prompts:
            if prompt and not prompt[0].isspace() and wanted[:1] != [prompt]:
                wanted.insert(0, prompt)
        assert texts(history) == wanted
        assert texts(PromptHistory(path)) == wanted


# --- searching -------------------------------------------------------------------------------------------


def matches(history: PromptHistory, query: str) -> list[str]:
    return [hit.entry.text for hit in history.search(query)]


def test_exact_matches_come_before_fuzzy_ones_newest_first(path: Path) -> None:
    history = added(path, "fix the test", "format it", "Test it", "the estate", "fix the test", "other")
    assert matches(history, "test") == ["fix the test", "Test it", "the estate"]
    assert matches(history, "Test") == ["Test it"]
    assert matches(history, "test fix") == ["fix the test"]
    assert matches(history, "zzz") == []
    assert matches(history, "") == ["other", "fix the test", "the estate", "Test it", "format it"]


def test_a_hit_has_the_positions_of_the_matched_letters(path: Path) -> None:
    history = added(path, "the estate", "run TESTS")
    assert [hit.positions for hit in history.search("test")] == [(4, 5, 6, 7), (0, 4, 5, 6)]


def test_a_search_reads_no_further_than_needed(path: Path) -> None:
    line = msgspec.json.encode(SavedChips("find me " + "x" * 1000)) + b"\n"
    path.parent.mkdir()
    path.write_bytes(b"".join(line.replace(b"me", str(number).encode()) for number in range(3000)))
    history = PromptHistory(path)
    assert len(list(islice(history.search("find"), 3))) == 3
    assert len(history._read) < 100
