"""Items that still change: drawn in their place, and as they look when complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prompt_toolkit.output import ColorDepth

from ostler.history.items import CallItem
from ostler.schema import events
from ostler.schema.messages import Text
from ostler.schema.outcomes import Question
from ostler.testkit.vendors import call, say, turn
from ostler.tui.inline_app import PushedRows, breaks_rows, with_depth
from ostler.tui.render.call_arguments import EditStream, arguments_stream, text_before
from ostler.tui.render.items import ItemRenderer, OpenCallView
from ostler.tui.render.spans import apart
from ostler.tui.transcript import TranscriptView, tail_rows
from tests.support.command import Ostler
from tests.support.fixtures import Open, Serve
from tests.tui.rows import call_item, plain
from tests.tui.screens import check
from tests.tui.test_terminal_ui_screens import held_answer, pieces, prompt

NUMBERED = "".join(f"line {number}\n" for number in range(1, 31))
CODE = "".join(
    f"value_{n} = 'a row of code that is wide enough to be broken in fifty columns'\n" for n in range(6)
)


# --- after a change of size -----------------------------------------------------------------------------


def test_the_open_tail_stays_in_place_during_resizes(open_tui: Open, serve: Serve) -> None:
    """The terminal breaks rows that became too wide for it: none of them is left behind."""
    vendor = serve(held_answer(say(*pieces(f"Some code:\n\n```python\n{CODE}"))))
    terminal = open_tui(vendor, before="seq -f 'before %g' 3", rows=30)
    terminal.wait_for("openai/fake")
    prompt(terminal, "Write some.")
    terminal.wait_for("value_5")
    for columns, typed in ((50, "> a"), (100, "> ab"), (41, "> abc")):
        terminal.resize(columns, 30)
        terminal.type(typed[-1])
        terminal.wait_for(typed)
        text = terminal.everything()
        assert [text.count(f"value_{n}") for n in range(6)] == [1] * 6, text
        assert text.startswith("before 1\nbefore 2\nbefore 3\n")
        assert text.count("answering") == 1
    terminal.resize(60, 30)
    terminal.type("d")
    terminal.wait_for("> abcd")
    check(terminal, "resized")


def test_pushed_rows_are_skipped_only_if_identical() -> None:
    pushed = PushedRows()
    pushed.push(["", "a", "b"])
    assert pushed.below(["", "a", "b", "c"]) == ["c"]
    assert pushed.below(["b", "c"]) == ["b", "c"]
    assert pushed.print(["", "a"]) == []
    assert pushed.print(["b", "c"]) == ["c"]
    assert pushed.print(["b", "c"]) == ["b", "c"]
    pushed.push(["", "a", "b"])
    assert pushed.print(["", "something else"]) == ["", "something else"]
    assert pushed.print(["", "a", "b"]) == ["", "a", "b"], "it stands elsewhere now"


@pytest.mark.parametrize(
    ("environment", "breaks"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "screen-256color", "TMUX": "/run/tmux,1,0"}, True),
        ({"TERM": "screen"}, False),
        ({"TERM": "xterm", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "linux"}, False),
    ],
)
def test_old_terminals_cut_wide_rows(environment: dict[str, str], breaks: bool) -> None:
    assert breaks_rows(environment) is breaks


# --- colours that a terminal has ------------------------------------------------------------------------


def test_colours_are_reduced_to_the_nearest_of_the_terminal() -> None:
    row = "\x1b[1;38;2;255;0;0;48;2;0;0;0mred\x1b[0m says 38;2;255;0;0m"
    assert with_depth(row, ColorDepth.TRUE_COLOR) == row
    assert with_depth(row, ColorDepth.DEPTH_8_BIT) == "\x1b[1;38;5;196;48;5;16mred\x1b[0m says 38;2;255;0;0m"
    assert with_depth(row, ColorDepth.DEPTH_4_BIT) == "\x1b[1;91;40mred\x1b[0m says 38;2;255;0;0m"


# --- files and commands while they are written ----------------------------------------------------------


def fed(edits: list[dict[str, str]], before: str | None, *, upto: str = "") -> EditStream:
    """An edit of a file with this content, written up to the last `upto`."""
    growing = EditStream(lambda path: before if path == "a.txt" else None)
    text = json.dumps({"path": "a.txt", "edits": edits})
    growing.feed(text[: text.rindex(upto) + len(upto)] if upto else text)
    return growing


def rows_of(growing: EditStream) -> list[str]:
    return plain(growing.tail(40, 60, None))


def test_a_streaming_edit_has_line_numbers() -> None:
    edits = [
        {"old_text": "line 9\n", "new_text": "line nine\nand more\n"},
        {"old_text": "ne 20", "new_text": "ne twenty"},
    ]
    assert rows_of(fed(edits, NUMBERED)) == [
        " 9 - line 9",
        " 9 + line nine",
        "10 + and more",
        "   ⋮ edit 2",
        "20 - line 20",
        "21 + line twenty",
    ]


def test_the_lines_of_a_streaming_edit_do_not_jump() -> None:
    edits = [{"old_text": "line 12\n", "new_text": "line twelve\n"}]
    assert rows_of(fed(edits, NUMBERED, upto="line 12")) == ["12 - line 12"]
    assert rows_of(fed(edits, NUMBERED, upto="line twe")) == ["12 - line 12", "12 + line twe"]


@pytest.mark.parametrize("before", [None, "line 3\nline 3\n", "something else"])
def test_an_edit_without_a_match_has_no_line_numbers(before: str | None) -> None:
    edits = [{"old_text": "line 3\n", "new_text": "line three\n"}]
    assert rows_of(fed(edits, before)) == ["- line 3", "+ line three"]


def test_an_edit_within_a_line_shows_the_whole_line() -> None:
    assert rows_of(fed([{"old_text": " 7", "new_text": ""}], NUMBERED)) == ["7 - line 7", "7 + line"]
    assert rows_of(fed([{"old_text": "line 7\n", "new_text": ""}], NUMBERED)) == ["7 - line 7"]


def test_only_small_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "dos.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert text_before(tmp_path, "dos.txt") == "a\nb\n"
    assert text_before(tmp_path, "bytes") is None
    assert text_before(tmp_path, "none") is None
    assert text_before(tmp_path, "a\0b") is None
    assert text_before(tmp_path, ".") is None


def test_the_note_counts_what_has_been_written() -> None:
    write = arguments_stream("write")
    write.feed('{"path": "a.py", "content": "one\\ntwo')
    assert write.note == "2 lines"
    write.feed("\\n")
    assert write.note == "2 lines"
    other = arguments_stream("ask_elsewhere")
    other.feed('{"url": "https://x.test", "body": "')
    assert (other.path, other.note) == ("https://x.test", "…")
    other.feed("x" * 1000)
    assert other.note == "1,035 characters"


def test_a_streaming_command_of_several_lines_is_drawn() -> None:
    command = arguments_stream("bash")
    command.feed('{"command": "cat > notes <<END\\nfirst\\nsec')
    assert command.path == "cat > notes <<END"
    assert plain(command.tail(5, 60, None)) == ["1 cat > notes <<END", "2 first", "3 sec"]
    single = arguments_stream("bash")
    single.feed('{"command": "ls -l')
    assert (single.path, single.tail(5, 60, None)) == ("ls -l", [])


# --- calls that wait and run ----------------------------------------------------------------------------


def tail_lines(transcript: TranscriptView, most: int = 20) -> list[str]:
    return plain(tail_rows(transcript.tail(), ItemRenderer(), 60, most, after_blank=False))


def test_arguments_stay_visible_until_the_result() -> None:
    transcript = TranscriptView()
    arguments = {"path": "a.py", "content": "one = 1\ntwo = 2\n"}
    transcript.take(
        [
            events.ToolInputStarted("m", 0, "c1", "write"),
            events.ToolInputDelta("m", 0, "c1", 0, json.dumps(arguments)),
        ]
    )
    grown = tail_lines(transcript)
    transcript.take([events.ToolCalled("c1", "write", arguments, 1, kind="edit")])
    waiting = tail_lines(transcript)
    transcript.take([events.ToolStarted("c1", "it")])
    assert grown[2:] == waiting[2:] == tail_lines(transcript)[2:]
    assert "│ 2 two = 2" in grown
    transcript.take([events.QuestionAsked("q1", Question("May it?", kind="permission"), call="c1")])
    assert not any("two = 2" in row for row in tail_lines(transcript)), "the question shows it"


def test_a_call_without_streamed_arguments_is_drawn() -> None:
    transcript = TranscriptView()
    transcript.take(
        [events.ToolCalled("c1", "write", {"path": "a.py", "content": "one = 1\n"}, 1, kind="edit")]
    )
    assert "│ 1 one = 1" in tail_lines(transcript)


def test_running_calls_share_the_room_and_waiting_ones_have_a_line() -> None:
    transcript = TranscriptView()
    for number in range(7):
        called = events.ToolCalled(f"c{number}", "bash", {"command": f"job {number}"}, 1, kind="execute")
        transcript.take([called])
    for number in range(2):
        output = "".join(f"{number}: {line}\n" for line in range(30))
        transcript.take(
            [events.ToolStarted(f"c{number}", "bash"), events.ToolOutput(f"c{number}", 0, output)]
        )
    rows = tail_lines(transcript, 16)
    assert len(rows) <= 16
    assert [row.split(" ·")[0] for row in rows if "job" in row] == [
        "╭─ bash job 0",
        "╭─ bash job 1",
        "╶─ bash job 2",
        "╶─ bash job 3",
        "╶─ bash job 4",
    ]
    assert "│ 0: 29" in rows and "│ 1: 29" in rows
    assert rows[-1] == "· 2 more wait"


def test_a_call_is_closed_where_it_was_open() -> None:
    draw, transcript = ItemRenderer(), TranscriptView()
    arguments = {"command": "ls"}
    transcript.take(
        [events.ToolCalled("c1", "bash", arguments, 1, kind="execute"), events.ToolStarted("c1", "it")]
    )
    transcript.take([events.ToolOutput("c1", 0, "a\nb\n")])
    before = tail_lines(transcript)
    closed = transcript.take([events.ToolResultFact("c1", "bash", (Text("a\nb\n"),))])
    after = plain(draw.closed(closed[0], 60))
    assert before[0] == after[0] == ""
    assert before[2:] == after[2:]


@pytest.mark.parametrize(
    ("block", "row"),
    [
        (
            call_item("read", "done", {"path": "a.py"}, "read", summary="9 lines"),
            "╶─ read a.py · 9 lines",
        ),
        (call_item("fetch", "failed", {"url": "x"}, result="no"), "╭─ fetch x · failed"),
    ],
)
def test_the_outcome_of_a_call_is_readable_without_colours(block: CallItem, row: str) -> None:
    assert plain(ItemRenderer().closed(block, 60))[1].startswith(row)


def test_a_long_result_shows_its_beginning_and_end() -> None:
    lines = "".join(f"line {number}\n" for number in range(1, 3001))
    rows = plain(ItemRenderer().closed(call_item("bash", "done", {"command": "x"}, result=lines), 60))
    assert rows[2] == "│ line 1" and rows[-2] == "│ line 3000"
    assert "│ … 2989 more rows · ctrl+o shows all" in rows


def test_one_blank_row_separates_items() -> None:
    blocks = [["", "a", ""], ["", "b"], ["c"], ["", "", "d"]]
    assert apart(blocks, after_blank=False) == ["", "a", "", "b", "c", "", "", "d"]
    assert apart(blocks, after_blank=True)[:2] == ["a", ""]


def test_printed_items_and_the_open_tail_are_separated(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn("First I look.", call("bash", {"command": "echo seen"})), turn("Then I *answer*."))
    terminal = open_tui(vendor, "--yes", "go")
    assert [row[:12] for row in terminal.wait_for("completed").splitlines()][:11] == [
        "",
        "▌ go",
        "",
        "First I look",
        "",
        "╭─ bash echo",
        "│ seen",
        "╰─",
        "",
        "Then I answe",
        "",
    ]


def test_a_call_without_output_is_one_line_with_its_time() -> None:
    item = CallItem("call:c", name="bash", stage="running", arguments={"command": "make"})
    call = OpenCallView(item, 0.0)
    rows = plain(tail_rows([call], ItemRenderer(), 60, 10, after_blank=True))
    assert rows == ["╶─ bash make · 0 s"]


def test_streaming_reasoning_shows_its_end() -> None:
    transcript = TranscriptView()
    transcript.take([events.ReasoningDelta("m", 0, 0, "First this.\nThen that.\nAnd so on.\n")])
    assert tail_lines(transcript) == ["", "✻ thinking, 7 words", "  Then that.", "  And so on."]


# --- how a session begins -------------------------------------------------------------------------------


def test_a_new_session_lists_its_instructions_and_extensions(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    (ostler.work / "AGENTS.md").write_text("Be kind.")
    skill = ostler.home / "skills" / "reading"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: reading\ndescription: how to read\n---\nSlowly.\n")
    extensions = ostler.home / "extensions"
    extensions.mkdir()
    (extensions / "hello.py").write_text("def setup(ostler):\n    pass\n")
    terminal = open_tui(serve(), "--system", "You are brief.")
    terminal.wait_for("· with your own system prompt · AGENTS.md · 1 skill · 1 extension: hello")
