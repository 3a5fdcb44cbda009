"""Questions of consent at a real terminal: which keys count, whatever mode the terminal has."""

from __future__ import annotations

from pathlib import Path

from tests.cli.test_prompt_extensions import write
from tests.support.command import Ostler
from tests.support.fixtures import Open, Serve


def extension(ostler: Ostler) -> Path:
    return write(ostler.work / ".ostler" / "extensions" / "greeter.py")


def test_the_trust_question_of_the_terminal_ui_is_answered_with_enter(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    extension(ostler)
    terminal = open_tui(serve())
    terminal.wait_for("[yes/no]")
    terminal.press("enter")
    terminal.type("perhaps")
    terminal.press("enter")
    terminal.type("yes")
    terminal.press("enter")
    terminal.wait_for("1 extension: greeter")
    assert ostler("trust", "--list").out


def test_keys_before_a_trust_question_can_be_answered_go_to_the_input_line(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    extension(ostler)
    # Everything in the terminal's buffer when the question appears was typed before it.
    terminal = open_tui(serve(), before="sleep 0.3")
    terminal.type("yes\r")
    terminal.wait_for("[yes/no]")
    assert not ostler("trust", "--list").out
    terminal.type("no\r")
    terminal.wait_for("> yes")
    assert not ostler("trust", "--list").out
