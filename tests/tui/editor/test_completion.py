"""Completion at the cursor: commands, arguments and paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.app.completion import CommandEntry
from ostler.app.project_files import FileMatch
from ostler.context.mentions import with_mentions
from ostler.tui.editor.completion import Completion, Completions, Wanted, completions_at, wanted_at
from tests.tui.in_process import run_ui

COMMANDS = (
    CommandEntry("model", "choose a model", "[name]", ("m",)),
    CommandEntry("help", "show commands", aliases=("h", "?")),
    CommandEntry("compact", "make room", "[what matters]"),
    CommandEntry("new", "a new session"),
    CommandEntry("skill:review", "review a change"),
)
PATHS = ("src/", "src/app.py", "my notes.md", "my folder/", "my folder/x.txt")


async def arguments(command: str, typed: str) -> Sequence[str]:
    return ["gpt-large", "gpt-small", "claude"] if command == "model" else []


async def files(query: str) -> Sequence[FileMatch]:
    return [FileMatch(path) for path in PATHS if path.startswith(query)]


async def completed(marked: str) -> list[str]:
    """The lines after each completion; `|` marks the cursor, before and after."""
    text, cursor = marked.replace("|", ""), marked.index("|")
    completions = await completions_at(text, cursor, COMMANDS, arguments, files)
    if completions is None:
        return []
    begin, end = completions.wanted.begin, completions.wanted.end
    lines = []
    for item in completions.items:
        line = text[:begin] + item.text + text[end:]
        lines.append(line[: begin + item.cursor] + "|" + line[begin + item.cursor :])
    return lines


@pytest.mark.parametrize(
    ("marked", "wanted"),
    [
        ("/|", Wanted("command", "", 0, 1)),
        ("/he|", Wanted("command", "he", 0, 3)),
        ("/h|elp", Wanted("command", "h", 0, 5)),
        ("  /he|", Wanted("command", "he", 2, 5)),
        ("/he| rest", Wanted("command", "he", 0, 3)),
        ("/skill:re|", Wanted("command", "skill:re", 0, 9)),
        ("/model |", Wanted("argument", "", 7, 7, "model")),
        ("/model  gpt la|", Wanted("argument", "gpt la", 8, 14, "model")),
        ("@|", Wanted("path", "", 0, 1)),
        ("see @src/a|", Wanted("path", "src/a", 4, 10)),
        ("see @src/a|pp.py now", Wanted("path", "src/a", 4, 15)),
        ('see @"my n|', Wanted("path", "my n", 4, 10)),
        ('see @"my n|otes.md" now', Wanted("path", "my n", 4, 18)),
        ("see @my\\ n|", Wanted("path", "my n", 4, 10)),
        ("(@sr|c)", Wanted("path", "sr", 1, 5)),
        ("/model @src|", Wanted("path", "src", 7, 11)),
        ("a\n@src|\nb", Wanted("path", "src", 2, 6)),
        ("`x` @src|", Wanted("path", "src", 4, 8)),
    ],
)
def test_the_word_to_complete_is_detected_at_the_cursor(marked: str, wanted: Wanted) -> None:
    assert wanted_at(marked.replace("|", ""), marked.index("|")) == wanted


@pytest.mark.parametrize(
    "marked",
    [
        "|",
        "|/help",
        "words|",
        "say /he|",
        "/etc/ho|",
        "/etc|/hosts",
        "//he|",
        "/model\ngpt|",
        "someone@example|",
        "@src/app.py |",
        "`@src|`",
        "```\n@src|",
        "\\@src|",
        "!cat @src|",
        "!!/bin|",
        '@"closed"|',
    ],
)
def test_code_shell_commands_and_plain_words_are_not_completed(marked: str) -> None:
    assert wanted_at(marked.replace("|", ""), marked.index("|")) is None


async def test_a_slash_offers_all_commands_in_order() -> None:
    assert await completed("/|") == ["/model |", "/help|", "/compact |", "/new|", "/skill:review|"]


async def test_prefix_matches_come_first() -> None:
    assert (await completed("/m|"))[0] == "/model |"
    assert (await completed("/mo|")) == ["/model |"]
    assert (await completed("/revi|")) == ["/skill:review|"]
    assert (await completed("/cpt|")) == ["/compact |"]
    assert (await completed("/zzz|")) == []
    assert (await completed("/c| keep the plan")) == ["/compact |keep the plan"]


async def test_a_command_completion_has_a_description_and_matched_letters() -> None:
    completions = await completions_at("/mod", 4, COMMANDS, arguments, files)
    assert completions is not None
    assert completions.items == (Completion("/model ", "/model [name]", (1, 2, 3), "choose a model", 7),)


async def test_an_alias_completes_to_its_command() -> None:
    completions = await completions_at("/?", 2, COMMANDS, arguments, files)
    assert completions is not None
    (item,) = completions.items
    assert (await completions_at("/m", 2, COMMANDS[:1], arguments, files)) == Completions(
        Wanted("command", "m", 0, 2), (Completion("/model ", "/model [name]", (1,), "choose a model", 7),)
    )
    assert (item.text, item.label, [item.label[at] for at in item.positions]) == (
        "/help",
        "/help (/?)",
        ["?"],
    )


async def test_arguments_are_completed_by_the_command() -> None:
    assert await completed("/model |") == ["/model gpt-large|", "/model gpt-small|", "/model claude|"]
    assert await completed("/model gps|") == ["/model gpt-small|"]
    assert await completed("/model claude|") == []
    assert await completed("/new |") == []


async def test_a_file_completes_to_a_mention_and_a_folder_can_be_continued() -> None:
    assert await completed("see @src|") == ["see @src/|", "see @src/app.py |"]
    assert await completed("see @src/a|pp now") == ["see @src/app.py |now"]
    assert await completed("see @my|") == [
        'see @"my notes.md" |',
        'see @"my folder/|"',
        'see @"my folder/x.txt" |',
    ]
    assert await completed('see @"my folder/x|"') == ['see @"my folder/x.txt" |']
    assert await completed("(@src/a|)") == ["(@src/app.py|)"]
    assert await completed("@src/a|\nnext") == ["@src/app.py |\nnext"]
    assert await completed("see @zzz|") == []


async def test_a_completed_path_is_parsed_as_a_mention(tmp_path: Path) -> None:
    (tmp_path / "my folder").mkdir()
    (tmp_path / "my folder/x.txt").write_text("x")
    (line,) = await completed('see @"my folder/x|"')
    assert len(with_mentions(line.replace("|", "now"), tmp_path).blocks) == 1


@given(st.text('/@"\\ab .:`!\n', max_size=20), st.data())
def test_the_completed_range_includes_the_cursor_and_its_mark(text: str, data: st.DataObject) -> None:
    cursor = data.draw(st.integers(0, len(text)))
    wanted = wanted_at(text, cursor)
    if wanted is None:
        return
    assert 0 <= wanted.begin <= cursor <= wanted.end <= len(text)
    match wanted.kind:
        case "command":
            assert text[wanted.begin] == "/"
        case "path":
            assert text[wanted.begin] == "@"
        case "argument":
            assert text[wanted.begin : wanted.end] == wanted.query


async def test_command_descriptions_are_aligned() -> None:
    async with run_ui() as at:
        at.press("/")
        screen = await at.see("start a new session with an empty context", "open another session")
        (clear,) = (row for row in screen.splitlines() if "empty context" in row)
        (resume,) = (row for row in screen.splitlines() if "open another session" in row)
        assert clear.index("start a new session with") == resume.index("open another session")


async def test_a_popup_indicates_hidden_rows() -> None:
    async with run_ui() as at:
        at.press("/")
        await at.see("  ↓ more")
        at.press("up")  # from the first to the last
        await at.see("  ↑ more")
        at.press("up", "up", "up", "up", "up", "up")
        await at.see("  ↑↓ more")
        at.press("quit")
        assert "more" not in await at.see("❯ /quit")
