"""Printed paths and URLs are never broken, so that they can be copied and clicked.

Where it is wider than the terminal, the terminal wraps it: `Emulator.contents` and `tmux capture-pane -J`
join such rows again, as a copy does.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.extensions.api import ExtensionAPI as ExtensionApi
from ostler.history.items import UserItem
from ostler.schema.messages import Text
from ostler.testkit.vendors import call, turn
from ostler.tui.render.boxes import notice_rows
from ostler.tui.render.code import code_rows
from ostler.tui.render.diff import diff_lines, diff_rows
from ostler.tui.render.items import ItemRenderer
from ostler.tui.render.markdown import markdown_rows
from ostler.tui.render.spans import fitted, folded, height, is_path, path_spans, quoted
from ostler.tui.render.terminal_text import terminal_rows
from tests.server.serve_process import serve_process
from tests.support.attach import attaching
from tests.support.command import Ostler, use, wait_until
from tests.support.fixtures import Open, Serve
from tests.tui.in_process import run_ui
from tests.tui.rows import COLORS, call_item, plain
from tests.tui.terminal import Terminal
from tests.tui.test_terminal_ui_screens import Tmux
from tests.tui.test_terminal_ui_screens import tmux as tmux

WIDTHS = (20, 40, 41, 80)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-.äß", min_size=1, max_size=30)

WORDS = st.text("abc ", max_size=50)


def path_of(length: int) -> str:
    """An absolute path of so many characters, which is no part of a longer one."""
    return (f"/{length}" + "/folder" * (length // 7 + 1))[: length - 1] + "x"


@st.composite
def paths(draw: st.DrawFn) -> str:
    parts = draw(st.lists(NAMES, min_size=1, max_size=8))
    start = draw(st.sampled_from(["/", "~/", "./", "../", "https://example.org/", "file:///", "src/"]))
    return start + "/".join(parts)


# --- what is found -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see /tmp/a/b.txt for more", ["/tmp/a/b.txt"]),
        ("(https://example.org/a?b=c,d)", ["https://example.org/a?b=c,d)"]),
        ("~/x ./y ../z src/a.py:12:3", ["~/x", "./y", "../z", "src/a.py:12:3"]),
        ("written to '/tmp/my folder/a b.txt' now", ["'/tmp/my folder/a b.txt'"]),
        ("it's a thing that's 'quoted words'", []),
        ("/tmp/my\\ folder/x", ["/tmp/my\\ folder/x"]),
        ("请看https://example.com/路径。然后", ["https://example.com/路径"]),
        ("这是一个/没有空格的句子", []),
        ('{"a":"b/c","d":[1,2]}', ["b/c"]),
        ("notes.txt e.g. 1.5", ["notes.txt"]),
        ("just words", []),
    ],
)
def test_paths_and_urls_are_detected_in_a_text(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in path_spans(text)] == expected


def test_a_path_with_spaces_is_quoted_for_the_shell() -> None:
    assert quoted(Path("/tmp/plain")) == "/tmp/plain"
    assert shlex.split(quoted("/tmp/it's my folder/x")) == ["/tmp/it's my folder/x"]
    assert is_path("/tmp/my folder/x") and is_path("~/a b") and not is_path("words and/or others")


# --- rows --------------------------------------------------------------------------------------------------


def _diff(path: str) -> str:
    return f"@@ -1,2 +1,2 @@\n-old {path} line\n+new {path} line\n"


DRAWN = {
    "a notice": lambda path, width: notice_rows(f"written to {path}, and more", width, COLORS),
    "a prompt": lambda path, width: ItemRenderer().closed(
        UserItem("", content=(Text(f"look at {path} please"),)), width
    ),
    "a paragraph": lambda path, width: markdown_rows(f"Some words, then {path} and *more*.", width, COLORS),
    "plain words": lambda path, width: markdown_rows(f"Some words, then {path} and more", width, COLORS),
    "a list": lambda path, width: markdown_rows(
        f"- one\n  - see {path}\n    - deeper `{path}`", width, COLORS
    ),
    "a quote": lambda path, width: markdown_rows(f"> as it says in {path} there", width, COLORS),
    "a heading": lambda path, width: markdown_rows(f"## About `{path}`", width, COLORS),
    "a link": lambda path, width: markdown_rows(f"see [it]({path}) there", width, COLORS),
    "a table": lambda path, width: markdown_rows(
        f"| name | where |\n|---|---|\n| one thing or another | `{path}` |\n", width, COLORS
    ),
    "a fence": lambda path, width: markdown_rows(f"```sh\ncp {path} elsewhere\n```", width, COLORS),
    "code": lambda path, width: code_rows(f"open({path!r})  # why", width, COLORS, language="python"),
    "a diff": lambda path, width: diff_rows(diff_lines(_diff(path)), width, COLORS),
    "output": lambda path, width: terminal_rows(f"\x1b[1mwrote\x1b[0m {path} in 3 s", width, COLORS),
    "a call": lambda path, width: ItemRenderer(COLORS).closed(
        call_item("bash", "done", {"command": "x"}, "execute", result=f"wrote {path} in 3 s"), width
    ),
    "a refusal": lambda path, width: ItemRenderer().closed(
        call_item("bash", "refused", {"command": "x"}, "execute", result=f"not {path} of all"), width
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("what", DRAWN)
def test_a_path_is_never_broken_across_rows(what: str, width: int) -> None:
    for length in range(4, 2 * width + 4):
        path = path_of(length)
        rows = plain(DRAWN[what](path, width))
        assert any(path in row for row in rows), (length, rows)


@given(
    path=paths(),
    before=st.text("abc ", max_size=50),
    after=st.text("abc ", max_size=50),
    width=st.integers(1, 60),
)
def test_any_path_stays_in_one_row_of_text_code_and_output(
    path: str, before: str, after: str, width: int
) -> None:
    text = f"{before} {path} {after}"
    for rows in (
        notice_rows(text, width, None),
        terminal_rows(text, width, None),
        code_rows(text, width, None),
    ):
        assert any(path in row for row in plain(rows)), rows


@pytest.mark.parametrize("width", WIDTHS)
def test_quoted_paths_and_code_spans_keep_their_spaces(width: int) -> None:
    path = "/a folder/with many/blanks in/its long name/and a file.txt"
    notice_lines = plain(notice_rows(f"written to {quoted(path)}", width, None))
    assert any(quoted(path) in row for row in notice_lines)
    answer = plain(markdown_rows(f"It is in `{path}` now.", width, None))
    assert any(path in row for row in answer)


def test_other_words_and_overlong_paths_are_broken() -> None:
    assert plain(notice_rows("x" * 50, 22, None)) == [f"· {'x' * 20}", f"  {'x' * 20}", f"  {'x' * 10}"]
    endless = "/" + "a" * 5000
    assert max(map(len, terminal_rows(endless, 40, None))) == 40


def test_the_height_of_a_wide_row_counts_its_wrapped_rows() -> None:
    path = path_of(100)
    assert height(path, 40) == 3 and height(f"\x1b[1m{path}\x1b[0m", 100) == 1
    assert folded([path, "end"], 4, 40, None) == [path, "end"]
    assert plain(folded(["begin", path, "end"], 4, 40, None)) == ["begin", "… 3 more rows", "end"]


def test_redrawn_rows_keep_styles_and_links_across_breaks() -> None:
    row = f"\x1b]8;;https://x.org\x1b\\\x1b[1;4m{'a' * 12}\x1b[0m\x1b]8;;\x1b\\b"
    assert fitted([row, "short"], 10) == [
        f"\x1b]8;;https://x.org\x1b\\\x1b[1;4m{'a' * 10}\x1b[0m\x1b]8;;\x1b\\",
        "\x1b]8;;https://x.org\x1b\\\x1b[1;4maa\x1b[0m\x1b]8;;\x1b\\b",
        "short",
    ]


# --- in the terminal ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
async def test_a_printed_path_of_any_length_is_copied_whole(width: int) -> None:
    async with run_ui(columns=width, rows=24) as terminal:
        lengths = range(3, 2 * width + 3)
        for length in lengths:
            terminal.tui.say(f"written to {path_of(length)}")
        await terminal.see(f"{path_of(lengths[-1])}\n")
        lines = terminal.screen.text().splitlines()
        for length in lengths:
            assert any(re.fullmatch(rf"(· written to)? +{path_of(length)}", line) for line in lines), length


async def test_a_question_shows_a_long_path_and_all_answers() -> None:
    """A question is drawn with each frame, so its rows are broken, and nothing is cut off."""

    def setup(ostler: ExtensionApi) -> None:
        @ostler.command("ask")
        async def ask(arguments, context):  # type: ignore[no-untyped-def]
            chosen = await context.ui.select(f"Where? {path_of(150)}", ["first", "second"])
            return f"chosen {chosen}"

    async with run_ui(setup, columns=60, rows=24) as terminal:
        terminal.press("/ask", "enter")
        screen = await terminal.see("first", "second")
        assert path_of(150) in re.sub(r"\n[│ ]*", "", screen)


LONG_URL = (
    "https://example.org/" + "/".join(f"part-{number}" for number in range(60)) + "?signature=" + "0" * 400
)
ANSWER = (
    f"Look at {LONG_URL} for more.\n\n"
    f"- in a list: {path_of(97)}\n\n"
    f"> in a quote: `{path_of(83)}`\n\n"
    f"```sh\ncat {path_of(120)} | wc\n```\n\n"
    f"| what | where |\n|---|---|\n| a table | {path_of(101)} |\n"
)


@pytest.mark.parametrize("columns", [33, 80])
def test_paths_in_answers_and_command_output_are_copied_whole(
    open_tui: Open, serve: Serve, columns: int
) -> None:
    printed = f"printed by it: {path_of(133)}"
    vendor = serve(turn(call("bash", {"command": f"echo '{printed}'"})), turn(ANSWER))
    terminal = open_tui(vendor, "--yes", "go", columns=columns, rows=30)
    terminal.wait_for_ever("completed")
    terminal.press("ctrl+d")
    assert terminal.wait_for_end() == 0
    everything = terminal.everything()
    for path in (LONG_URL, path_of(97), path_of(83), path_of(120), path_of(101), path_of(133)):
        assert re.search(rf"(?<!\S){re.escape(path)}(?!\S)", everything), path


def test_printed_paths_stay_whole_after_a_resize(open_tui: Open, serve: Serve) -> None:
    terminal = open_tui(serve(turn(ANSWER)), "go", columns=70, rows=30)
    terminal.wait_for_ever("completed")
    for columns in (41, 100, 26):
        terminal.resize(columns, 30)
        terminal.type(f"at {columns}")
        terminal.wait_for(f"> at {columns}")
        terminal.press("ctrl+c")
        everything = terminal.everything()
        for path in (LONG_URL, path_of(97), path_of(83), path_of(120)):
            assert everything.count(path) == 1, (columns, path)


@pytest.fixture
def exported(ostler: Ostler) -> Iterator[list[Path]]:
    """Files whose paths end before, at and after the edge of a terminal of 60 columns."""
    shortest = max(55, len(str(ostler.work / "x.jsonl")))
    files = [ostler.work / f"{'x' * more}.jsonl" for more in range(1, 60)]
    yield [file for file in files if shortest <= len(str(file)) < shortest + 8]


def _is_printed(tmux: Tmux, file: Path) -> bool:
    pattern = re.compile(rf"^(· written to)? +{re.escape(quoted(file))} *$", re.MULTILINE)
    return pattern.search(tmux.joined()) is not None


def test_tmux_copies_printed_paths_whole(
    tmux: Tmux, serve: Serve, ostler: Ostler, exported: list[Path]
) -> None:
    command = shlex.join([str(Path(sys.executable).parent / "ostler"), *use(serve(turn(ANSWER)))])
    tmux.run("new-session", "-d", "-x", "60", "-y", "20", "-c", str(ostler.work), f"exec {command} go")
    tmux.wait_for("completed")
    spaced = ostler.work / "a folder" / "with a long name" / ("and a file " * 5 + ".jsonl")
    spaced.parent.mkdir(parents=True)
    for file in [*exported, spaced]:
        tmux.run("send-keys", "-l", f"/export {file.relative_to(ostler.work)}")
        tmux.run("send-keys", "Enter")
        wait_until(partial(_is_printed, tmux, file))
    copied = tmux.joined().splitlines()
    for file in [*exported, spaced]:
        assert any(re.fullmatch(rf"(· written to)? +{re.escape(quoted(file))} *", line) for line in copied), (
            file
        )
    for path in (LONG_URL, path_of(97), path_of(83), path_of(120)):
        assert path in "\n".join(copied)


def test_paths_in_plain_lines_and_the_resume_hint_are_not_broken(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    terminal = open_tui(serve(turn(ANSWER)), "--plain", columns=50, rows=30)
    terminal.wait_for(">")
    terminal.type("go\n")
    terminal.wait_for_ever("completed")
    file = ostler.work / ("x" * 120 + ".html")
    terminal.type(f"/share {file.name}\n")
    terminal.wait_for_ever(f"written to {file}\n")
    terminal.type("/quit\n")
    assert terminal.wait_for_end() == 0
    everything = terminal.everything()
    assert LONG_URL in everything and path_of(120) in everything
    assert re.search(r"to resume this session: ostler --session \S+$", everything)


def test_paths_are_not_broken_over_attach(serve: Serve, ostler: Ostler) -> None:
    with serve_process(ostler, *use(serve(turn(ANSWER)))) as server, attaching(ostler) as attach:
        terminal: Terminal = attach(server.base_url, columns=47, OSTLER_TOKEN=server.token)
        terminal.wait_for("a run there continues")
        terminal.type("go")
        terminal.wait_for("> go")
        terminal.press("enter")
        terminal.wait_for_ever("completed")
        file = ostler.work / ("x" * 90 + ".jsonl")
        terminal.type(f"/export {file.name}")
        terminal.press("enter")
        terminal.wait_for_ever(str(file))
        assert LONG_URL in terminal.everything()
