"""The input line in a real terminal: keys in, screen and requests out."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from ostler.schema.errors import UsageError
from ostler.testkit.vendors import FakeVendor, call, turn
from ostler.tui.editor.paste import clipboard
from tests.support import open_runs
from tests.support.command import Ostler
from tests.support.fixtures import Open, Serve
from tests.tui.terminal import Terminal

WAIT = "while ! test -e go; do sleep 0.02; done"


def request_text(vendor: FakeVendor, number: int = -1) -> str:
    """The messages of a request to the model, as JSON."""
    return json.dumps(vendor.requests[number].json["messages"])


def facts(ostler: Ostler, type: str) -> list[dict[str, Any]]:
    session = ostler("sessions", "--json").lines[0]["id"]
    return [one for one in open_runs.facts(ostler, session) if one["type"] == type]


def say(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.press("enter")


def png() -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x20\x40\x80" * 2 for _ in range(2)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def program(ostler: Ostler, name: str, script: str) -> Path:
    """A program of that name, in a folder for the front of PATH."""
    folder = ostler.home / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_prompt_has_several_lines_and_a_long_paste_is_a_chip(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn("done"))
    terminal = open_tui(vendor)
    terminal.wait_for(">")
    terminal.type("one")
    terminal.press("alt+enter")
    terminal.type("two")
    terminal.press("ctrl+j")
    terminal.type("three\x1b[27;2;13~four")  # as xterm tells Shift and Enter
    screen = terminal.wait_for("four")
    assert "> one\n  two\n  three\n  four" in screen
    terminal.press("ctrl+l")
    terminal.type(" ")
    terminal.paste("\r".join("wrong" for _ in range(40)))
    terminal.wait_for("[pasted text #1 +40 lines]")
    terminal.press("backspace")
    terminal.wait_for("[pasted text", gone=True)
    terminal.paste("\r".join(f"pasted {number} @secret.txt" for number in range(40)))
    terminal.wait_for("[pasted text #2 +40 lines]")
    terminal.press("enter")
    terminal.wait_for("completed")
    assert terminal.everything().count("three") == 1
    assert "one\\ntwo\\nthree\\nfour pasted 0 @secret.txt\\npasted 1" in request_text(vendor)


def test_prompts_are_in_the_history_of_the_next_session(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn("done"), turn("again"), turn("more"))
    first = open_tui(vendor)
    first.wait_for(">")
    say(first, "the oldest prompt")
    first.wait_for("completed")
    say(first, "the newest prompt")
    first.wait_for("again")
    first.press("ctrl+d")
    assert first.wait_for_end() == 0

    terminal = open_tui(vendor)
    terminal.wait_for(">")
    terminal.type("a draft")
    terminal.press("up")
    terminal.wait_for("> the newest prompt")
    terminal.press("up")
    terminal.wait_for("> the oldest prompt")
    terminal.press("down", "down")
    terminal.wait_for("> a draft")
    terminal.press("ctrl+c")
    terminal.wait_for("> a draft", gone=True)
    terminal.press("ctrl+r")
    terminal.wait_for("search:")
    terminal.type("oldest")
    terminal.wait_for("1 found")
    terminal.press("enter")
    terminal.wait_for("> the oldest prompt")
    terminal.press("enter")
    terminal.wait_for("more")
    assert "the oldest prompt" in request_text(vendor)


def test_commands_and_files_are_completed_in_a_popup(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    (ostler.work / "some folder").mkdir()
    (ostler.work / "some folder" / "notes.md").write_text("the notes say 42")
    prompts = ostler.work / ".ostler" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "greet.md").write_text("---\ndescription: says hello\n---\nSay hello to $1.")
    vendor = serve(turn("It was looked at."), turn("Good day, Ada!"))
    terminal = open_tui(vendor)
    terminal.wait_for(">")
    terminal.type("what is in @notes")
    terminal.wait_for("❯ some folder/notes.md")
    terminal.press("tab")
    terminal.wait_for('> what is in @"some folder/notes.md"')
    terminal.press("enter")
    terminal.wait_for("It was looked at.")
    assert "the notes say 42" in request_text(vendor)

    terminal.type("/gre")
    terminal.wait_for("❯ /greet")
    assert "says hello" in terminal.screen()
    terminal.press("esc")
    terminal.wait_for("❯ /greet", gone=True)
    terminal.type("et Ada")
    terminal.press("enter")
    terminal.wait_for_answer("Good day, Ada!")
    assert "Say hello to Ada." in request_text(vendor)

    say(terminal, "/gret Ada")
    terminal.wait_for("there is no /gret")
    assert "> /gret Ada" in terminal.screen()


def test_a_shell_command_is_added_to_the_conversation(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn("I see"), turn("still"))
    terminal = open_tui(vendor)
    terminal.wait_for(">")
    say(terminal, "!echo first; while ! test -e go; do sleep 0.02; done; echo then $((40 + 2))")
    terminal.wait_for("first")
    (ostler.work / "go").touch()
    terminal.wait_for("then 42")
    say(terminal, "!!echo sec''ret; exit 3")
    terminal.wait_for("exit code 3")
    assert len(vendor.requests) == 0
    say(terminal, "what came out?")
    terminal.wait_for("I see")
    assert "then 42" in request_text(vendor)
    assert "secret" not in request_text(vendor)
    say(terminal, "!sleep 60")
    terminal.wait_for("sleep 60")
    terminal.press("esc")
    terminal.wait_for("stopped")
    terminal.press("ctrl+d")
    assert terminal.wait_for_end() == 0
    again = open_tui(vendor, "--continue")
    assert "then 42" in again.wait_for("I see")


def test_queued_prompts_are_listed_taken_back_and_steered(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(turn(call("bash", {"command": WAIT})), turn("first"), turn("second"))
    terminal = open_tui(vendor, "--yes")
    terminal.wait_for(">")
    say(terminal, "begin")
    terminal.wait_for("running")
    say(terminal, "then this")
    terminal.wait_for("queued: then this")
    say(terminal, "and that")
    terminal.wait_for("queued: and that")
    terminal.press("up")
    terminal.wait_for("> and that")
    assert "queued: and that" not in terminal.screen()
    terminal.press("ctrl+u")
    terminal.type("be quick")
    terminal.press("ctrl+x")
    terminal.wait_for("s steer")
    terminal.press("s")
    terminal.wait_for("steering: be quick")
    (ostler.work / "go").touch()
    screen = terminal.wait_for("second")
    assert screen.index("▌ be quick") < screen.index("first") < screen.index("▌ then this")
    assert "be quick" in request_text(vendor, 1)
    assert "and that" not in terminal.everything()
    terminal.press("ctrl+d")
    terminal.wait_for_end()
    assert [one["reason"] for one in facts(ostler, "request_refused")] == [
        "the prompt was taken back before its turn"
    ]


def test_a_steer_is_taken_back_edited_and_sent_once(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn(call("bash", {"command": WAIT})), turn("first"))
    terminal = open_tui(vendor, "--yes")
    terminal.wait_for(">")
    say(terminal, "begin")
    terminal.wait_for("running")
    terminal.type("be quick\x1bs")
    terminal.wait_for("steering: be quick")
    terminal.press("up")
    screen = terminal.wait_for("> be quick")
    assert "steering" not in screen
    terminal.type("er\x1bs")
    terminal.wait_for("steering: be quicker")
    (ostler.work / "go").touch()
    terminal.wait_for("completed")
    assert request_text(vendor).count("be quick") == 1
    assert "be quicker" in request_text(vendor)
    terminal.press("up")
    terminal.wait_for("> be quicker")  # told already: it comes from what was typed before


def test_enter_in_the_empty_line_sends_held_prompts(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn(call("bash", {"command": "sleep 60"})), turn("second"))
    terminal = open_tui(vendor, "--yes")
    terminal.wait_for(">")
    say(terminal, "begin")
    terminal.wait_for("running")
    say(terminal, "then this")
    terminal.wait_for("queued: then this")
    terminal.press("esc")
    terminal.wait_for("held: then this")
    terminal.wait_for("cancelled")
    terminal.wait_for("enter in the empty line")
    terminal.press("enter")
    screen = terminal.wait_for("second")
    assert "held" not in screen
    assert "then this" in request_text(vendor)


def test_any_queued_prompt_can_be_edited_or_dropped(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn(call("bash", {"command": WAIT})), turn("first"), turn("second"))
    terminal = open_tui(vendor, "--yes")
    terminal.wait_for(">")
    say(terminal, "begin")
    terminal.wait_for("running")
    for text in ("number one", "number two", "number three"):
        say(terminal, text)
        terminal.wait_for(f"queued: {text}")
    say(terminal, "/queue")
    terminal.wait_for("ctrl+d drop")
    terminal.type("two")
    terminal.wait_for("1 of 1")
    terminal.press("ctrl+d")
    terminal.wait_for("queued: number two", gone=True)
    terminal.type("three")
    terminal.wait_for("❯ number three")
    terminal.press("enter")
    terminal.wait_for("> number three")
    terminal.press("ctrl+c")
    (ostler.work / "go").touch()
    terminal.wait_for("second")
    assert "number one" in request_text(vendor)
    assert "number two" not in request_text(vendor)
    assert "number three" not in request_text(vendor)


def test_a_steer_that_came_too_late_is_put_back_into_the_line(open_tui: Open, serve: Serve) -> None:
    vendor = serve(turn(call("bash", {"command": "sleep 60"})), turn("second"))
    terminal = open_tui(vendor, "--yes")
    terminal.wait_for(">")
    say(terminal, "begin")
    terminal.wait_for("running")
    terminal.type("be quick\x1bs")
    terminal.wait_for("steering: be quick")
    terminal.press("esc")
    screen = terminal.wait_for("> be quick")
    assert "steering" not in screen
    assert "no run is open" not in screen
    terminal.press("enter")
    terminal.wait_for("second")
    assert request_text(vendor).count("be quick") == 1


def test_escape_twice_rewinds_to_the_last_prompt(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn("one"), turn(call("bash", {"command": "sleep 60"})), turn("three"))
    terminal = open_tui(vendor, "--yes")
    terminal.wait_for(">")
    say(terminal, "hello")
    terminal.wait_for("completed")
    say(terminal, "something wrong")
    terminal.wait_for("running")
    terminal.press("esc", "esc")
    assert "cancelled" in terminal.wait_for("> something wrong")
    terminal.press("ctrl+c")
    terminal.wait_for("continues from where it was")
    terminal.press("esc")
    terminal.wait_for("esc again to go back")
    terminal.press("esc")
    terminal.wait_for("> something wrong")
    terminal.press("ctrl+w")
    say(terminal, "right")
    terminal.wait_for("three")
    assert "something right" in request_text(vendor)
    assert "something wrong" not in request_text(vendor)


def test_the_prompt_is_edited_in_an_editor_and_stays_if_that_fails(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    editor = program(ostler, "edit", 'grep -q broken "$1" && exit 7\necho "from the editor" >> "$1"')
    vendor = serve(turn("done"))
    terminal = open_tui(vendor, VISUAL=quote(str(editor)))
    terminal.wait_for(">")
    terminal.type("broken")
    terminal.press("ctrl+x", "e")
    terminal.wait_for("exited with 7")
    terminal.wait_for("> broken")
    terminal.press("ctrl+u")
    terminal.type("typed")
    terminal.press("ctrl+j", "ctrl+x", "e")
    terminal.wait_for("from the editor")
    terminal.press("enter")
    terminal.wait_for("completed")
    assert "typed\\nfrom the editor" in request_text(vendor)


def test_pictures_are_pasted_from_the_clipboard_or_dropped(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    picture = ostler.work / "a picture.png"
    picture.write_bytes(png())
    folder = program(ostler, "wl-paste", f"cat {quote(str(picture))}").parent
    vendor = serve(turn("seen"))
    terminal = open_tui(vendor, WAYLAND_DISPLAY="none", PATH=f"{folder}:/usr/bin:/bin")
    terminal.wait_for(">")
    terminal.press("ctrl+v")
    terminal.wait_for("[image #1 PNG 2x2]")
    terminal.paste(re.sub(r"([^\w/.-])", r"\\\1", str(picture)))
    terminal.wait_for("[image #2 PNG 2x2]")
    say(terminal, "look")
    terminal.wait_for("completed")
    assert request_text(vendor).count("image/png;base64") == 2


def test_an_unreadable_clipboard_is_reported_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(UsageError, match="install wl-clipboard or xclip"):
        clipboard()


def test_a_paste_answers_no_question(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    vendor = serve(turn(call("bash", {"command": "touch made"})), turn("as you wish"))
    terminal = open_tui(vendor, "--permissions", "ask")
    terminal.wait_for(">")
    say(terminal, "go")
    terminal.wait_for_question()
    terminal.paste("yes yes")
    terminal.wait_for("> yes yes")
    assert "yes, this once" in terminal.screen()
    terminal.press("ctrl+c")
    terminal.wait_for_question()
    terminal.type("\x1b[2;2~")  # Shift and Insert: its letters are no answer
    terminal.answer("n")
    terminal.wait_for("as you wish")
    assert not (ostler.work / "made").exists()


def test_vi_keys_edit_the_line(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    ostler.configure('editing = "vi"')
    vendor = serve(turn("done"), turn(call("bash", {"command": "sleep 60"})))
    terminal = open_tui(vendor, "--yes")
    terminal.wait_for(">")
    terminal.type("one two")
    terminal.wait_for("one two")
    terminal.press("esc")
    terminal.type("bcwTWO")
    terminal.wait_for("> one TWO")
    terminal.press("enter")
    terminal.wait_for("completed")
    assert "one TWO" in request_text(vendor)

    terminal.press("esc")
    terminal.wait_for("esc again to go back")
    terminal.press("i")
    terminal.type("sent")
    terminal.wait_for("> sent")
    terminal.press("esc", "0", "enter")
    terminal.wait_for("running")
    terminal.type("typed at once")  # a new line begins with inserting
    terminal.press("alt+enter")
    terminal.type("and more\x1bs")
    terminal.wait_for("steering: typed at once")
    terminal.press("esc")
    terminal.wait_for("cancelled")
    assert "> typed at once\n  and more" in terminal.wait_for("> typed at once")
