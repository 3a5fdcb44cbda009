"""The history viewer: a list of messages and calls, and a reader on the whole screen."""

from __future__ import annotations

from base64 import b64encode

from ostler.schema.messages import BlobRef
from ostler.testkit.vendors import Think, call, turn
from ostler.tui.history_viewer import SessionEntry, entry_rows, full_text
from tests.support.command import Ostler
from tests.support.fixtures import Open, Serve
from tests.tui.rows import plain
from tests.tui.screens import check
from tests.tui.test_terminal_ui_screens import prompt

LONG = "seq -f 'row %g' 33; echo the Needle; seq -f 'row %g' 34 60"


def test_folded_output_is_readable_in_full_and_leaves_no_trace(open_tui: Open, serve: Serve) -> None:
    vendor = serve(
        turn(Think(("It counts.",)), "Let me count.", call("bash", {"command": LONG})),
        turn("**Sixty** rows."),
    )
    terminal = open_tui(vendor, "--yes", "Count to sixty.")
    terminal.wait_for("ctrl+o shows all")
    before = terminal.wait_for("completed")
    terminal.press("ctrl+o")
    terminal.wait_for("1-18 of 63 · 4 of 5")
    check(terminal, "reading")
    terminal.type("/needle")
    terminal.wait_for("/needle▏")
    terminal.press("enter")
    terminal.wait_for("n N next")
    terminal.type("n")
    assert "│ the Needle\n" in terminal.wait_for("36-53 of 63")
    terminal.type("#")
    assert " 36 the Needle\n" in terminal.wait_for(" 36 ")
    terminal.type("y")
    terminal.wait_for("characters, if the terminal")
    copied = "".join(f"row {n}\n" + ("the Needle\n" if n == 33 else "") for n in range(1, 61))
    assert b"\x1b]52;c;" + b64encode(copied.encode()) + b"\x07" in terminal.written
    terminal.press("esc", "left")
    terminal.wait_for("answer Let me count.")
    terminal.press("left")
    terminal.wait_for("thought It counts.")
    terminal.type("u")
    terminal.wait_for("you Count to sixty.")
    terminal.press("esc")
    terminal.wait_for("completed")
    assert terminal.screen() == before
    assert terminal.everything().count("Let me count.") == 1


def test_a_running_call_is_followed_in_the_viewer(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    command = "seq -f 'row %g' 40; until [ -e go ]; do sleep 0.01; done; echo went on; sleep 60"
    terminal = open_tui(serve(turn(call("bash", {"command": command}))), "--yes", "Wait.")
    terminal.wait_for("row 40")
    terminal.press("ctrl+o")
    terminal.wait_for("2 of 2")
    (ostler.work / "go").touch()
    assert "│ row 40\n│ went on\n│ esc closes" in terminal.wait_for("│ went on")


def test_all_messages_are_listed_and_searchable(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn("The first answer."), turn("The second one.\n\nWith *more* to it."))
    terminal = open_tui(vendor, "one")
    terminal.wait_for("completed")
    prompt(terminal, "two")
    terminal.wait_for("second")
    terminal.press("ctrl+x", "m")
    screen = terminal.wait_for("messages · 4 of 4")
    assert screen.index("The first answer.") < screen.index("❯ The second one.")
    terminal.type("first")
    terminal.wait_for("1 of 1")
    terminal.press("enter")
    terminal.wait_for("answer The first answer. · 1-1 of 1")
    terminal.type("q")
    terminal.wait_for("messages · 1 of 1")
    terminal.press("esc")
    terminal.wait_for("messages", gone=True)


async def test_truncated_output_is_shown_in_full() -> None:
    blob = BlobRef("call_1", 20_000)
    cut = SessionEntry("call", "bash make", "the end", {"command": "make"}, "the end", output=blob)
    lines = "".join(f"line {number}\n" for number in range(2000))

    async def read(ref: BlobRef) -> bytes:
        assert ref is blob
        return lines.encode()

    entry = await full_text(cut, read)
    rows = plain(entry_rows(entry, 60, None))
    assert rows[:3] == ["command: make", "", "line 0"]
    assert len(rows) == 2002
    assert entry.text == lines


def test_arguments_are_shown_in_full() -> None:
    arguments = {"path": "a.py", "content": "one = 1\ntwo = 2\n", "more": {"deep": 1}}
    entry = SessionEntry("call", "write a.py", "done", arguments, "done")
    assert plain(entry_rows(entry, 60, None)) == [
        "path: a.py",
        "content:",
        "one = 1",
        "two = 2",
        "more:",
        "{",
        '  "deep": 1',
        "}",
        "",
        "done",
    ]


def test_a_diff_replaces_the_arguments_of_an_edit() -> None:
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-one\n+two\n"
    entry = SessionEntry("call", "edit a", "ok", {"path": "a", "edits": []}, "ok", {"diff": diff})
    assert plain(entry_rows(entry, 60, None)) == ["path: a", "", "1 - one", "1 + two", "", "ok"]
