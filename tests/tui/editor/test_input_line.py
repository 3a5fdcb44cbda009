"""The input line without a terminal, and the prompts made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.core.harness import Harness
from ostler.models.scripted import ScriptedModel
from ostler.schema.errors import UsageError
from ostler.schema.messages import text_of
from ostler.tui.composer import expand_draft
from ostler.tui.editor.chips import Chips, PromptDraft
from ostler.tui.editor.input_line import InputLine
from ostler.tui.editor.prompt_history import PromptHistory

LONG = "\n".join(f"line {number} @notes.md" for number in range(20))


@pytest.fixture
def line(tmp_path: Path) -> InputLine:
    return InputLine(PromptHistory(tmp_path / "prompts.jsonl"))


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.md").write_text("the notes say 42")
    return Harness(model=ScriptedModel([]), cwd=work)


def prompt(folder: Path, name: str, body: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(body)


async def test_an_edited_history_prompt_becomes_the_draft(line: InputLine) -> None:
    for text in ("first", "second"):
        line.insert(text)
        await line.add_to_history(line.take())
    line.older()
    line.older()
    line.insert(" changed")
    line.older()
    assert line.text == "second"
    line.newer()
    assert line.text == "first changed"
    line.newer()
    assert line.text == "first changed"


async def test_a_paste_is_restored_from_the_history_as_a_chip(line: InputLine, tmp_path: Path) -> None:
    line.paste(LONG, tmp_path)
    await line.add_to_history(line.take())
    line.older()
    assert line.text == "[pasted text #1 +20 lines]"
    assert line.take().pasted_in == LONG


async def test_backspace_deletes_a_whole_chip(line: InputLine, tmp_path: Path) -> None:
    line.insert("see ")
    line.paste(LONG, tmp_path)
    assert line.delete_chip()
    assert line.text == "see "
    assert not line.delete_chip()
    line.buffer.undo()
    assert line.take().pasted_in == f"see {LONG}"


async def test_text_typed_during_a_drop_follows_it(line: InputLine, tmp_path: Path) -> None:
    (tmp_path / "one.txt").touch()
    (tmp_path / "two.txt").touch()
    line.paste(str(tmp_path / "one.txt"), tmp_path)
    line.paste(str(tmp_path / "two.txt"), tmp_path)
    line.insert("typed")
    assert line.pasting is not None
    await line.pasting
    assert line.text == "@one.txt @two.txt typed"


def test_mentions_are_attached_unless_they_are_pasted(harness: Harness) -> None:
    chips = Chips()
    typed = PromptDraft(f"read {chips.paste(LONG)}", chips)
    pasted = expand_draft(typed, harness, ())
    assert text_of(pasted.blocks) == f"read {LONG}"
    mentioned = expand_draft(PromptDraft("read @notes.md and \\@this", Chips()), harness, ())
    assert "the notes say 42" in text_of(mentioned.blocks)
    assert "read @notes.md and @this" in text_of(mentioned.blocks)
    assert list(mentioned.digests) == [str(harness.cwd / "notes.md")]


def test_templates_of_the_user_attach_files_and_those_of_a_project_do_not(
    harness: Harness, tmp_path: Path
) -> None:
    prompt(tmp_path / "home" / "prompts", "mine", "Look at @notes.md for $1.")
    prompt(harness.cwd / ".ostler" / "prompts", "theirs", "Look at @notes.md for $1.")
    mine = expand_draft(PromptDraft("/mine Ada", Chips()), harness, ())
    theirs = expand_draft(PromptDraft("/theirs Ada", Chips()), harness, ())
    assert "the notes say 42" in text_of(mine.blocks)
    assert text_of(theirs.blocks) == "Look at @notes.md for Ada."


def test_a_command_that_nobody_has_names_those_that_may_be_meant(harness: Harness) -> None:
    with pytest.raises(UsageError, match="did you mean /model"):
        expand_draft(PromptDraft("/modl x", Chips()), harness, ["model"])
    assert text_of(expand_draft(PromptDraft("\\!bash", Chips()), harness, ()).blocks) == "!bash"
